//! Responses from values, and the one place where errors become HTTP.

use ::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use ::http::{HeaderValue, StatusCode};
use bytes::Bytes;

use super::body::{Body, ByteStream};
use crate::api::error::ApiError;

/// A response of this server.
pub type Response = ::http::Response<Body>;

/// 200 with JSON that is already written.
pub fn json(body: impl Into<Bytes>) -> Response {
    with_type(StatusCode::OK, HeaderValue::from_static("application/json"), Body::from(body.into()))
}

/// 200 with server-sent events.
pub fn events(stream: ByteStream) -> Response {
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    let mut response = with_type(StatusCode::OK, kind, Body::stream(stream));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// 200 with text of a given type.
pub fn text(kind: &'static str, body: impl Into<Bytes>) -> Response {
    with_type(StatusCode::OK, HeaderValue::from_static(kind), Body::from(body.into()))
}

/// 200 and nothing else.
pub fn empty() -> Response {
    ::http::Response::new(Body::empty())
}

/// 405 with the methods that the route has.
pub fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = error(&ApiError::detail(405, "Method Not Allowed"));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// 307 to the same route without the slash at its end.
pub fn redirect(location: &str) -> Response {
    let mut response = ::http::Response::new(Body::empty());
    *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(::http::header::LOCATION, location);
    }
    response
}

/// An error as the client sees it.
pub fn error(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = Bytes::from(error.body.to_json().to_string());
    let mut response = with_type(status, HeaderValue::from_static("application/json"), Body::from(body));
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn with_type(status: StatusCode, kind: HeaderValue, body: Body) -> Response {
    let mut response = ::http::Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
