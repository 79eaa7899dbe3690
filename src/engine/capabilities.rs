//! What kind of engine it is: its routes tell, its version and name look alike.

use http::Method;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use super::EngineError;
use super::client::{Engine, root_cause};

/// An engine that is up answers these at once.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is known of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it has a tokenizer. Unknown before the first probe: then it is treated as having none.
    pub kind: Kind,
    /// Where requests are aborted.
    pub abort_path: Option<&'static str>,
    /// The models it serves.
    pub models: Vec<EngineModel>,
}

/// Whether an engine has a tokenizer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// It has not answered yet.
    #[default]
    Unknown,
    /// `--tokens-only`: refuses grammars and stop strings.
    TokensOnly,
    /// `--enable-scale-out`: takes them.
    ScaleOut,
}

/// An entry of `/v1/models`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct EngineModel {
    /// Served name.
    pub id: String,
    /// Longest prompt plus output, in tokens.
    #[serde(default)]
    pub max_model_len: Option<usize>,
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<EngineModel>,
}

impl Capabilities {
    /// Reads `/openapi.json` and `/v1/models`.
    pub(super) async fn probe(engine: &Engine) -> Result<Self, EngineError> {
        let models: ModelList = get(engine, "/v1/models").await?;
        // A server that hides its routes (--disable-fastapi-docs) is treated as tokens-only: nothing is sent then that
        // an engine could refuse.
        let openapi: Value = get(engine, "/openapi.json").await.unwrap_or_default();
        let has = |path: &str| openapi["paths"].get(path).is_some();
        let kind =
            if has("/inference/v1/generate") && !has("/abort_requests") { Kind::ScaleOut } else { Kind::TokensOnly };
        let abort_path = ["/inference/v1/abort_requests", "/abort_requests"].into_iter().find(|path| has(path));
        Ok(Self { kind, abort_path: abort_path.or(Some("/abort_requests")), models: models.data })
    }
}

async fn get<T: serde::de::DeserializeOwned>(engine: &Engine, path: &str) -> Result<T, EngineError> {
    let url = engine.url();
    let unreachable = |error: reqwest::Error| EngineError::Connect { url: url.to_owned(), cause: root_cause(&error) };
    let response = engine.request(Method::GET, path).timeout(PROBE_TIMEOUT).send().await.map_err(unreachable)?;
    let status = response.status();
    if !status.is_success() {
        return Err(EngineError::Status {
            url: url.to_owned(),
            status: status.as_u16(),
            body: None,
            retry_after: None,
        });
    }
    let bytes = response.bytes().await.map_err(unreachable)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| EngineError::Garbage { url: url.to_owned(), cause: format!("{path}: {error}") })
}
