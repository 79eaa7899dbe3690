//! The engines of one model: those of the settings, and those that DNS tells of.
//!
//! An engine that stays keeps its [`Member`], and with it health and load; one that left finishes what it began.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::{Access, DiscoverySettings, EngineSettings, ModelSettings};
use crate::engine::connections::Connections;
use crate::engine::dns::Resolver;
use crate::engine::fit::Expectation;
use crate::engine::member::{Member, Place};
use crate::engine::pool::Options;
use crate::engine::{Engine, Pool};
use crate::metrics::{Metrics, PoolMetrics};

/// How long a new engine is asked what it is before it may get requests: one of a wrong model should get none.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// The engines of a model and where they come from.
pub(super) struct Roster {
    model: String,
    pool: Arc<Pool>,
    listed: Vec<EngineSettings>,
    discovery: Option<(DiscoverySettings, Resolver)>,
    expected: Expectation,
    connections: Connections,
    metrics: Arc<Metrics>,
    seats: Mutex<Vec<Seat>>,
}

/// An engine with the settings that it came from.
#[derive(Clone)]
struct Seat {
    engine: EngineSettings,
    member: Arc<Member>,
    is_listed: bool,
}

impl Roster {
    /// The engines of a model by its settings; `None` where there are none and none are looked for. `before` is the roster
    /// that this one takes the place of: what did not change is taken over.
    pub(super) fn new(
        settings: &ModelSettings,
        expected: Expectation,
        metrics: &Arc<Metrics>,
        before: Option<&Self>,
    ) -> Result<Option<Self>, super::StartError> {
        if settings.engines.is_empty() && settings.discovery.is_none() {
            return Ok(None);
        }
        let resolve = |discovery: &DiscoverySettings| {
            Resolver::new(discovery.server).map(|resolver| (discovery.clone(), resolver))
        };
        let discovery = settings.discovery.as_ref().map(resolve).transpose();
        let discovery = discovery.map_err(|error| super::StartError::Dns(error.to_string()))?;
        let connects_as = |other: &&Self| other.pool.options().connect_timeout == settings.pool.connect_timeout;
        let connections = match before.filter(connects_as) {
            Some(before) => before.connections.clone(),
            None => Connections::new(settings.pool.connect_timeout)?,
        };
        let model = expected.served_names.first().cloned().unwrap_or_default();
        let roster = Self {
            pool: pool(&settings.pool, before, || metrics.pool(&model)),
            model,
            listed: settings.engines.clone(),
            discovery,
            expected,
            connections,
            metrics: Arc::clone(metrics),
            seats: Mutex::default(),
        };
        let found = before.map(|before| before.found_as(&roster)).unwrap_or_default();
        let known = before.filter(|before| before.makes_as(&roster)).map(Self::seats).unwrap_or_default();
        *roster.locked() = roster.seated(found, &known);
        Ok(Some(roster))
    }

    /// The pool that the engines are in.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether engines that the other one made are as this one would make them.
    fn makes_as(&self, other: &Self) -> bool {
        self.expected == other.expected && self.pool.options().connect_timeout == other.pool.options().connect_timeout
    }

    /// The engines that DNS told of, where the other one asks it the same.
    fn found_as(&self, other: &Self) -> Vec<EngineSettings> {
        let asked = |roster: &Self| roster.discovery.as_ref().map(|(discovery, _)| discovery.clone());
        if asked(self) != asked(other) {
            return Vec::new();
        }
        self.seats().into_iter().filter(|seat| !seat.is_listed).map(|seat| seat.engine).collect()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seats(&self) -> Vec<Seat> {
        self.locked().clone()
    }

    /// Seats for the listed engines and those that were found; known engines keep what is known of them.
    fn seated(&self, found: Vec<EngineSettings>, known: &[Seat]) -> Vec<Seat> {
        let mut seats: Vec<Seat> = Vec::new();
        let listed = self.listed.iter().map(|engine| (engine.clone(), true));
        for (engine, is_listed) in listed.chain(found.into_iter().map(|engine| (engine, false))) {
            if seats.iter().any(|seat| seat.engine.url == engine.url) {
                continue; // listed, and found too
            }
            let is_same = |seat: &&Seat| seat.engine.url == engine.url && seat.engine.access == engine.access;
            let member = match known.iter().find(is_same) {
                Some(seat) if seat.engine.place == engine.place => Arc::clone(&seat.member),
                Some(seat) => Arc::new(seat.member.moved(engine.place.clone())),
                None => Arc::new(self.member(&engine)),
            };
            seats.push(Seat { engine, member, is_listed });
        }
        seats
    }

    fn member(&self, settings: &EngineSettings) -> Member {
        let Access { model, headers } = settings.access.clone();
        let metrics = self.metrics.engine(&settings.url);
        let engine = Engine::new(&settings.url, self.connections.clone(), headers, Arc::clone(&metrics));
        let engine = engine.expecting(Expectation { name: model, ..self.expected.clone() });
        let health = self.pool.options().health;
        Member::new(Arc::new(engine), settings.place.clone(), health, metrics)
    }

    /// Asks new engines what they are, for a while, and puts all into the pool.
    pub(super) async fn take_seats(&self) {
        let (seats, before) = (self.seats(), self.pool.members());
        let is_new = |seat: &&Seat| !before.iter().any(|member| Arc::ptr_eq(&member.engine, &seat.member.engine));
        let looks = seats.iter().filter(is_new).map(|seat| seat.member.look());
        // Who does not answer yet is asked again by the pool.
        let _ = tokio::time::timeout(FIRST_LOOK, futures_util::future::join_all(looks)).await;
        seats.iter().for_each(|seat| seat.member.health().follow(self.pool.options().health));
        self.pool.set_members(seats.into_iter().map(|seat| seat.member).collect());
    }

    /// Asks DNS once. What it does not answer changes nothing.
    pub(super) async fn discover(&self) -> Result<(), String> {
        let Some((discovery, resolver)) = &self.discovery else { return Ok(()) };
        match resolver.engines(&discovery.question).await {
            Ok(addresses) => self.found(addresses, &discovery.access).await,
            Err(error) => {
                self.metrics.lifecycle.discovery_failed(&self.model);
                return Err(format!("{}: DNS does not answer: {error}", self.model));
            }
        }
        Ok(())
    }

    async fn found(&self, addresses: BTreeMap<SocketAddr, u32>, access: &Access) {
        self.metrics.lifecycle.discovered(&self.model, addresses.len());
        let engine = |(address, weight)| EngineSettings {
            url: format!("http://{address}"),
            place: Place { weight, zone: None, role: None },
            access: access.clone(),
        };
        let before = self.seats();
        let seats = self.seated(addresses.into_iter().map(engine).collect(), &before);
        let urls = |seats: &[Seat]| seats.iter().map(|seat| seat.engine.clone()).collect::<Vec<_>>();
        if urls(&before) == urls(&seats) {
            return;
        }
        let names: Vec<&str> = seats.iter().map(|seat| seat.engine.url.as_str()).collect();
        tracing::info!(model = self.model, engines = ?names, "DNS tells of other engines");
        *self.locked() = seats;
        self.take_seats().await;
    }

    /// Asks DNS again and again.
    pub(super) async fn follow(self: Arc<Self>) {
        let Some((discovery, _)) = &self.discovery else { return };
        let mut told = false;
        loop {
            match self.discover().await {
                Ok(()) => told = false,
                Err(error) if !std::mem::replace(&mut told, true) => {
                    tracing::warn!(error, "the engines stay as they are; DNS is asked again");
                }
                Err(_) => {}
            }
            tokio::time::sleep(discovery.interval).await;
        }
    }
}

/// The pool that was there, if it behaves as the settings say; what it saved for retries stays.
fn pool(options: &Options, before: Option<&Roster>, metrics: impl FnOnce() -> Arc<PoolMetrics>) -> Arc<Pool> {
    match before.filter(|before| before.pool.options() == options) {
        Some(before) => Arc::clone(&before.pool),
        None => Arc::new(Pool::new(Vec::new(), options.clone(), metrics())),
    }
}
