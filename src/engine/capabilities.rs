//! What kind of engine it is: its routes tell, its version and name look alike.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use super::EngineError;
use super::client::{Engine, root_cause};
use super::wire;

/// An engine that is up answers these at once.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest is `/openapi.json`, of a few hundred KiB.
const MAX_BYTES: usize = 16 << 20;

/// What is known of an engine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it has a tokenizer. Unknown before the first probe: then it is treated as having none.
    pub kind: Kind,
    /// Where requests are aborted.
    pub abort_path: Option<&'static str>,
    /// The models it serves.
    pub models: Vec<EngineModel>,
    /// Width of its logits, where it tells.
    pub vocab_size: Option<u64>,
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
    /// Where it was loaded from.
    #[serde(default)]
    pub root: Option<String>,
    /// The base model of a LoRA adapter.
    #[serde(default)]
    pub parent: Option<String>,
    /// Longest prompt plus output, in tokens.
    #[serde(default)]
    pub max_model_len: Option<u64>,
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<EngineModel>,
}

impl Capabilities {
    /// Whether an engine serves other models than these, such as an adapter that it loaded meanwhile.
    pub(super) async fn are_outdated(&self, engine: &Engine) -> Result<bool, EngineError> {
        Ok(get::<ModelList>(engine, "/v1/models").await?.data != self.models)
    }

    /// Reads `/openapi.json` and `/v1/models`, and asks for the size of the vocabulary.
    pub(super) async fn probe(engine: &Engine) -> Result<Self, EngineError> {
        let models: ModelList = get(engine, "/v1/models").await?;
        // A server that hides its routes (--disable-fastapi-docs) is treated as tokens-only: nothing is sent then that
        // an engine could refuse.
        let openapi: Value = get(engine, "/openapi.json").await.unwrap_or_default();
        let has = |path: &str| openapi["paths"].get(path).is_some();
        let kind =
            if has("/inference/v1/generate") && !has("/abort_requests") { Kind::ScaleOut } else { Kind::TokensOnly };
        let abort_path = ["/inference/v1/abort_requests", "/abort_requests"].into_iter().find(|path| has(path));
        let abort_path = abort_path.or(Some("/abort_requests"));
        Ok(Self { kind, abort_path, models: models.data, vocab_size: vocab_size(engine).await })
    }
}

/// No engine tells the size of its vocabulary when asked, but every vLLM does when it refuses a bias of an id beyond it.
/// An id that is sent in a prompt instead would kill the engine. The list of allowed ids is empty, which is refused too:
/// whatever an engine checks, nothing is generated.
async fn vocab_size(engine: &Engine) -> Option<u64> {
    let request = json!({
        "request_id": "couplet-vocabulary", "token_ids": [0], "stream": false,
        "sampling_params": {"max_tokens": 1, "logit_bias": {"4294967295": 0.0}, "allowed_token_ids": []},
    });
    let post = engine.request(Method::POST, "/inference/v1/generate").header("content-type", "application/json");
    let response = engine.send(post.body(request.to_string()).timeout(PROBE_TIMEOUT)).await.ok()?;
    let refusal: Value = serde_json::from_slice(&response.bytes().await.ok()?).ok()?;
    let (_, size) = refusal["error"]["message"].as_str()?.split_once("Vocabulary size: ")?;
    size.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

async fn get<T: serde::de::DeserializeOwned>(engine: &Engine, path: &str) -> Result<T, EngineError> {
    let url = engine.url();
    let unreachable = |error: reqwest::Error| EngineError::Connect { url: url.to_owned(), cause: root_cause(&error) };
    let request = engine.request(Method::GET, path).timeout(PROBE_TIMEOUT);
    let response = engine.send(request).await.map_err(unreachable)?;
    let status = response.status();
    if !status.is_success() {
        return Err(EngineError::Status {
            url: url.to_owned(),
            status: status.as_u16(),
            body: None,
            retry_after: None,
        });
    }
    let garbage = |cause: String| EngineError::Garbage { url: url.to_owned(), cause: format!("{path}: {cause}") };
    let bytes = wire::read(response, MAX_BYTES).await.map_err(|error| garbage(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| garbage(error.to_string()))
}
