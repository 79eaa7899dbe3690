//! `POST /v1/{chat/completions,completions}/derender`: token ids back to OpenAI's answers, without any state here.
//!
//! One-shot takes the engine's whole answer; with `stream: true` one of its events and the `stream_state` that the
//! previous call returned. Format: vLLM's Derenderer API; couplet's own are `compact_state` and `stream_state.couplet`.

mod chat;
mod checks;
mod completions;
mod known;

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

pub use known::Known;
use known::{KnownChat, read_completion};

use super::{Context, Served, coupled, plan};
use crate::api::cut::CutBody;
use crate::api::derender::{ChatBody, CompletionBody};
use crate::api::error::ApiError;
use crate::api::generate::{FinishReason, GenerateChoice, GenerateResponse, StopReason};
use crate::derender::pieces::Pieces;
use crate::derender::stream_state::StreamState;
use crate::derender::text::{self, Finish};
use crate::respond::envelope::Envelope;
use crate::respond::json::JsonBuffer;
use crate::respond::usage::Usage;

const TOKENS: &str = "stream_state.output_token_ids";
const LENGTHS: &str = "stream_state.output_chunk_lens";

/// Answers `/v1/chat/completions/derender`.
pub fn chat(context: &Context, body: &Bytes) -> Result<Bytes, ApiError> {
    let cut = CutBody::new(body, ["prompt_token_ids", "chat_request", TOKENS, LENGTHS]);
    context.heavy.read(length(body, &cut), || read_chat(context, &cut))
}

/// Answers `/v1/completions/derender`.
pub fn completions(context: &Context, body: &Bytes) -> Result<Bytes, ApiError> {
    let cut = CutBody::new(body, ["prompt_token_ids", "completion_request", TOKENS, LENGTHS]);
    context.heavy.read(length(body, &cut), || read_completions(context, &cut))
}

/// Bytes that are read one by one: all of them, but for what the later chunks of a stream only repeat.
fn length(body: &Bytes, cut: &CutBody<'_, 4>) -> usize {
    let has_own_state = memmem::find(cut.rest(), b"\"couplet\"").is_some();
    if has_own_state { cut.rest().len() } else { body.len() }
}

fn read_chat(context: &Context, cut: &CutBody<'_, 4>) -> Result<Bytes, ApiError> {
    let [prompt, request, history @ ..] = cut.values();
    let mut body: ChatBody<'_, StreamState<'_>> = cut.parse()?;
    if let Some(state) = &mut body.stream_state {
        state.carry(history);
    }
    let (served, known) = (context.served(body.model.as_deref())?, &context.known);
    let request = request.or(text(body.chat_request));
    let request = request.map(|text| known.chats.get(body.stream, served, text, KnownChat::read)).transpose()?;
    let prompt = prompt.or(text(body.prompt_token_ids));
    let prompt = prompt.map(|text| known.prompts.get(body.stream, served, text, checks::read_ids)).transpose()?;
    let (request, prompt) = (request.as_deref(), prompt.as_ref().map(|prompt| prompt.as_slice()));
    let metrics = context.metrics.parser(served.parser_name());
    match body.stream {
        true => chat::chunk(served, &metrics, body, request, prompt),
        false => chat::whole(served, &metrics, body, request, prompt),
    }
}

fn read_completions(context: &Context, cut: &CutBody<'_, 4>) -> Result<Bytes, ApiError> {
    let [prompt, request, history @ ..] = cut.values();
    let mut body: CompletionBody<'_, StreamState<'_>> = cut.parse()?;
    if let Some(state) = &mut body.stream_state {
        state.carry(history);
    }
    let (served, known) = (context.served(body.model.as_deref())?, &context.known);
    let request = request.or(text(body.completion_request));
    let request = request.map(|text| known.completions.get(body.stream, served, text, read_completion)).transpose()?;
    let prompt = prompt.or(text(body.prompt_token_ids));
    if !body.stream {
        return completions::whole(served, body, request.as_deref(), prompt);
    }
    let prompt = prompt.map(|text| known.prompts.get(true, served, text, checks::read_ids)).transpose()?;
    completions::chunk(served, body, request.as_deref(), prompt.as_ref().map(|prompt| prompt.as_slice()))
}

/// The JSON text of a value; null is none.
fn text(value: Option<&RawValue>) -> Option<&[u8]> {
    value.map(RawValue::get).filter(|text| *text != "null").map(str::as_bytes)
}

/// Reads a whole reply. Stop strings of the request only count where the engine did not say what stopped it; one that
/// it names is cut whatever the request says.
fn read_whole(plan: &text::Plan, prompt: &[u32], choice: &GenerateChoice) -> (Pieces, Finish) {
    let plan = match (choice.finish_reason.or_stop(), &choice.stop_reason) {
        (Some("stop"), None) => plan.clone(),
        (Some("stop"), Some(StopReason::Text(text))) => plan.with_stop(Some(text.clone())),
        _ => plan.with_stop(None),
    };
    let ended = FinishReason::Ended(choice.finish_reason.or_stop().unwrap_or_default().to_owned());
    let mut state = plan.start(prompt);
    let mut pieces = Pieces::default();
    let text = GenerateChoice {
        token_ids: choice.token_ids.clone(),
        stop_reason: choice.stop_reason.clone(),
        finish_reason: ended,
        ..GenerateChoice::default()
    };
    let step = plan.step(&mut state, &text, &mut pieces);
    let finish = step.finish.unwrap_or(Finish { reason: String::new(), stop_reason: None, stopped_here: false });
    (pieces, finish)
}

fn envelope(served: &Served, answer: &GenerateResponse, model: Option<&str>, object: &str) -> Envelope {
    let id = answer.request_id.clone().unwrap_or_else(|| format!("{:016x}", coupled::random()));
    Envelope::new(&id, object, coupled::now(), model.unwrap_or(served.name()))
}

fn write_usage(prompt: i64, completion: u64, json: &mut JsonBuffer) {
    let prompt_tokens = u64::try_from(prompt).unwrap_or(0);
    Usage { prompt_tokens, completion_tokens: completion, reasoning_tokens: None }.write_whole(json);
}

fn write_chunk_usage(prompt: Option<i64>, chunk: &GenerateResponse, json: &mut JsonBuffer) {
    let Some(usage) = chunk.usage else { return };
    let prompt = prompt.unwrap_or_else(|| usage.prompt_tokens.unwrap_or(0).try_into().unwrap_or(i64::MAX));
    json.key("usage");
    write_usage(prompt, usage.completion_tokens.unwrap_or(0), json);
}
