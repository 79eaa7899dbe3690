//! The demo's chat: a script in token ids, the request, and the answer as it streams.

use eventsource_stream::Eventsource;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use super::{DemoError, model, show};

const QUESTION: &str = "What is the weather in Paris?";
const SCRIPT: &str = "<think>\nThe user wants the forecast, so a single tool call is enough.\n</think>\n\n\
                      I will look that up for you.\n\
                      <tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

/// What the stream adds up to.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) calls: Vec<(String, String)>,
    pub(super) finish_reason: String,
    pub(super) usage: Value,
}

/// Sends the chat and shows both sides of every event.
pub(super) async fn run(base: &str) -> Result<(), DemoError> {
    let tokenizer = model::tokenizer()?;
    let script = tokenizer.encode(SCRIPT, false)?.get_ids().to_vec();
    let request = request(&script);
    let url = format!("{base}/v1/chat/completions");
    let broken = |error: reqwest::Error| DemoError::Chat(error.to_string());
    let client = reqwest::Client::builder().no_proxy().build().map_err(broken)?;
    let response = client
        .post(url)
        .header("content-type", "application/json")
        .body(request.to_string())
        .send()
        .await
        .map_err(broken)?;
    if !response.status().is_success() {
        return Err(DemoError::Chat(response.text().await.map_err(broken)?));
    }
    show::question(QUESTION);
    let mut answer = Answer::default();
    let mut events = response.bytes_stream().eventsource();
    while let Some(event) = events.next().await {
        let data = event.map_err(|error| DemoError::Chat(error.to_string()))?.data;
        if data == "[DONE]" {
            show::answer(&answer);
            return Ok(());
        }
        let chunk = serde_json::from_str(&data).map_err(|error| DemoError::Chat(format!("{error} in {data}")))?;
        take(&chunk, &mut answer, &tokenizer)?;
    }
    Err(DemoError::Chat("the stream ended before [DONE]".to_owned()))
}

fn request(script: &[u32]) -> Value {
    json!({
        "model": model::NAME,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"type": "function", "function": {
            "name": "get_weather",
            "description": "Looks up the weather.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        }}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "return_token_ids": true,
        "vllm_xargs": {"script": script},
    })
}

/// Shows one chunk and adds it to the answer.
fn take(chunk: &Value, answer: &mut Answer, tokenizer: &Tokenizer) -> Result<(), DemoError> {
    if let Some(error) = chunk.get("error") {
        return Err(DemoError::Chat(error.to_string()));
    }
    if let Some(prompt) = chunk["prompt_token_ids"].as_array() {
        show::prompt(prompt.len());
    }
    if chunk["usage"].is_object() {
        answer.usage = chunk["usage"].clone();
    }
    for choice in chunk["choices"].as_array().into_iter().flatten() {
        let said = add(&choice["delta"], answer);
        if let Some(reason) = choice["finish_reason"].as_str() {
            reason.clone_into(&mut answer.finish_reason);
        }
        let ids = choice["token_ids"].as_array().into_iter().flatten().filter_map(Value::as_u64);
        let tokens: Vec<_> = ids.map(|id| (id, decode(tokenizer, id))).collect();
        if !tokens.is_empty() {
            show::event(&tokens, &said);
        }
    }
    Ok(())
}

/// Adds a delta, and returns what kind of text it brought.
fn add(delta: &Value, answer: &mut Answer) -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    let texts = [("reasoning", &mut answer.reasoning), ("content", &mut answer.content)];
    for (kind, whole) in texts {
        if let Some(text) = delta[kind].as_str().filter(|text| !text.is_empty()) {
            whole.push_str(text);
            said.push((kind, text.to_owned()));
        }
    }
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        if let Some(name) = function["name"].as_str() {
            answer.calls.push((name.to_owned(), String::new()));
            said.push(("tool call", name.to_owned()));
        }
        if let (Some(arguments), Some(last)) = (function["arguments"].as_str(), answer.calls.last_mut()) {
            last.1.push_str(arguments);
            said.extend((!arguments.is_empty()).then(|| ("arguments", arguments.to_owned())));
        }
    }
    said
}

fn decode(tokenizer: &Tokenizer, id: u64) -> String {
    u32::try_from(id).ok().and_then(|id| tokenizer.decode(&[id], false).ok()).unwrap_or_default()
}
