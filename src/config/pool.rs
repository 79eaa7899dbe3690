//! `pool:` as written, and its checks.

use std::time::Duration;

use http::HeaderName;
use serde::Deserialize;

use crate::engine::admission;
use crate::engine::policy::{Policy, prefix};
use crate::engine::pool::Options;

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
    /// Time between two health checks.
    pub health_interval: Option<f64>,
}

impl PoolFile {
    /// Fills in defaults and checks everything. `path` is where it stands in the file, such as `models[0].pool`.
    pub fn check(self, path: &str, problems: &mut Vec<String>) -> Options {
        let defaults = Options::default();
        let mut checks = Checks { path, problems };
        Options {
            policy: self.policy.unwrap_or_default(),
            session_header: checks.header("session_header", self.session_header, defaults.session_header),
            prefix: prefix::Options {
                memory_bytes: self.prefix_memory_bytes.unwrap_or(defaults.prefix.memory_bytes),
                cache_tokens: self.prefix_cache_tokens.unwrap_or(defaults.prefix.cache_tokens),
                max_imbalance: checks.at_least_one(
                    "prefix_max_imbalance",
                    self.prefix_max_imbalance,
                    defaults.prefix.max_imbalance,
                ),
            },
            zone: self.zone,
            admission: admission::Options {
                max_running: checks.above_zero("max_running", self.max_running),
                max_queued: self.max_queued.unwrap_or(defaults.admission.max_queued),
                queue_timeout: checks.seconds("queue_timeout", self.queue_timeout, defaults.admission.queue_timeout),
                requests_per_minute: checks.above_zero("requests_per_minute", self.requests_per_minute),
                tokens_per_minute: checks.above_zero("tokens_per_minute", self.tokens_per_minute),
                request_timeout: self
                    .request_timeout
                    .map(|given| checks.seconds("request_timeout", Some(given), Duration::MAX)),
            },
            keep_alive_interval: checks.seconds(
                "keep_alive_interval",
                self.keep_alive_interval,
                defaults.keep_alive_interval,
            ),
            max_retries: self.max_retries.unwrap_or(defaults.max_retries),
            max_resumes: self.max_resumes.unwrap_or(defaults.max_resumes),
            connect_timeout: checks.seconds("connect_timeout", self.connect_timeout, defaults.connect_timeout),
            first_token_timeout: checks.seconds(
                "first_token_timeout",
                self.first_token_timeout,
                defaults.first_token_timeout,
            ),
            token_timeout: checks.seconds("token_timeout", self.token_timeout, defaults.token_timeout),
            health_interval: checks.seconds("health_interval", self.health_interval, defaults.health_interval),
        }
    }
}

/// Thirty years: no longer time is meant, and clocks can reckon with it.
const LONGEST: f64 = 1e9;

/// Checks values one by one; a wrong one is noted, and the default goes on in its place.
struct Checks<'a> {
    path: &'a str,
    problems: &'a mut Vec<String>,
}

impl Checks<'_> {
    fn seconds(&mut self, key: &str, given: Option<f64>, default: Duration) -> Duration {
        let Some(given) = given else { return default };
        let valid = Duration::try_from_secs_f64(given).ok().filter(|time| !time.is_zero() && given <= LONGEST);
        valid.unwrap_or_else(|| {
            self.refuse(key, format_args!("{given} is no time; give seconds above 0, such as 2.5"));
            default
        })
    }

    fn above_zero<T: Default + PartialEq>(&mut self, key: &str, given: Option<T>) -> Option<T> {
        if given == Some(T::default()) {
            self.refuse(key, format_args!("0 would let nothing in; leave it out for no limit"));
        }
        given
    }

    fn at_least_one(&mut self, key: &str, given: Option<f64>, default: f64) -> f64 {
        let Some(given) = given else { return default };
        if given.is_finite() && given >= 1.0 {
            return given;
        }
        self.refuse(key, format_args!("{given} is too little; give 1 or more, such as 1.2"));
        default
    }

    fn header(&mut self, key: &str, given: Option<String>, default: HeaderName) -> HeaderName {
        let Some(given) = given else { return default };
        given.parse().unwrap_or_else(|_| {
            self.refuse(key, format_args!("{given:?} is no name of a header, such as x-session-id"));
            default
        })
    }

    fn refuse(&mut self, key: &str, reason: std::fmt::Arguments<'_>) {
        self.problems.push(format!("{}.{key}: {reason}", self.path));
    }
}
