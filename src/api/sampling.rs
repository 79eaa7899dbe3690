//! What chat and completion requests have in common: stop strings, grammars, extra arguments, and vLLM's checks of them.

use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::python;
use super::validate::{Place, Read, Within, bad_param, bad_value, body, float, is_truthy, not_literal};

/// Most stop strings (vLLM's VLLM_MAX_STOP_STRINGS).
const MAX_STOP_STRINGS: usize = 4;
/// Longest cache salt, in characters.
const MAX_CACHE_SALT: usize = 128;
/// The kinds of grammar that the check of raw bodies counts.
const CONSTRAINTS: [&str; 3] = ["json", "regex", "choice"];
/// vLLM's text for more than one of them.
pub(super) const ONE_CONSTRAINT: &str =
    "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').";

/// Largest and smallest 64-bit integers, as vLLM bounds `seed` and `priority`.
pub type Int64 = Within<{ i64::MIN }, { i64::MAX }>;

/// `stop`: one string, a list of at most four, or null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stop(pub Vec<String>);

impl Read for Stop {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match value {
            Value::Null => Some(Self(Vec::new())),
            Value::String(text) => Some(Self(vec![text])),
            Value::Array(items) if items.len() <= MAX_STOP_STRINGS && items.iter().all(Value::is_string) => {
                Vec::read(Value::Array(items), place).map(Self)
            }
            other => refuse_stop(&other, place),
        }
    }
}

/// pydantic lists what keeps the value from being a string, then from being a list.
fn refuse_stop(value: &Value, place: &mut Place) -> Option<Stop> {
    place.issue::<()>("string_type", "Input should be a valid string", value);
    match value.as_array() {
        Some(items) if items.len() > MAX_STOP_STRINGS => {
            let count = items.len();
            let msg = format!("List should have at most {MAX_STOP_STRINGS} items after validation, not {count}");
            let ctx = format!("{{'field_type': 'List', 'max_length': {MAX_STOP_STRINGS}, 'actual_length': {count}}}");
            place.issue_with("too_long", msg, value, ctx)
        }
        _ => Vec::<String>::read(value.clone(), place).map(Stop),
    }
}

body! {
    /// `stream_options`.
    pub struct StreamOptions {
        /// A usage chunk at the end.
        pub include_usage: Option<bool> = Some(false),
        /// Usage in every chunk.
        pub continuous_usage_stats: Option<bool> = Some(false),
    }
}

impl Read for StreamOptions {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl StreamOptions {
    /// The JSON that render returns.
    pub fn to_json(&self) -> Value {
        json!({"include_usage": self.include_usage, "continuous_usage_stats": self.continuous_usage_stats})
    }
}

/// Which end of the prompt is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Keeps the last tokens.
    Left,
    /// Keeps the first tokens.
    Right,
}

impl Read for Side {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        match value.as_str() {
            Some("left") => Some(Self::Left),
            Some("right") => Some(Self::Right),
            _ => not_literal(place, &value, &["left", "right"]),
        }
    }
}

/// `response_format`.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseFormat {
    /// `{"type": "text"}`: no grammar.
    Text,
    /// `{"type": "json_object"}`: any JSON object.
    JsonObject,
    /// `{"type": "json_schema", "json_schema": {"name": …, "schema": …}}`.
    JsonSchema {
        /// The schema, which may be left out; the engine then refuses.
        schema: Option<Map<String, Value>>,
    },
    /// `{"type": "structural_tag", …}`, as it is sent on.
    StructuralTag(Map<String, Value>),
}

body! {
    /// The object under `json_schema`.
    pub struct JsonSchemaFormat {
        /// Name; ignored.
        pub name: String,
        /// Ignored.
        pub description: Option<String> = None,
        /// The schema.
        pub schema: Option<Map<String, Value>> = None,
        /// Ignored.
        pub strict: Option<bool> = None,
    }
}

impl Read for JsonSchemaFormat {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let fields = place.object(value)?;
        Self::read_fields(fields, place)
    }
}

impl Read for ResponseFormat {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        const TYPES: [&str; 3] = ["text", "json_object", "json_schema"];
        let mut fields = place.object(value)?;
        let kind = fields.map().get("type").cloned();
        let schema = match kind.as_ref().and_then(Value::as_str) {
            Some("structural_tag") => return read_structural_tag(std::mem::take(fields.map_mut()), place),
            Some("text" | "json_object" | "json_schema") => {
                fields.field::<Option<JsonSchemaFormat>>(place, "json_schema", Some(None))?
            }
            Some(_) => {
                return place.at("type", |place| not_literal(place, &kind.clone().unwrap_or_default(), &TYPES));
            }
            None => {
                fields.field::<String>(place, "type", None);
                return None;
            }
        };
        match kind.as_ref().and_then(Value::as_str) {
            Some("text") => Some(Self::Text),
            Some("json_object") => Some(Self::JsonObject),
            _ => Some(Self::JsonSchema { schema: schema.and_then(|schema| schema.schema) }),
        }
    }
}

fn read_structural_tag(map: Map<String, Value>, place: &mut Place) -> Option<ResponseFormat> {
    let legacy = map.get("structures").is_some_and(Value::is_array) && map.get("triggers").is_some_and(Value::is_array);
    if legacy || map.contains_key("format") {
        return Some(ResponseFormat::StructuralTag(map));
    }
    let missing = "Invalid response_format structural_tag specification.";
    place.raise(bad_param("response_format", missing))
}

body! {
    /// `structured_outputs`: one kind of grammar, and how it is applied.
    pub struct StructuredOutputs {
        /// A JSON schema, as text or object.
        pub json: Option<TextOrObject> = None,
        /// A regular expression.
        pub regex: Option<String> = None,
        /// One of these strings.
        pub choice: Option<Vec<String>> = None,
        /// A context-free grammar.
        pub grammar: Option<String> = None,
        /// Any JSON object.
        pub json_object: Option<bool> = None,
        /// No whitespace between tokens of JSON.
        pub disable_any_whitespace: bool = false,
        /// No properties beside those in the schema.
        pub disable_additional_properties: bool = false,
        /// Pattern of whitespace.
        pub whitespace_pattern: Option<String> = None,
        /// A structural tag, as JSON text.
        pub structural_tag: Option<String> = None,
    }
}

impl Read for StructuredOutputs {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        if !value.is_object() {
            let msg = "Input should be a dictionary or an instance of StructuredOutputsParams";
            return place.issue("dataclass_type", msg, &value);
        }
        let fields = place.object(value)?;
        let read = Self::read_fields(fields, place)?;
        match read.check() {
            Ok(()) => Some(read),
            Err(error) => place.raise(error),
        }
    }
}

impl StructuredOutputs {
    /// Nothing asked for yet.
    pub fn none() -> Self {
        Self {
            json: None,
            regex: None,
            choice: None,
            grammar: None,
            json_object: None,
            disable_any_whitespace: false,
            disable_additional_properties: false,
            whitespace_pattern: None,
            structural_tag: None,
        }
    }

    /// Exactly one kind of grammar may be given.
    pub fn check(&self) -> Result<(), ApiError> {
        let given = [
            self.json.is_some(),
            self.regex.is_some(),
            self.choice.is_some(),
            self.grammar.is_some(),
            self.json_object.is_some(),
            self.structural_tag.is_some(),
        ];
        match given.into_iter().filter(|given| *given).count() {
            1 => Ok(()),
            count => {
                let (use_text, found) = if count > 1 { ("can only", "multiple are") } else { ("must", "none are") };
                let fields = python::repr(&self.to_json());
                Err(ApiError::bad_request(format!(
                    "You {use_text} use one kind of structured outputs constraint but {found} specified: {fields}"
                )))
            }
        }
    }

    /// The JSON inside `sampling_params`, nulls included.
    pub fn to_json(&self) -> Value {
        json!({
            "json": self.json.as_ref().map(|json| &json.0),
            "regex": self.regex,
            "choice": self.choice,
            "grammar": self.grammar,
            "json_object": self.json_object,
            "disable_any_whitespace": self.disable_any_whitespace,
            "disable_additional_properties": self.disable_additional_properties,
            "whitespace_pattern": self.whitespace_pattern,
            "structural_tag": self.structural_tag,
            "_backend": null,
            "_backend_was_auto": false,
        })
    }
}

/// A string or an object.
#[derive(Debug, Clone, PartialEq)]
pub struct TextOrObject(pub Value);

impl Read for TextOrObject {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        if value.is_string() || value.is_object() {
            return Some(Self(value));
        }
        place.issue::<()>("string_type", "Input should be a valid string", &value);
        place.issue("dict_type", "Input should be a valid dictionary", &value)
    }
}

/// `cache_salt`; its form was checked on the raw body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheSalt(pub String);

impl Read for CacheSalt {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        String::read(value, place).map(Self)
    }
}

/// `vllm_xargs`: strings, numbers and lists of them by name.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraArgs(pub Map<String, Value>);

impl Read for ExtraArgs {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let mut map = Map::read(value, place)?;
        let mut complete = true;
        for (key, value) in &mut map {
            complete &= place.at(key, |place| read_extra(value, place, true)).is_some();
        }
        complete.then_some(Self(map))
    }
}

fn read_extra(value: &mut Value, place: &mut Place, list: bool) -> Option<()> {
    match value {
        Value::String(_) | Value::Number(_) => Some(()),
        Value::Bool(flag) => {
            *value = Value::from(u8::from(*flag));
            Some(())
        }
        Value::Array(items) if list => {
            let mut complete = true;
            for (i, item) in items.iter_mut().enumerate() {
                let read = place.at(itoa::Buffer::new().format(i), |place| read_extra(item, place, false));
                complete &= read.is_some();
            }
            complete.then_some(())
        }
        other => place.issue("string_type", "Input should be a valid string", other),
    }
}

/// `thinking_token_budget`: -1 and null are unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkingBudget(pub Option<i64>);

impl Read for ThinkingBudget {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let integer = match &value {
            Value::Null => return Some(Self(None)),
            Value::Number(number) if !python::is_float(number.as_str()) => number.as_i64(),
            _ => None,
        };
        match integer {
            Some(-1) => Some(Self(None)),
            Some(budget) if budget >= 0 => Some(Self(Some(budget))),
            _ => place.raise(bad_value(
                "thinking_token_budget",
                &python::str(&value),
                "`thinking_token_budget` must be a non-negative integer or -1 for unlimited.",
            )),
        }
    }
}

body! {
    /// `repetition_detection`: sizes in tokens.
    pub struct RepetitionDetection {
        /// Largest pattern; 0 is off.
        pub max_pattern_size: i64 = 0,
        /// Smallest pattern.
        pub min_pattern_size: i64 = 0,
        /// Repetitions that end generation.
        pub min_count: i64 = 0,
    }
}

impl Read for RepetitionDetection {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        if !value.is_object() {
            let msg = "Input should be a dictionary or an instance of RepetitionDetectionParams";
            return place.issue("dataclass_type", msg, &value);
        }
        let fields = place.object(value)?;
        let read = Self::read_fields(fields, place)?;
        let sizes_ok = read.max_pattern_size >= 0 && (0..=read.max_pattern_size).contains(&read.min_pattern_size);
        if !sizes_ok {
            return place.raise(ApiError::bad_request(
                "max_pattern_size, min_pattern_size must be >=0, with min_pattern_size <= max_pattern_size. \
                 Set both to 0 to disable repetitive pattern detection.",
            ));
        }
        if read.max_pattern_size > 0 && read.min_count < 2 {
            return place.raise(ApiError::bad_request(
                "min_count must be >= 2 to detect repetitive patterns in engine output. \
                 If you do not wish to detect repetitive patterns, set max_pattern_size to 0.",
            ));
        }
        Some(read)
    }
}

impl RepetitionDetection {
    /// The JSON inside `sampling_params`.
    pub fn to_json(&self) -> Value {
        json!({
            "max_pattern_size": self.max_pattern_size,
            "min_pattern_size": self.min_pattern_size,
            "min_count": self.min_count,
        })
    }
}

/// A token id that is not negative. Ids beyond 32 bits end at the bound: they are outside any vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenId(pub u32);

impl Read for TokenId {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let id = Within::<0, { i64::MAX }>::read(value, place)?;
        Some(Self(u32::try_from(id.0).unwrap_or(u32::MAX)))
    }
}

pub(super) fn check_generation_prompt(map: &Map<String, Value>) -> Result<(), ApiError> {
    if is_truthy(map.get("continue_final_message")) && is_truthy(map.get("add_generation_prompt")) {
        return Err(ApiError::bad_request(
            "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
        ));
    }
    Ok(())
}

pub(super) fn check_stream_options(map: &Map<String, Value>) -> Result<(), ApiError> {
    if is_truthy(map.get("stream_options")) && !is_truthy(map.get("stream")) {
        return Err(bad_param("stream_options", "Stream options can only be defined when `stream=True`."));
    }
    Ok(())
}

pub(super) fn check_response_format(map: &Map<String, Value>) -> Result<(), ApiError> {
    let Some(format) = map.get("response_format").and_then(Value::as_object) else { return Ok(()) };
    let kind = format.get("type").and_then(Value::as_str);
    if kind == Some("json_schema") && format.get("json_schema").is_none_or(Value::is_null) {
        return Err(bad_param(
            "response_format",
            "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
        ));
    }
    Ok(())
}

pub(super) fn check_cache_salt(map: &Map<String, Value>) -> Result<(), ApiError> {
    let salt = match map.get("cache_salt") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(salt)) if !salt.is_empty() => salt,
        Some(_) => {
            return Err(bad_param("cache_salt", "Parameter 'cache_salt' must be a non-empty string if provided."));
        }
    };
    if salt.chars().count() > MAX_CACHE_SALT || salt.contains(['@', '/', '\\', '\0']) {
        return Err(bad_param(
            "cache_salt",
            "Parameter 'cache_salt' must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL.",
        ));
    }
    Ok(())
}

/// How many of the three counted kinds of grammar a raw `structured_outputs` gives.
pub(super) fn count_constraints(given: &Value) -> usize {
    CONSTRAINTS.iter().filter(|kind| given.get(**kind).is_some_and(|value| !value.is_null())).count()
}

/// A raw number (or flag) as Python compares it.
pub(super) fn count_of(map: &Map<String, Value>, key: &str) -> Option<f64> {
    match map.get(key) {
        Some(Value::Number(number)) => Some(float(number)),
        Some(Value::Bool(flag)) => Some(f64::from(u8::from(*flag))),
        _ => None,
    }
}

/// Raw counts of logprobs must be numbers; `prompt_logprobs` has rules of its own.
pub(super) fn check_counts(map: &Map<String, Value>, names: [&str; 2]) -> Result<(), ApiError> {
    for name in names {
        if let Some(value @ (Value::String(_) | Value::Array(_) | Value::Object(_))) = map.get(name) {
            return Err(bad_value(name, &python::str(value), &format!("`{name}` must be an integer.")));
        }
    }
    let Some(count) = count_of(map, "prompt_logprobs") else { return Ok(()) };
    if is_truthy(map.get("stream")) && (count > 0.0 || count == -1.0) {
        return Err(bad_param("prompt_logprobs", "`prompt_logprobs` are not available when `stream=True`."));
    }
    if count < 0.0 && count != -1.0 {
        let value = python::str(map.get("prompt_logprobs").unwrap_or(&Value::Null));
        return Err(bad_value("prompt_logprobs", &value, "`prompt_logprobs` must be a positive value or -1."));
    }
    Ok(())
}
