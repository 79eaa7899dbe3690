//! `sampling_params`: the request's fields over the model's defaults, checked and written as vLLM does.
//!
//! Only what differs from vLLM's SamplingParams is written, in its order; floats are always written, as there.

use serde_json::{Map, Number, Value};

use super::adjust::Adjusted;
use crate::api::chat::{ChatRequest, LogitBias};
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::api::python::float_repr;
use crate::api::sampling::{ExtraArgs, RepetitionDetection, ResponseFormat, StructuredOutputs, TextOrObject};
use crate::api::validate::{bad_value, float};
use crate::model::Model;

/// Most choices of one request (vLLM's VLLM_MAX_N_SEQUENCES).
const MAX_N: i64 = 16_384;
/// Temperatures between 0 and this are raised to it.
const MIN_TEMPERATURE: f64 = 0.01;
/// Temperatures below this are greedy.
const GREEDY: f64 = 1e-5;
/// Most ids in `logprob_token_ids`.
const MAX_LOGPROB_IDS: usize = 128;
/// Fields of which few requests set more; a map that grows hashes all of its keys again.
const MOST_WRITTEN: usize = 24;
/// Deepest nesting of a JSON schema, and what a structural tag may add around it.
const MAX_SCHEMA_DEPTH: usize = 64;
const TAG_DEPTH: usize = 16;

/// What sampling parameters are made of, whichever API the request came by.
pub(super) struct Source<'a> {
    pub(super) model: Option<&'a str>,
    n: i64,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    repetition_penalty: Option<f64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    watermarking: Option<bool>,
    seed: Option<i64>,
    stop: &'a [String],
    stop_token_ids: &'a [i64],
    ignore_eos: bool,
    min_tokens: i64,
    logprobs: Option<i64>,
    prompt_logprobs: Option<i64>,
    logprob_token_ids: Option<&'a [i64]>,
    skip_special_tokens: Option<bool>,
    spaces_between_special_tokens: bool,
    include_stop_str_in_output: bool,
    stream: bool,
    stream_interval: Option<i64>,
    structured_outputs: Option<&'a StructuredOutputs>,
    response_format: Option<&'a ResponseFormat>,
    logit_bias: Option<&'a LogitBias>,
    allowed_token_ids: Option<&'a [i64]>,
    extra_args: Option<&'a ExtraArgs>,
    bad_words: &'a [String],
    thinking_token_budget: Option<i64>,
    repetition_detection: Option<&'a RepetitionDetection>,
    routed_experts_prompt_start: i64,
    echo_only: bool,
}

macro_rules! source {
    ($request:expr, n: $n:expr, logprobs: $logprobs:expr, echo: $echo:expr, echo_only: $echo_only:expr) => {{
        let logprob_token_ids = $request.logprob_token_ids.as_deref().filter(|ids| !ids.is_empty());
        let logprobs: Option<i64> = $logprobs;
        Source {
            model: $request.model.as_deref(),
            n: $n,
            presence_penalty: $request.presence_penalty,
            frequency_penalty: $request.frequency_penalty,
            repetition_penalty: $request.repetition_penalty,
            temperature: $request.temperature,
            top_p: $request.top_p,
            top_k: $request.top_k,
            min_p: $request.min_p,
            watermarking: $request.watermarking,
            seed: $request.seed.map(|seed| seed.0),
            stop: &$request.stop.0,
            stop_token_ids: $request.stop_token_ids.as_deref().unwrap_or_default(),
            ignore_eos: $request.ignore_eos,
            min_tokens: $request.min_tokens,
            logprobs: logprobs.filter(|_| logprob_token_ids.is_none()),
            prompt_logprobs: $request.prompt_logprobs.or(if $echo { logprobs } else { None }),
            logprob_token_ids,
            skip_special_tokens: $request.skip_special_tokens,
            spaces_between_special_tokens: $request.spaces_between_special_tokens,
            include_stop_str_in_output: $request.include_stop_str_in_output,
            stream: $request.stream == Some(true),
            stream_interval: $request.stream_interval.map(|interval| interval.0),
            structured_outputs: $request.structured_outputs.as_ref(),
            response_format: $request.response_format.as_ref(),
            logit_bias: $request.logit_bias.as_ref(),
            allowed_token_ids: $request.allowed_token_ids.as_deref(),
            extra_args: $request.vllm_xargs.as_ref().filter(|args| !args.0.is_empty()),
            bad_words: &$request.bad_words,
            thinking_token_budget: $request.thinking_token_budget.0,
            repetition_detection: $request.repetition_detection.as_ref(),
            routed_experts_prompt_start: $request.routed_experts_prompt_start.0,
            echo_only: $echo_only,
        }
    }};
}

impl<'a> Source<'a> {
    /// With what the parsers ask for.
    pub(super) fn adjusted(mut self, adjusted: &'a Adjusted) -> Self {
        self.skip_special_tokens = adjusted.skip_special_tokens.or(self.skip_special_tokens);
        if let Some(grammar) = &adjusted.grammar {
            self.structured_outputs = Some(grammar);
            self.response_format = None;
        }
        self
    }
}

/// The parameters of a chat.
pub(super) fn chat(request: &ChatRequest) -> Source<'_> {
    let mut source = source!(request, n: request.n.unwrap_or(1),
        logprobs: (request.logprobs == Some(true)).then_some(request.top_logprobs.0),
        echo: false, echo_only: false);
    if request.echo {
        source.prompt_logprobs = source.prompt_logprobs.or(Some(request.top_logprobs.0));
    }
    source
}

/// The parameters of a completion.
pub(super) fn completion(request: &CompletionRequest) -> Source<'_> {
    let echo = request.echo == Some(true);
    source!(request, n: request.n, logprobs: request.logprobs, echo: echo,
        echo_only: echo && request.max_tokens == Some(0))
}

/// The numbers that are always written, resolved.
struct Numbers {
    presence_penalty: Value,
    frequency_penalty: Value,
    repetition_penalty: Value,
    temperature: Value,
    top_p: Value,
    top_k: Value,
    min_p: Value,
    greedy: bool,
}

/// Writes `sampling_params`.
pub(super) fn params(model: &Model, source: &Source<'_>, max_tokens: i64) -> Result<Map<String, Value>, ApiError> {
    let logit_bias = source.logit_bias.map(token_biases).transpose()?;
    let grammar = grammar(source)?;
    let max_tokens = if source.echo_only { 1 } else { max_tokens };
    let mut numbers = numbers(model, source);
    check(source, &mut numbers, max_tokens)?;
    let mut out = Params(Map::with_capacity(MOST_WRITTEN));
    out.set_if(source.n != 1, "n", source.n);
    out.set("presence_penalty", numbers.presence_penalty);
    out.set("frequency_penalty", numbers.frequency_penalty);
    out.set("repetition_penalty", numbers.repetition_penalty);
    out.set("temperature", numbers.temperature);
    out.set_some("watermarking", source.watermarking);
    // What greedy sampling resets to the defaults is not written.
    out.set_if(!numbers.greedy, "top_p", numbers.top_p);
    let top_k_off = numbers.top_k.as_i64() == Some(0);
    out.set_if(!top_k_off, "top_k", numbers.top_k);
    out.set_if(!numbers.greedy, "min_p", numbers.min_p);
    out.set_some("seed", source.seed.filter(|seed| *seed != -1));
    out.set("stop", source.stop);
    out.set("stop_token_ids", unique(source.stop_token_ids));
    out.set_if(source.ignore_eos, "ignore_eos", true);
    out.set_if(max_tokens != 16, "max_tokens", max_tokens);
    out.set_if(source.min_tokens != 0, "min_tokens", source.min_tokens);
    out.set_some("logprobs", source.logprobs);
    out.set_some("prompt_logprobs", source.prompt_logprobs);
    out.set_some("logprob_token_ids", source.logprob_token_ids);
    let skip = source.skip_special_tokens.or(model.generation().skip_special_tokens).unwrap_or(true);
    out.set_if(!skip, "skip_special_tokens", false);
    out.set_if(!source.spaces_between_special_tokens, "spaces_between_special_tokens", false);
    out.set_if(source.include_stop_str_in_output, "include_stop_str_in_output", true);
    out.set("output_kind", if source.stream { 1 } else { 2 });
    out.set_some("stream_interval", source.stream_interval);
    out.set("skip_clone", true);
    let held_back = match source.stop.iter().map(|stop| stop.chars().count()).max() {
        Some(longest) if !source.include_stop_str_in_output => longest.saturating_sub(1),
        _ => 0,
    };
    out.set_if(held_back != 0, "output_text_buffer_length", held_back);
    out.set_some("structured_outputs", grammar);
    out.set_some("logit_bias", logit_bias);
    out.set_some("allowed_token_ids", source.allowed_token_ids);
    out.set_some("extra_args", source.extra_args.map(|args| Value::Object(args.0.clone())));
    out.set("bad_words", unique(source.bad_words));
    out.set("skip_reading_prefix_cache", source.prompt_logprobs.is_some());
    out.set_some("thinking_token_budget", source.thinking_token_budget);
    out.set_some("repetition_detection", source.repetition_detection.map(RepetitionDetection::to_json));
    let start = source.routed_experts_prompt_start;
    out.set_if(start != 0, "routed_experts_prompt_start", start);
    Ok(out.0)
}

/// The map that is written, with the three ways of setting a field.
struct Params(Map<String, Value>);

impl Params {
    fn set(&mut self, key: &str, value: impl serde::Serialize) {
        // Numbers, strings and lists of them always serialise.
        self.0.insert(key.to_owned(), serde_json::to_value(value).unwrap_or_default());
    }

    fn set_if(&mut self, condition: bool, key: &str, value: impl serde::Serialize) {
        if condition {
            self.set(key, value);
        }
    }

    fn set_some(&mut self, key: &str, value: Option<impl serde::Serialize>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }
}

fn unique<T: PartialEq + Clone>(items: &[T]) -> Vec<T> {
    let mut out: Vec<T> = Vec::with_capacity(items.len());
    for item in items {
        if !out.contains(item) {
            out.push(item.clone());
        }
    }
    out
}

fn numbers(model: &Model, source: &Source<'_>) -> Numbers {
    let defaults = &model.generation().sampling;
    let pick = |given: Option<f64>, key: &str, neutral: f64| match given {
        Some(given) => number(given),
        None => defaults.get(key).cloned().unwrap_or_else(|| number(neutral)),
    };
    Numbers {
        presence_penalty: pick(source.presence_penalty, "presence_penalty", 0.0),
        frequency_penalty: pick(source.frequency_penalty, "frequency_penalty", 0.0),
        repetition_penalty: pick(source.repetition_penalty, "repetition_penalty", 1.0),
        temperature: pick(source.temperature, "temperature", 1.0),
        top_p: pick(source.top_p, "top_p", 1.0),
        top_k: match source.top_k {
            Some(given) => Value::from(given),
            None => defaults.get("top_k").cloned().unwrap_or_else(|| Value::from(0)),
        },
        min_p: pick(source.min_p, "min_p", 0.0),
        greedy: false,
    }
}

/// A float as JSON. What JSON cannot write was refused before, or will be; null stands in.
fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn value_of(number: &Value) -> f64 {
    number.as_number().map_or(f64::NAN, float)
}

/// vLLM's checks of sampling parameters, in its order and words.
fn check(source: &Source<'_>, numbers: &mut Numbers, max_tokens: i64) -> Result<(), ApiError> {
    let refuse = |message: String| Err(ApiError::bad_request(message));
    let temperature = value_of(&numbers.temperature);
    if temperature > 0.0 && temperature < MIN_TEMPERATURE {
        numbers.temperature = number(MIN_TEMPERATURE);
    }
    check_n(source.n)?;
    if let Some(args) = source.extra_args {
        check_extra_args(args)?;
    }
    for (name, value) in
        [("presence_penalty", &numbers.presence_penalty), ("frequency_penalty", &numbers.frequency_penalty)]
    {
        let value = value_of(value);
        if !(-2.0..=2.0).contains(&value) {
            return refuse(format!("{name} must be in [-2, 2], got {}.", float_repr(value)));
        }
    }
    let repetition = value_of(&numbers.repetition_penalty);
    if !repetition.is_finite() {
        return refuse(format!("repetition_penalty must be a finite number, got {}.", float_repr(repetition)));
    }
    if repetition <= 0.0 {
        return refuse(format!("repetition_penalty must be greater than zero, got {}.", float_repr(repetition)));
    }
    check_temperature(source.temperature.unwrap_or(temperature))?;
    let top_p = value_of(&numbers.top_p);
    if !(top_p > 0.0 && top_p <= 1.0) {
        let shown = float_repr(top_p);
        return Err(bad_value("top_p", &shown, &format!("top_p must be in (0, 1], got {shown}.")));
    }
    if value_of(&numbers.top_k) < -1.0 {
        return refuse(format!("top_k must be 0 (disable), or at least 1, got {}.", numbers.top_k));
    }
    let min_p = value_of(&numbers.min_p);
    if !(0.0..=1.0).contains(&min_p) {
        return refuse(format!("min_p must be in [0, 1], got {}.", float_repr(min_p)));
    }
    check_counts(source, max_tokens)?;
    if source.stop.iter().any(String::is_empty) {
        return refuse("stop cannot contain an empty string.".to_owned());
    }
    if source.bad_words.iter().any(String::is_empty) {
        let words = crate::api::python::repr(&Value::from(source.bad_words));
        return refuse(format!("bad_words cannot contain an empty string. Got bad_words={words}"));
    }
    if temperature < GREEDY {
        numbers.greedy = true;
        numbers.top_k = Value::from(0);
        if source.n > 1 {
            return refuse(format!("n must be 1 when using greedy sampling, got {}.", source.n));
        }
    }
    Ok(())
}

fn check_n(n: i64) -> Result<(), ApiError> {
    if n < 1 {
        return Err(ApiError::bad_request(format!("n must be at least 1, got {n}.")));
    }
    if n > MAX_N {
        return Err(ApiError::bad_request(format!(
            "n must be at most {MAX_N}, got {n}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment \
             variable."
        )));
    }
    Ok(())
}

fn check_temperature(temperature: f64) -> Result<(), ApiError> {
    let refuse = |rule: &str| {
        let shown = float_repr(temperature);
        Err(bad_value("temperature", &shown, &format!("temperature must be {rule}, got {shown}.")))
    };
    if !temperature.is_finite() {
        return refuse("a finite number");
    }
    if temperature < 0.0 {
        return refuse("non-negative");
    }
    if temperature > 2.0 {
        return refuse("in [0, 2]");
    }
    Ok(())
}

fn check_counts(source: &Source<'_>, max_tokens: i64) -> Result<(), ApiError> {
    if max_tokens < 1 {
        let shown = max_tokens.to_string();
        return Err(bad_value("max_tokens", &shown, &format!("max_tokens must be at least 1, got {shown}.")));
    }
    let min_tokens = source.min_tokens;
    if min_tokens < 0 {
        return Err(ApiError::bad_request(format!("min_tokens must be greater than or equal to 0, got {min_tokens}.")));
    }
    if min_tokens > max_tokens {
        return Err(ApiError::bad_request(format!(
            "min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}."
        )));
    }
    for (name, count) in [("logprobs", source.logprobs), ("prompt_logprobs", source.prompt_logprobs)] {
        if let Some(count) = count.filter(|count| *count < -1) {
            let shown = count.to_string();
            return Err(bad_value(name, &shown, &format!("{name} must be non-negative or -1, got {shown}.")));
        }
    }
    Ok(())
}

/// The engine's transport takes integers of 64 bits.
fn check_extra_args(args: &ExtraArgs) -> Result<(), ApiError> {
    fn fits(value: &Value) -> bool {
        match value {
            Value::Number(number) if !crate::api::python::is_float(number.as_str()) => {
                number.is_i64() || number.is_u64()
            }
            Value::Array(items) => items.iter().all(fits),
            _ => true,
        }
    }
    if args.0.values().all(fits) {
        return Ok(());
    }
    let message = "extra_args integers must be between -2**63 and 2**64 - 1.";
    Err(crate::api::validate::bad_param("extra_args", message))
}

/// `logit_bias` with keys as integers and biases within [-100, 100].
fn token_biases(biases: &LogitBias) -> Result<Map<String, Value>, ApiError> {
    let mut out = Map::new();
    let mut wrong = Vec::new();
    for (key, bias) in &biases.0 {
        match key.trim().replace('_', "").parse::<i64>() {
            Ok(id) => {
                out.insert(id.to_string(), number(bias.clamp(-100.0, 100.0)));
            }
            Err(_) => wrong.push(Value::from(key.as_str())),
        }
    }
    if wrong.is_empty() {
        return Ok(out);
    }
    let shown = crate::api::python::repr(&Value::from(wrong));
    Err(bad_value(
        "logit_bias",
        &shown,
        &format!("logit_bias contains key(s) that cannot be converted to integer token IDs: {shown}"),
    ))
}

/// `structured_outputs`, with `response_format` over it.
fn grammar(source: &Source<'_>) -> Result<Option<Value>, ApiError> {
    let mut grammar = source.structured_outputs.cloned();
    let format = match source.response_format {
        None | Some(ResponseFormat::Text) => return Ok(grammar.map(|grammar| grammar.to_json())),
        Some(format) => format,
    };
    let target = grammar.get_or_insert_with(StructuredOutputs::none);
    match format {
        ResponseFormat::Text => {}
        ResponseFormat::JsonObject => target.json_object = Some(true),
        ResponseFormat::JsonSchema { schema } => {
            target.json = schema.clone().map(|schema| TextOrObject(Value::Object(schema)));
        }
        ResponseFormat::StructuralTag(tag) => {
            let json = crate::api::python::dumps(&Value::Object(tag.clone()));
            target.structural_tag = Some(json);
        }
    }
    target.check()?;
    Ok(Some(target.to_json()))
}

/// The checks that a coupled server makes before it queues a request.
pub(super) fn check_for_engine(model: &Model, source: &Source<'_>) -> Result<(), ApiError> {
    let vocab = i64::try_from(model.vocab_size()).unwrap_or(i64::MAX);
    check_logprobs(model, source, vocab)?;
    let outside = |id: &i64| *id < 0 || *id >= vocab;
    let wrong = |name: &str, ids: Vec<i64>| {
        let shown = crate::api::python::repr(&Value::from(ids));
        let message = format!("token_id(s) {shown} in {name} contain out-of-vocab token ids. Vocabulary size: {vocab}");
        Err(bad_value(name, &shown, &message))
    };
    if let Some(biases) = source.logit_bias {
        let ids: Vec<i64> = biases.0.iter().filter_map(|(key, _)| key.trim().parse().ok()).filter(outside).collect();
        if !ids.is_empty() {
            return wrong("logit_bias", ids);
        }
    }
    let stops: Vec<i64> = source.stop_token_ids.iter().copied().filter(outside).collect();
    if !stops.is_empty() {
        return wrong("stop_token_ids", stops);
    }
    if let Some(allowed) = source.allowed_token_ids {
        if allowed.is_empty() {
            return Err(bad_value("allowed_token_ids", "[]", "allowed_token_ids is not None and empty!"));
        }
        let ids: Vec<i64> = allowed.iter().copied().filter(outside).collect();
        if !ids.is_empty() {
            let shown = crate::api::python::repr(&Value::from(ids));
            return Err(bad_value("allowed_token_ids", &shown, "allowed_token_ids contains out-of-vocab token id!"));
        }
    }
    check_grammar(source)
}

fn check_logprobs(model: &Model, source: &Source<'_>, vocab: i64) -> Result<(), ApiError> {
    let most = if model.options().max_logprobs == -1 { vocab } else { model.options().max_logprobs };
    let too_many = |name: &str, what: &str, count: Option<i64>| match count {
        Some(count) => {
            let count = if count == -1 { vocab } else { count };
            let message = format!("Requested {what} logprobs of {count}, which is greater than max allowed: {most}");
            if count > most { Err(bad_value(name, &count.to_string(), &message)) } else { Ok(()) }
        }
        None => Ok(()),
    };
    too_many("logprobs", "sample", source.logprobs)?;
    if let Some(ids) = source.logprob_token_ids {
        let count = ids.len();
        if count > MAX_LOGPROB_IDS {
            let message = format!(
                "Requested logprob_token_ids of length {count}, which is greater than max allowed: {MAX_LOGPROB_IDS}"
            );
            return Err(bad_value("logprob_token_ids", &count.to_string(), &message));
        }
        let outside: Vec<i64> = ids.iter().copied().filter(|id| *id < 0 || *id >= vocab).collect();
        if !outside.is_empty() {
            let shown = crate::api::python::repr(&Value::from(outside));
            let message = format!(
                "token_id(s) {shown} in logprob_token_ids contain out-of-vocab token ids. Vocabulary size: {vocab}"
            );
            return Err(bad_value("logprob_token_ids", &shown, &message));
        }
    }
    too_many("prompt_logprobs", "prompt", source.prompt_logprobs)
}

/// Grammars that no backend takes.
fn check_grammar(source: &Source<'_>) -> Result<(), ApiError> {
    let refuse = |message: &str| Err(ApiError::bad_request(message));
    let Some(grammar) = source.structured_outputs else { return check_schema_of(source) };
    if grammar.choice.as_ref().is_some_and(Vec::is_empty) {
        return refuse("Choice '[]' cannot be an empty list");
    }
    let blank = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
    if blank(grammar.grammar.as_deref()) {
        return refuse("structured_outputs.grammar cannot be an empty string");
    }
    if blank(grammar.json.as_ref().and_then(|json| json.0.as_str())) {
        return refuse("structured_outputs.json cannot be an empty string");
    }
    if let Some(json) = &grammar.json {
        check_depth(&json.0, MAX_SCHEMA_DEPTH)?;
    }
    if grammar.json_object == Some(false) {
        return refuse(
            "structured_outputs.json_object must be True if set; omit structured_outputs to disable structured outputs",
        );
    }
    if grammar.regex.as_ref().is_some_and(|regex| regex.contains('\0')) {
        return refuse("structured_outputs.regex must not contain a NUL character ('\\x00')");
    }
    if blank(grammar.structural_tag.as_deref()) {
        return refuse("structured_outputs.structural_tag cannot be an empty string");
    }
    if let Some(tag) = &grammar.structural_tag {
        check_depth(&Value::from(tag.as_str()), MAX_SCHEMA_DEPTH + TAG_DEPTH)?;
    }
    check_schema_of(source)
}

fn check_schema_of(source: &Source<'_>) -> Result<(), ApiError> {
    match source.response_format {
        Some(ResponseFormat::JsonSchema { schema: Some(schema) }) => {
            check_depth(&Value::Object(schema.clone()), MAX_SCHEMA_DEPTH)
        }
        _ => Ok(()),
    }
}

fn check_depth(schema: &Value, most: usize) -> Result<(), ApiError> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    let parsed = schema.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    if depth(parsed.as_ref().unwrap_or(schema)) <= most {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "The JSON schema is nested too deeply: objects and arrays may nest at most {MAX_SCHEMA_DEPTH} levels"
    )))
}
