//! The engines that run one model: which of them gets a request, and what is tried when it fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName};
use serde_json::Value;
use tokio::sync::Notify;

use super::EngineError;
use super::admission::{self, Admission, Refusal, Ticket};
use super::capabilities::Kind;
use super::client::{Attempt, Engine};
use super::generation::Generation;
use super::health::{self, Check};
use super::member::{Lease, Member, Role};
use super::policy::{Asked, Candidate, Chooser, Policy, prefix, rendezvous};
use crate::api::generate::GenerateRequest;
use crate::metrics::{PoolMetrics, Record};
use crate::traces::Trace;

/// A retry costs as much as this many requests bring in: at most one request in ten is a retry, when all go wrong.
const RETRY_COST: i64 = 10;
/// Retries that are saved up.
const MOST_SAVED: i64 = 100 * RETRY_COST;
/// Longest wait for an answer to a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// How a pool behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which engine gets a request.
    pub policy: Policy,
    /// How `prefix` remembers.
    pub prefix: prefix::Options,
    /// The header that names a session, for the policy `session`; else it is the request's `user`.
    pub session_header: HeaderName,
    /// Where couplet runs: engines of the same zone come first.
    pub zone: Option<String>,
    /// What is let in.
    pub admission: admission::Options,
    /// How long a stream may be silent before a comment keeps its connection alive.
    pub keep_alive_interval: Duration,
    /// How many other engines are tried for a request that none has begun to answer.
    pub max_retries: usize,
    /// How many times a reply that has begun goes on at another engine.
    pub max_resumes: usize,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait for the first token.
    pub first_token_timeout: Duration,
    /// Longest wait between two tokens.
    pub token_timeout: Duration,
    /// Longest wait for an answer that does not come token by token.
    pub whole_answer_timeout: Duration,
    /// Whether a decode engine computes a prompt itself that no prefill engine does.
    pub prefill_fallback: bool,
    /// Longest event, or whole answer, that an engine may send, in bytes.
    pub max_answer_bytes: usize,
    /// When an engine counts as unwell.
    pub health: health::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            prefix: prefix::Options::default(),
            session_header: HeaderName::from_static("x-session-id"),
            zone: None,
            admission: admission::Options::default(),
            // Load balancers cut connections that are silent for 60 s.
            keep_alive_interval: Duration::from_secs(15),
            max_retries: 2,
            max_resumes: 3,
            // Within a cluster: what takes longer will not come.
            connect_timeout: Duration::from_secs(5),
            first_token_timeout: Duration::from_secs(600),
            token_timeout: Duration::from_secs(120),
            // What OpenAI's clients wait.
            whole_answer_timeout: Duration::from_secs(600),
            prefill_fallback: true,
            // The logprobs of a long prompt are tens of MiB.
            max_answer_bytes: 128 << 20,
            health: health::Options::default(),
        }
    }
}

/// Who sends a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What a conversation is told by.
    pub session: Option<String>,
    /// What rates are limited by: the API key.
    pub key: String,
    /// Where the request stands in a trace.
    pub trace: Trace,
    /// What is known of the request, for whoever asks later.
    pub record: Arc<Record>,
}

/// What is to be done for a caller, whichever engine is tried.
#[derive(Debug)]
pub(super) struct Errand {
    asked: Asked,
    caller: Caller,
}

impl Errand {
    /// What is known of the request.
    pub(super) fn record(&self) -> &Record {
        &self.caller.record
    }
}

/// The engines of a model. They may be replaced while requests run: those that left finish what they began.
#[derive(Debug)]
pub struct Pool {
    members: ArcSwap<Vec<Arc<Member>>>,
    /// Wakes the watch when the members are others.
    replaced: Notify,
    options: Options,
    chooser: Chooser,
    admission: Admission,
    metrics: Arc<PoolMetrics>,
    /// What may be spent on retries.
    budget: AtomicI64,
}

impl Pool {
    /// A pool of engines.
    pub fn new(members: Vec<Arc<Member>>, options: Options, metrics: Arc<PoolMetrics>) -> Self {
        let chooser = Chooser::new(options.policy, options.prefix);
        let admission = Admission::new(options.admission, Arc::clone(&metrics));
        let (members, replaced) = (ArcSwap::from_pointee(members), Notify::new());
        Self { members, replaced, options, chooser, admission, metrics, budget: AtomicI64::new(MOST_SAVED) }
    }

    /// How it behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What is counted of it.
    pub fn metrics(&self) -> &PoolMetrics {
        &self.metrics
    }

    /// Where prompts are routed by their beginning: how many beginnings an engine served lately, and how many tokens of
    /// prompts it got.
    pub fn remembered(&self, id: &str) -> Option<(usize, f64)> {
        self.chooser.remembered(id)
    }

    /// Whether any engine has this role.
    pub(super) fn has_role(&self, role: Role) -> bool {
        self.members.load().iter().any(|member| member.place.role == Some(role))
    }

    /// Its engines, as they are now.
    pub fn members(&self) -> Arc<Vec<Arc<Member>>> {
        self.members.load_full()
    }

    /// The LoRA adapters that its engines have loaded: names, and where from.
    pub fn adapters(&self) -> BTreeMap<String, Option<String>> {
        self.members().iter().flat_map(|member| member.engine.fit().adapters.clone()).collect()
    }

    /// Replaces its engines. Those that stay should be the same [`Member`], or [`moved`](Member::moved) from it, so that
    /// what is known of them stays too.
    pub fn set_members(&self, members: Vec<Arc<Member>>) {
        self.chooser.keep(&members.iter().map(|member| member.id()).collect());
        self.members.store(Arc::new(members));
        self.replaced.notify_one();
    }

    /// Whether all of its engines are known to take grammars.
    pub fn takes_grammars(&self) -> bool {
        let members = self.members.load();
        !members.is_empty() && members.iter().all(|member| member.engine.capabilities().kind == Kind::ScaleOut)
    }

    /// Waits until there is a place for a request with a prompt of `tokens`.
    pub async fn admit(&self, caller: &Caller, tokens: usize) -> Result<Ticket, Refusal> {
        self.admission.enter(&caller.key, tokens).await
    }

    /// Sends a request to an engine; to another where that one does not take it. What is returned goes on at another
    /// engine where the first dies.
    pub async fn generate(
        self: &Arc<Self>,
        mut request: GenerateRequest,
        caller: &Caller,
        ticket: Arc<Ticket>,
    ) -> Result<Generation, EngineError> {
        self.save_for_retries();
        let asked = self.chooser.ask(cache_salt(&request), &request.token_ids, caller.session.as_deref());
        let errand = Errand { asked, caller: caller.clone() };
        let opening = async {
            self.prefill(&mut request, &errand).await?;
            self.open(&request, &errand, Role::Decode, Vec::new(), self.options.max_retries).await
        };
        let (lease, attempt) = ticket.in_time(opening).await??;
        errand.record().engine(lease.id());
        Ok(Generation::new(Arc::clone(self), request, errand, ticket, (lease, attempt)))
    }

    /// Tries one engine after the other, at most `retries` more than one, none of those in `tried`.
    pub(super) async fn open(
        self: &Arc<Self>,
        request: &GenerateRequest,
        errand: &Errand,
        leg: Role,
        mut tried: Vec<String>,
        mut retries: usize,
    ) -> Result<(Lease, Attempt), EngineError> {
        let mut last = None;
        loop {
            let adapter = request.model.as_deref();
            let Some((member, known)) = self.choose(&errand.asked, (leg, adapter), &tried) else {
                return Err(last.unwrap_or_else(|| self.none_left()));
            };
            let asking = errand.caller.trace.engine(member.id());
            let headers = asking.headers();
            let lease = Lease::new(member, request.token_ids.len(), asking);
            if self.options.policy == Policy::Prefix {
                self.metrics.routed_by_prefix(request.token_ids.len(), known);
            }
            let error = match self.attempt(&lease.member.engine, request, &headers, leg).await {
                Ok(attempt) => return Ok((lease, attempt)),
                Err(error) => error,
            };
            tried.push(lease.id().to_owned());
            lease.failed(&error);
            if !error.is_engines_fault() || retries == 0 || !self.pays_for_retry() {
                return Err(error);
            }
            tracing::warn!(%error, "another engine is asked");
            self.metrics.retries.inc();
            retries -= 1;
            last = Some(error);
        }
    }

    /// No engine may be tried; those that asked to be left alone said for how long.
    fn none_left(&self) -> EngineError {
        let (now, members) = (Instant::now(), self.members.load());
        let soonest = members.iter().filter_map(|member| member.health().busy_for(now)).min();
        EngineError::NoneLeft { retry_after: soonest.map(|time| time.as_secs_f64().ceil() as u64) }
    }

    /// Sends the request. A stream answers at once or never, a prefill leg with its first token; a whole answer takes its
    /// time.
    async fn attempt(
        &self,
        engine: &Arc<Engine>,
        request: &GenerateRequest,
        headers: &HeaderMap,
        leg: Role,
    ) -> Result<Attempt, EngineError> {
        let limit = self.options.max_answer_bytes;
        let patience = match leg {
            Role::Decode if !request.streams() => (self.options.whole_answer_timeout, "whole_answer_timeout"),
            _ => (self.options.first_token_timeout, "first_token_timeout"),
        };
        in_time(engine, "answer", patience, engine.generate(request, headers, limit)).await?
    }

    /// Waits for something of an engine no longer than for the first token.
    pub(super) async fn in_patience<T>(
        &self,
        engine: &Engine,
        awaited: &'static str,
        something: impl Future<Output = T>,
    ) -> Result<T, EngineError> {
        in_time(engine, awaited, (self.options.first_token_timeout, "first_token_timeout"), something).await
    }

    /// What a request brings in for retries.
    fn save_for_retries(&self) {
        let save = |saved: i64| (saved < MOST_SAVED).then_some(saved + 1);
        // Fails where enough is saved.
        let _ = self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, save);
    }

    /// Takes the price of a retry, if there is enough.
    pub(super) fn pays_for_retry(&self) -> bool {
        let pay = |saved: i64| (saved >= RETRY_COST).then_some(saved - RETRY_COST);
        self.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay).is_ok()
    }

    /// An engine that is well and was not tried, and how many of the prompt's tokens it is known to have. Where none is well,
    /// any that did not ask to be left alone: it may have recovered, and there is nothing to lose.
    fn choose(
        &self,
        asked: &Asked,
        (leg, adapter): (Role, Option<&str>),
        tried: &[String],
    ) -> Option<(Arc<Member>, usize)> {
        let (now, members) = (Instant::now(), self.members.load());
        let pick = |well: bool| {
            let untried = members.iter().filter(|member| !tried.iter().any(|id| id == member.id()));
            let able = untried.filter(|member| member.place.takes(leg) && member.serves(adapter));
            let able = able.filter(|member| if well { member.health().is_well(now) } else { member.may_recover(now) });
            let candidates: Vec<Candidate> =
                able.map(|member| member.candidate(self.options.zone.as_deref(), now)).collect();
            self.chooser.choose(asked, &candidates)
        };
        let chosen = pick(true).or_else(|| pick(false))?;
        let member = members.iter().find(|member| member.id() == chosen.id)?;
        Some((Arc::clone(member), chosen.known))
    }

    /// Watches over the engines for as long as it is polled.
    pub async fn watch(self: Arc<Self>) {
        let mut watches: Vec<(Arc<Member>, AbortOnDrop)> = Vec::new();
        loop {
            let members = self.members();
            watches.retain(|(watched, _)| members.iter().any(|member| Arc::ptr_eq(watched, member)));
            for member in members.iter() {
                if !watches.iter().any(|(watched, _)| Arc::ptr_eq(watched, member)) {
                    let watch = tokio::spawn(Arc::clone(&self).watch_one(Arc::clone(member)));
                    watches.push((Arc::clone(member), AbortOnDrop(watch)));
                }
            }
            self.replaced.notified().await;
        }
    }

    /// Asks an engine how it is, again and again, and what it is. When it goes down, what was in its cache is gone.
    async fn watch_one(self: Arc<Self>, member: Arc<Member>) {
        let interval = self.options.health.interval;
        let (mut looked, mut told) = (None, false);
        loop {
            let answered = member.engine.is_healthy(HEALTH_TIMEOUT.min(interval.max(Duration::from_secs(1)))).await;
            let check = match &answered {
                Ok(()) => Check::Well,
                Err(EngineError::Status { .. }) => Check::Unwell,
                Err(_) => Check::Silent,
            };
            if member.checked(check) {
                (looked, told) = (looked.filter(|_| answered.is_ok()), false);
                self.chooser.forget(member.id());
            }
            let learned = match answered {
                Ok(()) => member.learn(&mut looked).await,
                other => other,
            };
            if let Err(error) = learned
                && !std::mem::replace(&mut told, true)
            {
                tracing::warn!(engine = member.engine.url(), %error, "engine is not up; it is asked again");
            }
            tokio::time::sleep(interval).await;
        }
    }
}

/// Waits for something of an engine as long as a setting says.
async fn in_time<T>(
    engine: &Engine,
    awaited: &'static str,
    (patience, key): (Duration, &'static str),
    something: impl Future<Output = T>,
) -> Result<T, EngineError> {
    tokio::time::timeout(patience, something).await.map_err(|_| EngineError::Timeout {
        url: engine.url().to_owned(),
        awaited,
        seconds: patience.as_secs_f64(),
        key,
    })
}

/// What else than tokens tells the entries of an engine's prefix cache apart: the adapter and the salt.
fn cache_salt(request: &GenerateRequest) -> u64 {
    let salt = request.rest.get("cache_salt").and_then(Value::as_str).unwrap_or_default();
    rendezvous::hash(format!("{}\0{salt}", request.model.as_deref().unwrap_or_default()).as_bytes())
}

/// A task that ends with whoever started it.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
