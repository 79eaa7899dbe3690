//! `POST /v1/chat/completions`: the request. Format: OpenAI's chat API with vLLM's extensions, version 0.33.
//!
//! In: a body. Out: [`ChatRequest`], or vLLM's 400. Deliberately absent: anything that needs the model.

use serde_json::{Map, Value};

use super::error::ApiError;
use super::messages::Message;
use super::python;
use super::sampling::{
    CacheSalt, ExtraArgs, Int64, RepetitionDetection, ResponseFormat, Side, Stop, StreamOptions, StructuredOutputs,
    ThinkingBudget,
};
use super::validate::{Absent, Place, Read, Within, bad_param, bad_value, body, is_truthy, not_literal, parse_json};

body! {
    /// A chat request, checked as far as that needs no model.
    pub struct ChatRequest {
        /// The conversation.
        pub messages: Vec<Message>,
        /// Served model name; any where absent or empty.
        pub model: Option<String> = None,
        /// Penalty in [-2, 2].
        pub frequency_penalty: Option<f64> = None,
        /// Token id (as text) → bias.
        pub logit_bias: Option<LogitBias> = None,
        /// Whether logprobs are returned.
        pub logprobs: Option<bool> = Some(false),
        /// Candidates per position; -1 for all.
        pub top_logprobs: TopLogprobs = TopLogprobs(0),
        /// Older name of `max_completion_tokens`.
        pub max_tokens: Option<i64> = None,
        /// Most tokens to generate.
        pub max_completion_tokens: Option<i64> = None,
        /// Choices per request.
        pub n: Option<i64> = Some(1),
        /// Penalty in [-2, 2].
        pub presence_penalty: Option<f64> = None,
        /// Grammar by OpenAI's field.
        pub response_format: Option<ResponseFormat> = None,
        /// Seed of the sampler.
        pub seed: Option<Int64> = None,
        /// Stop strings.
        pub stop: Stop = Stop::default(),
        /// Whether the reply is streamed.
        pub stream: Option<bool> = Some(false),
        /// Usage in streams.
        pub stream_options: Option<StreamOptions> = None,
        /// Temperature in [0, 2].
        pub temperature: Option<f64> = None,
        /// Nucleus in (0, 1].
        pub top_p: Option<f64> = None,
        /// Functions the model may call.
        pub tools: Option<Vec<Tool>> = None,
        /// Which of them; vLLM makes an absent one `auto` where there are tools.
        pub tool_choice: Option<ToolChoice> = Some(ToolChoice::None),
        /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
        pub reasoning_effort: Option<ReasoningEffort> = None,
        /// Most tokens of thinking; -1 is unset.
        pub thinking_token_budget: ThinkingBudget = ThinkingBudget(None),
        /// Whether reasoning is returned.
        pub include_reasoning: bool = true,
        /// False lets the model make one call only.
        pub parallel_tool_calls: Option<bool> = Some(true),
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
        /// Whether special tokens are left out of the text; a parser may need them.
        pub skip_special_tokens: Option<bool> = None,
        /// Spaces between special tokens.
        pub spaces_between_special_tokens: bool = true,
        /// Keeps so many tokens of the prompt; -1 for what fits.
        pub truncate_prompt_tokens: Option<Within<-1, { i64::MAX }>> = None,
        /// Which end is cut.
        pub truncation_side: Option<Side> = None,
        /// Logprobs of the prompt.
        pub prompt_logprobs: Option<i64> = None,
        /// Ids whose logprobs are returned instead of the most probable.
        pub logprob_token_ids: Option<Vec<i64>> = None,
        /// The only ids that may be generated.
        pub allowed_token_ids: Option<Vec<i64>> = None,
        /// Words that may not be generated.
        pub bad_words: Vec<String> = Vec::new(),
        /// Prepends the last message if it has the same role.
        pub echo: bool = false,
        /// Whether the template opens the reply.
        pub add_generation_prompt: bool = true,
        /// Whether the last message is left open.
        pub continue_final_message: bool = false,
        /// Whether the tokenizer adds its own special tokens to what the template wrote.
        pub add_special_tokens: bool = false,
        /// Documents for templates with retrieval.
        pub documents: Option<Vec<Document>> = None,
        /// A template in place of the model's; only where the server trusts it.
        pub chat_template: Option<String> = None,
        /// Variables for the template.
        pub chat_template_kwargs: Option<Map<String, Value>> = None,
        /// Multimodal only.
        pub media_io_kwargs: Option<Map<String, Value>> = None,
        /// Multimodal only.
        pub mm_processor_kwargs: Option<Map<String, Value>> = None,
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
        /// Adds the prompt's text to the response.
        pub return_prompt_text: Option<bool> = None,
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
        /// Tokens per streamed chunk.
        pub stream_interval: Option<Within<1, { i64::MAX }>> = None,
    }
}

impl ChatRequest {
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

impl Read for ChatRequest {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let mut fields = place.object(value)?;
        if let Err(error) = check(fields.map_mut()) {
            return place.raise(error);
        }
        Self::read_fields(fields, place)
    }
}

/// vLLM's own checks of the raw body, in the order in which it runs them.
fn check(map: &mut Map<String, Value>) -> Result<(), ApiError> {
    check_messages_iterable(map.get("messages"))?;
    super::sampling::check_generation_prompt(map)?;
    check_tools(map)?;
    check_structured_outputs(map)?;
    check_logprobs(map)?;
    super::sampling::check_stream_options(map)?;
    super::sampling::check_response_format(map)?;
    super::sampling::check_cache_salt(map)
}

/// vLLM walks over the messages before it checks their type, so these errors are Python's.
fn check_messages_iterable(messages: Option<&Value>) -> Result<(), ApiError> {
    let kind = match messages {
        Some(Value::Null) => "NoneType",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(number)) if python::is_float(number.as_str()) => "float",
        Some(Value::Number(_)) => "int",
        _ => return Ok(()),
    };
    Err(ApiError::bad_request(format!("'{kind}' object is not iterable")))
}

fn check_tools(map: &mut Map<String, Value>) -> Result<(), ApiError> {
    if map.get("tools").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return Err(bad_param(
            "tools",
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
        ));
    }
    if !map.contains_key("tool_choice") && is_truthy(map.get("tools")) {
        map.insert("tool_choice".to_owned(), Value::from("auto"));
    }
    let choice = match map.get("tool_choice") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(text)) if text == "none" => return Ok(()),
        Some(choice) => choice,
    };
    let Some(tools) = map.get("tools").filter(|tools| !tools.is_null()) else {
        return Err(bad_param("tool_choice", "When using `tool_choice`, `tools` must be set."));
    };
    match choice {
        Value::String(text) if text == "auto" || text == "required" => Ok(()),
        Value::Object(choice) => check_named_tool(choice, tools),
        other => Err(bad_param(
            "tool_choice",
            &format!(
                "Invalid value for `tool_choice`: {}! Only named tools, \"none\", \"auto\" or \"required\" are supported.",
                python::str(other)
            ),
        )),
    }
}

fn check_named_tool(choice: &Map<String, Value>, tools: &Value) -> Result<(), ApiError> {
    const USAGE: &str = r#"Correct usage: `{"type": "function", "function": {"name": "my_function"}}`"#;
    let Some(function) = choice.get("function").and_then(Value::as_object) else {
        let given = python::str(choice.get("function").unwrap_or(&Value::Null));
        return Err(bad_param(
            "tool_choice.function",
            &format!("Invalid value for `function`: `{given}` in `tool_choice`! {USAGE}"),
        ));
    };
    let Some(name) = function.get("name") else {
        return Err(bad_param(
            "tool_choice.function.name",
            &format!("Expected field `name` in `function` in `tool_choice`! {USAGE}"),
        ));
    };
    if name.as_str().is_none_or(str::is_empty) {
        let given = python::str(name);
        return Err(bad_param(
            "tool_choice.function.name",
            &format!("Invalid `name` in `function`: `{given}` in `tool_choice`! {USAGE}"),
        ));
    }
    let named = |tool: &Value| tool.get("function").and_then(|function| function.get("name")) == Some(name);
    if tools.as_array().is_some_and(|tools| tools.iter().any(named)) {
        return Ok(());
    }
    Err(bad_param("tool_choice", "The tool specified in `tool_choice` does not match any of the specified `tools`"))
}

fn check_structured_outputs(map: &Map<String, Value>) -> Result<(), ApiError> {
    let Some(given) = map.get("structured_outputs").filter(|given| !given.is_null()) else { return Ok(()) };
    let count = super::sampling::count_constraints(given);
    if count > 1 {
        return Err(ApiError::bad_request(super::sampling::ONE_CONSTRAINT));
    }
    let choice = map.get("tool_choice").map_or(Some("none"), Value::as_str);
    if count > 0 && !matches!(choice, Some("none" | "auto" | "required")) {
        return Err(ApiError::bad_request(
            "You can only either use constraints for structured outputs or tools, not both.",
        ));
    }
    Ok(())
}

fn check_logprobs(map: &Map<String, Value>) -> Result<(), ApiError> {
    let wants_ids = is_truthy(map.get("logprob_token_ids"));
    if wants_ids && is_truthy(map.get("use_beam_search")) {
        return Err(bad_param("logprob_token_ids", "`logprob_token_ids` is not supported with beam search."));
    }
    let logprobs = is_truthy(map.get("logprobs"));
    if wants_ids && !logprobs {
        let message = "when using `logprob_token_ids`, `logprobs` must be set to true.";
        return Err(bad_param("logprob_token_ids", message));
    }
    super::sampling::check_counts(map, ["prompt_logprobs", "top_logprobs"])?;
    let Some(top) = super::sampling::count_of(map, "top_logprobs") else { return Ok(()) };
    if top < 0.0 && top != -1.0 {
        let value = python::str(map.get("top_logprobs").unwrap_or(&Value::Null));
        return Err(bad_value("top_logprobs", &value, "`top_logprobs` must be a positive value or -1."));
    }
    if (top == -1.0 || top > 0.0) && !logprobs {
        return Err(bad_param("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true."));
    }
    Ok(())
}

/// `top_logprobs`; null is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopLogprobs(pub i64);

impl Read for TopLogprobs {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        if value.is_null() { Some(Self(0)) } else { i64::read(value, place).map(Self) }
    }
}

/// `logit_bias`: token ids as text, and biases, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct LogitBias(pub Vec<(String, f64)>);

impl Read for LogitBias {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let map = Map::read(value, place)?;
        let mut out = Vec::with_capacity(map.len());
        let mut complete = true;
        for (key, bias) in map {
            match place.at(&key, |place| f64::read(bias, place)) {
                Some(bias) => out.push((key, bias)),
                None => complete = false,
            }
        }
        complete.then_some(Self(out))
    }
}

/// A document: texts by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Document(pub Map<String, Value>);

impl Read for Document {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let map = Map::read(value, place)?;
        let mut complete = true;
        for (key, text) in &map {
            if !text.is_string() {
                place.at(key, |place| place.issue::<()>("string_type", "Input should be a valid string", text));
                complete = false;
            }
        }
        complete.then_some(Self(map))
    }
}

/// `reasoning_effort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasoningEffort(pub String);

impl Read for ReasoningEffort {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        const ALLOWED: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        match value {
            Value::String(text) if ALLOWED.contains(&text.as_str()) => Some(Self(text)),
            other => not_literal(place, &other, &ALLOWED),
        }
    }
}

/// Which function the model has to call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// `"none"`.
    None,
    /// `"auto"`.
    Auto,
    /// `"required"`.
    Required,
    /// `{"type": "function", "function": {"name": …}}`.
    Named(String),
}

impl ToolChoice {
    /// The JSON form.
    pub fn to_json(&self) -> Value {
        match self {
            Self::None => Value::from("none"),
            Self::Auto => Value::from("auto"),
            Self::Required => Value::from("required"),
            Self::Named(name) => serde_json::json!({"function": {"name": name}, "type": "function"}),
        }
    }
}

body! {
    /// The object form of `tool_choice`.
    pub struct NamedChoice {
        /// `{"name": …}`.
        pub function: NamedFunction,
        /// Always `function`.
        pub r#type: FunctionType = FunctionType,
    }
}

body! {
    /// A function by name.
    pub struct NamedFunction {
        /// The name.
        pub name: String,
    }
}

impl Read for NamedChoice {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl Read for NamedFunction {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl Read for ToolChoice {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match value.as_str() {
            Some("none") => return Some(Self::None),
            Some("auto") => return Some(Self::Auto),
            Some("required") => return Some(Self::Required),
            _ => {}
        }
        if !value.is_object() {
            for word in ["none", "auto", "required"] {
                not_literal::<()>(place, &value, &[word]);
            }
        }
        place
            .at("ChatCompletionNamedToolChoiceParam", |place| NamedChoice::read(value, place))
            .map(|choice| Self::Named(choice.function.name))
    }
}

/// The literal `"function"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionType;

impl Read for FunctionType {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        if value.as_str() == Some("function") { Some(Self) } else { not_literal(place, &value, &["function"]) }
    }
}

body! {
    /// A function that the model may call.
    pub struct Tool {
        /// Always `function`.
        pub r#type: FunctionType = FunctionType,
        /// The function.
        pub function: FunctionDefinition,
        /// Whether its definition is loaded later.
        pub defer_loading: Option<bool> = None,
    }
}

body! {
    /// A function's definition.
    pub struct FunctionDefinition {
        /// Name.
        pub name: String,
        /// What it does.
        pub description: Option<String> = None,
        /// JSON schema of the arguments.
        pub parameters: Option<Map<String, Value>> = None,
        /// Whether the arguments must follow the schema.
        pub strict: Option<bool> = None,
        /// Whether the definition is loaded later.
        pub defer_loading: Option<bool> = None,
    }
}

impl Read for Tool {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        let mut tool = Self::read_fields(fields, place)?;
        tool.function.defer_loading = tool.function.defer_loading.or(tool.defer_loading);
        Some(tool)
    }
}

impl Read for FunctionDefinition {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl Tool {
    /// The JSON that templates and the parse context see: unknown keys dropped, unset flags left out.
    pub fn to_json(&self) -> Value {
        let mut function = Map::with_capacity(5);
        function.insert("name".to_owned(), Value::from(self.function.name.as_str()));
        function.insert("description".to_owned(), self.function.description.clone().map_or(Value::Null, Value::from));
        let parameters = self.function.parameters.clone().map_or(Value::Null, Value::Object);
        function.insert("parameters".to_owned(), parameters);
        for (key, flag) in [("strict", self.function.strict), ("defer_loading", self.function.defer_loading)] {
            if let Some(flag) = flag {
                function.insert(key.to_owned(), Value::Bool(flag));
            }
        }
        let mut tool = Map::with_capacity(3);
        tool.insert("type".to_owned(), Value::from("function"));
        tool.insert("function".to_owned(), Value::Object(function));
        if let Some(flag) = self.defer_loading {
            tool.insert("defer_loading".to_owned(), Value::Bool(flag));
        }
        Value::Object(tool)
    }
}
