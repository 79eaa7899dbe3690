//! `POST /inference/v1/generate`: what a tokens-only engine takes and gives. Format: vLLM's "disaggregated everything"
//! generate protocol, versions 0.24 to 0.33.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What render returns and an engine takes. Unset fields are not written, so older engines accept the result.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GenerateRequest {
    /// `chatcmpl-…` or `cmpl-…-0`; the engine answers with `generate-tokens-` before it.
    pub request_id: String,
    /// The prompt.
    pub token_ids: Vec<u32>,
    /// vLLM's SamplingParams, only the fields that differ from its defaults or that were asked for.
    pub sampling_params: Map<String, Value>,
    /// Served model name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Everything else that vLLM's render returns (`stream`, `stream_options`, `cache_salt`, `priority`,
    /// `reasoning_ended`, `parse_context`, …), in the order in which it is written.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct EngineUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated, over all choices.
    pub completion_tokens: Option<u64>,
}

/// Why generation ended, beside `finish_reason`: the stop token's id, or the stop string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StopReason {
    /// A stop token.
    Token(i64),
    /// A stop string.
    Text(String),
}

/// A candidate at one position. Engines up to 0.31 write `token: "token_id:198"` instead of `token_id: 198`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenLogprob {
    /// The candidate.
    pub token_id: u32,
    /// Natural logarithm of its probability.
    pub logprob: f64,
    /// 1 for the most probable token of the vocabulary.
    pub rank: Option<u32>,
}
