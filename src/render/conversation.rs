//! Messages as chat templates see them: vLLM's normalisation of content, tool calls, reasoning and roles.

use serde_json::Value as Json;

use crate::api::error::ApiError;
use crate::api::messages::Message;
use crate::api::python;
use crate::api::validate::{bad_param, bad_value};
use crate::model::Model;
use crate::model::template::Dict;
use crate::model::template::value::{from_json, from_map};

/// Part types that carry media. None of them can be rendered here.
const MEDIA: [&str; 12] = [
    "audio_embeds",
    "audio_url",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "input_image",
    "prompt_embeds",
    "video_embeds",
    "video_url",
    "file",
    "video",
];
/// Keys of content parts that vLLM knows; all others go on to templates that want parts.
const KNOWN_PART_KEYS: [&str; 18] = [
    "audio_embeds",
    "audio_url",
    "closed",
    "data",
    "file",
    "image_embeds",
    "image_pil",
    "image_url",
    "input_audio",
    "name",
    "refusal",
    "text",
    "thinking",
    "type",
    "uuid",
    "video_embeds",
    "video_url",
    "prompt_cache_breakpoint",
];
/// A line that one client adds to system prompts, different in every request; vLLM drops it.
const BILLING_HEADER: &str = "x-anthropic-billing-header";
/// vLLM's list of part types, for the error about an unknown one.
const SUPPORTED: &str = "audio_embeds, audio_url, image_embeds, image_pil, image_url, input_audio, input_image, \
                         input_text, output_text, prompt_embeds, refusal, text, thinking, tool_reference, \
                         video_embeds, video_url";

/// The conversation that a template renders.
pub(super) fn build(model: &Model, messages: &[Message], wants_parts: bool) -> Result<Vec<Dict>, ApiError> {
    messages.iter().map(|message| one(model, message, wants_parts)).collect()
}

fn one(model: &Model, message: &Message, wants_parts: bool) -> Result<Dict, ApiError> {
    if message.has_refused_parts() {
        return Err(ApiError::bad_request(
            "1 validation error for ValidatorIterator\nmessages hold a content part that is neither text nor media",
        ));
    }
    let role = message.role();
    let mut out = Dict::with_capacity(6);
    out.push("role", role);
    out.push("content", content(model, role, message.get("content"), wants_parts)?);
    match role {
        "assistant" => {
            if let Some(calls) = message.get("tool_calls") {
                add_tool_calls(&mut out, calls)?;
            }
            if let Some(reasoning) = message.get("reasoning") {
                out.push("reasoning", from_json(reasoning));
                out.push("reasoning_content", from_json(reasoning));
            }
        }
        "tool" => {
            if let Some(id) = message.0.get("tool_call_id") {
                out.push("tool_call_id", from_json(id));
            }
        }
        _ => {}
    }
    for key in ["name", "task"] {
        if let Some(text) = message.get(key).and_then(Json::as_str) {
            out.push(key, text);
        }
    }
    if role == "developer" {
        out.push("tools", message.get("tools").map_or(minijinja::Value::from(()), from_json));
    }
    Ok(out)
}

/// A piece of content.
enum Piece {
    Text(String),
    Part(Dict),
}

fn content(model: &Model, role: &str, content: Option<&Json>, wants_parts: bool) -> Result<minijinja::Value, ApiError> {
    // Most content is one text that a template wants as it is.
    if let (Some(Json::String(text)), false) = (content, wants_parts) {
        let text = if role == "system" { without_billing_header(text) } else { Some(text.as_str()) };
        return Ok(minijinja::Value::from(text.unwrap_or_default()));
    }
    let mut pieces = Vec::new();
    match content {
        Some(Json::String(text)) => pieces.extend(text_piece(role, text, None, wants_parts)),
        Some(Json::Array(parts)) => {
            for part in parts {
                pieces.extend(piece(model, role, part, wants_parts)?);
            }
        }
        _ => {}
    }
    if !wants_parts || role == "tool" && pieces.iter().all(is_text) {
        return Ok(minijinja::Value::from(joined(pieces, wants_parts)));
    }
    let parts: Vec<minijinja::Value> = pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => minijinja::Value::from(text),
            Piece::Part(part) => part.into_value(),
        })
        .collect();
    Ok(minijinja::Value::from(parts))
}

fn is_text(piece: &Piece) -> bool {
    match piece {
        Piece::Text(_) => true,
        Piece::Part(part) => part.get("type").and_then(|kind| kind.as_str()) == Some("text"),
    }
}

/// Texts joined by newlines. Where text is wanted, empty ones were dropped already; a tool's parts keep them.
fn joined(pieces: Vec<Piece>, _wants_parts: bool) -> String {
    let texts: Vec<String> = pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Part(part) => part.get("text").and_then(|text| text.as_str()).map(str::to_owned).unwrap_or_default(),
        })
        .collect();
    texts.join("\n")
}

fn text_piece(role: &str, text: &str, part: Option<&Json>, wants_parts: bool) -> Option<Piece> {
    let text = if role == "system" && is_plain_text(part) { without_billing_header(text)? } else { text };
    if !wants_parts {
        return (!text.is_empty()).then(|| Piece::Text(text.to_owned()));
    }
    let mut out = Dict::with_capacity(2);
    out.push("type", "text");
    out.push("text", text);
    for (key, value) in part.and_then(Json::as_object).into_iter().flatten() {
        if !KNOWN_PART_KEYS.contains(&key.as_str()) {
            out.push(key, from_json(value));
        }
    }
    Some(Piece::Part(out))
}

fn is_plain_text(part: Option<&Json>) -> bool {
    part.is_none_or(|part| part.is_string() || part.get("type").and_then(Json::as_str) == Some("text"))
}

fn without_billing_header(text: &str) -> Option<&str> {
    if !text.starts_with(BILLING_HEADER) {
        return Some(text);
    }
    text.split_once('\n').map(|(_, rest)| rest).filter(|rest| !rest.is_empty())
}

fn piece(model: &Model, role: &str, part: &Json, wants_parts: bool) -> Result<Option<Piece>, ApiError> {
    let object = match part {
        Json::String(text) => return Ok(text_piece(role, text, Some(part), wants_parts)),
        Json::Object(object) => object,
        _ => return Err(bad_param("type", "Invalid 'type' field in multimodal part.")),
    };
    let has_uuid = object.get("uuid").is_some_and(|uuid| !uuid.is_null());
    let kind = match object.get("type") {
        None | Some(Json::Null) => None,
        Some(Json::String(kind)) => Some(kind.as_str()),
        Some(_) => return Err(bad_param("type", "Invalid 'type' field in multimodal part.")),
    };
    let key = match kind.filter(|_| !has_uuid) {
        Some("text" | "input_text" | "output_text") => "text",
        Some("refusal") => "refusal",
        Some("thinking") => "thinking",
        Some("tool_reference") => return Ok(tool_reference(object.get("name"), wants_parts)),
        kind => return Err(refuse_part(model, kind, object)),
    };
    match object.get(key) {
        Some(Json::String(text)) => Ok(text_piece(role, text, Some(part), wants_parts)),
        None | Some(Json::Null) => Ok(None),
        Some(other) => Err(bad_value(
            "type",
            &python::str(other),
            &format!("a content part of type {} needs a text", python::str_repr(kind.unwrap_or_default())),
        )),
    }
}

fn tool_reference(name: Option<&Json>, wants_parts: bool) -> Option<Piece> {
    let name = name.and_then(Json::as_str).unwrap_or_default();
    if !wants_parts {
        return (!name.is_empty()).then(|| Piece::Text(name.to_owned()));
    }
    let mut out = Dict::with_capacity(2);
    out.push("type", "tool_reference");
    out.push("name", name);
    Some(Piece::Part(out))
}

fn refuse_part(model: &Model, kind: Option<&str>, object: &serde_json::Map<String, Json>) -> ApiError {
    let media = kind.is_some_and(|kind| MEDIA.contains(&kind)) || MEDIA.iter().any(|key| object.contains_key(*key));
    if media {
        let name = model.names().first().map(String::as_str).unwrap_or_default();
        return ApiError::bad_request(format!("{name} is not a multimodal model"));
    }
    match kind {
        None => bad_param("type", "Missing 'type' field in multimodal part."),
        Some(kind) => bad_value(
            "type",
            kind,
            &format!("Unsupported chat content part type: {}. Supported types: {SUPPORTED}.", python::str_repr(kind)),
        ),
    }
}

/// Tool calls with their arguments as objects: templates want mappings. What is no object becomes an empty one.
fn add_tool_calls(out: &mut Dict, calls: &Json) -> Result<(), ApiError> {
    let Some(calls) = calls.as_array().filter(|calls| !calls.is_empty()) else { return Ok(()) };
    let mut values = Vec::with_capacity(calls.len());
    for call in calls {
        let Some(map) = call.as_object() else {
            return Err(bad_param("tool_calls", "assistant tool_calls entries must be objects."));
        };
        let is_function = map.get("type").is_none_or(|kind| kind.as_str() == Some("function"));
        let Some(function) = map.get("function").and_then(Json::as_object).filter(|_| is_function) else {
            return Err(bad_param(
                "tool_calls",
                "chat completions only support assistant tool_calls of type 'function'.",
            ));
        };
        let mut function_out = Dict::with_capacity(function.len());
        for (key, value) in function {
            if key == "arguments" {
                function_out.push(key, arguments(value));
            } else {
                function_out.push(key, from_json(value));
            }
        }
        if !function.contains_key("arguments") {
            function_out.push("arguments", Dict::default().into_value());
        }
        let mut call_out = Dict::with_capacity(map.len());
        let function_value = function_out.into_value();
        for (key, value) in map {
            call_out.push(key, if key == "function" { function_value.clone() } else { from_json(value) });
        }
        values.push(call_out.into_value());
    }
    out.push("tool_calls", values);
    Ok(())
}

fn arguments(given: &Json) -> minijinja::Value {
    let parsed;
    let object = match given {
        Json::Object(object) => object,
        Json::String(text) => {
            parsed = serde_json::from_str::<Json>(text).unwrap_or_default();
            match &parsed {
                Json::Object(object) => object,
                _ => return Dict::default().into_value(),
            }
        }
        _ => return Dict::default().into_value(),
    };
    from_map(object).into_value()
}

/// For templates that do not know developers: they become systems, and all systems become one at the front.
pub(super) fn fold_developer(conversation: &mut Vec<Dict>) {
    let role = |message: &Dict| message.get("role").and_then(|role| role.as_str().map(str::to_owned));
    if !conversation.iter().any(|message| role(message).as_deref() == Some("developer")) {
        return;
    }
    let mut systems = Vec::new();
    let mut others = Vec::new();
    let mut must_merge = false;
    for (i, message) in conversation.iter().enumerate() {
        match role(message).as_deref() {
            Some("developer" | "system") => {
                must_merge |= i > 0 || !systems.is_empty();
                systems.push(message.clone());
            }
            _ => others.push(message.clone()),
        }
    }
    if !must_merge {
        if let Some(first) = conversation.first_mut() {
            first.set("role", "system");
            first.remove("tools");
        }
        return;
    }
    let texts: Vec<String> = systems.iter().map(text_of).filter(|text| !text.is_empty()).collect();
    let mut merged = Dict::with_capacity(2);
    merged.push("role", "system");
    merged.push("content", texts.join("\n\n"));
    *conversation = std::iter::once(merged).chain(others).collect();
}

fn text_of(message: &Dict) -> String {
    let Some(content) = message.get("content") else { return String::new() };
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.try_iter().into_iter().flatten();
    let texts: Vec<String> = parts
        .filter_map(|part| {
            let text = part.get_attr("text").ok().filter(|text| !text.is_undefined());
            text.unwrap_or(part).as_str().map(str::to_owned)
        })
        .collect();
    texts.join("\n")
}

/// Tool calls of the assistant so far.
pub(super) fn count_tool_calls(messages: &[Message]) -> usize {
    let of = |message: &Message| match message.get("tool_calls") {
        Some(Json::Array(calls)) => calls.len(),
        Some(_) => 1,
        None => 0,
    };
    messages.iter().filter(|message| message.role() == "assistant").map(of).sum()
}
