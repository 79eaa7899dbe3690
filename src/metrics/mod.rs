//! What couplet counts, as Prometheus text, and the line that is logged of every request.
//!
//! Labels are bounded: routes, status codes, models and engines of the settings, never what a user wrote. Where vLLM's front
//! end has a metric of the same meaning, the buckets are the same: queries carry over with another name.

mod grammar;
pub mod lifecycle;
mod parsers;
mod pool;
mod replies;
mod requests;
mod stages;

use std::sync::Arc;

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use grammar::GrammarFamilies;
pub use grammar::GrammarMetrics;
use lifecycle::LifecycleMetrics;
pub use parsers::ParserMetrics;
use pool::{EngineFamilies, PoolFamilies};
pub use pool::{EngineMetrics, PoolMetrics};
pub use replies::Meter;
use replies::ReplyFamilies;
use requests::RequestFamilies;
pub use requests::{Cause, Outcome, Record};
pub use stages::{Stage, Stages};

/// The metrics of one process.
pub struct Metrics {
    registry: Registry,
    requests: Arc<RequestFamilies>,
    replies: ReplyFamilies,
    /// How long the stages of a request take.
    pub stages: Arc<Stages>,
    template_errors: IntCounterVec,
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
        let requests = RequestFamilies::register(&registry)?;
        let replies = ReplyFamilies::register(&registry)?;
        let stages = Arc::new(Stages::register(&registry)?);
        let template_errors = Opts::new(
            "couplet_template_errors_total",
            "Requests that the model's chat template, or their own, refused.",
        );
        let template_errors = IntCounterVec::new(template_errors, &["model"])?;
        registry.register(Box::new(template_errors.clone()))?;
        let build = Opts::new("couplet_build_info", "1, with the version that runs.");
        let build = IntGaugeVec::new(build, &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        registry.register(Box::new(build))?;
        let fast_tokenizer = IntGaugeVec::new(
            Opts::new("couplet_fast_tokenizer", "1 where the fast tokenizer proved equal to the exact one, else 0."),
            &["model"],
        )?;
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
            replies,
            stages,
            template_errors,
            fast_tokenizer,
            engines,
            pools,
            grammars,
            parsers,
            lifecycle,
        })
    }

    /// A request begins on a route; its client, or couplet, calls it `id`.
    pub fn begin(&self, route: &'static str, id: String) -> Arc<Record> {
        self.requests.begin(route, id)
    }

    /// Requests whose answer has not been sent in full.
    pub fn in_flight(&self) -> i64 {
        self.requests.in_flight()
    }

    /// Measures a reply of `choices` to a prompt of so many tokens.
    pub fn meter(&self, record: &Arc<Record>, model: &str, prompt: usize, choices: usize) -> Meter {
        self.replies.meter(Arc::clone(record), Arc::clone(&self.stages), model, prompt, choices)
    }

    /// A model's chat template, or the request's own, refused a request.
    pub fn template_refused(&self, model: &str) {
        self.template_errors.with_label_values(&[model]).inc();
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
