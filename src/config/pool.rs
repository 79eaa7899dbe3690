//! `pool:` as written, and its checks.

use std::time::Duration;

use serde::Deserialize;

use crate::engine::policy::Policy;
use crate::engine::pool::Options;

/// How a pool of engines behaves. Times are in seconds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolFile {
    /// `round_robin`, `random`, `least_loaded` or `power_of_two`.
    pub policy: Option<Policy>,
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
        let mut seconds = |key: &str, given: Option<f64>, default: Duration| {
            let Some(given) = given else { return default };
            let valid = Duration::try_from_secs_f64(given).ok().filter(|time| !time.is_zero());
            valid.unwrap_or_else(|| {
                problems.push(format!("{path}.{key}: {given} is no time; give seconds above 0, such as 2.5"));
                default
            })
        };
        Options {
            policy: self.policy.unwrap_or_default(),
            max_retries: self.max_retries.unwrap_or(defaults.max_retries),
            max_resumes: self.max_resumes.unwrap_or(defaults.max_resumes),
            connect_timeout: seconds("connect_timeout", self.connect_timeout, defaults.connect_timeout),
            first_token_timeout: seconds("first_token_timeout", self.first_token_timeout, defaults.first_token_timeout),
            token_timeout: seconds("token_timeout", self.token_timeout, defaults.token_timeout),
            health_interval: seconds("health_interval", self.health_interval, defaults.health_interval),
        }
    }
}
