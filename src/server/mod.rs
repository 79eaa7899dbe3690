//! ACCEPT: the listener, the connections, and what every request passes through.
//!
//! ```text
//! accept ─▶ hyper ─▶ catch panic ─▶ authenticate ─▶ route ─▶ endpoint
//!                    500, not a     401             404,     errors become
//!                    dropped        (/v1 …)         405      HTTP here
//!                    connection
//! ```

mod auth;
mod router;
mod self_wake;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tower::{Service, ServiceBuilder, service_fn};
use tower_http::catch_panic::CatchPanicLayer;

use crate::api::error::ApiError;
use crate::endpoints::Context;
use crate::endpoints::route::Route;
use crate::respond::http::{self as response, Response};
use router::Request;
use self_wake::SelfWake;

/// A client that has not sent its headers after this long is gone.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long streams may go on after a signal to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// hyper grows its read buffers to what it needs; a body is read in pieces anyway.
const MAX_READ_BUFFER: usize = 64 * 1024;
/// After a failed accept (out of file descriptors) trying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is done, then lets the open streams end.
pub async fn serve(listener: TcpListener, context: Arc<Context>, stop: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => spawn_connection(stream, &context, &graceful),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = &mut stop => break,
        }
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = DRAIN_TIMEOUT.as_secs(), "streams were still open after the drain time and are cut");
    }
}

fn spawn_connection(stream: TcpStream, context: &Arc<Context>, graceful: &GracefulShutdown) {
    // Tokens are small: waiting to fill a packet would delay each of them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_READ_BUFFER);
    builder.http2().timer(TokioTimer::new());
    let service = TowerToHyperService::new(stack(Arc::clone(context)));
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
    context: Arc<Context>,
) -> impl Service<Request, Response = StackResponse, Error = Infallible, Future: Send + 'static> + Clone + Send + 'static
{
    ServiceBuilder::new()
        // A panic is a defect, but the client gets its answer and the connection lives on.
        .layer(CatchPanicLayer::custom(panicked))
        .service(service_fn(move |request: Request| handle(Arc::clone(&context), request)))
}

async fn handle(context: Arc<Context>, request: Request) -> Result<Response, Infallible> {
    let started = Instant::now();
    let route = Route::of(request.uri().path());
    let name = route.map_or("other", Route::name);
    context.metrics.in_flight.inc();
    let mut counted = CountedRequest { context: Arc::clone(&context), route: name, started, status: 499 };
    let answer = if auth::allows(&context.settings.api_keys, &request) {
        router::answer(context, route, request).await
    } else {
        Err(ApiError::unauthorized())
    };
    let response = answer.unwrap_or_else(|error| response::error(&error));
    counted.status = response.status().as_u16();
    Ok(response.map(|body| body.on_end(move || drop(counted))))
}

/// Counts a request when its answer has ended, also where nobody waited for it (499, as nginx calls it).
struct CountedRequest {
    context: Arc<Context>,
    route: &'static str,
    started: Instant,
    status: u16,
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.context.metrics.request_ended(self.route, self.status, self.started.elapsed());
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
