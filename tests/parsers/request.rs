//! A fixture's request as the facts that the parsers take.

use std::sync::Arc;

use couplet::parsers::{Context, Tool, ToolChoice};
use serde_json::{Map, Value, json};

/// The request's facts as the derenderer would state them.
pub(crate) fn context(request: &Value, prompt: &[u32]) -> Context {
    let tools: Arc<[Tool]> = request["tools"].as_array().into_iter().flatten().map(tool).collect();
    Context {
        tool_choice: choice(request.get("tool_choice"), !tools.is_empty()),
        tools,
        parallel_tool_calls: request["parallel_tool_calls"] != json!(false),
        chat_template_kwargs: Arc::new(kwargs(request)),
        reasoning_effort: request["reasoning_effort"].as_str().map(str::to_owned),
        prompt_token_ids: prompt.to_vec(),
        prompt_text: String::new(),
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
