//! Which messages of a chat vLLM takes: a union of OpenAI's typed messages and vLLM's own loose one.
//!
//! In: one item of `messages`. Out: the item with its tool calls in the key order in which templates see them, or what
//! is wrong. Deliberately absent: what a message means; `render` reads that.

use serde_json::{Map, Value};

use super::validate::{Place, Read, look_up};

/// The first alternative of the union: the one that errors name.
const FIRST: &str = "ChatCompletionDeveloperMessageParam";
/// How errors name a tool call of an assistant message.
const CALL: &str = "ChatCompletionMessageFunctionToolCallParam";

/// One message: an object that passed the union.
#[derive(Debug, Clone, PartialEq)]
pub struct Message(pub Map<String, Value>);

impl Message {
    /// A field, null counting as absent.
    pub fn get(&self, key: &str) -> Option<&Value> {
        look_up(&self.0, key).filter(|value| !value.is_null())
    }

    /// The role; never empty of meaning, since reading requires a string.
    pub fn role(&self) -> &str {
        look_up(&self.0, "role").and_then(Value::as_str).unwrap_or_default()
    }

    /// The content as one text: a string as it is, text parts on a line each; `None` where there is none.
    pub fn text(&self) -> Option<String> {
        match self.get("content")? {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => {
                let text = |part: &Value| part.as_str().or_else(|| part.get("text")?.as_str()).map(str::to_owned);
                Some(parts.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
            }
            _ => None,
        }
    }

    /// True where the content is a list that vLLM accepts at first and refuses as soon as it looks into it.
    pub fn has_refused_parts(&self) -> bool {
        if !is_typed_role(self.role()) {
            return false;
        }
        match look_up(&self.0, "content") {
            Some(Value::Object(_)) => true,
            Some(Value::Array(parts)) if !parts.is_empty() => {
                let loose = ["tool_call_id", "tool_calls", "reasoning", "tools", "task"];
                let typed = ["tool_call_id", "tool_calls", "refusal", "audio", "function_call"];
                let count = |keys: &[&str]| keys.iter().filter(|key| self.0.contains_key(**key)).count();
                let known: usize = parts.iter().map(known_fields).sum();
                parts.iter().any(|part| !part.is_string() && !part.is_object())
                    || known + count(&loose) <= count(&typed)
            }
            _ => false,
        }
    }
}

impl Read for Message {
    fn read(value: Value, place: &mut Place) -> Option<Self> {
        let Value::Object(mut map) = value else {
            return place.at(FIRST, |place| place.issue("dict_type", "Input should be a valid dictionary", &value));
        };
        if is_plain(&map) {
            return Some(Self(map));
        }
        rename_reasoning(&mut map);
        let typed = is_typed(&map);
        if !typed && !is_loose(&map) {
            return refuse(&map, place);
        }
        if let Some(calls) = map.get_mut("tool_calls") {
            read_calls(calls, place)?;
        }
        Some(Self(map))
    }
}

/// A role and a text, as nearly all messages are: every alternative that has such a role takes it.
fn is_plain(map: &Map<String, Value>) -> bool {
    map.len() == 2
        && map.iter().all(|(key, value)| match (key.as_str(), value) {
            ("role", Value::String(role)) => matches!(role.as_str(), "system" | "user" | "assistant"),
            ("content", Value::String(_)) => true,
            _ => false,
        })
}

/// The older `reasoning_content` becomes `reasoning`, unless that is there too.
fn rename_reasoning(map: &mut Map<String, Value>) {
    if look_up(map, "reasoning_content").is_none() {
        return;
    }
    if let Some(older) = map.shift_remove("reasoning_content")
        && !older.is_null()
        && look_up(map, "reasoning").is_none_or(Value::is_null)
    {
        map.insert("reasoning".to_owned(), older);
    }
}

fn is_typed_role(role: &str) -> bool {
    matches!(role, "developer" | "system" | "user" | "assistant" | "tool" | "function")
}

/// One of OpenAI's typed messages. Lists are not looked into yet.
fn is_typed(map: &Map<String, Value>) -> bool {
    let iterable = |value: &Value| value.is_string() || value.is_array() || value.is_object();
    let name_ok = look_up(map, "name").is_none_or(Value::is_string);
    let content = look_up(map, "content");
    match look_up(map, "role").and_then(Value::as_str) {
        Some("developer" | "system" | "user") => name_ok && content.is_some_and(iterable),
        Some("assistant") => {
            name_ok
                && content.is_none_or(|content| content.is_null() || iterable(content))
                && look_up(map, "tool_calls").is_none_or(iterable)
        }
        Some("tool") => content.is_some_and(iterable) && look_up(map, "tool_call_id").is_some_and(Value::is_string),
        Some("function") => {
            content.is_some_and(|content| content.is_null() || content.is_string())
                && look_up(map, "name").is_some_and(Value::is_string)
        }
        _ => false,
    }
}

/// vLLM's own message: any role, everything else optional.
fn is_loose(map: &Map<String, Value>) -> bool {
    let text = |key: &str| look_up(map, key).is_none_or(Value::is_string);
    let nullable_text = |key: &str| look_up(map, key).is_none_or(|value| value.is_null() || value.is_string());
    let content_ok = match look_up(map, "content") {
        None | Some(Value::String(_)) => true,
        Some(Value::Array(parts)) => parts.iter().all(|part| part.is_string() || part.is_object()),
        Some(_) => false,
    };
    let calls_ok = match look_up(map, "tool_calls") {
        None | Some(Value::Null) => true,
        Some(Value::Array(calls)) => calls.iter().all(|call| call_problem(call).is_none()),
        Some(_) => false,
    };
    look_up(map, "role").is_some_and(Value::is_string)
        && content_ok
        && calls_ok
        && text("name")
        && nullable_text("tool_call_id")
        && nullable_text("task")
        && look_up(map, "reasoning").is_none_or(|value| value.is_null() || value.is_string() || value.is_object())
        && look_up(map, "tools").is_none_or(|value| value.is_null() || value.is_array())
}

/// The error names the first alternative and the first of its fields that is wrong.
fn refuse(map: &Map<String, Value>, place: &mut Place) -> Option<Message> {
    let whole = Value::Object(map.clone());
    place.at(FIRST, |place| {
        match look_up(map, "content") {
            None => return place.at("content", |place| place.issue("missing", "Field required", &whole)),
            Some(content) if !(content.is_string() || content.is_array() || content.is_object()) => {
                return place
                    .at("content", |place| place.issue("string_type", "Input should be a valid string", content));
            }
            Some(_) => {}
        }
        place.at("role", |place| match look_up(map, "role") {
            None => place.issue("missing", "Field required", &whole),
            Some(role) => super::validate::not_literal(place, role, &["developer"]),
        })
    })
}

/// How many declared fields a content part sets, in the alternative that it fits best; 0 for one that fits none.
fn known_fields(part: &Value) -> usize {
    let Some(map) = part.as_object() else { return 0 };
    let text = |key: &str| map.get(key).is_some_and(Value::is_string);
    let uuid = usize::from(map.get("uuid").is_some_and(Value::is_string));
    let known = match map.get("type").and_then(Value::as_str) {
        Some("text") if text("text") => 2,
        Some("refusal") if text("refusal") => 2,
        Some("thinking") if text("thinking") => 2,
        Some("prompt_embeds") if text("data") => 2,
        Some("tool_reference") => 1 + usize::from(text("name")),
        Some("image_url" | "audio_url" | "video_url") => 2,
        Some("input_audio" | "file" | "image_embeds" | "audio_embeds" | "video_embeds") => 2,
        _ => ["image_url", "audio_url", "video_url", "image_pil"].iter().filter(|key| map.contains_key(**key)).count(),
    };
    known.max(uuid)
}

/// Checks the calls of an assistant message and puts their keys in the order in which templates see them.
fn read_calls(calls: &mut Value, place: &mut Place) -> Option<()> {
    let items = match calls {
        Value::Null => return Some(()),
        Value::Array(items) => items,
        other => {
            let mut outside = Place::new("body.0");
            let nothing =
                outside.at(CALL, |at| at.issue::<()>("dict_type", "Input should be a valid dictionary", other));
            return match outside.finish(nothing) {
                Err(error) => place.raise(error),
                Ok(()) => Some(()),
            };
        }
    };
    for (i, call) in items.iter_mut().enumerate() {
        if call.get("type").and_then(Value::as_str) == Some("custom") && call.get("custom").is_some() {
            continue;
        }
        if let Some((field, missing)) = call_problem(call) {
            // vLLM meets these only after the message was accepted, so the error does not name the message.
            let mut outside = Place::new(&format!("body.{i}.{CALL}{field}"));
            let nothing = if missing {
                outside.issue::<()>("missing", "Field required", call)
            } else {
                outside.issue::<()>("dict_type", "Input should be a valid dictionary", call)
            };
            return outside.finish(nothing).map_or_else(|error| place.raise(error), Some);
        }
        order_keys(call, &["id", "function", "type"]);
        if let Some(function) = call.get_mut("function") {
            order_keys(function, &["arguments", "name"]);
        }
    }
    Some(())
}

/// What keeps a value from being a function call: the end of the error's location, and whether a key is missing.
fn call_problem(call: &Value) -> Option<(&'static str, bool)> {
    let Some(map) = call.as_object() else { return Some(("", false)) };
    if !map.get("id").is_some_and(Value::is_string) {
        return Some((".id", !map.contains_key("id")));
    }
    let Some(function) = map.get("function").and_then(Value::as_object) else {
        return Some((".function", !map.contains_key("function")));
    };
    if !function.get("arguments").is_some_and(Value::is_string) || !function.get("name").is_some_and(Value::is_string) {
        return Some((".function", true));
    }
    match map.get("type").and_then(Value::as_str) {
        Some("function") => None,
        _ => Some((".type", !map.contains_key("type"))),
    }
}

/// Moves the named keys to the front, in this order.
fn order_keys(value: &mut Value, first: &[&str]) {
    let Some(map) = value.as_object_mut() else { return };
    if map.keys().zip(first).all(|(key, wanted)| key == wanted) {
        return;
    }
    let mut rest = std::mem::take(map);
    for key in first {
        if let Some((key, value)) = rest.shift_remove_entry(*key) {
            map.insert(key, value);
        }
    }
    map.extend(rest);
}
