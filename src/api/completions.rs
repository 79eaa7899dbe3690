//! `POST /v1/completions`: the request. Format: OpenAI's legacy completions API with vLLM's extensions, version 0.33.
//!
//! In: a body. Out: [`CompletionRequest`], or vLLM's 400. Deliberately absent: anything that needs the model.

use serde_json::{Map, Value};

use super::chat::LogitBias;
use super::error::ApiError;
use super::python;
use super::sampling::{
    CacheSalt, ExtraArgs, Int64, RepetitionDetection, ResponseFormat, Side, Stop, StreamOptions, StructuredOutputs,
    ThinkingBudget, TokenId,
};
use super::validate::{Absent, Place, Read, Within, bad_param, bad_value, body, is_truthy, parse_json};

/// Most prompts of one request (vLLM's VLLM_MAX_COMPLETION_PROMPTS).
const MAX_PROMPTS: usize = 1024;
/// Tokens generated where the request asks for no number.
const DEFAULT_MAX_TOKENS: i64 = 16;

body! {
    /// A completion request, checked as far as that needs no model. Fields without a comment are as in
    /// [`ChatRequest`](super::chat::ChatRequest).
    pub struct CompletionRequest {
        /// Served model name; any where absent or empty.
        pub model: Option<String> = None,
        /// The prompt or prompts.
        pub prompt: Option<Prompt> = None,
        /// Whether the prompt is returned before the reply.
        pub echo: Option<bool> = Some(false),
        /// Penalty in [-2, 2].
        pub frequency_penalty: Option<f64> = None,
        /// Token id (as text) → bias.
        pub logit_bias: Option<LogitBias> = None,
        /// Candidates per position; -1 for all.
        pub logprobs: Option<i64> = None,
        /// Most tokens to generate.
        pub max_tokens: Option<i64> = Some(DEFAULT_MAX_TOKENS),
        /// Choices per prompt.
        pub n: i64 = 1,
        /// Penalty in [-2, 2].
        pub presence_penalty: Option<f64> = None,
        /// Seed of the sampler.
        pub seed: Option<Int64> = None,
        /// Stop strings.
        pub stop: Stop = Stop::default(),
        /// Whether the reply is streamed.
        pub stream: Option<bool> = Some(false),
        /// Usage in streams.
        pub stream_options: Option<StreamOptions> = None,
        /// Text after the gap, for models that fill in the middle.
        pub suffix: Option<String> = None,
        /// Temperature in [0, 2].
        pub temperature: Option<f64> = None,
        /// Nucleus in (0, 1].
        pub top_p: Option<f64> = None,
        /// Ignored.
        pub user: Option<String> = None,
        /// Beam search, which a tokens-only engine does not do.
        pub use_beam_search: bool = false,
        /// Most probable tokens to sample from; 0 and -1 for all.
        pub top_k: Option<i64> = None,
        /// Least probability relative to the best token, in [0, 1].
        pub min_p: Option<f64> = None,
        /// Penalty above 0.
        pub repetition_penalty: Option<f64> = None,
        /// Whether the engine's watermark is applied.
        pub watermarking: Option<bool> = None,
        /// Beam search only.
        pub length_penalty: f64 = 1.0,
        /// Ids that stop generation.
        pub stop_token_ids: Option<Vec<i64>> = Some(Vec::new()),
        /// Whether a matched stop string stays in the text.
        pub include_stop_str_in_output: bool = false,
        /// Goes on after EOS.
        pub ignore_eos: bool = false,
        /// Least tokens to generate.
        pub min_tokens: i64 = 0,
        /// Whether special tokens are left out of the text.
        pub skip_special_tokens: Option<bool> = None,
        /// Spaces between special tokens.
        pub spaces_between_special_tokens: bool = true,
        /// Keeps so many tokens of the prompt; -1 for what fits.
        pub truncate_prompt_tokens: Option<Within<-1, { i64::MAX }>> = None,
        /// Which end is cut.
        pub truncation_side: Option<Side> = None,
        /// The only ids that may be generated.
        pub allowed_token_ids: Option<Vec<i64>> = None,
        /// Logprobs of the prompt.
        pub prompt_logprobs: Option<i64> = None,
        /// Ids whose logprobs are returned instead of the most probable.
        pub logprob_token_ids: Option<Vec<i64>> = None,
        /// Words that may not be generated.
        pub bad_words: Vec<String> = Vec::new(),
        /// Embeddings in place of a prompt: not supported here.
        pub prompt_embeds: Option<Value> = None,
        /// Whether the tokenizer adds its own special tokens.
        pub add_special_tokens: bool = true,
        /// Grammar by OpenAI's field.
        pub response_format: Option<ResponseFormat> = None,
        /// Grammar by vLLM's field.
        pub structured_outputs: Option<StructuredOutputs> = None,
        /// Lower is earlier.
        pub priority: Int64 = Within(0),
        /// Tail of the response's id; the header `X-Request-Id` wins.
        pub request_id: Absent<String> = Absent(None),
        /// Same over a session; for routing.
        pub session_id: Option<String> = None,
        /// Shows tokens as `token_id:N` in logprobs.
        pub return_tokens_as_token_ids: Option<bool> = None,
        /// Adds ids to the response.
        pub return_token_ids: Option<bool> = None,
        /// Adds spans of weight versions to the response.
        pub return_weight_versions: bool = false,
        /// Prompt tokens left out of routing data.
        pub routed_experts_prompt_start: Within<0, { i64::MAX }> = Within(0),
        /// Adds character offsets to what `/render` returns.
        pub return_token_offsets: Option<bool> = Some(false),
        /// Salt of the prefix cache.
        pub cache_salt: Option<CacheSalt> = None,
        /// For transfer of KV caches.
        pub kv_transfer_params: Option<Map<String, Value>> = None,
        /// For transfer of encoder caches.
        pub ec_transfer_params: Option<Map<String, Value>> = None,
        /// Extra arguments for custom extensions.
        pub vllm_xargs: Option<ExtraArgs> = None,
        /// Ends generation when it repeats itself.
        pub repetition_detection: Option<RepetitionDetection> = None,
        /// Most tokens of thinking; -1 is unset.
        pub thinking_token_budget: ThinkingBudget = ThinkingBudget(None),
        /// Tokens per streamed chunk.
        pub stream_interval: Option<Within<1, { i64::MAX }>> = None,
    }
}

impl CompletionRequest {
    /// Reads a whole body.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        Self::from_value(parse_json(body)?, "body")
    }

    /// Reads a value that stands at `loc` in a body.
    pub fn from_value(value: Value, loc: &str) -> Result<Self, ApiError> {
        let mut place = Place::new(loc);
        let read = Self::read(value, &mut place);
        place.finish(read)
    }
}

impl Read for CompletionRequest {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let mut fields = place.object(value)?;
        if let Err(error) = check(fields.map()) {
            return place.raise(error);
        }
        if fields.map().get("max_tokens").is_some_and(Value::is_null) {
            fields.map_mut().shift_remove("max_tokens");
        }
        Self::read_fields(fields, place)
    }
}

/// The prompt of a completion, in each form that the API takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// Token ids.
    Ids(Vec<u32>),
    /// Several prompts of token ids.
    IdLists(Vec<Vec<u32>>),
    /// Text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
}

impl Read for Prompt {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let ids = |ids: Vec<TokenId>| ids.into_iter().map(|id| id.0).collect();
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => {
                Vec::read(Value::Array(items), place).map(Self::Texts)
            }
            Value::Array(items) if items.iter().all(Value::is_number) => {
                Vec::<TokenId>::read(Value::Array(items), place).map(|list| Self::Ids(ids(list)))
            }
            Value::Array(items) if items.iter().all(Value::is_array) => {
                let lists = Vec::<Vec<TokenId>>::read(Value::Array(items), place)?;
                Some(Self::IdLists(lists.into_iter().map(ids).collect()))
            }
            // Mixtures, and what is no prompt at all: each form is tried, and says why it is not that.
            other => place.any_of(
                &other,
                &[
                    |value, place| {
                        Vec::<TokenId>::read(value, place)
                            .map(|list| Self::Ids(list.into_iter().map(|id| id.0).collect()))
                    },
                    |value, place| String::read(value, place).map(Self::Text),
                    |value, place| Vec::read(value, place).map(Self::Texts),
                ],
            ),
        }
    }
}

/// vLLM's own checks of the raw body, in the order in which it runs them.
fn check(map: &Map<String, Value>) -> Result<(), ApiError> {
    check_prompt(map)?;
    super::sampling::check_stream_options(map)?;
    check_logprobs(map)?;
    check_structured_outputs(map)?;
    super::sampling::check_response_format(map)?;
    super::sampling::check_cache_salt(map)
}

fn check_prompt(map: &Map<String, Value>) -> Result<(), ApiError> {
    for key in ["prompt", "prompt_embeds"] {
        let Some(items) = map.get(key).and_then(Value::as_array) else { continue };
        let is_ids =
            key == "prompt" && items.iter().all(|item| item.as_number().is_some_and(|n| n.is_i64() || n.is_u64()));
        if items.len() > MAX_PROMPTS && !is_ids {
            return Err(bad_param(
                key,
                &format!(
                    "{key} list length {} exceeds the maximum allowed count of {MAX_PROMPTS}. To increase this \
                     limit, set the VLLM_MAX_COMPLETION_PROMPTS environment variable.",
                    items.len()
                ),
            ));
        }
    }
    let no_prompt = match map.get("prompt") {
        None | Some(Value::Null) => true,
        Some(prompt) => prompt.as_str() == Some(""),
    };
    let no_embeds = match map.get("prompt_embeds") {
        None | Some(Value::Null) => true,
        Some(embeds) => embeds.as_array().is_some_and(Vec::is_empty),
    };
    if no_prompt && no_embeds {
        return Err(bad_param("prompt", "Either prompt or prompt_embeds must be provided and non-empty."));
    }
    Ok(())
}

fn check_structured_outputs(map: &Map<String, Value>) -> Result<(), ApiError> {
    match map.get("structured_outputs") {
        Some(given) if super::sampling::count_constraints(given) > 1 => {
            Err(bad_param("structured_outputs", super::sampling::ONE_CONSTRAINT))
        }
        _ => Ok(()),
    }
}

fn check_logprobs(map: &Map<String, Value>) -> Result<(), ApiError> {
    let wants_ids = is_truthy(map.get("logprob_token_ids"));
    let beams = is_truthy(map.get("use_beam_search"));
    let echo = is_truthy(map.get("echo"));
    let no_logprobs = map.get("logprobs").is_none_or(Value::is_null);
    if wants_ids && beams {
        return Err(bad_param("logprob_token_ids", "`logprob_token_ids` is not supported with beam search."));
    }
    if beams && echo && !no_logprobs {
        return Err(bad_param(
            "echo",
            "`echo` with `logprobs` is not supported with beam search because beam search does not compute prompt \
             logprobs.",
        ));
    }
    if wants_ids && echo && super::sampling::count_of(map, "max_tokens") == Some(0.0) {
        return Err(bad_param(
            "logprob_token_ids",
            "`logprob_token_ids` is not supported when `echo=True` and `max_tokens=0` because no output tokens are \
             generated.",
        ));
    }
    if wants_ids && no_logprobs {
        return Err(bad_param("logprob_token_ids", "when using `logprob_token_ids`, `logprobs` must be set."));
    }
    super::sampling::check_counts(map, ["prompt_logprobs", "logprobs"])?;
    match super::sampling::count_of(map, "logprobs") {
        Some(count) if count < 0.0 && count != -1.0 => {
            let value = python::str(map.get("logprobs").unwrap_or(&Value::Null));
            Err(bad_value("logprobs", &value, "`logprobs` must be a positive value or -1."))
        }
        _ => Ok(()),
    }
}
