//! What is counted of the configuration's and the pools' changes.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// How a reload ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The new settings hold.
    Applied,
    /// The new settings are wrong; the old ones hold.
    Refused,
    /// A model or client could not be set up by the new settings; the old ones hold.
    Failed,
}

/// Reloads and discoveries.
#[derive(Debug)]
pub struct LifecycleMetrics {
    reloads: IntCounterVec,
    generation: IntGauge,
    loaded_at: IntGauge,
    discovered: IntGaugeVec,
    discovery_failures: IntCounterVec,
}

impl LifecycleMetrics {
    /// Registers everything.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help, label| {
            let metric = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let gauge = |name, help| {
            let metric = IntGauge::new(name, help)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let reloads = counter("couplet_config_reloads_total", "Reloads of the configuration by outcome.", "outcome")?;
        let generation = gauge("couplet_config_generation", "How many configurations have held so far.")?;
        let loaded_at = gauge(
            "couplet_config_last_success_timestamp_seconds",
            "When the configuration that holds was loaded, in seconds since 1970.",
        )?;
        let discovered =
            IntGaugeVec::new(Opts::new("couplet_discovered_engines", "Engines that DNS tells of."), &["model"])?;
        registry.register(Box::new(discovered.clone()))?;
        let discovery_failures =
            counter("couplet_discovery_failures_total", "Questions that DNS did not answer.", "model")?;
        let metrics = Self { reloads, generation, loaded_at, discovered, discovery_failures };
        for outcome in [Reload::Applied, Reload::Refused, Reload::Failed] {
            metrics.reloads.with_label_values(&[outcome.name()]);
        }
        Ok(metrics)
    }

    /// All series of a model exist.
    pub(super) fn expect(&self, model: &str) {
        self.discovered.with_label_values(&[model]);
        self.discovery_failures.with_label_values(&[model]);
    }

    /// A configuration holds from now on.
    pub fn config_holds(&self) {
        self.generation.inc();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        self.loaded_at.set(i64::try_from(now).unwrap_or(0));
    }

    /// A reload ended.
    pub fn reloaded(&self, outcome: Reload) {
        self.reloads.with_label_values(&[outcome.name()]).inc();
    }

    /// DNS told of this many engines of a model.
    pub fn discovered(&self, model: &str, engines: usize) {
        self.discovered.with_label_values(&[model]).set(i64::try_from(engines).unwrap_or(i64::MAX));
    }

    /// DNS did not answer.
    pub fn discovery_failed(&self, model: &str) {
        self.discovery_failures.with_label_values(&[model]).inc();
    }
}

impl Reload {
    fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}
