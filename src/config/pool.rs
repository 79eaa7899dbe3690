//! `pool:` as written, and its checks.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;
use serde::Deserialize;

use crate::engine::policy::{Policy, prefix};
use crate::engine::pool::Options;
use crate::engine::{admission, health};

/// How a pool of engines behaves. Times are in seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolFile {
    /// `round_robin`, `random`, `least_loaded`, `power_of_two`, `session` or `prefix`.
    pub policy: Option<Policy>,
    /// The header that names a session.
    pub session_header: Option<String>,
    /// What `prefix` remembers of each engine.
    pub prefix_memory_bytes: Option<usize>,
    /// What an engine's prefix cache holds.
    pub prefix_cache_tokens: Option<u64>,
    /// How much of the mean an engine may be given by `prefix`.
    pub prefix_max_imbalance: Option<f64>,
    /// Where couplet runs.
    pub zone: Option<String>,
    /// Requests that are worked on at once.
    pub max_running: Option<usize>,
    /// Requests that wait for one of those to end.
    pub max_queued: Option<usize>,
    /// Longest wait for that.
    pub queue_timeout: Option<f64>,
    /// Requests per minute of one API key.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute of one API key.
    pub tokens_per_minute: Option<u32>,
    /// Longest time from a request to the end of its answer.
    pub request_timeout: Option<f64>,
    /// How long a stream may be silent before a comment keeps it alive.
    pub keep_alive_interval: Option<f64>,
    /// How many other engines are tried before the first token.
    pub max_retries: Option<usize>,
    /// How many times a reply goes on at another engine.
    pub max_resumes: Option<usize>,
    /// Longest wait for a connection.
    pub connect_timeout: Option<f64>,
    /// Longest wait for the first token.
    pub first_token_timeout: Option<f64>,
    /// Longest wait between two tokens.
    pub token_timeout: Option<f64>,
    /// Longest wait for an answer that does not come token by token.
    pub whole_answer_timeout: Option<f64>,
    /// Whether a decode engine computes a prompt itself that no prefill engine does.
    pub prefill_fallback: Option<bool>,
    /// Longest event or whole answer of an engine, in bytes.
    pub max_answer_bytes: Option<usize>,
    /// Time between two health checks.
    pub health_interval: Option<f64>,
    /// Unanswered health checks in a row after which an engine counts as down.
    pub unanswered_checks: Option<u32>,
    /// Failures in a row after which it is left alone.
    pub max_failures: Option<u32>,
    /// The part of its latest requests that may fail.
    pub max_error_rate: Option<f64>,
    /// How long it is left alone at first.
    pub eject_pause: Option<f64>,
    /// How long at most.
    pub max_eject_pause: Option<f64>,
    /// How long it takes until an engine that came back gets its full share.
    pub slow_start: Option<f64>,
}

impl PoolFile {
    /// Fills in defaults and checks everything. `path` is where it stands in the file, such as `models[0].pool`.
    pub fn check(self, path: &str, problems: &mut Vec<String>) -> Options {
        let mut options = Options { zone: self.zone.clone(), ..Options::default() };
        let mut checks = Checks { path, problems };
        set(&mut options.policy, self.policy);
        checks.header("session_header", self.session_header.as_deref(), &mut options.session_header);
        self.check_prefix(&mut checks, &mut options.prefix);
        self.check_admission(&mut checks, &mut options.admission);
        self.check_health(&mut checks, &mut options.health);
        set(&mut options.max_retries, self.max_retries);
        set(&mut options.max_resumes, self.max_resumes);
        set(&mut options.prefill_fallback, self.prefill_fallback);
        for (key, given, time) in [
            ("keep_alive_interval", self.keep_alive_interval, &mut options.keep_alive_interval),
            ("connect_timeout", self.connect_timeout, &mut options.connect_timeout),
            ("first_token_timeout", self.first_token_timeout, &mut options.first_token_timeout),
            ("token_timeout", self.token_timeout, &mut options.token_timeout),
            ("whole_answer_timeout", self.whole_answer_timeout, &mut options.whole_answer_timeout),
        ] {
            checks.seconds(key, given, time);
        }
        checks.at_least("max_answer_bytes", self.max_answer_bytes, 1, &mut options.max_answer_bytes);
        options
    }

    fn check_prefix(&self, checks: &mut Checks<'_>, prefix: &mut prefix::Options) {
        let bytes = 1024..=MOST_PREFIX_BYTES;
        checks.within("prefix_memory_bytes", self.prefix_memory_bytes, bytes, &mut prefix.memory_bytes);
        set(&mut prefix.cache_tokens, self.prefix_cache_tokens);
        checks.at_least("prefix_max_imbalance", self.prefix_max_imbalance, 1.0, &mut prefix.max_imbalance);
    }

    fn check_admission(&self, checks: &mut Checks<'_>, admission: &mut admission::Options) {
        checks.limit("max_running", self.max_running, &mut admission.max_running);
        set(&mut admission.max_queued, self.max_queued);
        checks.seconds("queue_timeout", self.queue_timeout, &mut admission.queue_timeout);
        checks.limit("requests_per_minute", self.requests_per_minute, &mut admission.requests_per_minute);
        checks.limit("tokens_per_minute", self.tokens_per_minute, &mut admission.tokens_per_minute);
        if self.request_timeout.is_some() {
            let timeout = admission.request_timeout.insert(std::time::Duration::MAX);
            checks.seconds("request_timeout", self.request_timeout, timeout);
        }
    }

    fn check_health(&self, checks: &mut Checks<'_>, health: &mut health::Options) {
        for (key, given, time) in [
            ("health_interval", self.health_interval, &mut health.interval),
            ("eject_pause", self.eject_pause, &mut health.pause),
            ("max_eject_pause", self.max_eject_pause, &mut health.max_pause),
            ("slow_start", self.slow_start, &mut health.slow_start),
        ] {
            checks.seconds(key, given, time);
        }
        checks.at_least("unanswered_checks", self.unanswered_checks, 1, &mut health.unanswered_checks);
        checks.at_least("max_failures", self.max_failures, 1, &mut health.max_failures);
        checks.within("max_error_rate", self.max_error_rate, 0.0..=1.0, &mut health.max_error_rate);
    }
}

/// For each engine; what is more is a slip of the hand.
const MOST_PREFIX_BYTES: usize = 1 << 30;
/// Thirty years: no longer time is meant, and clocks can reckon with it.
const LONGEST: f64 = 1e9;

/// Takes what is given; a default stays where nothing is.
fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

/// Checks values one by one; a wrong one is noted, and the default stays in its place.
struct Checks<'a> {
    path: &'a str,
    problems: &'a mut Vec<String>,
}

impl Checks<'_> {
    fn seconds(&mut self, key: &str, given: Option<f64>, time: &mut Duration) {
        let Some(given) = given else { return };
        match Duration::try_from_secs_f64(given) {
            Ok(valid) if !valid.is_zero() && given <= LONGEST => *time = valid,
            _ => self.refuse(key, format_args!("{given} is no time; give seconds above 0, such as 2.5")),
        }
    }

    fn within<T>(&mut self, key: &str, given: Option<T>, range: RangeInclusive<T>, value: &mut T)
    where
        T: PartialOrd + Display,
    {
        match given {
            Some(given) if range.contains(&given) => *value = given,
            Some(given) => {
                let (least, most) = range.into_inner();
                self.refuse(key, format_args!("{given} is not between {least} and {most}"));
            }
            None => {}
        }
    }

    fn at_least<T: PartialOrd + Display>(&mut self, key: &str, given: Option<T>, least: T, value: &mut T) {
        match given {
            Some(given) if given >= least => *value = given,
            Some(given) => self.refuse(key, format_args!("{given} is less than {least}")),
            None => {}
        }
    }

    fn limit<T: Default + PartialEq>(&mut self, key: &str, given: Option<T>, limit: &mut Option<T>) {
        if given == Some(T::default()) {
            self.refuse(key, format_args!("0 would let nothing in; leave it out for no limit"));
        }
        *limit = given;
    }

    fn header(&mut self, key: &str, given: Option<&str>, name: &mut HeaderName) {
        match given.map(str::parse) {
            Some(Ok(valid)) => *name = valid,
            Some(Err(_)) => self.refuse(
                key,
                format_args!("{:?} is no name of a header, such as x-session-id", given.unwrap_or_default()),
            ),
            None => {}
        }
    }

    fn refuse(&mut self, key: &str, reason: std::fmt::Arguments<'_>) {
        self.problems.push(format!("{}.{key}: {reason}", self.path));
    }
}
