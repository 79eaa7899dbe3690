//! What couplet counts, as Prometheus text.
//!
//! Labels are bounded: routes, status codes, models and engines of the settings, never what a user wrote. Deliberately absent: logs.

mod grammar;
pub mod lifecycle;
mod parsers;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

use grammar::GrammarFamilies;
pub use grammar::GrammarMetrics;
use lifecycle::LifecycleMetrics;
pub use parsers::ParserMetrics;
use pool::{EngineFamilies, PoolFamilies};
pub use pool::{EngineMetrics, PoolMetrics};

/// Seconds: from a health check to the longest stream.
const DURATION_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// The metrics of one process.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    duration: HistogramVec,
    /// Requests whose answer has not been sent in full.
    pub in_flight: IntGauge,
    fast_tokenizer: IntGaugeVec,
    engines: Arc<EngineFamilies>,
    pools: PoolFamilies,
    grammars: GrammarFamilies,
    parsers: parsers::Parsers,
    /// Reloads and discoveries.
    pub lifecycle: LifecycleMetrics,
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let requests = IntCounterVec::new(
            Opts::new("couplet_requests_total", "Requests by route and status."),
            &["route", "code"],
        )?;
        let duration = HistogramVec::new(
            HistogramOpts::new(
                "couplet_request_duration_seconds",
                "From the request's headers to the end of its answer.",
            )
            .buckets(DURATION_BUCKETS.to_vec()),
            &["route"],
        )?;
        let in_flight = IntGauge::new("couplet_requests_in_flight", "Requests not answered in full.")?;
        let fast_tokenizer = IntGaugeVec::new(
            Opts::new("couplet_fast_tokenizer", "1 where the fast tokenizer proved equal to the exact one, else 0."),
            &["model"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(fast_tokenizer.clone()))?;
        let engines = EngineFamilies::register(&registry)?;
        let pools = PoolFamilies::register(&registry)?;
        let grammars = GrammarFamilies::register(&registry)?;
        let lifecycle = LifecycleMetrics::register(&registry)?;
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let parsers = parsers::Parsers::register(&registry)?;
        Ok(Self {
            registry,
            requests,
            duration,
            in_flight,
            fast_tokenizer,
            engines,
            pools,
            grammars,
            parsers,
            lifecycle,
        })
    }

    /// Counts a request whose answer has ended.
    pub fn request_ended(&self, route: &str, status: u16, took: Duration) {
        self.requests.with_label_values(&[route, itoa::Buffer::new().format(status)]).inc();
        self.duration.with_label_values(&[route]).observe(took.as_secs_f64());
        self.in_flight.dec();
    }

    /// Tells which tokenizer encodes a model's texts.
    pub fn fast_tokenizer(&self, model: &str, fast: bool) {
        self.fast_tokenizer.with_label_values(&[model]).set(i64::from(fast));
    }

    /// The metrics of a dialect, by the name of its parser in the settings.
    pub fn parser(&self, dialect: &str) -> ParserMetrics {
        self.parsers.of(dialect)
    }

    /// The metrics of the engine at a URL.
    pub fn engine(&self, url: &str) -> Arc<EngineMetrics> {
        self.engines.engine(url)
    }

    /// The metrics of the pool of a model.
    pub fn pool(&self, model: &str) -> Arc<PoolMetrics> {
        self.pools.pool(model)
    }

    /// The metrics of the grammars of a model.
    pub fn grammar(&self, model: &str) -> Arc<GrammarMetrics> {
        self.grammars.of(model)
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}
