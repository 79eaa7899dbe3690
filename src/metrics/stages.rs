//! How long the stages of a request take. The pure stages know no clock: whoever calls them looks at it.

use std::time::{Duration, Instant};

use prometheus::{Histogram, HistogramOpts, HistogramVec, Registry};

/// Seconds: from a short prompt that is encoded to a long one that waits in a queue.
const BUCKETS: [f64; 16] =
    [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// A stage of a request that an engine answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// From the body's bytes to a request.
    Parse,
    /// From a conversation to the prompt's text.
    Template,
    /// From the prompt's text to what an engine takes: ids, parameters.
    Tokenize,
    /// The wait for a place in the pool.
    Queue,
    /// From the choice of an engine until it begins to answer a stream, or has answered.
    Engine,
    /// All of a reply's chunks: from tokens to the bytes that are sent.
    Derender,
}

impl Stage {
    const ALL: [Self; 6] = [Self::Parse, Self::Template, Self::Tokenize, Self::Queue, Self::Engine, Self::Derender];

    fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Template => "template",
            Self::Tokenize => "tokenize",
            Self::Queue => "queue",
            Self::Engine => "engine",
            Self::Derender => "derender",
        }
    }
}

/// The times of all stages.
#[derive(Debug)]
pub struct Stages([Histogram; Stage::ALL.len()]);

impl Stages {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = HistogramOpts::new("couplet_stage_duration_seconds", "Time that a request spends in a stage.");
        let family = HistogramVec::new(options.buckets(BUCKETS.to_vec()), &["stage"])?;
        registry.register(Box::new(family.clone()))?;
        Ok(Self(Stage::ALL.map(|stage| family.with_label_values(&[stage.name()]))))
    }

    /// A request was in a stage for so long.
    pub fn observe(&self, stage: Stage, took: Duration) {
        self.0[stage as usize].observe(took.as_secs_f64());
    }

    /// Does the work of a stage.
    pub fn time<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.observe(stage, start.elapsed());
        done
    }

    /// Waits for a stage.
    pub async fn wait<T>(&self, stage: Stage, work: impl Future<Output = T>) -> T {
        let start = Instant::now();
        let done = work.await;
        self.observe(stage, start.elapsed());
        done
    }
}
