//! What may go wrong, by flag or per request in `sampling_params.extra_args`.

use clap::Args;
use serde::Deserialize;

use crate::api::error::{ApiError, ErrorBody};

/// Faults of one request. Those that count tokens fire once, after that many tokens of all choices. In a request that
/// carries `script_from`, tokens count from there: one that is resumed elsewhere does not meet the fault again.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default)]
pub struct Faults {
    /// Answer with this status and generate nothing.
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(400..600))]
    pub fail_status: Option<u16>,
    /// Seconds in `Retry-After`, beside `fail_status`.
    #[arg(long, value_name = "SECONDS")]
    pub retry_after: Option<u64>,
    /// Cut the connection.
    #[arg(long, value_name = "N")]
    pub die_after_tokens: Option<u64>,
    /// Say nothing more and keep the connection.
    #[arg(long, value_name = "N")]
    pub stall_after_tokens: Option<u64>,
    /// Send one event that is not JSON and go on; not streamed: a body that is not JSON.
    #[arg(long, value_name = "N")]
    pub garbage_after_tokens: Option<u64>,
    /// End the stream in the middle of an event, as if that were all.
    #[arg(long, value_name = "N")]
    pub truncate_after_tokens: Option<u64>,
    /// Send an event of a MiB and go on; not streamed: a body of a MiB.
    #[arg(long, value_name = "N")]
    pub oversize_after_tokens: Option<u64>,
    /// End the reply with finish reason `abort`, as an engine does that shuts down.
    #[arg(long, value_name = "N")]
    pub abort_after_tokens: Option<u64>,
    /// Answer with another content type.
    #[arg(long)]
    pub wrong_type: bool,
    /// Answer health checks with this status. Only as a flag.
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(400..600))]
    #[serde(skip)]
    pub health_status: Option<u16>,
}

/// A fault that happens between two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Die,
    Stall,
    Garbage,
    Truncate,
    Oversize,
    Abort,
}

impl Faults {
    /// What the request asks for, and the flags for the rest.
    pub(super) fn or(self, flags: &Self) -> Self {
        Self {
            fail_status: self.fail_status.or(flags.fail_status),
            retry_after: self.retry_after.or(flags.retry_after),
            die_after_tokens: self.die_after_tokens.or(flags.die_after_tokens),
            stall_after_tokens: self.stall_after_tokens.or(flags.stall_after_tokens),
            garbage_after_tokens: self.garbage_after_tokens.or(flags.garbage_after_tokens),
            truncate_after_tokens: self.truncate_after_tokens.or(flags.truncate_after_tokens),
            oversize_after_tokens: self.oversize_after_tokens.or(flags.oversize_after_tokens),
            abort_after_tokens: self.abort_after_tokens.or(flags.abort_after_tokens),
            wrong_type: self.wrong_type || flags.wrong_type,
            health_status: flags.health_status,
        }
    }

    /// The error of `fail_status`.
    pub(super) fn refusal(&self) -> Option<ApiError> {
        let status = self.fail_status?;
        let kind = match status {
            400..=428 => "BadRequestError",
            429 => "RateLimitError",
            503 => "ServiceUnavailableError",
            _ => "InternalServerError",
        };
        let message = format!("simulated failure with status {status}");
        let body = ErrorBody::OpenAi { message, kind: kind.into(), param: None, code: status };
        Some(ApiError { status, body, retry_after: self.retry_after, by_template: false })
    }

    /// The faults that are still ahead when `done` tokens of the output exist already, the first one first.
    pub(super) fn schedule(&self, done: u64) -> Vec<(u64, Fault)> {
        let mut faults: Vec<_> = [
            (self.die_after_tokens, Fault::Die),
            (self.stall_after_tokens, Fault::Stall),
            (self.garbage_after_tokens, Fault::Garbage),
            (self.truncate_after_tokens, Fault::Truncate),
            (self.oversize_after_tokens, Fault::Oversize),
            (self.abort_after_tokens, Fault::Abort),
        ]
        .into_iter()
        .filter_map(|(after, fault)| Some((after?, fault)))
        .filter(|(after, _)| *after > done || done == 0)
        .collect();
        faults.sort_by_key(|(after, _)| *after);
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_request_does_not_meet_the_same_fault_again() {
        let faults = Faults { die_after_tokens: Some(5), garbage_after_tokens: Some(9), ..Faults::default() };
        assert_eq!(faults.schedule(0), [(5, Fault::Die), (9, Fault::Garbage)]);
        assert_eq!(faults.schedule(5), [(9, Fault::Garbage)]);
    }
}
