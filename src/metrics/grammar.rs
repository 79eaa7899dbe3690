//! What is counted of grammars that couplet keeps to.

use std::sync::Arc;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

/// Seconds: from one quick step more to a reply that breaks its grammar at every token.
const ADDED_BUCKETS: [f64; 10] = [0.001, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

/// Grammars of one model, resolved once.
#[derive(Debug)]
pub struct GrammarMetrics {
    /// Requests whose grammar couplet keeps to.
    pub requests: IntCounter,
    /// Tokens that a grammar did not allow.
    pub violations: IntCounter,
    /// Times an engine was asked for such replies.
    pub asks: IntCounter,
    /// Tokens that no engine was asked for.
    pub inserted_tokens: IntCounter,
    /// How long a choice waited for what was only asked because of its grammar: from each ask but its first one to the first
    /// token that came of it. An engine that keeps to grammars itself takes a step for that token too, which is part of this.
    pub added_seconds: Histogram,
}

/// Of all models.
#[derive(Debug)]
pub(super) struct GrammarFamilies {
    counters: [IntCounterVec; 4],
    added_seconds: HistogramVec,
}

impl GrammarFamilies {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let metric = IntCounterVec::new(Opts::new(name, help), &["model"])?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let added_seconds = HistogramOpts::new(
            "couplet_grammar_added_seconds",
            "How long a bound choice waited for engines that were asked again because of its grammar.",
        );
        let added_seconds = HistogramVec::new(added_seconds.buckets(ADDED_BUCKETS.to_vec()), &["model"])?;
        registry.register(Box::new(added_seconds.clone()))?;
        let counters = [
            counter("couplet_grammar_requests_total", "Requests whose grammar couplet keeps to.")?,
            counter("couplet_grammar_violations_total", "Tokens that a grammar did not allow.")?,
            counter("couplet_grammar_engine_requests_total", "Times an engine was asked for bound replies.")?,
            counter("couplet_grammar_inserted_tokens_total", "Tokens of bound replies that no engine was asked for.")?,
        ];
        Ok(Self { counters, added_seconds })
    }

    pub(super) fn of(&self, model: &str) -> Arc<GrammarMetrics> {
        let [requests, violations, asks, inserted_tokens] =
            self.counters.each_ref().map(|family| family.with_label_values(&[model]));
        let added_seconds = self.added_seconds.with_label_values(&[model]);
        Arc::new(GrammarMetrics { requests, violations, asks, inserted_tokens, added_seconds })
    }
}
