//! One engine over HTTP: sends a request, yields chunks, aborts what nobody waits for any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use eventsource_stream::{Event, EventStreamError, Eventsource};
use futures_util::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use super::EngineError;
use super::capabilities::{Capabilities, Kind};
use super::connections::Connections;
use super::fit::{Expectation, Fit};
use super::wire::{self, WireError};
use crate::api::generate::{GenerateRequest, GenerateResponse};
use crate::metrics::EngineMetrics;

/// An abort is a courtesy; it must not pile up behind a dead engine.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest error body that is read.
const MAX_ERROR_BYTES: usize = 1 << 20;
/// How an engine prefixes the ids it is given.
const ID_PREFIX: &str = "generate-tokens-";

/// An engine and the connections to it.
#[derive(Debug)]
pub struct Engine {
    url: String,
    connections: Connections,
    /// What every request to it carries, its key among them.
    headers: HeaderMap,
    capabilities: arc_swap::ArcSwap<Capabilities>,
    expected: Option<Expectation>,
    fit: arc_swap::ArcSwap<Fit>,
    metrics: Arc<EngineMetrics>,
}

impl Engine {
    /// An engine at a base URL such as `http://127.0.0.1:8000`, which may want headers of its own, such as `authorization`.
    pub fn new(url: &str, connections: Connections, headers: HeaderMap, metrics: Arc<EngineMetrics>) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        let (capabilities, fit) = (arc_swap::ArcSwap::default(), arc_swap::ArcSwap::default());
        Self { url, connections, headers, capabilities, expected: None, fit, metrics }
    }

    /// One that has to be what is expected.
    pub fn expecting(self, expected: Expectation) -> Self {
        Self { expected: Some(expected), ..self }
    }

    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What is known of it.
    pub fn capabilities(&self) -> Arc<Capabilities> {
        self.capabilities.load_full()
    }

    /// How it compares with what it has to be: nothing is held against it before it was asked.
    pub fn fit(&self) -> Arc<Fit> {
        self.fit.load_full()
    }

    /// Asks it what it is. On failure what was known stays.
    pub async fn probe(&self) -> Result<(), EngineError> {
        let capabilities = Capabilities::probe(self).await?;
        if let Some(expected) = &self.expected {
            self.fit.store(Arc::new(expected.judge(&capabilities)));
        }
        self.capabilities.store(Arc::new(capabilities));
        Ok(())
    }

    /// Whether it serves other models than it did when it was asked what it is.
    pub async fn is_changed(&self) -> Result<bool, EngineError> {
        self.capabilities().are_outdated(self).await
    }

    /// Sends a request, without what this kind of engine refuses. `stream` in it decides whether chunks come as they are
    /// generated, or one with everything; none may be of more than `limit` bytes. `headers` go with it. The engine stops
    /// generating when the [`Attempt`] is dropped.
    pub async fn generate(
        self: &Arc<Self>,
        request: &GenerateRequest,
        headers: &HeaderMap,
        limit: usize,
    ) -> Result<Attempt, EngineError> {
        let body = self.body(request)?;
        let mut abort = AbortOnDrop { engine: Arc::clone(self), request_id: Some(request.request_id.clone()) };
        let post = self
            .request(Method::POST, "/inference/v1/generate")
            .header("content-type", "application/json")
            .header("x-request-id", &request.request_id)
            .headers(headers.clone())
            .body(body);
        let response = self.send(post).await.map_err(|error| self.connect(&error))?;
        if !response.status().is_success() {
            abort.disarm();
            return Err(self.status(response).await);
        }
        let streams = request.streams();
        self.check_type(response.headers(), if streams { "text/event-stream" } else { "application/json" })?;
        let answer = if streams {
            Answer::Events(Box::pin(wire::events(response.bytes_stream(), limit).eventsource()), limit)
        } else {
            Answer::Whole(Box::pin(whole(Arc::clone(self), response, limit)))
        };
        Ok(Attempt { answer, abort, done: false })
    }

    fn check_type(&self, headers: &HeaderMap, expected: &str) -> Result<(), EngineError> {
        let given = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let is_expected =
            given.get(..expected.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(expected.as_bytes()));
        if is_expected { Ok(()) } else { Err(self.garbage(format!("its content type is not {expected}"))) }
    }

    /// The request as this kind of engine takes it: one without a tokenizer refuses stop strings.
    fn body(&self, request: &GenerateRequest) -> Result<Vec<u8>, EngineError> {
        let mut fitting = std::borrow::Cow::Borrowed(request);
        if self.capabilities().kind != Kind::ScaleOut {
            for key in ["stop", "output_text_buffer_length", "include_stop_str_in_output"] {
                if request.sampling_params.contains_key(key) {
                    fitting.to_mut().sampling_params.shift_remove(key);
                }
            }
        }
        serde_json::to_vec(&*fitting).map_err(|error| self.garbage(error))
    }

    /// Whether it is up, by its `/health`.
    pub async fn is_healthy(&self, timeout: Duration) -> Result<(), EngineError> {
        let response = self.send(self.request(Method::GET, "/health").timeout(timeout)).await;
        let response = response.map_err(|error| self.connect(&error))?;
        if response.status().is_success() { Ok(()) } else { Err(self.status(response).await) }
    }

    /// A request to one of its routes.
    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.connections.request(method, format!("{}{path}", self.url)).headers(self.headers.clone())
    }

    /// Sends it. Nothing that couplet asks of an engine does harm where it is asked twice.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, reqwest::Error> {
        self.connections.send(request, &self.metrics).await
    }

    fn connect(&self, error: &reqwest::Error) -> EngineError {
        let late = error.is_connect() && error.is_timeout();
        let cause = if late { "no connection in time (connect_timeout)".to_owned() } else { root_cause(error) };
        if error.is_connect() || error.is_timeout() {
            EngineError::Connect { url: self.url.clone(), cause }
        } else {
            self.broken(cause)
        }
    }

    fn garbage(&self, cause: impl ToString) -> EngineError {
        EngineError::Garbage { url: self.url.clone(), cause: cause.to_string() }
    }

    fn too_large(&self, what: &'static str, limit: usize) -> EngineError {
        EngineError::TooLarge { url: self.url.clone(), what, limit }
    }

    fn broken(&self, cause: String) -> EngineError {
        EngineError::Broken { url: self.url.clone(), cause }
    }

    async fn status(&self, response: Response) -> EngineError {
        let status = response.status().as_u16();
        let retry_after = wire::retry_after(response.headers(), chrono::Utc::now());
        let body = wire::read(response, MAX_ERROR_BYTES).await.ok();
        let body = body.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        EngineError::Status { url: self.url.clone(), status, body, retry_after }
    }

    /// Parses one answer or event.
    fn parse(&self, json: &[u8]) -> Result<GenerateResponse, EngineError> {
        serde_json::from_slice(json).map_err(|error| {
            let reported = serde_json::from_slice::<Value>(json).ok().filter(|body| body.get("error").is_some());
            match reported {
                Some(body) => EngineError::Reported { url: self.url.clone(), body },
                // serde's text may quote the input, so only its place is told.
                None => self.garbage(format!("line {} column {}", error.line(), error.column())),
            }
        })
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, EventStreamError<WireError>>> + Send + 'static>>;
type WholeAnswer = Pin<Box<dyn Future<Output = Result<GenerateResponse, EngineError>> + Send + 'static>>;

enum Answer {
    /// And the most bytes of an event.
    Events(Events, usize),
    Whole(WholeAnswer),
}

/// One engine's answer on its way: a stream of chunks that ends after an error. Dropping it before its end stops the
/// engine.
pub struct Attempt {
    answer: Answer,
    abort: AbortOnDrop,
    done: bool,
}

impl Attempt {
    /// Tells the engine to stop: what comes from now on is of no use.
    pub fn stop(&mut self) {
        self.done = true;
        self.abort.fire();
    }

    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<GenerateResponse, EngineError>>> {
        let engine = &self.abort.engine;
        let Answer::Events(events, limit) = &mut self.answer else { return Poll::Ready(None) };
        Poll::Ready(match ready!(events.as_mut().poll_next(cx)) {
            Some(Ok(event)) if event.data == "[DONE]" => None,
            Some(Ok(event)) => Some(engine.parse(event.data.as_bytes())),
            Some(Err(EventStreamError::Transport(WireError::TooLarge))) => {
                Some(Err(engine.too_large("an event", *limit)))
            }
            Some(Err(EventStreamError::Transport(error))) => Some(Err(engine.broken(error.to_string()))),
            Some(Err(other)) => Some(Err(engine.garbage(format!("not an event stream: {other}")))),
            // vLLM ends every stream with [DONE]; without it something is missing.
            None => Some(Err(engine.broken("the stream ended before [DONE]".to_owned()))),
        })
    }
}

impl Stream for Attempt {
    type Item = Result<GenerateResponse, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let chunk = match &mut self.answer {
            Answer::Events(..) => ready!(self.poll_events(cx)),
            Answer::Whole(answer) => {
                let answer = ready!(answer.as_mut().poll(cx));
                self.done = true;
                Some(answer)
            }
        };
        self.done |= !matches!(chunk, Some(Ok(_)));
        // An engine that said something wrong may go on with it.
        let goes_on = matches!(chunk, Some(Err(EngineError::Garbage { .. } | EngineError::TooLarge { .. })));
        if self.done && !goes_on {
            self.abort.disarm();
        }
        Poll::Ready(chunk)
    }
}

async fn whole(engine: Arc<Engine>, response: Response, limit: usize) -> Result<GenerateResponse, EngineError> {
    match wire::read(response, limit).await {
        Ok(bytes) => engine.parse(&bytes),
        Err(WireError::TooLarge) => Err(engine.too_large("an answer", limit)),
        Err(error) => Err(engine.broken(error.to_string())),
    }
}

/// Aborts a request at the engine unless its answer was read to the end. Dropping the connection alone is not enough
/// for an engine that is behind another proxy, or that only looks when it writes.
struct AbortOnDrop {
    engine: Arc<Engine>,
    request_id: Option<String>,
}

impl AbortOnDrop {
    fn disarm(&mut self) {
        self.request_id = None;
    }

    fn fire(&mut self) {
        let Some(request_id) = self.request_id.take() else { return };
        let Some(path) = self.engine.capabilities().abort_path else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let engine = Arc::clone(&self.engine);
        let request = engine
            .request(Method::POST, path)
            .timeout(ABORT_TIMEOUT)
            .header("content-type", "application/json")
            .body(json!({"request_ids": [format!("{ID_PREFIX}{request_id}")]}).to_string());
        runtime.spawn(async move {
            if let Err(error) = engine.send(request).await {
                tracing::debug!(error = %root_cause(&error), "abort was not delivered");
            }
        });
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.fire();
    }
}

/// The innermost cause: reqwest's own text only repeats the URL.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
