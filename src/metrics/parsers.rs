//! What becomes of calls that are none.

use prometheus::{IntCounterVec, Opts, Registry};

/// The counters of all dialects.
#[derive(Debug, Clone)]
pub(super) struct Parsers {
    fallbacks: IntCounterVec,
}

/// The counters of one dialect.
#[derive(Debug, Clone)]
pub struct ParserMetrics {
    fallbacks: IntCounterVec,
    dialect: String,
}

impl Parsers {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let fallbacks = IntCounterVec::new(
            Opts::new("couplet_parser_fallback_total", "What looked like a tool call and became content, by why."),
            &["dialect", "reason"],
        )?;
        registry.register(Box::new(fallbacks.clone()))?;
        Ok(Self { fallbacks })
    }

    pub(super) fn of(&self, dialect: &str) -> ParserMetrics {
        ParserMetrics { fallbacks: self.fallbacks.clone(), dialect: dialect.to_owned() }
    }
}

impl ParserMetrics {
    /// Counts what looked like calls and became content.
    pub fn fell_back(&self, reason: &str, count: u32) {
        self.fallbacks.with_label_values(&[&self.dialect, reason]).inc_by(count.into());
    }
}
