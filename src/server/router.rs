//! From a path and a method to the endpoint that answers.

use std::sync::Arc;

use http::Method;
use hyper::body::Incoming;

use crate::api::error::ApiError;
use crate::endpoints::live::Phase;
use crate::endpoints::route::Route;
use crate::endpoints::{self, Context, Head};
use crate::metrics::Record;
use crate::respond::http::{self as response, Response};
use crate::traces::Trace;

/// A request as hyper gives it.
pub(super) type Request = http::Request<Incoming>;

/// Answers a request.
pub(super) async fn answer(
    context: Arc<Context>,
    phase: Phase,
    route: Option<Route>,
    record: &Arc<Record>,
    trace: &Trace,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(route) = route else { return Ok(unknown(request.uri().path())) };
    let method = request.method();
    if !route.allowed().split(", ").any(|allowed| method == allowed) {
        return Ok(response::method_not_allowed(route.allowed()));
    }
    if route == Route::Ready {
        return Ok(endpoints::admin::ready(&context, phase != Phase::Serving));
    }
    if *method == Method::GET || route == Route::Ping {
        return Ok(endpoints::admin::answer(&context, route));
    }
    let head = Head { headers: request.headers().clone(), record: Arc::clone(record), trace: trace.clone() };
    let body = super::read_body(request, context.settings.max_body_bytes).await?;
    endpoints::answer(context, route, &head, body).await
}

/// 404, or a redirect for a route with a slash too many at its end.
fn unknown(path: &str) -> Response {
    match path.strip_suffix('/').filter(|path| Route::of(path).is_some()) {
        Some(path) => response::redirect(path),
        None => response::error(&ApiError::detail(404, "Not Found")),
    }
}
