//! What `/debug/engines` tells and metrics do not. All of it may be missing: another version may tell other things.

use serde::Deserialize;

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    models: Vec<Model>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Model {
    model: String,
    engines: Vec<Engine>,
}

/// One engine.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Engine {
    engine: String,
    /// Why it gets no requests.
    pub(super) reason: Option<String>,
    /// Requests that it works on.
    pub(super) requests: Option<u64>,
    /// How its breaker stands.
    pub(super) breaker: Breaker,
    /// What it served lately, where prompts are routed by that.
    pub(super) prefix: Option<Prefix>,
}

/// How a breaker stands.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Breaker {
    /// Failures in a row.
    pub(super) failures_in_a_row: u64,
    /// Seconds for which it is still left alone.
    pub(super) left_alone_for: Option<f64>,
    /// Seconds for which it asked to be left alone.
    pub(super) busy_for: Option<f64>,
    /// One request tries it.
    pub(super) on_trial: bool,
}

/// What an engine served lately.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Prefix {
    /// Tokens of prompts, the older ones less.
    pub(super) recent_tokens: f64,
}

impl Told {
    /// What is told of an engine, and the model that it runs.
    pub(super) fn engine(&self, name: &str) -> Option<(&str, &Engine)> {
        let of_model = |model: &'_ Model| model.engines.iter().position(|engine| engine.engine == name);
        let (model, at) = self.models.iter().find_map(|model| Some((model, of_model(model)?)))?;
        Some((&model.model, model.engines.get(at)?))
    }
}
