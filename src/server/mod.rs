//! ACCEPT: the listener, the connections, and what every request passes through.
//!
//! ```text
//! accept ─▶ hyper ─▶ catch panic ─▶ authenticate ─▶ begin ─▶ route ─▶ endpoint
//!                    500, not a     401             503      404,     errors become
//!                    dropped        (/v1 …)         where    405      HTTP here
//!                    connection                     it stops
//! ```
//!
//! Where an admin address is set there are two doors, which differ in what is answered there and in who needs a key.

mod auth;
mod door;
mod router;
mod self_wake;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tower::{Service, ServiceBuilder, service_fn};
use tower_http::catch_panic::CatchPanicLayer;

use crate::api::error::ApiError;
use crate::endpoints::live::{Live, Phase};
use crate::endpoints::route::{Route, UNKNOWN};
use crate::endpoints::{self, Context};
use crate::metrics::{Cause, Record};
use crate::respond::body::Ending;
use crate::respond::http::{self as response, Response};
use crate::respond::sse;
use crate::traces::Trace;
use door::Door;
pub use door::Doors;
use router::Request;
use self_wake::SelfWake;

/// A client that has not sent its headers after this long is gone.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long clients may take to read what was written before the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// hyper grows its read buffers to what it needs; a body is read in pieces anyway.
const MAX_READ_BUFFER: usize = 64 * 1024;
/// Longer ids are not sent back: a body may give one of any length.
const LONGEST_ID: usize = 1024;
/// What a request is called by, in and out.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// After a failed accept (out of file descriptors) trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a server comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long requests are still taken while readiness is off: load balancers need a while to see it.
    pub grace: Duration,
    /// How long requests that have begun may go on after that; then they are cut.
    pub timeout: Duration,
}

/// Serves until `stop` is done, then lets the requests end that have begun. Health and readiness are answered until then.
pub async fn serve(doors: Doors, live: Arc<Live>, stop: impl Future<Output = Drain>) {
    let graceful = GracefulShutdown::new();
    tokio::select! {
        never = accept(&doors, &live, &graceful) => match never {},
        () = async { drain(&live, stop.await).await } => {}
    }
    drop(doors);
    if tokio::time::timeout(CLOSE_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::debug!("connections were still open at the end");
    }
}

async fn accept(doors: &Doors, live: &Arc<Live>, graceful: &GracefulShutdown) -> Infallible {
    let Some(admin) = &doors.admin else { return accept_at(&doors.clients, Door::Only, live, graceful).await };
    tokio::select! {
        never = accept_at(&doors.clients, Door::Clients, live, graceful) => never,
        never = accept_at(admin, Door::Admin, live, graceful) => never,
    }
}

async fn accept_at(listener: &TcpListener, door: Door, live: &Arc<Live>, graceful: &GracefulShutdown) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => spawn_connection(stream, door, live, graceful),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn drain(live: &Live, Drain { grace, timeout }: Drain) {
    tracing::info!(grace = grace.as_secs_f64(), timeout = timeout.as_secs_f64(), "stopping; no longer ready");
    live.enter(Phase::Leaving);
    tokio::time::sleep(grace).await;
    live.enter(Phase::Draining);
    if tokio::time::timeout(timeout, live.idle()).await.is_err() {
        tracing::warn!(seconds = timeout.as_secs_f64(), "requests still went on after the drain time and are cut");
        live.enter(Phase::Cut);
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, live.idle()).await; // who does not read gets no end
    }
}

fn spawn_connection(stream: TcpStream, door: Door, live: &Arc<Live>, graceful: &GracefulShutdown) {
    // Tokens are small: waiting to fill a packet would delay each of them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_READ_BUFFER);
    builder.http2().timer(TokioTimer::new());
    let service = TowerToHyperService::new(stack(door, Arc::clone(live)));
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = SelfWake::new(graceful.watch(connection));
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection ended early");
        }
    });
}

/// What leaves the outermost layer.
type StackResponse = http::Response<tower_http::body::UnsyncBoxBody<Bytes, tower::BoxError>>;

/// The tower stack, from the outside in.
fn stack(
    door: Door,
    live: Arc<Live>,
) -> impl Service<Request, Response = StackResponse, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static
{
    ServiceBuilder::new()
        // A panic is a defect, but the client gets its answer and the connection lives on.
        .layer(CatchPanicLayer::custom(panicked))
        .service(service_fn(move |request: Request| handle(door, Arc::clone(&live), request)))
}

async fn handle(door: Door, live: Arc<Live>, request: Request) -> Result<Response, Infallible> {
    let context = live.context();
    let keys = &context.settings.api_keys;
    let route = Route::of(request.uri().path()).filter(|route| door.has(*route, keys));
    let record = context.metrics.begin(route.map_or(UNKNOWN, Route::name), id_of(request.headers()));
    let is_work = !route.is_none_or(Route::only_tells);
    let trace = match route {
        Some(route @ (Route::Chat | Route::Completions)) => context.tracer.begin(route.name(), request.headers()),
        _ => Trace::default(),
    };
    let mut counted =
        Counted { record: Arc::clone(&record), trace: trace.clone(), is_work, status: 499, ending: Ending::Unread };
    let mut response = if door != Door::Admin && !auth::allows(keys, &request) {
        response::error(&ApiError::unauthorized())
    } else if is_work {
        work(&live, context, route, &record, &trace, request).await
    } else {
        if route == Some(Route::Ready) {
            live.watch();
        }
        let answer = router::answer(context, live.phase(), route, &record, &trace, request).await;
        answer.unwrap_or_else(|error| response::error(&error))
    };
    counted.status = response.status().as_u16();
    let id = record.id();
    // Fails where a body gave the request an id that no header can carry.
    if let (true, Ok(value)) = (id.len() <= LONGEST_ID, HeaderValue::from_str(&id)) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    Ok(response.map(|body| body.on_end(move |ending| counted.ended(ending))))
}

/// The id that a client gives its request, or one by chance.
fn id_of(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    given.map_or_else(endpoints::random_id, str::to_owned)
}

/// Answers a request that the server waits for when it stops.
async fn work(
    live: &Live,
    context: Arc<Context>,
    route: Option<Route>,
    record: &Arc<Record>,
    trace: &Trace,
    request: Request,
) -> Response {
    let Some(going) = live.begin() else { return refused(request.version()) };
    let answer = tokio::select! {
        answer = router::answer(context, live.phase(), route, record, trace, request) => answer,
        () = going.clone().cut() => {
            record.aborted(Cause::Shutdown);
            Err(stopping())
        }
    };
    let response = answer.unwrap_or_else(|error| response::error(&error));
    response.map(|body| body.cut_by(Box::pin(going.cut()), || sse::broken_off(&stopping())))
}

fn stopping() -> ApiError {
    ApiError {
        retry_after: Some(1),
        ..ApiError::unavailable("couplet is stopping; ask again, and another one answers")
    }
}

/// 503, and the connection is closed, so that its client's next request goes elsewhere.
fn refused(version: Version) -> Response {
    let mut response = response::error(&stopping());
    // HTTP/2 has no such header.
    if version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Counts a request when its answer has ended, also where nobody waited for it (499, as nginx calls it).
struct Counted {
    record: Arc<Record>,
    trace: Trace,
    is_work: bool,
    status: u16,
    ending: Ending,
}

impl Counted {
    fn ended(mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        match self.ending {
            Ending::Complete => {}
            Ending::Cut => self.record.aborted(Cause::Shutdown),
            Ending::Unread => self.record.aborted(Cause::Client),
        }
        self.record.end(self.status, self.is_work);
        self.trace.end(self.status, || self.record.outcome());
    }
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a request panicked; this is a defect of couplet");
    response::error(&ApiError::internal("Internal server error"))
}

/// Reads a whole body of at most `limit` bytes.
async fn read_body(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::body_too_large(limit);
    let length = request.headers().get(http::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    match Limited::new(request.into_body(), limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(ApiError::bad_request("the request body broke off before its end")),
    }
}
