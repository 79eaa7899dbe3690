//! Structured outputs on an engine that refuses grammars, through the front door: what the client gets keeps to its
//! grammar, whatever the model says.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use serde_json::{Value, json};
use support::{Couplet, Sim, chat, tiny};

const SCHEMA: &str = r#"{"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
    "required": ["city", "days"], "additionalProperties": false}"#;

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// A request whose reply an engine with a script would say.
fn request(says: &str, more: Value) -> Value {
    let mut body = json!({
        "model": "tiny", "messages": [{"role": "user", "content": "x"}], "max_tokens": 400,
        "chat_template_kwargs": {"enable_thinking": false}, "vllm_xargs": {"script": tiny::encode(says)},
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn json_format() -> Value {
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema()}}})
}
