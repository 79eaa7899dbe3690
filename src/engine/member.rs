//! An engine's place in a pool, and a request's place at an engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::EngineError;
use super::client::Engine;
use super::health::{self, Check, Health};
use super::policy::Candidate;
use crate::metrics::EngineMetrics;
use crate::traces::Leg;

/// The longest `Retry-After` that is believed.
const LONGEST_BUSY: Duration = Duration::from_secs(60);

/// Which part of the work an engine does, where prefill and decode are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It computes prompts for the decode engines.
    Prefill,
    /// It answers, with prompts from the prefill engines.
    Decode,
}

/// Where an engine stands in its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its share, compared with the others'.
    pub weight: u32,
    /// Where it runs.
    pub zone: Option<String>,
    /// What it does. Without a role it decodes, and computes prompts where no prefill engine does.
    pub role: Option<Role>,
}

impl Place {
    pub(super) fn takes(&self, leg: Role) -> bool {
        (leg == Role::Prefill) == (self.role == Some(Role::Prefill))
    }
}

/// One engine of a pool.
#[derive(Debug)]
pub struct Member {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Where it stands.
    pub place: Place,
    health: Arc<Health>,
    metrics: Arc<EngineMetrics>,
    requests: Arc<AtomicUsize>,
}

impl Member {
    /// An engine that is taken to be well until it shows otherwise.
    pub fn new(engine: Arc<Engine>, place: Place, health: health::Options, metrics: Arc<EngineMetrics>) -> Self {
        metrics.up.set(1);
        Self { engine, place, health: Arc::new(Health::new(health)), metrics, requests: Arc::default() }
    }

    /// The same engine, with all that is known of it, at another place.
    pub fn moved(&self, place: Place) -> Self {
        let Self { engine, health, metrics, requests, .. } = self;
        let (engine, requests) = (Arc::clone(engine), Arc::clone(requests));
        Self { engine, place, health: Arc::clone(health), metrics: Arc::clone(metrics), requests }
    }

    /// What it is told by, whatever comes and goes beside it: its URL.
    pub fn id(&self) -> &str {
        self.engine.url()
    }

    /// Whether it is well.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// What is counted of it.
    pub fn metrics(&self) -> &EngineMetrics {
        &self.metrics
    }

    /// How many requests it works on.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Whether it may be sent a request now, for whoever reads the metrics.
    pub fn tell_availability(&self, now: Instant) {
        self.metrics.available.set(i64::from(self.health.is_well(now)));
    }

    /// As a policy sees it from `zone`.
    pub(super) fn candidate(&self, zone: Option<&str>, now: Instant) -> Candidate<'_> {
        let load = self.metrics.outstanding_tokens.get().try_into().unwrap_or(0);
        let mut candidate = Candidate::new(self.id(), f64::from(self.place.weight) * self.health.share(now), load);
        candidate.is_near = zone.is_none_or(|zone| self.place.zone.as_deref() == Some(zone));
        candidate
    }

    /// Whether it may be tried though it is not well.
    pub(super) fn may_recover(&self, now: Instant) -> bool {
        !self.health.is_refused() && self.health.busy_for(now).is_none()
    }

    /// A health check ended in this way. Returns whether that changed whether it counts as up.
    pub(super) fn checked(&self, check: Check) -> bool {
        let changed = self.health.checked(check, Instant::now());
        if changed {
            self.metrics.up.set(i64::from(check == Check::Well));
        }
        changed
    }

    /// A reply that began elsewhere goes on here.
    pub(super) fn count_resume(&self) {
        self.metrics.resumes.inc();
    }
}

/// A request's place at an engine: counts as its load, and tells its health how the request ended.
#[derive(Debug)]
pub(super) struct Lease {
    /// The engine.
    pub(super) member: Arc<Member>,
    tokens: i64,
    settled: bool,
    /// When the engine was asked; `None` once it has said something.
    asked: Option<Instant>,
    /// Its part of the request's trace.
    trace: Leg,
}

impl Lease {
    /// For a request with a prompt of `tokens`.
    pub(super) fn new(member: Arc<Member>, tokens: usize, trace: Leg) -> Self {
        member.health.begin();
        member.requests.fetch_add(1, Ordering::Relaxed);
        let mut lease = Self { member, tokens: 0, settled: false, asked: Some(Instant::now()), trace };
        lease.add(tokens);
        lease
    }

    /// The engine's id.
    pub(super) fn id(&self) -> &str {
        self.member.id()
    }

    /// A token has come: the first one tells how long it took.
    pub(super) fn spoke(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.member.metrics.first_token.observe(asked.elapsed().as_secs_f64());
        }
    }

    /// More tokens are worked on.
    pub(super) fn add(&mut self, tokens: usize) {
        let tokens = i64::try_from(tokens).unwrap_or(0);
        self.tokens += tokens;
        self.member.metrics.outstanding_tokens.add(tokens);
    }

    /// The engine answers.
    pub(super) fn succeeded(&mut self) {
        if !std::mem::replace(&mut self.settled, true) {
            self.member.health.succeeded(Instant::now());
        }
    }

    /// The request failed.
    pub(super) fn failed(mut self, error: &EngineError) {
        self.settled = true;
        let (now, Member { health, metrics, engine, .. }) = (Instant::now(), &*self.member);
        metrics.failed(error.kind());
        self.trace.failed(error.kind());
        match error.busy_for() {
            Some(seconds) => health.busy(now + Duration::from_secs(seconds).min(LONGEST_BUSY)),
            None if !error.is_engines_fault() => health.succeeded(now),
            None if health.failed(now) => {
                metrics.ejections.inc();
                tracing::warn!(engine = engine.url(), %error, "the engine is left alone for a while");
            }
            None => {}
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.member.metrics.outstanding_tokens.sub(self.tokens);
        self.member.requests.fetch_sub(1, Ordering::Relaxed);
        if !self.settled {
            self.member.health.left();
        }
    }
}
