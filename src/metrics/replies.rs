//! Tokens and times of replies, as the client sees them.
//!
//! In: a [`Meter`] for each reply is told when a chunk arrives, how many tokens it had, and which choices spoke. The
//! series are looked up once for a reply; a token costs two looks at the clock and a few atomics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use smallvec::SmallVec;

use super::requests::Record;
use super::stages::{Stage, Stages};

/// Seconds: the buckets of `vllm:time_to_first_token_seconds`.
pub(super) const FIRST_TOKEN_BUCKETS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Seconds: the buckets of `vllm:inter_token_latency_seconds`.
const INTER_TOKEN_BUCKETS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// The metrics of all replies.
#[derive(Debug)]
pub(super) struct ReplyFamilies {
    first_token: HistogramVec,
    inter_token: HistogramVec,
    prompt_tokens: IntCounterVec,
    generated_tokens: IntCounterVec,
}

/// Replies of one model on one route.
#[derive(Debug)]
struct ReplyMetrics {
    first_token: Histogram,
    inter_token: Histogram,
    prompt_tokens: IntCounter,
    generated_tokens: IntCounter,
}

const LABELS: [&str; 2] = ["route", "model"];

impl ReplyFamilies {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help| {
            let metric = IntCounterVec::new(Opts::new(name, help), &LABELS)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let histogram = |name, help, buckets: &[f64]| {
            let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &LABELS)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        Ok(Self {
            first_token: histogram(
                "couplet_time_to_first_token_seconds",
                "From the request's headers to the first piece of a streamed reply that says something.",
                &FIRST_TOKEN_BUCKETS,
            )?,
            inter_token: histogram(
                "couplet_inter_token_latency_seconds",
                "Between two pieces of a choice of a streamed reply that say something.",
                &INTER_TOKEN_BUCKETS,
            )?,
            prompt_tokens: counter("couplet_prompt_tokens_total", "Tokens of prompts whose reply began.")?,
            generated_tokens: counter("couplet_generated_tokens_total", "Tokens of replies.")?,
        })
    }

    fn of(&self, route: &str, model: &str) -> ReplyMetrics {
        let labels = [route, model];
        ReplyMetrics {
            first_token: self.first_token.with_label_values(&labels),
            inter_token: self.inter_token.with_label_values(&labels),
            prompt_tokens: self.prompt_tokens.with_label_values(&labels),
            generated_tokens: self.generated_tokens.with_label_values(&labels),
        }
    }

    /// Measures a reply of `choices` to a prompt of so many tokens.
    pub(super) fn meter(
        &self,
        record: Arc<Record>,
        stages: Arc<Stages>,
        model: &str,
        prompt: usize,
        choices: usize,
    ) -> Meter {
        let metrics = self.of(record.route(), model);
        metrics.prompt_tokens.inc_by(prompt as u64);
        Meter {
            metrics,
            record,
            stages,
            prompt: prompt as u64,
            generated: 0,
            first: None,
            arrived: None,
            spoke: SmallVec::new(),
            latest: vec![None; choices],
            derendering: Duration::ZERO,
        }
    }
}

/// Measures one reply, until it is dropped.
#[derive(Debug)]
pub struct Meter {
    metrics: ReplyMetrics,
    record: Arc<Record>,
    stages: Arc<Stages>,
    prompt: u64,
    generated: u64,
    /// How long the first token took.
    first: Option<Duration>,
    /// When the chunk came that is read now.
    arrived: Option<Instant>,
    /// The choices of which it said something.
    spoke: SmallVec<[usize; 2]>,
    /// When each choice last said something.
    latest: Vec<Option<Instant>>,
    derendering: Duration,
}

impl Meter {
    /// A chunk of the engine's answer is there.
    pub fn arrived(&mut self) {
        self.arrived = Some(Instant::now());
    }

    /// It had so many tokens.
    pub fn generated(&mut self, count: usize) {
        self.generated += count as u64;
        self.metrics.generated_tokens.inc_by(count as u64);
    }

    /// The client gets something of this choice.
    pub fn told(&mut self, choice: usize) {
        self.spoke.push(choice);
    }

    /// The chunk has been read, and what it says is on its way.
    pub fn read(&mut self) {
        let now = Instant::now();
        if let Some(arrived) = self.arrived.take() {
            self.derendering += now.duration_since(arrived);
        }
        for choice in self.spoke.drain(..) {
            if self.first.is_none() {
                let took = now.duration_since(self.record.started());
                self.metrics.first_token.observe(took.as_secs_f64());
                self.first = Some(took);
            }
            let Some(latest) = self.latest.get_mut(choice) else { continue };
            if let Some(before) = latest.replace(now) {
                self.metrics.inter_token.observe(now.duration_since(before).as_secs_f64());
            }
        }
    }

    /// What is known of the request.
    pub fn record(&self) -> &Record {
        &self.record
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stages.observe(Stage::Derender, self.derendering);
        self.record.counted(self.prompt, self.generated, self.first);
    }
}
