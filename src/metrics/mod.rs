//! What couplet counts, as Prometheus text, and the line that is logged of every request.
//!
//! Labels are bounded: routes, status codes, models and engines of the settings, never what a user wrote. What is known of
//! them from the start has its series from the start, with 0, so that a rate sees the first time that something happens.
//! Where vLLM's front end has a metric of the same meaning, the buckets are the same: queries carry over with another name,
//! and [the same numbers](vllm) may be had under vLLM's.

mod grammar;
pub mod lifecycle;
mod parsers;
mod pool;
mod replies;
mod requests;
mod stages;
mod times;
pub mod vllm;

use std::sync::Arc;

use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use grammar::GrammarFamilies;
pub use grammar::GrammarMetrics;
use lifecycle::LifecycleMetrics;
pub use parsers::ParserMetrics;
use pool::{EngineFamilies, PoolFamilies};
pub use pool::{EngineMetrics, PoolMetrics};
use replies::ReplyFamilies;
pub use replies::{Expected, Meter};
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

    /// A route is served, which answers with these statuses, and may do work: its series begin.
    pub fn expect_route(&self, route: &str, statuses: &[u16], is_work: bool) {
        self.requests.expect(route, statuses, is_work);
    }

    /// A model is served, whose engines answer on these routes: its series begin.
    pub fn expect_model(&self, model: &str, routes: &[&str]) {
        self.template_errors.with_label_values(&[model]);
        routes.iter().for_each(|route| self.replies.expect(route, model));
        if !routes.is_empty() {
            self.lifecycle.expect(model);
        }
    }

    /// Measures a reply of a model.
    pub fn meter(&self, record: &Arc<Record>, model: &str, reply: Expected) -> Meter {
        self.replies.meter(Arc::clone(record), Arc::clone(&self.stages), model, reply)
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

    /// All metrics in Prometheus' text format; those of replies under vLLM's names too, where `vllm_names` says so.
    pub fn text(&self, vllm_names: bool) -> String {
        let mut families = self.registry.gather();
        if vllm_names {
            families.extend(vllm::renamed(&families));
        }
        TextEncoder::new().encode_to_string(&families).unwrap_or_default()
    }
}
