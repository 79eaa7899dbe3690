//! Tokens and times of replies, as the client sees them.
//!
//! In: a [`Meter`] for each reply is told when a chunk arrives, how many tokens it had, and which choices spoke. The
//! series are looked up once for a reply; a token costs one look at the clock and a few atomics (`benches/metrics.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};
use smallvec::SmallVec;

use super::requests::{Record, VLLM_DURATION_BUCKETS};
use super::stages::{Stage, Stages};
use super::times::{Times, TimesFamily};

/// Seconds: the buckets of `vllm:time_to_first_token_seconds`.
pub(super) const FIRST_TOKEN_BUCKETS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// Seconds: the buckets of `vllm:inter_token_latency_seconds`.
const INTER_TOKEN_BUCKETS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// How a choice may end: as vLLM says it, and with calls.
const FINISHES: [&str; 6] = ["stop", "length", "tool_calls", "abort", "error", "repetition"];
/// A look at the clock costs more than all else that a token pays for metrics. So after as many chunks, only one of so
/// many is timed from its arrival, and stands for the others.
const TIMED: u32 = 16;

/// The metrics of all replies.
#[derive(Debug)]
pub(super) struct ReplyFamilies {
    first_token: HistogramVec,
    inter_token: TimesFamily,
    duration: HistogramVec,
    ended: IntCounterVec,
    prompt_tokens: IntCounterVec,
    generated_tokens: IntCounterVec,
}

/// Replies of one model on one route.
#[derive(Debug)]
struct ReplyMetrics {
    first_token: Histogram,
    inter_token: Arc<Times>,
    duration: Histogram,
    prompt_tokens: IntCounter,
    generated_tokens: IntCounter,
    ended: IntCounterVec,
    model: String,
}

const LABELS: [&str; 2] = ["route", "model"];

impl ReplyFamilies {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let histogram = |name, help, buckets: &[f64]| {
            let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &LABELS)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        Ok(Self {
            first_token: histogram(
                "couplet_time_to_first_token_seconds",
                "From the request's headers to the first piece of the reply that says something.",
                &FIRST_TOKEN_BUCKETS,
            )?,
            inter_token: TimesFamily::register(
                registry,
                "couplet_inter_token_latency_seconds",
                "Between two pieces of a choice of the reply that say something.",
                &LABELS,
                &INTER_TOKEN_BUCKETS,
            )?,
            duration: histogram(
                "couplet_reply_duration_seconds",
                "From the request's headers to the end of a choice of the reply.",
                &VLLM_DURATION_BUCKETS,
            )?,
            ended: counter(
                "couplet_replies_total",
                "Choices of replies that ended, by how.",
                &["route", "model", "finish_reason"],
            )?,
            prompt_tokens: counter("couplet_prompt_tokens_total", "Tokens of prompts whose reply began.", &LABELS)?,
            generated_tokens: counter("couplet_generated_tokens_total", "Tokens of replies.", &LABELS)?,
        })
    }

    /// All series of a model on a route exist.
    pub(super) fn expect(&self, route: &str, model: &str) {
        let _ = self.of(route, model);
        for reason in FINISHES {
            self.ended.with_label_values(&[route, model, reason]);
        }
    }

    fn of(&self, route: &str, model: &str) -> ReplyMetrics {
        let labels = [route, model];
        ReplyMetrics {
            first_token: self.first_token.with_label_values(&labels),
            inter_token: self.inter_token.with_label_values(&labels),
            duration: self.duration.with_label_values(&labels),
            prompt_tokens: self.prompt_tokens.with_label_values(&labels),
            generated_tokens: self.generated_tokens.with_label_values(&labels),
            ended: self.ended.clone(),
            model: model.to_owned(),
        }
    }

    /// Measures a reply.
    pub(super) fn meter(&self, record: Arc<Record>, stages: Arc<Stages>, model: &str, reply: Expected) -> Meter {
        let metrics = self.of(record.route(), model);
        let prompt = reply.prompt as u64;
        metrics.prompt_tokens.inc_by(prompt);
        Meter {
            metrics,
            record,
            stages,
            prompt,
            engine_streams: reply.engine_streams,
            generated: 0,
            chunks: 0,
            first: None,
            arrived: None,
            spoke: SmallVec::new(),
            latest: vec![None; reply.choices],
            derendering: Duration::ZERO,
        }
    }
}

/// What is known of a reply before it comes.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Tokens of the prompt, or of all prompts.
    pub prompt: usize,
    /// Choices, of all prompts.
    pub choices: usize,
    /// Whether the engine gives it token by token.
    pub engine_streams: bool,
}

/// Measures one reply, until it is dropped.
#[derive(Debug)]
pub struct Meter {
    metrics: ReplyMetrics,
    record: Arc<Record>,
    stages: Arc<Stages>,
    prompt: u64,
    engine_streams: bool,
    generated: u64,
    /// How many came.
    chunks: u32,
    /// How long the first token took.
    first: Option<Duration>,
    /// When the chunk came that is read now, where it is timed.
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
        self.arrived = (self.weight() > 0).then(Instant::now);
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

    /// Something of this choice came that the client gets with the rest. Where the engine streams, its tokens are timed
    /// as vLLM times those of whole answers; else nobody but the engine knows when they came.
    pub fn kept(&mut self, choice: usize) {
        if self.engine_streams {
            self.told(choice);
        }
    }

    /// The chunk has been read, and what it says is on its way.
    pub fn read(&mut self) {
        let weight = self.weight();
        self.chunks = self.chunks.saturating_add(1);
        if self.spoke.is_empty() && weight == 0 {
            return;
        }
        let now = Instant::now();
        if let Some(arrived) = self.arrived.take() {
            self.derendering += now.duration_since(arrived) * weight;
        }
        for &choice in &self.spoke {
            if self.first.is_none() {
                let took = now.duration_since(self.record.started());
                self.metrics.first_token.observe(took.as_secs_f64());
                self.first = Some(took);
            }
            let Some(latest) = self.latest.get_mut(choice) else { continue };
            if let Some(before) = latest.replace(now) {
                self.metrics.inter_token.observe(now.duration_since(before));
            }
        }
        self.spoke.clear();
    }

    /// A choice has ended for this reason, which an engine may have made up.
    pub fn finished(&self, reason: &str) {
        self.record.finished(reason);
        let known = FINISHES.into_iter().find(|known| *known == reason).unwrap_or("other");
        self.metrics.ended.with_label_values(&[self.record.route(), &self.metrics.model, known]).inc();
        self.metrics.duration.observe(self.record.started().elapsed().as_secs_f64());
    }

    /// What is known of the request.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// For how many chunks the time of this one stands.
    fn weight(&self) -> u32 {
        match self.chunks {
            ..TIMED => 1,
            chunks if chunks % TIMED == 0 => TIMED,
            _ => 0,
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stages.observe(Stage::Derender, self.derendering);
        self.record.counted(self.prompt, self.generated, self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    const REPLY: Expected = Expected { prompt: 3, choices: 2, engine_streams: true };

    #[test]
    fn reasons_that_an_engine_makes_up_share_a_label() {
        let metrics = Metrics::new().unwrap();
        let record = metrics.begin("/route", "id".to_owned());
        let meter = metrics.meter(&record, "m", REPLY);
        ["stop", "mine", "yours"].iter().for_each(|reason| meter.finished(reason));
        let text = metrics.text(false);
        let count = |reason: &str, count: u32| {
            let line =
                format!("couplet_replies_total{{finish_reason=\"{reason}\",model=\"m\",route=\"/route\"}} {count}\n");
            assert!(text.contains(&line), "{line} is not in {text}");
        };
        count("stop", 1);
        count("other", 2);
        assert!(!text.contains("mine"));
    }

    #[test]
    fn chunks_that_are_not_timed_are_stood_for() {
        let metrics = Metrics::new().unwrap();
        let mut meter = metrics.meter(&metrics.begin("/route", "id".to_owned()), "m", REPLY);
        let mut stood_for = 0;
        for chunks in 1..=1000 {
            stood_for += meter.weight();
            meter.arrived();
            meter.read();
            assert!(stood_for >= chunks && stood_for < chunks + TIMED, "{stood_for} of {chunks}");
        }
    }

    #[test]
    fn each_choice_has_times_between_its_own_tokens() {
        let metrics = Metrics::new().unwrap();
        let mut meter = metrics.meter(&metrics.begin("/route", "id".to_owned()), "m", REPLY);
        for choices in [&[0][..], &[], &[1], &[0, 1], &[0], &[7]] {
            meter.arrived();
            choices.iter().for_each(|choice| meter.told(*choice));
            meter.read();
        }
        let text = metrics.text(false);
        for line in [
            "time_to_first_token_seconds_count{model=\"m\",route=\"/route\"} 1",
            "inter_token_latency_seconds_count{model=\"m\",route=\"/route\"} 3",
        ] {
            assert!(text.contains(&format!("couplet_{line}\n")), "{line} is not in {text}");
        }
    }
}
