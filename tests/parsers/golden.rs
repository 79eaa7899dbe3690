//! Recorded cases, and the notation in which their chunks are written.

use std::path::Path;

use couplet::parsers::{Context, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// The cases of one file that one parser reads alone: chat, one choice, plain finish.
pub(crate) fn load(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Replaces `"@name"` by the shared definition.
pub(crate) fn expand(value: &Value, defs: &Value) -> Value {
    match value {
        Value::String(name) => defs.get(name).unwrap_or(value).clone(),
        Value::Array(items) => items.iter().map(|item| expand(item, defs)).collect(),
        Value::Object(members) => members.iter().map(|(key, item)| (key.clone(), expand(item, defs))).collect(),
        _ => value.clone(),
    }
}

/// The request's facts as the derenderer would state them.
pub(crate) fn context(request: &Value, prompt: &[u32]) -> Context {
    let tools: Vec<_> = request["tools"].as_array().into_iter().flatten().map(tool).collect();
    Context {
        tool_choice: choice(request.get("tool_choice"), !tools.is_empty()),
        tools,
        parallel_tool_calls: request["parallel_tool_calls"] != json!(false),
        chat_template_kwargs: kwargs(request),
        reasoning_effort: request["reasoning_effort"].as_str().map(str::to_owned),
        prompt_token_ids: prompt.to_vec(),
        history_tool_calls: history(&request["messages"]),
        id_seed: 7,
    }
}

fn tool(tool: &Value) -> Tool {
    let function = &tool["function"];
    Tool { name: function["name"].as_str().unwrap().to_owned(), parameters: function["parameters"].clone() }
}

fn choice(choice: Option<&Value>, tools: bool) -> ToolChoice {
    match choice {
        None if tools => ToolChoice::Auto,
        None => ToolChoice::None,
        Some(Value::Null) => ToolChoice::Null,
        Some(Value::String(word)) if word == "none" => ToolChoice::None,
        Some(Value::String(word)) if word == "required" => ToolChoice::Required,
        Some(Value::String(_)) => ToolChoice::Auto,
        Some(named) => ToolChoice::Named(named["function"]["name"].as_str().unwrap().to_owned()),
    }
}

/// `reasoning_effort` is a template argument, too.
fn kwargs(request: &Value) -> Map<String, Value> {
    let mut kwargs = Map::new();
    if let Some(effort) = request["reasoning_effort"].as_str() {
        kwargs.insert("reasoning_effort".to_owned(), json!(effort));
    }
    kwargs.extend(request["chat_template_kwargs"].as_object().cloned().unwrap_or_default());
    kwargs
}

fn history(messages: &Value) -> usize {
    let messages = messages.as_array().into_iter().flatten();
    messages.map(|message| message["tool_calls"].as_array().map_or(0, Vec::len)).sum()
}

/// Drops what is null or an empty list of calls, and shortens random ids to their shape.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(key, value)| !(value.is_null() || *key == "tool_calls" && **value == json!([])));
            kept.map(|(key, value)| (key.clone(), if key == "id" { json!(id_shape(value)) } else { normal(value) }))
                .collect()
        }
        Value::Array(items) => items.iter().map(normal).collect(),
        _ => value.clone(),
    }
}

fn id_shape(id: &Value) -> String {
    let id = id.as_str().unwrap_or_default();
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if let Some(digits) = id.strip_prefix("chatcmpl-tool-").filter(|digits| hex(digits)) {
        return format!("~chatcmpl-tool-hex:{}", digits.len());
    }
    if let Some(rest) = id.strip_prefix("call_") {
        match rest.split_once('_') {
            Some((n, digits)) if hex(digits) && n.bytes().all(|b| b.is_ascii_digit()) => {
                return format!("~call_N_hex{n}:{}", digits.len());
            }
            None if hex(rest) => return format!("~call_hex:{}", rest.len()),
            _ => {}
        }
    }
    let alnum = id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if alnum { "~alnum:9".to_owned() } else { id.to_owned() }
}

/// The one choice of a chunk, written in full.
pub(crate) fn unfold(chunk: &Value) -> Value {
    match chunk {
        Value::String(text) => json!({"delta": {"content": text}}),
        Value::Number(_) => json!({"delta": {}}),
        Value::Object(members) => {
            if let Some(choices) = members.get("choices") {
                return choices[0].clone();
            }
            if let Some(text) = members.get("r") {
                return json!({"delta": {"reasoning": text}});
            }
            if let Some(a) = members.get("a") {
                return json!({"delta": {"tool_calls": [{"index": a[0], "function": {"arguments": a[1]}}]}});
            }
            chunk.clone()
        }
        _ => chunk.clone(),
    }
}
