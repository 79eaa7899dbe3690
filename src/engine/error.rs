//! What can go wrong between couplet and an engine.

use serde_json::Value;

use crate::api::error::ApiError;

/// A failure of an engine, or on the way to it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// No connection.
    #[error("the engine at {url} cannot be reached: {cause}")]
    Connect {
        /// Its address.
        url: String,
        /// What the transport said.
        cause: String,
    },
    /// Every engine of the pool has been tried, or may not be.
    #[error("no engine is left to try")]
    NoneLeft {
        /// Seconds until one may be asked again, where it said so.
        retry_after: Option<u64>,
    },
    /// It answered with an error.
    #[error("the engine at {url} answered {status}")]
    Status {
        /// Its address.
        url: String,
        /// HTTP status.
        status: u16,
        /// The body, where it was JSON.
        body: Option<Value>,
        /// Seconds of `Retry-After`.
        retry_after: Option<u64>,
    },
    /// The connection broke before the answer was complete.
    #[error("the engine at {url} broke off in the middle of its answer: {cause}")]
    Broken {
        /// Its address.
        url: String,
        /// What the transport said.
        cause: String,
    },
    /// What came is not the generate protocol.
    #[error("the engine at {url} sent something that is not a generate answer: {cause}")]
    Garbage {
        /// Its address.
        url: String,
        /// What was wrong with it; never its content.
        cause: String,
    },
    /// What came is larger than anything should be.
    #[error("the engine at {url} sent {what} of more than {limit} bytes (max_answer_bytes)")]
    TooLarge {
        /// Its address.
        url: String,
        /// `an event` or `an answer`.
        what: &'static str,
        /// How large it could be.
        limit: usize,
    },
    /// It gave up on the request: it shuts down, or failed inside.
    #[error("the engine at {url} ended the reply with finish reason {reason}")]
    GaveUp {
        /// Its address.
        url: String,
        /// `abort` or `error`.
        reason: String,
    },
    /// It said nothing for too long.
    #[error("the engine at {url} sent no {awaited} for {seconds} s ({key})")]
    Timeout {
        /// Its address.
        url: String,
        /// What did not come: `answer`, `first token`, `next token`.
        awaited: &'static str,
        /// How long it was waited for.
        seconds: f64,
        /// The setting that says so.
        key: &'static str,
    },
    /// The whole answer takes too long, whichever engine it comes from.
    #[error("the answer was not complete after {seconds} s ({key})")]
    TooLong {
        /// How long it could take.
        seconds: f64,
        /// The setting that says so.
        key: &'static str,
    },
    /// It reported an error in the middle of a stream.
    #[error("the engine at {url} failed while generating")]
    Reported {
        /// Its address.
        url: String,
        /// The error event.
        body: Value,
    },
}

impl EngineError {
    /// Whether another engine may do better: the failure is not the request's.
    pub fn is_engines_fault(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Broken { .. }
            | Self::Garbage { .. }
            | Self::TooLarge { .. }
            | Self::GaveUp { .. }
            | Self::Timeout { .. } => true,
            Self::NoneLeft { .. } | Self::TooLong { .. } => false,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500..),
            Self::Reported { body, .. } => body["error"]["code"].as_u64().is_none_or(|code| code >= 500),
        }
    }

    /// Its name in metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::NoneLeft { .. } => "none_left",
            Self::Status { status: 429, .. } => "busy",
            Self::Status { status: 400..500, .. } => "refused",
            Self::Status { .. } => "status",
            Self::Broken { .. } => "broken",
            Self::Garbage { .. } => "garbage",
            Self::TooLarge { .. } => "too_large",
            Self::GaveUp { .. } => "gave_up",
            Self::Timeout { .. } => "timeout",
            Self::TooLong { .. } => "too_long",
            Self::Reported { .. } => "reported",
        }
    }

    /// Seconds for which it asked to be left alone; it is busy, not broken.
    pub fn busy_for(&self) -> Option<u64> {
        match self {
            Self::Status { status: 429 | 503, retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Connect { .. } => ApiError::unavailable(message),
            EngineError::NoneLeft { retry_after } => Self { retry_after, ..ApiError::unavailable(message) },
            EngineError::Timeout { .. } | EngineError::TooLong { .. } => ApiError::gateway_timeout(message),
            // vLLM's text and type.
            EngineError::GaveUp { .. } => ApiError::internal("Internal server error"),
            EngineError::Broken { .. } | EngineError::Garbage { .. } | EngineError::TooLarge { .. } => {
                ApiError::bad_gateway(message)
            }
            EngineError::Reported { body, .. } => {
                let status = body["error"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
                ApiError::verbatim(status.filter(|status| (400..600).contains(status)).unwrap_or(500), body)
            }
            // What the engine says of the request is said to the client; its own failures are a gateway's.
            EngineError::Status { status, body: Some(body), retry_after, .. } if body.get("error").is_some() => {
                Self { retry_after, ..ApiError::verbatim(status, body) }
            }
            EngineError::Status { status: 503 | 429, retry_after, .. } => {
                Self { retry_after, ..ApiError::unavailable(message) }
            }
            EngineError::Status { .. } => ApiError::bad_gateway(message),
        }
    }
}
