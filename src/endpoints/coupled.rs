//! What chat and completions share on the way through an engine.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, future, stream};
use http::HeaderMap;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::structured::{Answer, Grammar};
use super::{Context, Head, Served};
use crate::api::chat::ChatRequest;
use crate::api::completions::CompletionRequest;
use crate::api::error::ApiError;
use crate::api::generate::{GenerateRequest, GenerateResponse};
use crate::api::sampling::StreamOptions;
use crate::engine::{Caller, Pool};
use crate::metrics::{Cause, Expected, Meter, ParserMetrics, Record, Stage, Stages};
use crate::model::template::LocalTime;
use crate::parsers::Fallbacks;
use crate::render::{self, Rendered};
use crate::respond::body::ByteStream;
use crate::respond::http::{self as response, Response};
use crate::respond::json::JsonBuffer;
use crate::respond::sse::{self, KeptAlive};

/// The status of what takes too long.
const TOO_LATE: u16 = 504;

/// The id of an answer, which its record is told.
pub(super) fn answer_id(kind: &str, head: &Head, field: Option<&str>) -> String {
    let has_header = head.headers.get("x-request-id").is_some_and(|id| !id.is_empty());
    if let Some(field) = field.filter(|field| !field.is_empty() && !has_header) {
        head.record.named(field);
    }
    format!("{kind}-{}", head.record.id())
}

/// The id of a rendering: the kind (`chatcmpl`, `cmpl`) and the header `X-Request-Id`, else the field `request_id`, else
/// random digits.
pub(super) fn request_id(kind: &str, headers: &HeaderMap, field: Option<&str>) -> String {
    let header = headers.get("x-request-id").and_then(|value| value.to_str().ok());
    match header.or(field).filter(|id| !id.is_empty()) {
        Some(id) => format!("{kind}-{id}"),
        None => format!("{kind}-{}", super::random_id()),
    }
}

/// Who sends a request: its session is named by the header that the pool looks at, else by the field `user`.
pub(super) fn caller(head: &Head, pool: &Pool, user: Option<&str>) -> Caller {
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let session = header(&pool.options().session_header).or(user).filter(|session| !session.is_empty());
    Caller {
        session: session.map(str::to_owned),
        key: header(&http::header::AUTHORIZATION).unwrap_or_default().to_owned(),
        trace: head.trace.clone(),
        record: Arc::clone(&head.record),
    }
}

/// A request for an engine, and the grammar that couplet keeps its reply to.
pub(super) type Order = (GenerateRequest, Option<Grammar>);

/// Sends requests to the engines of a pool, all of them together when there is a place for one.
pub(super) async fn generate(
    pool: Arc<Pool>,
    caller: Caller,
    orders: Vec<Order>,
    stages: Arc<Stages>,
) -> Result<Vec<Answer>, ApiError> {
    let tokens = orders.iter().map(|(request, _)| request.token_ids.len()).sum();
    let ticket = Arc::new(stages.wait(Stage::Queue, pool.admit(&caller, tokens)).await?);
    let answers = orders.into_iter().map(|(request, grammar)| Answer::open(&pool, &caller, &ticket, request, grammar));
    Ok(stages.wait(Stage::Engine, future::try_join_all(answers)).await?)
}

/// Answers with a stream that is still being opened. What goes wrong before the first interval is an answer with an error's
/// status; then the answer begins, with comments that keep the connection alive, and an error is an event.
pub(super) async fn stream(
    opening: impl Future<Output = Result<ByteStream, ApiError>> + Send + 'static,
    interval: Duration,
    record: Arc<Record>,
) -> Result<Response, ApiError> {
    let mut opening = Box::pin(opening);
    let kept_alive = |stream| response::events(Box::pin(KeptAlive::new(stream, interval)));
    match tokio::time::timeout(interval, &mut opening).await {
        Ok(opened) => opened.map(kept_alive),
        Err(_) => {
            let late = stream::once(opening).flat_map(move |opened| {
                opened.unwrap_or_else(|error| {
                    record.aborted(if error.status == TOO_LATE { Cause::Timeout } else { Cause::Refused });
                    Box::pin(stream::once(future::ready(sse::broken_off(&error))))
                })
            });
            let first = stream::once(future::ready(sse::keep_alive()));
            Ok(kept_alive(Box::pin(first.chain(late))))
        }
    }
}

/// 64 random bits: the standard library seeds its hash maps from the system's source.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// `include_usage` and `continuous_usage_stats`, the second of which needs the first.
pub(super) fn usage_options(options: Option<&StreamOptions>) -> (bool, bool) {
    let include = options.is_some_and(|options| options.include_usage == Some(true));
    (include, include && options.is_some_and(|options| options.continuous_usage_stats == Some(true)))
}

/// Makes what render returned fit an engine: what is done here is not asked for.
pub(super) fn for_engine(mut request: GenerateRequest, served: &Served, stream: bool) -> GenerateRequest {
    // Engines may call the model otherwise; only an adapter has to be named.
    request.model = served.adapter(request.model.as_deref()).map(str::to_owned);
    widen_logprobs(&mut request.sampling_params, served.model.options().max_logprobs);
    for key in ["stream_options", "parse_context", "token_offsets", "return_token_ids"] {
        request.rest.shift_remove(key);
    }
    request.rest.insert("stream".to_owned(), stream.into());
    request
}

/// Asks for logprobs so that all candidates come. An engine up to 0.32 returns one candidate less than vLLM's
/// completions API does (the sampled token and N − 1 of the N best); and it wants to know how many ids are listed in
/// `logprob_token_ids`, the last of which it leaves out. What comes too much is cut
/// by [`Style`](crate::derender::logprobs::Style).
fn widen_logprobs(params: &mut Map<String, Value>, max_logprobs: i64) {
    if let Some(Value::Array(ids)) = params.get_mut("logprob_token_ids")
        && let Some(last) = ids.last().cloned()
    {
        ids.push(last);
        let count = ids.len();
        params.insert("logprobs".to_owned(), count.into());
        return;
    }
    let Some(count) = params.get("logprobs").and_then(Value::as_i64).filter(|count| *count > 0) else { return };
    if max_logprobs < 0 || count < max_logprobs {
        params.insert("logprobs".to_owned(), (count + 1).into());
    }
}

/// Counts what looked like calls and became content.
pub(super) fn count_fallbacks(metrics: &ParserMetrics, fallbacks: Fallbacks) {
    for (reason, count) in fallbacks.iter() {
        metrics.fell_back(reason.name(), count);
    }
}

/// Measures a reply, once an engine answers.
pub(super) fn measure(context: &Context, head: &Head, served: &Served) -> impl FnOnce(Expected) -> Meter + use<> {
    let (metrics, record) = (Arc::clone(&context.metrics), Arc::clone(&head.record));
    let model = served.name().to_owned();
    move |reply| metrics.meter(&record, &model, reply)
}

/// A reply that has begun ends with this error, of which the engine is the cause unless time is.
pub(super) fn note_abort(meter: &Meter, error: &ApiError) {
    meter.record().aborted(if error.status == TOO_LATE { Cause::Timeout } else { Cause::Engine });
}

/// The engine gave up on a request: vLLM's text and type.
pub(super) fn generation_error() -> ApiError {
    ApiError::internal("Internal server error")
}

/// What an engine answers that is passed on to the client as it is.
#[derive(Debug, Default)]
pub(super) struct PassedOn {
    /// Logprobs of the prompt.
    pub prompt_logprobs: Option<Box<RawValue>>,
    kv_transfer_params: Option<Box<RawValue>>,
    ec_transfer_params: Option<Box<RawValue>>,
    metrics: Option<Box<RawValue>>,
}

impl PassedOn {
    /// Takes what an answer carries.
    pub(super) fn take(&mut self, answer: &mut GenerateResponse) {
        let pairs = [
            (&mut self.prompt_logprobs, &mut answer.prompt_logprobs),
            (&mut self.kv_transfer_params, &mut answer.kv_transfer_params),
            (&mut self.ec_transfer_params, &mut answer.ec_transfer_params),
            (&mut self.metrics, &mut answer.metrics),
        ];
        for (kept, given) in pairs {
            if given.is_some() {
                *kept = given.take();
            }
        }
    }

    /// Appends the fields that end every whole answer.
    pub(super) fn write<'a>(&self, json: &'a mut JsonBuffer) -> &'a mut JsonBuffer {
        json.key("kv_transfer_params").value(&self.kv_transfer_params);
        json.key("ec_transfer_params").value(&self.ec_transfer_params).key("metrics").value(&self.metrics)
    }
}

/// Renders a chat, each stage with its time. `settings` say what for.
pub(super) fn render_chat(
    context: &Context,
    served: &Served,
    request: &ChatRequest,
    settings: &render::Settings,
) -> Result<Rendered, ApiError> {
    let stages = &context.metrics.stages;
    let written = stages.time(Stage::Template, || render::write_chat(&served.model, request, local_now()));
    let written = written.inspect_err(|error| {
        if error.by_template {
            context.metrics.template_refused(served.name());
        }
    })?;
    let encode = || render::chat(&served.model, served.dialect.as_ref(), request, written, settings);
    stages.time(Stage::Tokenize, encode)
}

/// Renders a completion: a request per prompt.
pub(super) fn render_completions(
    context: &Context,
    served: &Served,
    request: &CompletionRequest,
    settings: &render::Settings,
) -> Result<Vec<Rendered>, ApiError> {
    context.metrics.stages.time(Stage::Tokenize, || render::completions(&served.model, request, settings))
}

/// Settings for what an engine is asked.
pub(super) fn for_engine_settings(id: &str) -> render::Settings {
    render::Settings { request_id: id.to_owned(), for_engine: true }
}

/// The moment that templates may print.
pub(super) fn local_now() -> LocalTime {
    let now = chrono::Local::now();
    LocalTime::from_unix(now.timestamp(), now.offset().local_minus_utc().into())
}
