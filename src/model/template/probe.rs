//! What a template writes, for comparing tokenizers on it.

use minijinja::Value;
use serde_json::{Value as Json, json};

use super::value::from_json;
use super::{Dict, LocalTime, Template};

/// A chat of several turns with a tool, or one message where the template refuses that.
pub(super) fn text(template: &Template, specials: &[(String, String)]) -> Option<String> {
    let call =
        json!({"id": "cpl000001", "type": "function", "function": {"name": "look_up", "arguments": {"n": [1, 2.5]}}});
    let turns = json!([
        {"role": "user", "content": "Où est-ce ? 在哪里？ 🗺️"},
        {"role": "assistant", "content": "I'll look.\n\n", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "cpl000001", "content": "{\"found\": null}"},
        {"role": "assistant", "content": "  Nowhere.", "reasoning_content": "Nothing was found."},
        {"role": "user", "content": "Why?"},
    ]);
    let parameters = json!({"type": "object", "properties": {"n": {"type": "array", "description": "Numbers"}}});
    let tools = json!([{"type": "function", "function": {"name": "look_up", "description": "Looks", "parameters": parameters}}]);
    let render = |messages: &Json, tools: &Json| {
        let mut context = Dict::default();
        for (name, text) in specials {
            context.set(name, Value::from(text.as_str()));
        }
        context.set("messages", from_json(messages));
        context.set("tools", from_json(tools));
        context.set("add_generation_prompt", true);
        template.render(context, LocalTime::from_unix(0, 0)).ok()
    };
    render(&turns, &tools).or_else(|| render(&json!([{"role": "user", "content": "Hello!"}]), &Json::Null))
}
