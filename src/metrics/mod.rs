//! What couplet counts, as Prometheus text.
//!
//! Labels are bounded: routes, status codes, models and engines of the settings, never what a user wrote. Deliberately absent: logs.

mod parsers;

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

pub use parsers::ParserMetrics;

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
    up: IntGaugeVec,
    outstanding_tokens: IntGaugeVec,
    failures: IntCounterVec,
    resumes: IntCounterVec,
    parsers: parsers::Parsers,
}

/// The metrics of one engine, resolved once.
#[derive(Debug, Clone)]
pub struct EngineMetrics {
    /// 1 where it answers health checks.
    pub up: IntGauge,
    /// Tokens of prompts and replies that it works on.
    pub outstanding_tokens: IntGauge,
    /// Requests that failed at it.
    pub failures: IntCounter,
    /// Replies that began elsewhere and went on at it.
    pub resumes: IntCounter,
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
        let gauge = |name, help| IntGaugeVec::new(Opts::new(name, help), &["engine"]);
        let counter = |name, help| IntCounterVec::new(Opts::new(name, help), &["engine"]);
        let up = gauge("couplet_engine_up", "1 where the engine answers health checks.")?;
        let outstanding_tokens =
            gauge("couplet_engine_outstanding_tokens", "Tokens of prompts and replies that the engine works on.")?;
        let failures = counter("couplet_engine_failures_total", "Requests that failed at the engine.")?;
        let resumes =
            counter("couplet_engine_resumes_total", "Replies that began at another engine and went on at this one.")?;
        for metric in [&up, &outstanding_tokens] {
            registry.register(Box::new(metric.clone()))?;
        }
        for metric in [&failures, &resumes] {
            registry.register(Box::new(metric.clone()))?;
        }
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let parsers = parsers::Parsers::register(&registry)?;
        Ok(Self {
            registry,
            parsers,
            requests,
            duration,
            in_flight,
            fast_tokenizer,
            up,
            outstanding_tokens,
            failures,
            resumes,
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
    pub fn engine(&self, url: &str) -> EngineMetrics {
        let labels = [url];
        EngineMetrics {
            up: self.up.with_label_values(&labels),
            outstanding_tokens: self.outstanding_tokens.with_label_values(&labels),
            failures: self.failures.with_label_values(&labels),
            resumes: self.resumes.with_label_values(&labels),
        }
    }

    /// All metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}
