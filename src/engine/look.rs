//! What an engine of a pool is: asked when it comes up, and now and then, as it may have been replaced or have loaded an
//! adapter. One that is not what its pool needs gets no requests.

use std::time::{Duration, Instant};

use super::EngineError;
use super::member::Member;

/// How often an engine that is up is asked what it serves.
const INTERVAL: Duration = Duration::from_secs(60);

impl Member {
    /// Asks the engine what it is. One that is not what its pool needs is refused, until it says otherwise.
    pub async fn look(&self) -> Result<(), EngineError> {
        let before = self.engine.capabilities();
        self.engine.probe().await?;
        let (engine, capabilities, fit) = (self.engine.url(), self.engine.capabilities(), self.engine.fit());
        self.health().refuse(fit.misfit.clone());
        if before != capabilities {
            match &fit.misfit {
                None => tracing::info!(engine, kind = ?capabilities.kind, adapters = ?fit.adapters, "engine is up"),
                Some(reason) => tracing::error!(engine, reason, "engine is refused"),
            }
            if let Some(warning) = &fit.warning {
                tracing::warn!(engine, warning, "engine may not be what is meant");
            }
        }
        Ok(())
    }

    /// Asks an engine that is up what it is, if it was not asked lately: `looked` tells when.
    pub(super) async fn learn(&self, looked: &mut Option<Instant>) -> Result<(), EngineError> {
        if looked.is_some_and(|then| then.elapsed() < INTERVAL) {
            return Ok(());
        }
        if looked.is_none() || self.engine.is_changed().await? {
            *looked = None;
            self.look().await?;
        }
        *looked = Some(Instant::now());
        Ok(())
    }

    /// Whether it takes requests for a model: all take those for the base model, which name none; one for an adapter goes
    /// where that is loaded.
    pub(super) fn serves(&self, adapter: Option<&str>) -> bool {
        adapter.is_none_or(|adapter| self.engine.fit().adapters.contains_key(adapter))
    }
}
