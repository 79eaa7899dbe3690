//! `POST /inference/v1/generate`: what a tokens-only engine takes and gives. Format: vLLM's "disaggregated everything"
//! generate protocol, versions 0.24 to 0.33.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::ids::optional_token_ids;

/// What render returns and an engine takes. Unset fields are not written, so older engines accept the result.
#[derive(Debug, Clone, Default, Serialize)]
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

impl GenerateRequest {
    /// Whether it asks for tokens as they come.
    pub fn streams(&self) -> bool {
        self.rest.get("stream") == Some(&Value::Bool(true))
    }

    /// How many tokens may still come, where so many have come; `None` where there is no limit.
    pub fn left(&self, told: usize) -> Option<u64> {
        let most = self.sampling_params.get("max_tokens").and_then(Value::as_u64)?;
        Some(most.saturating_sub(told as u64))
    }

    /// The request for the rest of a reply that began with these tokens: they stand behind the prompt, and count.
    pub fn rest(&self, told: &[u32]) -> Self {
        let mut request = self.clone();
        // They speak of an engine's memory of the prompt, which is freed once it was fetched.
        request.rest.shift_remove("kv_transfer_params");
        if told.is_empty() {
            return request;
        }
        let params = &mut request.sampling_params;
        for key in ["max_tokens", "min_tokens"] {
            if let Some(count) = params.get(key).and_then(Value::as_u64) {
                params.insert(key.to_owned(), count.saturating_sub(told.len() as u64).into());
            }
        }
        // They came with the first tokens.
        params.shift_remove("prompt_logprobs");
        request.token_ids.extend_from_slice(told);
        request
    }
}

/// What the engine answers: the whole of it, or one server-sent event. Only what couplet uses is read.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GenerateResponse {
    /// The request's id, with `generate-tokens-` before it.
    #[serde(default)]
    pub request_id: Option<String>,
    /// One entry per sequence; in a stream one per event, none in the usage event.
    pub choices: Vec<GenerateChoice>,
    /// Present in whole answers, in the last event where asked for, and in every event where asked for.
    #[serde(default)]
    pub usage: Option<EngineUsage>,
    /// `tokens`, or absent from engines before 0.33. `text` and `derender` carry text that is already cut.
    #[serde(default)]
    pub output_mode: Option<String>,
    /// The prompt, where the request asked for `return_token_ids`; in a stream in the first event.
    #[serde(default, deserialize_with = "optional_token_ids")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// A list with an entry per prompt token: null, or a map from token id to `{logprob, rank, decoded_token}`.
    #[serde(default)]
    pub prompt_logprobs: Option<Box<RawValue>>,
    /// Passed through as it is.
    #[serde(default)]
    pub kv_transfer_params: Option<Box<RawValue>>,
    /// Passed through as it is.
    #[serde(default)]
    pub ec_transfer_params: Option<Box<RawValue>>,
    /// Passed through as it is.
    #[serde(default)]
    pub metrics: Option<Box<RawValue>>,
}

impl GenerateResponse {
    /// Whether it tells something of the prompt, which comes with the first tokens.
    pub fn tells_of_prompt(&self) -> bool {
        self.prompt_token_ids.is_some() || self.prompt_logprobs.is_some() || self.kv_transfer_params.is_some()
    }
}

/// One sequence, or what one event adds to it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GenerateChoice {
    /// Which of the `n` sequences.
    pub index: u32,
    /// Why the sequence ended, if it has.
    #[serde(default)]
    pub finish_reason: FinishReason,
    /// The stop token or stop string, where one ended the sequence.
    #[serde(default, deserialize_with = "stop_reason")]
    pub stop_reason: Option<StopReason>,
    /// The tokens, stop token included.
    #[serde(default, deserialize_with = "optional_token_ids")]
    pub token_ids: Option<Vec<u32>>,
    /// A position per token, where asked for.
    #[serde(default)]
    pub logprobs: Option<GenerateLogprobs>,
}

/// `finish_reason` of an engine. A whole answer without the key means `stop`, one with null does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// The key is absent.
    #[default]
    Absent,
    /// Null: the sequence goes on.
    Null,
    /// `stop`, `length`, `abort`, `error`, …
    Ended(String),
}

impl FinishReason {
    /// The reason, in an event of a stream.
    pub fn get(&self) -> Option<&str> {
        match self {
            Self::Ended(reason) => Some(reason),
            Self::Absent | Self::Null => None,
        }
    }

    /// The reason, in a whole answer.
    pub fn or_stop(&self) -> Option<&str> {
        if *self == Self::Absent { Some("stop") } else { self.get() }
    }
}

impl<'de> Deserialize<'de> for FinishReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Ended))
    }
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct EngineUsage {
    /// Tokens of the prompt.
    #[serde(default)]
    pub prompt_tokens: Option<u64>,
    /// Tokens generated, over all choices.
    #[serde(default)]
    pub completion_tokens: Option<u64>,
}

/// Why generation ended, beside `finish_reason`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// A stop token.
    Token(i64),
    /// A stop string.
    Text(String),
}

fn stop_reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<StopReason>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(StopReason::Text(text))),
        Value::Number(number) if number.is_i64() => Ok(number.as_i64().map(StopReason::Token)),
        other => Err(D::Error::custom(format!("stop_reason must be an integer, a string or null, got {other}"))),
    }
}

/// Logprobs of one choice.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GenerateLogprobs {
    /// A position per token.
    #[serde(default)]
    pub content: Option<Vec<PositionLogprobs>>,
}

/// The sampled token of one position and the candidates beside it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "WireLogprob")]
pub struct PositionLogprobs {
    /// The sampled token.
    pub sampled: TokenLogprob,
    /// The candidates in the engine's order: the sampled token first, then by rank.
    pub top: Vec<TokenLogprob>,
}

/// A candidate at one position.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "WireLogprob")]
pub struct TokenLogprob {
    /// The candidate.
    pub token_id: u32,
    /// Natural logarithm of its probability, at least [`MIN_LOGPROB`].
    pub logprob: f64,
    /// 1 for the most probable token of the vocabulary.
    pub rank: Option<u32>,
}

/// What stands for minus infinity, which JSON cannot say.
pub const MIN_LOGPROB: f64 = -9999.0;

/// A logprob as it travels: engines before 0.32 write `token: "token_id:198"` where later ones write `token_id: 198`.
#[derive(Deserialize)]
struct WireLogprob {
    #[serde(default)]
    token_id: Option<u32>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    logprob: Option<f64>,
    #[serde(default)]
    rank: Option<u32>,
    #[serde(default)]
    top_logprobs: Option<Vec<TokenLogprob>>,
}

impl TryFrom<WireLogprob> for TokenLogprob {
    type Error = String;

    fn try_from(wire: WireLogprob) -> Result<Self, String> {
        let token = || wire.token.as_deref()?.strip_prefix("token_id:")?.parse().ok();
        let Some(token_id) = wire.token_id.or_else(token) else {
            return Err("a logprob needs token_id (an integer), or token in the form \"token_id:198\"".to_owned());
        };
        let logprob = wire.logprob.unwrap_or(MIN_LOGPROB).max(MIN_LOGPROB);
        Ok(Self { token_id, logprob, rank: wire.rank })
    }
}

impl TryFrom<WireLogprob> for PositionLogprobs {
    type Error = String;

    fn try_from(mut wire: WireLogprob) -> Result<Self, String> {
        let top = wire.top_logprobs.take().unwrap_or_default();
        Ok(Self { sampled: wire.try_into()?, top })
    }
}
