//! The error bodies a client sees.
//!
//! vLLM answers with three shapes (measured; see `ErrorBody`). Whatever goes wrong in a stage ends as an [`ApiError`];
//! the server turns it into a response in one place.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

/// One failure as the client will see it: the HTTP status and the body that goes with it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{status}: {}", .body.message())]
pub struct ApiError {
    /// HTTP status code of the answer.
    pub status: u16,
    /// What is written as JSON.
    pub body: ErrorBody,
    /// Seconds for `Retry-After`, where a later try may succeed.
    pub retry_after: Option<u64>,
    /// The chat template refused the request, which may be the template's fault.
    pub by_template: bool,
}

/// The shapes of an error body.
#[derive(Debug, Clone)]
pub enum ErrorBody {
    /// `{"error": {"message", "type", "param", "code"}}`: what OpenAI and vLLM answer.
    OpenAi {
        /// For people. Clients match on some of vLLM's wordings, so those are kept.
        message: String,
        /// vLLM: `BadRequestError` for its own checks, `Bad Request` for body validation, `NotFoundError`, …
        kind: Cow<'static, str>,
        /// The offending field: `temperature` for vLLM's own checks, `body.temperature` for body validation.
        param: Option<String>,
        /// Repeats the status.
        code: u16,
    },
    /// `{"detail": …}`: unknown routes and methods, undecodable bytes.
    Detail(String),
    /// A body that somebody else wrote (the engine), passed on as it is.
    Verbatim(Value),
}

impl ErrorBody {
    /// The message for people.
    pub fn message(&self) -> &str {
        match self {
            Self::OpenAi { message, .. } | Self::Detail(message) => message,
            Self::Verbatim(body) => body["error"]["message"].as_str().unwrap_or("unknown error"),
        }
    }

    /// The JSON that is written.
    pub fn to_json(&self) -> Value {
        match self {
            Self::OpenAi { message, kind, param, code } => {
                json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
            }
            Self::Detail(detail) => json!({"detail": detail}),
            Self::Verbatim(body) => body.clone(),
        }
    }
}

impl Serialize for ErrorBody {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl ApiError {
    fn openai(status: u16, kind: &'static str, message: impl Into<String>, param: Option<&str>) -> Self {
        let body = ErrorBody::OpenAi {
            message: message.into(),
            kind: kind.into(),
            param: param.map(str::to_owned),
            code: status,
        };
        Self { status, body, retry_after: None, by_template: false }
    }

    /// 400 of one of vLLM's own checks (`type: "BadRequestError"`), without a parameter.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::openai(400, "BadRequestError", message, None)
    }

    /// 400 that a chat template gave.
    pub fn by_template(message: impl Into<String>) -> Self {
        Self { by_template: true, ..Self::bad_request(message) }
    }

    /// 400 of one of vLLM's own checks, about one parameter; vLLM appends ` (parameter=…, value=…)` to the text.
    pub fn bad_param(param: &str, message: impl Into<String>) -> Self {
        Self::openai(400, "BadRequestError", message, Some(param))
    }

    /// 400 of body validation (`type: "Bad Request"`, `param: "body.x"`).
    pub fn invalid_body(param: Option<&str>, message: impl Into<String>) -> Self {
        Self::openai(400, "Bad Request", message, param)
    }

    /// 404 with OpenAI's body: a model that is not served.
    pub fn not_found(param: Option<&str>, message: impl Into<String>) -> Self {
        Self::openai(404, "NotFoundError", message, param)
    }

    /// 401: no key, or a wrong one. vLLM's body for it is `{"error": "Unauthorized"}`.
    pub fn unauthorized() -> Self {
        Self::verbatim(401, json!({"error": "Unauthorized"}))
    }

    /// A status and body as the engine gave them.
    pub fn verbatim(status: u16, body: Value) -> Self {
        Self { status, body: ErrorBody::Verbatim(body), retry_after: None, by_template: false }
    }

    /// 413: the body is longer than the limit.
    pub fn body_too_large(limit: usize) -> Self {
        let message = format!("the request body exceeds {limit} bytes; raise --max-body-bytes to accept larger ones");
        Self::openai(413, "RequestEntityTooLarge", message, None)
    }

    /// 429: this client asks for too much; others may not.
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::openai(429, "RateLimitError", message, None)
    }

    /// 500: our own fault.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::openai(500, "InternalServerError", message, None)
    }

    /// 502: the engine answered with something that is not an answer.
    pub fn bad_gateway(message: impl Into<String>) -> Self {
        Self::openai(502, "BadGatewayError", message, None)
    }

    /// 503: no engine can take the request now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::openai(503, "ServiceUnavailableError", message, None)
    }

    /// 504: the engine did not answer in time.
    pub fn gateway_timeout(message: impl Into<String>) -> Self {
        Self::openai(504, "GatewayTimeoutError", message, None)
    }

    /// `{"detail": …}` with any status: routes, methods, undecodable bytes.
    pub fn detail(status: u16, detail: impl Into<String>) -> Self {
        Self { status, body: ErrorBody::Detail(detail.into()), retry_after: None, by_template: false }
    }
}
