//! Writing what a generation says: one JSON body, or server-sent events.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use serde::Serialize;

use super::generation::{Delta, Finish, Generation, Step};
use super::logprobs::{Candidate, PromptCandidates, Scale};
use super::transfer;
use crate::api::error::ApiError;

/// The body of every response.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

const GARBAGE: &str = "{\"request_id\": \"generate-tokens-, choices: [";
/// How long an answer is that is far too long.
const OVERSIZE: usize = 1 << 20;

/// A JSON response.
pub(super) fn json(status: u16, body: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(body).unwrap_or_default(); // our own types: writing them cannot fail
    typed(status, "application/json", text)
}

/// A response with a content type.
pub(super) fn typed(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = empty(status);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    *response.body_mut() = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    response
}

/// A response without a body.
pub(super) fn empty(status: u16) -> Response<Body> {
    let mut response = Response::new(Full::default().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// An error response.
pub(super) fn error(error: &ApiError) -> Response<Body> {
    let mut response = json(error.status, &error.body);
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

/// An error that is met when a stream has its status already: one event, and the end.
pub(super) fn error_in_stream(error: &ApiError) -> Response<Body> {
    let body = serde_json::to_string(&error.body).unwrap_or_default();
    typed(200, EVENT_STREAM, format!("data: {body}\n\ndata: [DONE]\n\n"))
}

const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

/// Answers with one JSON body when everything has been said. An error cuts the connection.
pub(super) async fn whole(mut generation: Generation) -> io::Result<Response<Body>> {
    let mut choices: Vec<Choice> = (0..generation.job.n).map(Choice::new).collect();
    let scale = scale(&generation);
    while let Some(step) = generation.next().await {
        match step {
            Step::Tokens(delta) => choices[delta.choice as usize].extend(delta, generation.job.logprobs, &scale),
            Step::Garbage | Step::Truncate => return Ok(typed(200, "application/json", GARBAGE)),
            Step::Oversize => return Ok(typed(200, "application/json", oversize())),
            Step::Die => return Err(died()),
        }
    }
    let job = &generation.job;
    Ok(json(
        200,
        &Whole {
            request_id: &job.id,
            model: &job.model,
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            usage: Usage::new(job.prompt.len() as u64, generation.generated()),
            prompt_logprobs: job.prompt_logprobs.map(|count| scale.of_prompt(&job.prompt, count)),
            prompt_token_id_logprobs: (),
            prompt_token_ids: job.return_token_ids.then_some(&job.prompt[..]),
            mm_placeholders: (),
            metrics: (),
            kv_transfer_params: transfer::told(job),
            ec_transfer_params: (),
            output_mode: "tokens",
            choices,
        },
    ))
}

/// Answers with events. The generation runs inside the body: who drops the body ends the request.
pub(super) fn streamed(generation: Generation) -> Response<Body> {
    let scale = scale(&generation);
    let events = Box::new(Events { generation, scale, first: true });
    let frames = stream::unfold(Some(events), |events| async move {
        let mut events = events?;
        let (frame, more) = events.next().await;
        Some((frame.map(Frame::data), more.then_some(events)))
    });
    let mut response = typed(200, EVENT_STREAM, Bytes::new());
    *response.body_mut() = StreamBody::new(frames).boxed_unsync();
    response
}

struct Events {
    generation: Generation,
    scale: Scale,
    first: bool,
}

impl Events {
    /// The next bytes, and whether more follow.
    async fn next(&mut self) -> (io::Result<Bytes>, bool) {
        match self.generation.next().await {
            Some(Step::Tokens(delta)) => (Ok(self.event(delta)), true),
            Some(Step::Garbage) => (Ok(Bytes::from(format!("data: {GARBAGE}\n\n"))), true),
            Some(Step::Truncate) => (Ok(Bytes::from(format!("data: {GARBAGE}"))), false),
            Some(Step::Oversize) => (Ok(Bytes::from(format!("data: {}\n\n", oversize()))), true),
            Some(Step::Die) => (Err(died()), false),
            None => (Ok(self.last()), false),
        }
    }

    fn event(&mut self, delta: Delta) -> Bytes {
        let job = &self.generation.job;
        let prompt_tokens = job.prompt.len() as u64;
        let usage = job.continuous_usage.then(|| Usage::new(prompt_tokens, u64::from(delta.total())));
        let mut choice = Choice::new(delta.choice);
        choice.extend(delta, job.logprobs, &self.scale);
        let event = Event {
            request_id: &job.id,
            usage,
            prompt_token_ids: (self.first && job.return_token_ids).then_some(&job.prompt[..]),
            output_mode: "tokens",
            choices: [choice],
        };
        self.first = false;
        let mut out = b"data: ".to_vec();
        let _ = serde_json::to_writer(&mut out, &event); // writing our own types to memory cannot fail
        out.extend_from_slice(b"\n\n");
        out.into()
    }

    fn last(&self) -> Bytes {
        let job = &self.generation.job;
        if !job.include_usage {
            return Bytes::from_static(b"data: [DONE]\n\n");
        }
        let Usage { prompt_tokens, total_tokens, completion_tokens, .. } =
            Usage::new(job.prompt.len() as u64, self.generation.generated());
        let usage = BareUsage { prompt_tokens, total_tokens, completion_tokens };
        let event = UsageEvent { request_id: &job.id, usage, output_mode: "tokens", choices: [] };
        let event = serde_json::to_string(&event).unwrap_or_default();
        format!("data: {event}\n\ndata: [DONE]\n\n").into()
    }
}

fn scale(generation: &Generation) -> Scale {
    let options = &generation.engine.options;
    Scale { seed: options.seed, vocab_size: options.vocab_size.max(1), legacy: options.legacy_logprobs }
}

fn oversize() -> String {
    format!("{{\"choices\": [], \"padding\": \"{}\"}}", "x".repeat(OVERSIZE))
}

fn died() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "simulated death of the engine")
}

// The wire, field by field in vLLM's order; `()` is a field that is always null here.

#[derive(Serialize)]
struct Whole<'a> {
    request_id: &'a str,
    model: &'a str,
    created: u64,
    usage: Usage,
    prompt_logprobs: Option<Vec<Option<PromptCandidates>>>,
    prompt_token_id_logprobs: (),
    prompt_token_ids: Option<&'a [u32]>,
    mm_placeholders: (),
    metrics: (),
    kv_transfer_params: Option<serde_json::Value>,
    ec_transfer_params: (),
    output_mode: &'static str,
    choices: Vec<Choice>,
}

#[derive(Serialize)]
struct Event<'a> {
    request_id: &'a str,
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [u32]>,
    output_mode: &'static str,
    choices: [Choice; 1],
}

#[derive(Serialize)]
struct UsageEvent<'a> {
    request_id: &'a str,
    usage: BareUsage,
    output_mode: &'static str,
    choices: [(); 0],
}

#[derive(Serialize)]
struct Choice {
    index: u32,
    finish_reason: Option<&'static str>,
    stop_reason: Option<u32>,
    token_ids: Vec<u32>,
    routed_experts: (),
    sampling_mask: (),
    weight_versions: Option<[WeightVersions; 1]>,
    logprobs: Option<Logprobs>,
}

#[derive(Serialize)]
struct WeightVersions {
    version: &'static str,
    start: u32,
    end: u32,
}

#[derive(Serialize)]
struct Logprobs {
    content: Vec<Candidate>,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u64,
    total_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: (),
    completion_tokens_details: (),
}

/// The usage event drops the nulls.
#[derive(Serialize)]
struct BareUsage {
    prompt_tokens: u64,
    total_tokens: u64,
    completion_tokens: u64,
}

impl Usage {
    fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        let total_tokens = prompt_tokens + completion_tokens;
        Self {
            prompt_tokens,
            total_tokens,
            completion_tokens,
            prompt_tokens_details: (),
            completion_tokens_details: (),
        }
    }
}

impl Choice {
    fn new(index: u32) -> Self {
        Self {
            index,
            finish_reason: None,
            stop_reason: None,
            token_ids: Vec::new(),
            routed_experts: (),
            sampling_mask: (),
            weight_versions: None,
            logprobs: None,
        }
    }

    fn extend(&mut self, delta: Delta, logprobs: Option<u32>, scale: &Scale) {
        let end = delta.total();
        if let Some(count) = logprobs {
            let position = delta.position;
            let entries = delta.ids.iter().zip(position..).map(|(id, at)| scale.sampled(*id, at, count));
            self.logprobs.get_or_insert(Logprobs { content: Vec::new() }).content.extend(entries);
        }
        self.finish_reason = delta.finish.map(Finish::name);
        self.stop_reason = delta.stop_reason;
        self.weight_versions = delta.finish.map(|_| [WeightVersions { version: "default", start: 0, end }]);
        if self.token_ids.is_empty() {
            self.token_ids = delta.ids;
        } else {
            self.token_ids.extend(delta.ids);
        }
    }
}
