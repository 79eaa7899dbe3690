//! What counts as equal: null is absent, random ids are reduced to their shape, errors agree in status, type and code.

#![allow(unreachable_pub, reason = "a module of test drivers")]

use serde_json::{Map, Value, json};

/// The documented fields of `stream_state`.
const STATE_FIELDS: [&str; 10] = [
    "prev_tokens",
    "prefix_offset",
    "read_offset",
    "role_sent",
    "logprob_context_token_ids",
    "logprob_text_offset",
    "output_token_ids",
    "output_chunk_lens",
    "tools_streamed",
    "last_tool_call_ids",
];

/// A one-shot answer.
pub fn once_result(status: u16, mut answer: Value) -> Value {
    if status != 200 {
        return error_of(status, &answer);
    }
    let choices: Vec<Value> =
        answer["choices"].as_array_mut().unwrap().iter_mut().map(|c| norm_choice(c.take())).collect();
    let mut out = json!({"status": 200, "choices": choices});
    if is_truthy(&answer["usage"]) {
        out["usage"] = prune(&answer["usage"]);
    }
    for key in ["prompt_token_ids", "prompt_logprobs", "kv_transfer_params"] {
        if !answer[key].is_null() {
            out[key] = answer[key].take();
        }
    }
    out
}

/// An error.
pub fn error_of(status: u16, answer: &Value) -> Value {
    let mut out = json!({"status": status});
    if let Some(error) = answer.get("error").filter(|error| error.is_object()) {
        let fields = ["message", "type", "param", "code"].map(|key| (key.to_owned(), error[key].clone()));
        out["error"] = prune(&Value::Object(Map::from_iter(fields)));
    }
    out
}

/// The short form of a streamed chunk.
pub fn compact_chunk(mut chunk: Value) -> Value {
    let choices: Vec<Value> =
        chunk["choices"].as_array_mut().unwrap().iter_mut().map(|c| norm_choice(c.take())).collect();
    let usage = prune(&chunk["usage"]);
    let prompt = chunk["prompt_token_ids"].take();
    if is_truthy(&usage) || !prompt.is_null() || choices.len() != 1 {
        let mut out = json!({"choices": choices});
        if is_truthy(&usage) {
            out["usage"] = usage;
        }
        if !prompt.is_null() {
            out["prompt_token_ids"] = prompt;
        }
        return out;
    }
    short_choice(&choices[0]).unwrap_or_else(|| json!({"choices": choices}))
}

fn short_choice(choice: &Value) -> Option<Value> {
    if keys(choice) == ["text"] {
        return Some(json!({"t": choice["text"]}));
    }
    if keys(choice) != ["delta"] {
        return None;
    }
    let delta = &choice["delta"];
    match keys(delta).as_slice() {
        [] => Some(json!(0)),
        ["content"] => Some(delta["content"].clone()),
        ["reasoning"] => Some(json!({"r": delta["reasoning"]})),
        ["tool_calls"] => {
            let calls = delta["tool_calls"].as_array()?;
            let [call] = calls.as_slice() else { return None };
            let plain = sorted_keys(call) == ["function", "index"] && keys(&call["function"]) == ["arguments"];
            plain.then(|| json!({"a": [call["index"], call["function"]["arguments"]]}))
        }
        _ => None,
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map(|map| map.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn sorted_keys(value: &Value) -> Vec<&str> {
    let mut keys = keys(value);
    keys.sort_unstable();
    keys
}

fn full_choices(chunk: &Value) -> Vec<Value> {
    if let Some(choices) = chunk.get("choices") {
        return choices.as_array().unwrap().clone();
    }
    if chunk.get("status").is_some() {
        return Vec::new();
    }
    vec![match chunk {
        Value::Number(_) => json!({"delta": {}}),
        Value::String(text) => json!({"delta": {"content": text}}),
        chunk if chunk.get("r").is_some() => json!({"delta": {"reasoning": chunk["r"]}}),
        chunk if chunk.get("t").is_some() => json!({"text": chunk["t"]}),
        chunk => json!({"delta": {"tool_calls": [
            {"index": chunk["a"][0], "function": {"arguments": chunk["a"][1]}}]}}),
    }]
}

/// What a client gets from a stream.
pub fn merge(chunks: &[Value]) -> Value {
    let mut out = json!({});
    for chunk in chunks {
        if chunk.get("status").is_some() {
            out["error"] = json!([chunk["status"], chunk["error"]["type"]]);
            continue;
        }
        if chunk.get("usage").is_some_and(is_truthy) {
            out["usage"] = chunk["usage"].clone();
        }
        for choice in full_choices(chunk) {
            let index = choice.get("index").map_or_else(|| "0".to_owned(), Value::to_string);
            if out.get(&index).is_none() {
                out[&index] = json!({});
            }
            merge_choice(&mut out[&index], &choice);
        }
    }
    out
}

fn merge_choice(merged: &mut Value, choice: &Value) {
    if let Some(text) = choice.get("text") {
        append(merged, "text", text);
    }
    let delta = &choice["delta"];
    for key in ["content", "reasoning"] {
        if is_truthy(&delta[key]) {
            append(merged, key, &delta[key]);
        }
    }
    if is_truthy(&delta["role"]) {
        merged["role"] = delta["role"].clone();
    }
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let index = call.get("index").map_or_else(|| "0".to_owned(), Value::to_string);
        if merged["tool_calls"].get(&index).is_none() {
            merged["tool_calls"][&index] = json!({"name": "", "arguments": ""});
        }
        let target = &mut merged["tool_calls"][&index];
        if let Some(id) = call.get("id") {
            target["id"] = id.clone();
        }
        append(target, "name", &call["function"]["name"]);
        append(target, "arguments", &call["function"]["arguments"]);
    }
    for key in ["finish_reason", "stop_reason"] {
        if choice.get(key).is_some_and(|value| !value.is_null()) {
            merged[key] = choice[key].clone();
        }
    }
}

fn append(target: &mut Value, key: &str, text: &Value) {
    let joined = format!("{}{}", target[key].as_str().unwrap_or_default(), text.as_str().unwrap_or_default());
    target[key] = Value::String(joined);
}

/// The documented fields of a state; zero and empty ones are left out.
pub fn compact_state(state: &Value) -> Value {
    let mut out = Map::new();
    for key in STATE_FIELDS {
        if !is_truthy(&state[key]) {
            continue;
        }
        let value = match key {
            "last_tool_call_ids" => state[key].as_array().unwrap().iter().map(id_shape).collect(),
            "output_token_ids" | "output_chunk_lens" => json!(state[key].as_array().unwrap().len()),
            _ => state[key].clone(),
        };
        out.insert(key.to_owned(), value);
    }
    Value::Object(out)
}

fn norm_choice(choice: Value) -> Value {
    let mut choice = prune(&choice);
    for key in ["message", "delta"] {
        let Some(message) = choice.get_mut(key).and_then(Value::as_object_mut) else { continue };
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        let empty = calls.as_ref().is_some_and(|calls| calls.is_empty());
        for call in calls.into_iter().flatten() {
            if let Some(id) = call.get_mut("id") {
                *id = id_shape(id);
            }
        }
        if empty {
            message.shift_remove("tool_calls");
        }
        if message.get("annotations").is_some_and(|list| !is_truthy(list)) {
            message.shift_remove("annotations");
        }
    }
    if choice["index"] == 0 {
        choice.as_object_mut().unwrap().shift_remove("index");
    }
    choice
}

/// Random parts of ids are reduced to their kind and length.
fn id_shape(id: &Value) -> Value {
    let Some(text) = id.as_str() else { return id.clone() };
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if let Some(rest) = text.strip_prefix("chatcmpl-tool-").filter(|rest| hex(rest)) {
        return json!(format!("~chatcmpl-tool-hex:{}", rest.len()));
    }
    if let Some(rest) = text.strip_prefix("call_") {
        if hex(rest) {
            return json!(format!("~call_hex:{}", rest.len()));
        }
        if let Some((index, rest)) = rest.split_once('_')
            && index.bytes().all(|b| b.is_ascii_digit())
            && hex(rest)
        {
            return json!(format!("~call_N_hex{index}:{}", rest.len()));
        }
    }
    if text.len() == 9 && text.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return json!("~alnum:9");
    }
    id.clone()
}

fn prune(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().filter(|(_, item)| !item.is_null()).map(|(key, item)| (key.clone(), prune(item))).collect()
        }
        Value::Array(items) => items.iter().map(prune).collect(),
        other => other.clone(),
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Equality of a recorded answer and ours: errors by status, type and code.
pub fn same(want: &Value, got: &Value) -> bool {
    if want.get("status").is_some_and(|status| *status != 200) {
        let agree = |key: &str| want["error"][key] == got["error"][key];
        return want["status"] == got["status"]
            && (want.get("error").is_none()
                || want["status"].as_u64() >= Some(500)
                || (agree("type") && agree("code")));
    }
    close(want, got)
}

/// Equality with slack for floats.
pub fn close(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-6 * a.abs().max(1.0)
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| close(a, b)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b)),
        _ => a == b,
    }
}
