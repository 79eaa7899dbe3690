//! Chat answers: chunks of a stream, and the whole. Format: OpenAI's chat API as vLLM 0.32 and 0.33 write it; fields that
//! are known to be null are written as null.

use serde::Serialize;

use super::envelope::Envelope;
use super::json::JsonBuffer;
use super::usage::Usage;
use crate::api::generate::StopReason;
use crate::derender::logprobs::ChatLogprobs;
use crate::parsers::{CallDelta, Events, Message};

/// One choice of a chunk.
#[derive(Debug, Default)]
pub struct ChunkChoice<'a> {
    /// Which choice.
    pub index: u32,
    /// Sent before anything else in a stateless stream; a coupled stream has a chunk of its own for it.
    pub role: Option<&'a str>,
    /// Logprobs of the chunk's tokens.
    pub logprobs: Option<&'a ChatLogprobs>,
    /// In the last chunk: `finish_reason` and `stop_reason`.
    pub finish: Option<(&'a str, Option<&'a StopReason>)>,
    /// The chunk's tokens, where asked for.
    pub token_ids: Option<&'a [u32]>,
}

/// The first chunk of a choice: its role and empty content.
pub fn write_role(
    envelope: &Envelope,
    index: u32,
    role: &str,
    prompt: Prompt<'_>,
    usage: Option<&Usage>,
    json: &mut JsonBuffer,
) {
    envelope.open(json);
    json.raw("{\"index\":").number(index.into()).raw(",\"delta\":{\"role\":").string(role);
    json.raw(",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]");
    if let Some(usage) = usage {
        json.key("usage");
        usage.write(json);
    }
    json.key("prompt_token_ids").value(&prompt.token_ids);
    json.key("prompt_text").value(&prompt.text).raw("}");
}

/// What a request may ask to be told of its prompt.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prompt<'a> {
    /// Its ids (`return_token_ids`).
    pub token_ids: Option<&'a [u32]>,
    /// Its text (`return_prompt_text`).
    pub text: Option<&'a str>,
}

/// A chunk with one choice.
pub fn write_chunk(
    envelope: &Envelope,
    choice: &ChunkChoice<'_>,
    events: &Events,
    fingerprint: bool,
    usage: Option<&Usage>,
    json: &mut JsonBuffer,
) {
    envelope.open(json);
    write_chunk_choice(choice, events, json);
    envelope.close_chunk(fingerprint, usage, json);
}

/// A choice of a chunk.
pub fn write_chunk_choice(choice: &ChunkChoice<'_>, events: &Events, json: &mut JsonBuffer) {
    json.raw("{\"index\":").number(choice.index.into()).key("delta");
    write_delta(choice.role, events, json);
    json.key("logprobs").value(&choice.logprobs).key("finish_reason");
    match choice.finish {
        Some((reason, stop_reason)) => json.string(reason).key("stop_reason").value(&stop_reason),
        None => json.raw("null"),
    };
    json.key("token_ids").value(&choice.token_ids).raw("}");
}

/// `delta`: what a chunk adds. Nothing is written of what it does not add.
fn write_delta(role: Option<&str>, events: &Events, json: &mut JsonBuffer) {
    let mut separator = "{";
    let mut field = |key: &str, text: Option<&str>, json: &mut JsonBuffer| {
        if let Some(text) = text {
            json.raw(std::mem::replace(&mut separator, ",")).raw("\"").raw(key).raw("\":").string(text);
        }
    };
    field("role", role, json);
    field("content", events.content(), json);
    field("reasoning", events.reasoning(), json);
    let mut calls = events.calls().peekable();
    if calls.peek().is_some() {
        json.raw(separator).raw("\"tool_calls\":");
        separator = "[";
        for call in calls {
            json.raw(std::mem::replace(&mut separator, ","));
            write_call(&call, json);
        }
        json.raw("]}");
    } else {
        json.raw(if separator == "{" { "{}" } else { "}" });
    }
}

fn write_call(call: &CallDelta<'_>, json: &mut JsonBuffer) {
    match call.head {
        Some((id, name)) => {
            json.raw("{\"id\":").string(id).raw(",\"type\":\"function\",\"index\":").number(call.index as u64);
            json.raw(",\"function\":{\"name\":").string(name);
            if let Some(arguments) = call.arguments {
                json.key("arguments").string(arguments);
            }
        }
        None => {
            json.raw(if call.typed { "{\"type\":\"function\",\"index\":" } else { "{\"index\":" });
            json.number(call.index as u64).raw(",\"function\":{\"arguments\":");
            json.string(call.arguments.unwrap_or_default());
        }
    }
    json.raw("}}");
}

/// One choice of a whole answer.
#[derive(Debug)]
pub struct WholeChoice<'a> {
    /// Which choice.
    pub index: u32,
    /// `assistant`, or the role of the last message where no generation prompt was added.
    pub role: &'a str,
    /// What the model said.
    pub message: &'a Message,
    /// Logprobs of all tokens.
    pub logprobs: Option<&'a ChatLogprobs>,
    /// Why it ended.
    pub finish_reason: &'a str,
    /// The stop string or token.
    pub stop_reason: Option<&'a StopReason>,
    /// All tokens, where asked for.
    pub token_ids: Option<&'a [u32]>,
}

/// Appends a choice of a whole answer; `first` opens the list.
pub fn write_whole_choice(choice: &WholeChoice<'_>, first: bool, json: &mut JsonBuffer) {
    json.raw(if first { "{\"index\":" } else { ",{\"index\":" }).number(choice.index.into()).key("message");
    json.raw("{\"role\":").string(choice.role).key("content").value(&choice.message.content);
    json.raw(",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null");
    if !choice.message.tool_calls.is_empty() {
        let calls: Vec<WholeCall<'_>> = choice.message.tool_calls.iter().map(WholeCall::from).collect();
        json.key("tool_calls").value(&calls);
    }
    json.key("reasoning").value(&choice.message.reasoning).raw("}");
    json.key("logprobs").value(&choice.logprobs).key("finish_reason").string(choice.finish_reason);
    json.key("stop_reason").value(&choice.stop_reason).key("token_ids").value(&choice.token_ids);
    json.raw(",\"routed_experts\":null}");
}

#[derive(Serialize)]
struct WholeCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WholeFunction<'a>,
}

#[derive(Serialize)]
struct WholeFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> From<&'a crate::parsers::ToolCall> for WholeCall<'a> {
    fn from(call: &'a crate::parsers::ToolCall) -> Self {
        Self {
            id: &call.id,
            r#type: "function",
            function: WholeFunction { name: &call.name, arguments: &call.arguments },
        }
    }
}
