//! Chats with a simulated engine, and what a client makes of a stream.

use serde_json::{Value, json};

use super::tiny;

/// A chat request to which the engine answers `text`; `more` are further fields.
pub fn chat(text: &str, more: Value) -> Value {
    let mut body = json!({
        "model": "tiny",
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "vllm_xargs": tiny::says(text),
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// What a client puts together from a stream: content, reasoning, calls, the last finish_reason, the last usage.
#[derive(Debug, Default, PartialEq)]
pub struct Collected {
    pub content: String,
    pub reasoning: String,
    pub calls: Vec<(String, String)>,
    pub finish_reason: Option<String>,
    pub usage: Option<Value>,
}

/// Folds the events of a stream that ends as it should.
pub fn collect(events: &[String]) -> Collected {
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    let mut out = Collected::default();
    for chunk in chunks {
        let chunk: Value = serde_json::from_str(chunk).unwrap();
        if chunk["usage"].is_object() {
            out.usage = Some(chunk["usage"].clone());
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        out.content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        out.reasoning.push_str(choice["delta"]["reasoning"].as_str().unwrap_or_default());
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap() as usize;
            out.calls.resize_with(out.calls.len().max(index + 1), Default::default);
            out.calls[index].0.push_str(call["function"]["name"].as_str().unwrap_or_default());
            out.calls[index].1.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
        }
        out.finish_reason = choice["finish_reason"].as_str().map(str::to_owned).or(out.finish_reason);
    }
    out
}
