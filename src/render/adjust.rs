//! What the configured parsers ask of a request before it is sampled: special tokens kept in the text, and the grammar
//! that makes required calls come in the syntax that the parser reads.
//!
//! In: the model's parser names and the request. Out: [`Adjusted`]. Which parser asks for what is vLLM 0.33's.

use serde_json::{Map, Value, json};

use super::tags::{self, BoundTool, Choice};
use crate::api::chat::{ChatRequest, Tool, ToolChoice};
use crate::api::error::ApiError;
use crate::api::python;
use crate::api::sampling::{ResponseFormat, StructuredOutputs, TextOrObject};
use crate::model::Model;

/// What changed. Fields that are `None` stay as the request has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Adjusted {
    /// False where a parser has to see special tokens.
    pub(super) skip_special_tokens: Option<bool>,
    /// A grammar in place of `structured_outputs` and `response_format`.
    pub(super) grammar: Option<StructuredOutputs>,
}

/// When a tool parser needs special tokens in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// Never: its markers are plain text.
    Skipped,
    /// Where the request may call tools.
    WithTools,
    /// Whenever it reads a reply.
    Kept,
}

/// How a tool parser gets its calls where they are required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    /// A structural tag of this syntax.
    Tag(&'static str),
    /// A JSON list of calls.
    Json,
    /// Mistral's JSON list, which names arguments differently.
    MistralJson,
    /// None: the model is trusted.
    Free,
    /// None: what cannot be promised without one is refused, or only calls that must come.
    Refused { forced_only: bool },
}

/// Facts of one tool parser.
struct ToolParser {
    specials: Specials,
    grammar: Grammar,
    /// Calls are bound to the tools' names even where they are neither required nor strict.
    always_bound: bool,
}

fn tool_parser(name: &str) -> ToolParser {
    use Grammar::{Free, Json, MistralJson, Refused, Tag};
    use Specials::{Kept, Skipped, WithTools};
    let (specials, grammar) = match name {
        "hermes" | "qwen3_json" => (WithTools, Tag("hermes")),
        "longcat" => (WithTools, Tag("longcat")),
        "deepseek_v3" => (Skipped, Tag("deepseek_r1")),
        "deepseek_v31" => (Skipped, Tag("deepseek_v3_1")),
        "deepseek_v32" => (Kept, Tag("deepseek_v3_2")),
        "deepseek_v4" => (Kept, Tag("deepseek_v4")),
        "deepseek_v41" => (Kept, Tag("deepseek_v4_1")),
        "glm45" | "glm47" | "ling3" => (Kept, Tag("glm_4_7")),
        "kimi_k2" => (WithTools, Tag("kimi")),
        "llama3_json" | "llama4_json" => (Skipped, Tag("llama")),
        "mimo" => (Kept, Tag("mimo")),
        "minimax_m2" => (Kept, Tag("minimax")),
        "openai" => (Skipped, Tag("harmony")),
        "plamo3" => (Kept, Tag("plamo3")),
        "qwen3_coder" | "qwen3_xml" | "step3p5" | "step5" => (Kept, Tag("qwen_3_coder")),
        "mistral" => (WithTools, MistralJson),
        "granite" | "seed_oss" => (Kept, Json),
        "gemma4" | "inkling" => (Kept, Free),
        "poolside_v1" => (WithTools, Free),
        "hf" | "beam" => (Kept, Refused { forced_only: name == "beam" }),
        "dots" | "hy_v4" | "k2_horizon" | "kimi_k3" | "minimax_m3" | "muse" | "muse_glimmer" | "musespark1x" => {
            (Skipped, Free)
        }
        "apertus" | "functiongemma" | "gigachat3" | "granite4" | "internlm" | "jamba" | "lfm2" | "minicpm5"
        | "step3" => (WithTools, Json),
        _ => (Skipped, Json),
    };
    ToolParser { specials, grammar, always_bound: matches!(name, "glm45" | "glm47") }
}

/// Reasoning parsers that have to see special tokens.
fn reasoning_keeps_specials(name: &str) -> bool {
    matches!(
        name,
        "deepseek_v4"
            | "deepseek_v41"
            | "beam"
            | "gemma4"
            | "glm45"
            | "glm47"
            | "ling3"
            | "granite_thinking_parser"
            | "hf"
            | "kimi_k2"
            | "kimi_k3"
            | "mimo"
            | "minicpmv"
            | "minimax_m2"
            | "mistral"
            | "nemotron_v3"
            | "plamo3"
            | "muse"
            | "muse_glimmer"
            | "musespark1x"
            | "qwen3"
            | "seed_oss"
            | "step3p5"
            | "inkling"
    )
}

/// Applies the parsers.
pub(super) fn apply(model: &Model, request: &ChatRequest) -> Result<Adjusted, ApiError> {
    let options = model.options();
    let reasoning = options.reasoning_parser.as_deref();
    let tools = options.tool_parser.as_deref().filter(|_| options.enable_auto_tool_choice);
    let mut adjusted = Adjusted::default();
    let harmony = super::is_harmony(model);
    let read = harmony || reasoning.is_some() || request.tool_choice != Some(ToolChoice::None);
    if !read || (reasoning.is_none() && tools.is_none()) {
        return Ok(adjusted);
    }
    if reasoning.is_some_and(reasoning_keeps_specials) {
        adjusted.skip_special_tokens = Some(false);
    }
    if [reasoning, tools].iter().flatten().any(|name| name.starts_with("cohere_command")) {
        adjusted.skip_special_tokens = Some(false);
        check_cohere(model, request)?;
    }
    let mut grammar = given_grammar(request);
    if harmony && let Some(format) = grammar.as_ref().and_then(as_format) {
        let grammar_out = with_tag(tags::harmony_final(format));
        grammar = Some(grammar_out.clone());
        adjusted.grammar = Some(grammar_out);
    }
    let Some(name) = tools else { return Ok(adjusted) };
    let parser = tool_parser(name);
    let may_call = request.tools.is_some() && request.tool_choice != Some(ToolChoice::None);
    let keeps = match parser.specials {
        Specials::Kept => true,
        Specials::WithTools => may_call,
        Specials::Skipped => false,
    };
    if keeps {
        adjusted.skip_special_tokens = Some(false);
    }
    if may_call && let Some(found) = calls_grammar(&parser, request, grammar.as_ref())? {
        adjusted.grammar = Some(found);
    }
    Ok(adjusted)
}

fn calls_grammar(
    parser: &ToolParser,
    request: &ChatRequest,
    given: Option<&StructuredOutputs>,
) -> Result<Option<StructuredOutputs>, ApiError> {
    let tools = request.tools.as_deref().unwrap_or_default();
    match (parser.grammar, &request.tool_choice) {
        (Grammar::Refused { forced_only: true }, choice) => check_forced(choice.as_ref(), tools).map(|()| None),
        (Grammar::Refused { .. }, _) => check_guarantees(request, tools).map(|()| None),
        (Grammar::Tag(syntax), Some(choice)) => Ok(tag_grammar(syntax, parser, request, choice, tools, given)),
        (Grammar::Json, choice) => {
            let has_tag = request.structured_outputs.as_ref().is_some_and(|given| given.structural_tag.is_some());
            if has_tag { Ok(None) } else { json_grammar(tools, choice.as_ref(), request.parallel_tool_calls) }
        }
        (Grammar::MistralJson, Some(choice)) => Ok(mistral_grammar(request, choice, tools)),
        _ => Ok(None),
    }
}

/// Refuses calls that must come.
fn check_forced(choice: Option<&ToolChoice>, tools: &[Tool]) -> Result<(), ApiError> {
    let kind = match choice {
        Some(ToolChoice::Required) if !tools.is_empty() => "required",
        Some(ToolChoice::Named(_)) if !tools.is_empty() => "named",
        _ => return Ok(()),
    };
    Err(no_guarantee("tool_choice", &format!("{kind} tool choice for this request")))
}

/// Refuses whatever cannot be promised of the calls without a grammar.
fn check_guarantees(request: &ChatRequest, tools: &[Tool]) -> Result<(), ApiError> {
    let (param, what) = match &request.tool_choice {
        _ if tools.is_empty() => return Ok(()),
        _ if tools.iter().any(|tool| tool.function.strict == Some(true)) => ("tools", "strict tools"),
        Some(ToolChoice::Required) => ("tool_choice", "required tool choice"),
        Some(ToolChoice::Named(_)) => ("tool_choice", "named tool choice"),
        _ if request.parallel_tool_calls == Some(false) => ("parallel_tool_calls", "parallel_tool_calls=False"),
        _ => return Ok(()),
    };
    Err(no_guarantee(param, &format!("{what} without a format-compatible structural grammar")))
}

fn no_guarantee(param: &str, what: &str) -> ApiError {
    let message = format!("response_template parsing cannot guarantee {what} (parameter={param})");
    ApiError::bad_param(param, message)
}

/// The structural tag, where calls must come, or may come and are bound to something.
fn tag_grammar(
    syntax: &str,
    parser: &ToolParser,
    request: &ChatRequest,
    choice: &ToolChoice,
    tools: &[Tool],
    given: Option<&StructuredOutputs>,
) -> Option<StructuredOutputs> {
    let auto = *choice == ToolChoice::Auto;
    let single = request.parallel_tool_calls == Some(false);
    let strict = |tool: &Tool| tool.function.strict == Some(true);
    let bound = parser.always_bound || (single && !(auto && given.is_some()));
    if auto && !bound && !tools.iter().any(strict) {
        return None;
    }
    let bind = |tool| BoundTool { tool, strict: strict(tool) };
    let (tools, how): (Vec<BoundTool<'_>>, Choice) = match choice {
        ToolChoice::None => return None,
        ToolChoice::Auto => (tools.iter().map(bind).collect(), Choice::Auto),
        ToolChoice::Required => (tools.iter().map(bind).collect(), Choice::Required),
        ToolChoice::Named(name) => {
            (tools.iter().filter(|tool| tool.function.name == *name).map(bind).collect(), Choice::Forced)
        }
    };
    // With a grammar of its own the reply is either that or calls, and never plain text.
    let other = if auto { given.and_then(as_format) } else { None };
    let how = if other.is_some() { Choice::Required } else { how };
    let mut format = tags::format(syntax, &tools, how)?;
    if single {
        tags::limit_to_one(&mut format);
    }
    let format = match other {
        Some(other) => json!({"type": "or", "elements": [format, other]}),
        None => format,
    };
    Some(with_tag(format))
}

fn with_tag(format: Value) -> StructuredOutputs {
    StructuredOutputs { structural_tag: Some(tags::structural_tag(format)), ..StructuredOutputs::none() }
}

fn with_json(schema: Value) -> StructuredOutputs {
    StructuredOutputs { json: Some(TextOrObject(schema)), ..StructuredOutputs::none() }
}

/// The grammar that the request itself asks for, in one form.
fn given_grammar(request: &ChatRequest) -> Option<StructuredOutputs> {
    let given = request.structured_outputs.clone();
    let mut target = given.clone().unwrap_or_else(StructuredOutputs::none);
    match request.response_format.as_ref() {
        None | Some(ResponseFormat::Text) => return given,
        Some(ResponseFormat::JsonObject) => target.json_object = Some(true),
        Some(ResponseFormat::JsonSchema { schema }) => {
            target.json = schema.clone().map(|schema| TextOrObject(Value::Object(schema)));
        }
        Some(ResponseFormat::StructuralTag(tag)) => {
            target.structural_tag = Some(python::dumps(&Value::Object(tag.clone())));
        }
    }
    Some(target)
}

/// A grammar as a format inside a structural tag.
fn as_format(given: &StructuredOutputs) -> Option<Value> {
    if given.json_object == Some(true) {
        return Some(tags::schema(json!({"type": "object"}), "json"));
    }
    if let Some(TextOrObject(schema)) = &given.json {
        let parsed = schema.as_str().and_then(|text| serde_json::from_str(text).ok());
        return Some(tags::schema(parsed.unwrap_or_else(|| schema.clone()), "json"));
    }
    if let Some(pattern) = &given.regex {
        return Some(tags::regex(pattern));
    }
    if let Some(choices) = &given.choice {
        let constants: Vec<Value> = choices.iter().map(|choice| tags::constant_text(choice)).collect();
        return Some(json!({"type": "or", "elements": constants}));
    }
    if let Some(grammar) = &given.grammar {
        return Some(json!({"type": "grammar", "grammar": grammar}));
    }
    let tag: Value = serde_json::from_str(given.structural_tag.as_deref()?).ok()?;
    match tag.get("format") {
        Some(format) => Some(format.clone()),
        None => legacy_format(&tag),
    }
}

/// The older form of structural tags: triggers and, for each, a schema between two texts.
fn legacy_format(tag: &Value) -> Option<Value> {
    let triggers: Vec<&str> = tag.get("triggers")?.as_array()?.iter().filter_map(Value::as_str).collect();
    let item = |structure: &Value| {
        let part = |key: &str| structure.get(key).cloned().unwrap_or_default();
        json!({"type": "tag", "begin": part("begin"), "content": tags::schema(part("schema"), "json"), "end": part("end")})
    };
    let items = tag.get("structures")?.as_array()?.iter().map(item).collect();
    Some(tags::triggered(&triggers, items, &[], false))
}

fn parameters_or_empty(tool: &Tool) -> Value {
    match &tool.function.parameters {
        Some(parameters) if !parameters.is_empty() => Value::Object(parameters.clone()),
        _ => json!({"type": "object", "properties": {}}),
    }
}

/// A JSON list of calls, or one tool's arguments.
fn json_grammar(
    tools: &[Tool],
    choice: Option<&ToolChoice>,
    parallel: Option<bool>,
) -> Result<Option<StructuredOutputs>, ApiError> {
    match choice {
        Some(ToolChoice::Named(name)) => {
            Ok(tools.iter().find(|tool| tool.function.name == *name).map(|tool| with_json(parameters_or_empty(tool))))
        }
        Some(ToolChoice::Required) => list_grammar(tools, parallel).map(Some),
        _ => Ok(None),
    }
}

fn list_grammar(tools: &[Tool], parallel: Option<bool>) -> Result<StructuredOutputs, ApiError> {
    let mut definitions = Map::new();
    let mut items = Vec::with_capacity(tools.len());
    for tool in tools {
        let mut parameters = parameters_or_empty(tool);
        if let Some(own) = parameters.as_object_mut().and_then(|map| map.shift_remove("$defs")) {
            collect_definitions(&mut definitions, own, &tool.function.name)?;
        }
        items.push(json!({
            "properties": {"name": {"type": "string", "enum": [tool.function.name]}, "parameters": parameters},
            "required": ["name", "parameters"],
        }));
    }
    let mut schema = json!({"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": items}});
    if let Some(map) = schema.as_object_mut() {
        if parallel == Some(false) {
            map.insert("maxItems".to_owned(), Value::from(1));
        }
        if !definitions.is_empty() {
            map.insert("$defs".to_owned(), Value::Object(definitions));
        }
    }
    Ok(with_json(schema))
}

/// Definitions of all tools stand together, so one name may have one meaning only.
fn collect_definitions(all: &mut Map<String, Value>, own: Value, tool: &str) -> Result<(), ApiError> {
    let refuse = |message: String| crate::api::validate::bad_param("tools", &message);
    let Value::Object(own) = own else {
        return Err(refuse(format!("`$defs` in the parameters of tool '{tool}' must be an object.")));
    };
    for (name, schema) in own {
        if all.get(&name).is_some_and(|known| *known != schema) {
            return Err(refuse(format!("Tool definition '{name}' has multiple schemas, which is not supported.")));
        }
        all.insert(name, schema);
    }
    Ok(())
}

/// Mistral's list of calls: only where the request has no grammar of its own that could not give way.
fn mistral_grammar(request: &ChatRequest, choice: &ToolChoice, tools: &[Tool]) -> Option<StructuredOutputs> {
    let own_tag = matches!(request.response_format, Some(ResponseFormat::StructuralTag(_)));
    if request.structured_outputs.is_some() || own_tag {
        return None;
    }
    let (tools, single): (Vec<&Tool>, bool) = match choice {
        ToolChoice::Required => (tools.iter().collect(), request.parallel_tool_calls == Some(false)),
        ToolChoice::Named(name) => (tools.iter().filter(|tool| tool.function.name == *name).collect(), true),
        ToolChoice::None | ToolChoice::Auto => return None,
    };
    let item = |tool: &&Tool| {
        let arguments = match &tool.function.parameters {
            Some(parameters) if !parameters.is_empty() => Value::Object(parameters.clone()),
            _ => json!({"type": "object"}),
        };
        json!({
            "type": "object",
            "properties": {"name": {"type": "string", "enum": [tool.function.name]}, "arguments": arguments},
            "required": ["name", "arguments"],
        })
    };
    let items: Vec<Value> = tools.iter().map(item).collect();
    let mut schema = json!({"type": "array", "minItems": 1, "items": {"type": "object", "anyOf": items}});
    if let Some(map) = schema.as_object_mut().filter(|_| single) {
        map.insert("maxItems".to_owned(), Value::from(1));
    }
    Some(with_json(schema))
}

/// Cohere's grammars exist for its own architectures only; elsewhere vLLM refuses schemas and tools.
fn check_cohere(model: &Model, request: &ChatRequest) -> Result<(), ApiError> {
    let structural = request.structured_outputs.as_ref().is_some_and(|given| given.structural_tag.is_some())
        || matches!(request.response_format, Some(ResponseFormat::StructuralTag(_)));
    let schema = matches!(
        request.response_format,
        Some(ResponseFormat::JsonObject | ResponseFormat::JsonSchema { schema: Some(_) })
    ) || request
        .structured_outputs
        .as_ref()
        .is_some_and(|given| given.json_object == Some(true) || given.json.is_some());
    if structural || !(schema || request.tools.is_some()) {
        return Ok(());
    }
    let architecture = model.config().architecture.as_deref().unwrap_or_default();
    if matches!(architecture, "Cohere2ForCausalLM" | "Cohere2VisionForConditionalGeneration" | "Cohere2MoeForCausalLM")
    {
        // vLLM would send a grammar here that only Cohere's own library can write: the model is trusted instead.
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "Failed to build structural_tag guided decoding constraints from this request's JSON schema and/or tools. \
         The configured model architecture ('{architecture}') does not support Cohere command structural tags, or \
         the schema cannot be expressed in that format."
    )))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// The parameter that is refused, as vLLM's own answers have it.
    fn refused(parser: &str, extra: Value) -> Option<String> {
        let tool = |strict: bool| json!({"type": "function", "function": {"name": "f", "strict": strict, "parameters": {"type": "object"}}});
        let mut body =
            json!({"messages": [{"role": "user", "content": "hi"}], "tools": [tool(extra["strict"] == true)]});
        let members = extra.as_object().unwrap().clone().into_iter().filter(|(key, _)| key != "strict");
        body.as_object_mut().unwrap().extend(members);
        let request = ChatRequest::parse(&Bytes::from(body.to_string())).unwrap();
        let error = calls_grammar(&tool_parser(parser), &request, None).err()?;
        error.body.to_json()["error"]["param"].as_str().map(str::to_owned)
    }

    #[test]
    fn without_a_grammar_nothing_is_promised_of_the_calls() {
        for (extra, hf, beam) in [
            (json!({}), None, None),
            (json!({"strict": true}), Some("tools"), None),
            (json!({"parallel_tool_calls": false}), Some("parallel_tool_calls"), None),
            (json!({"tool_choice": "required"}), Some("tool_choice"), Some("tool_choice")),
            (
                json!({"tool_choice": {"type": "function", "function": {"name": "f"}}}),
                Some("tool_choice"),
                Some("tool_choice"),
            ),
            (json!({"tool_choice": "required", "strict": true}), Some("tools"), Some("tool_choice")),
        ] {
            assert_eq!(refused("hf", extra.clone()).as_deref(), hf, "hf {extra}");
            assert_eq!(refused("beam", extra.clone()).as_deref(), beam, "beam {extra}");
        }
    }
}
