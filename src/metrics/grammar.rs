//! What is counted of grammars that couplet keeps to.

use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

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
}

/// Of all models.
#[derive(Debug)]
pub(super) struct GrammarFamilies([IntCounterVec; 4]);

impl GrammarFamilies {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let metric = IntCounterVec::new(Opts::new(name, help), &["model"])?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        Ok(Self([
            counter("couplet_grammar_requests_total", "Requests whose grammar couplet keeps to.")?,
            counter("couplet_grammar_violations_total", "Tokens that a grammar did not allow.")?,
            counter("couplet_grammar_engine_requests_total", "Times an engine was asked for bound replies.")?,
            counter("couplet_grammar_inserted_tokens_total", "Tokens of bound replies that no engine was asked for.")?,
        ]))
    }

    pub(super) fn of(&self, model: &str) -> Arc<GrammarMetrics> {
        let [requests, violations, asks, inserted_tokens] =
            self.0.each_ref().map(|family| family.with_label_values(&[model]));
        Arc::new(GrammarMetrics { requests, violations, asks, inserted_tokens })
    }
}
