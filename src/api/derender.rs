//! Bodies of the stateless derender routes. Format: vLLM's Derenderer API.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::ApiError;
use super::generate::GenerateResponse;

/// `POST /v1/chat/completions/derender`, both forms: a whole response, or with `stream: true` one chunk and its state.
///
/// `S` is the state that the client carries.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "S: serde::de::DeserializeOwned, 'de: 'a"))]
pub struct ChatBody<'a, S> {
    /// Which form it is.
    #[serde(default)]
    pub stream: bool,
    /// Served model name.
    #[serde(default)]
    pub model: Option<String>,
    /// One-shot: the engine's whole answer.
    #[serde(default)]
    pub generate_response: Option<GenerateResponse>,
    /// Stream: one event of the engine's answer.
    #[serde(default)]
    pub generate_chunk: Option<GenerateResponse>,
    /// Stream: what the previous call returned; null on the first.
    #[serde(default)]
    pub stream_state: Option<S>,
    /// Tokens of the prompt, for usage.
    #[serde(default)]
    pub prompt_tokens: Option<i64>,
    /// The prompt; it stays text until it is known to be new.
    #[serde(default, borrow)]
    pub prompt_token_ids: Option<&'a RawValue>,
    /// The chat request that was rendered; it stays text until it is known to be new.
    #[serde(default, borrow)]
    pub chat_request: Option<&'a RawValue>,
    /// couplet's own: the state that is returned leaves out what grows with the reply.
    #[serde(default)]
    pub compact_state: bool,
}

/// `POST /v1/completions/derender`, both forms.
///
/// `S` is the state that the client carries.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "S: serde::de::DeserializeOwned, 'de: 'a"))]
pub struct CompletionBody<'a, S> {
    /// Which form it is.
    #[serde(default)]
    pub stream: bool,
    /// Served model name.
    #[serde(default)]
    pub model: Option<String>,
    /// One-shot: the engine's whole answers, one per prompt.
    #[serde(default)]
    pub generate_responses: Option<Vec<GenerateResponse>>,
    /// Stream: one event of the engine's answer.
    #[serde(default)]
    pub generate_chunk: Option<GenerateResponse>,
    /// Stream: what the previous call returned; null on the first.
    #[serde(default)]
    pub stream_state: Option<S>,
    /// One-shot: tokens of each prompt. Stream: of the prompt.
    #[serde(default)]
    pub prompt_tokens: Option<OneOrMany<i64>>,
    /// One-shot: each prompt. Stream: the prompt. It stays text until it is known to be new.
    #[serde(default, borrow)]
    pub prompt_token_ids: Option<&'a RawValue>,
    /// The completion request that was rendered; it stays text until it is known to be new.
    #[serde(default, borrow)]
    pub completion_request: Option<&'a RawValue>,
    /// couplet's own: the state that is returned leaves out what grows with the reply.
    #[serde(default)]
    pub compact_state: bool,
}

/// A number, or one per prompt.
#[derive(Debug, Clone)]
pub enum OneOrMany<T> {
    /// In a stream.
    One(T),
    /// One-shot.
    Many(Vec<T>),
}

impl<'de> Deserialize<'de> for OneOrMany<i64> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = || serde::de::Error::custom("prompt_tokens must be an integer, or one-shot a list of integers");
        match Value::deserialize(deserializer)? {
            Value::Array(items) => {
                let numbers = items.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>();
                numbers.map(Self::Many).ok_or_else(expected)
            }
            other => other.as_i64().map(Self::One).ok_or_else(expected),
        }
    }
}

/// Reads a body. serde's message names the place by line and column; no text of the body is quoted beyond the value
/// that is wrong.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    match serde_json::from_slice(body) {
        Ok(parsed) => Ok(parsed),
        Err(error) if error.is_data() => {
            Err(ApiError::invalid_body(Some("body"), format!("1 validation error:\n  {error}")))
        }
        // Not JSON at all: the same answer as everywhere else.
        Err(error) => match super::validate::parse_json(body) {
            Err(refused) => Err(refused),
            Ok(_) => Err(ApiError::invalid_body(Some("body"), format!("1 validation error:\n  {error}"))),
        },
    }
}
