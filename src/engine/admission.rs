//! How many requests a pool works on at once, how many wait, and for how long.
//!
//! In: a request that wants in. Out: a [`Ticket`] that is its place until it is dropped, which should be when the answer's
//! body ends; or a [`Refusal`]. Who gives up waiting leaves its place in the queue at once. First come, first served:
//! priorities are the engine's business, which gets them with the request.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use super::EngineError;
use super::rate::{Rates, Spent};
use crate::api::error::ApiError;
use crate::metrics::PoolMetrics;

/// After a full queue: long enough for a place to come free, short enough not to idle.
const QUEUE_RETRY_AFTER: u64 = 1;

/// What a pool lets in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Requests that are worked on at once; `None`: any number.
    pub max_running: Option<usize>,
    /// Requests that wait for one of those to end.
    pub max_queued: usize,
    /// Longest wait.
    pub queue_timeout: Duration,
    /// Requests per minute of one API key; `None`: any number.
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and replies per minute of one API key; `None`: any number.
    pub tokens_per_minute: Option<u32>,
    /// Longest time from the moment a request wants in to the end of its answer; `None`: as long as it takes.
    pub request_timeout: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_running: None,
            max_queued: 1000,
            queue_timeout: Duration::from_secs(60),
            requests_per_minute: None,
            tokens_per_minute: None,
            request_timeout: None,
        }
    }
}

/// Why a request is not let in. The text names the setting.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// As many wait as may.
    #[error("{queued} requests are waiting already (max_queued)")]
    QueueFull {
        /// How many.
        queued: usize,
    },
    /// It waited for too long.
    #[error("no request ended within {seconds} s (queue_timeout)")]
    QueueTimeout {
        /// How long it waited.
        seconds: f64,
    },
    /// Its API key has used up what it may.
    #[error("the rate limit of this API key is reached: {limit} {what} per minute")]
    RateLimited {
        /// `requests` or `tokens`.
        what: &'static str,
        /// How many are allowed.
        limit: u32,
        /// Seconds until there is something again.
        retry_after: u64,
    },
}

impl Refusal {
    fn reason(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::QueueTimeout { .. } => "queue_timeout",
            Self::RateLimited { .. } => "rate_limit",
        }
    }
}

impl From<Refusal> for ApiError {
    /// The pool is full: 503, another couplet may have room. The key's limit is reached: 429, nobody has.
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::RateLimited { retry_after, .. } => {
                Self { retry_after: Some(retry_after), ..Self::too_many_requests(message) }
            }
            _ => Self { retry_after: Some(QUEUE_RETRY_AFTER), ..Self::unavailable(message) },
        }
    }
}

/// The door of a pool.
#[derive(Debug)]
pub(super) struct Admission {
    options: Options,
    places: Option<Arc<Semaphore>>,
    /// Room in the queue.
    queue: Arc<Semaphore>,
    rates: Rates,
    metrics: Arc<PoolMetrics>,
}

/// A request's place in a pool.
#[derive(Debug)]
pub struct Ticket {
    spent: Option<Spent>,
    /// Given back when this is dropped.
    _place: Option<OwnedSemaphorePermit>,
    deadline: Option<Deadline>,
    metrics: Arc<PoolMetrics>,
}

/// When an answer has to be complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: tokio::time::Instant,
    allowed: Duration,
}

impl Admission {
    pub(super) fn new(options: Options, metrics: Arc<PoolMetrics>) -> Self {
        let places = options.max_running.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        let queue = Arc::new(Semaphore::new(options.max_queued.min(Semaphore::MAX_PERMITS)));
        let rates = Rates::new(options.requests_per_minute, options.tokens_per_minute);
        Self { options, places, queue, rates, metrics }
    }

    /// Lets a request with a prompt of `tokens` in, when there is a place.
    pub(super) async fn enter(&self, key: &str, tokens: usize) -> Result<Ticket, Refusal> {
        let deadline =
            self.options.request_timeout.map(|allowed| Deadline { at: tokio::time::Instant::now() + allowed, allowed });
        let entered = match self.rates.spend(key, tokens, Instant::now()) {
            Ok(spent) => self.place().await.map(|place| (spent, place)),
            Err(refusal) => Err(refusal),
        };
        let (spent, place) = entered.inspect_err(|refusal| {
            self.metrics.refused(refusal.reason());
            tracing::info!(reason = refusal.reason(), "a request is refused");
        })?;
        self.metrics.running.inc();
        Ok(Ticket { spent, _place: place, deadline, metrics: Arc::clone(&self.metrics) })
    }

    async fn place(&self) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        let Some(places) = &self.places else { return Ok(None) };
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return Ok(Some(place));
        }
        let Ok(_room) = self.queue.try_acquire() else {
            return Err(Refusal::QueueFull { queued: self.options.max_queued });
        };
        let waiting = Waiting::new(&self.metrics);
        let patience = self.options.queue_timeout;
        let place = tokio::time::timeout(patience, Arc::clone(places).acquire_owned()).await;
        drop(waiting);
        // The semaphore is never closed, so that all that can go wrong is the time.
        let place = place.ok().and_then(Result::ok);
        place.map(Some).ok_or(Refusal::QueueTimeout { seconds: patience.as_secs_f64() })
    }
}

impl Ticket {
    /// Waits for something no longer than the answer may take.
    pub(super) async fn in_time<T>(&self, something: impl Future<Output = T>) -> Result<T, EngineError> {
        let Some(deadline) = self.deadline else { return Ok(something.await) };
        tokio::time::timeout_at(deadline.at, something).await.map_err(|_| deadline.missed())
    }

    /// When its answer has to be complete.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// Tokens of the reply are charged to the key when they come.
    pub(super) fn charge(&self, tokens: usize) {
        if let Some(spent) = &self.spent {
            spent.charge(tokens);
        }
    }
}

impl Deadline {
    /// Done when it has come.
    pub(super) fn comes(&self) -> Pin<Box<Sleep>> {
        Box::pin(tokio::time::sleep_until(self.at))
    }

    /// What is said then.
    pub(super) fn missed(&self) -> EngineError {
        EngineError::TooLong { seconds: self.allowed.as_secs_f64(), key: "request_timeout" }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.metrics.running.dec();
    }
}

/// Counts a request that waits, until it is dropped.
struct Waiting<'a> {
    metrics: &'a PoolMetrics,
    since: Instant,
}

impl<'a> Waiting<'a> {
    fn new(metrics: &'a PoolMetrics) -> Self {
        metrics.queued.inc();
        Self { metrics, since: Instant::now() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.metrics.queued.dec();
        self.metrics.queue_seconds.observe(self.since.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn admission(max_running: usize, max_queued: usize) -> Arc<Admission> {
        let options = Options {
            max_running: Some(max_running),
            max_queued,
            queue_timeout: Duration::from_secs(5),
            ..Options::default()
        };
        Arc::new(Admission::new(options, Metrics::new().unwrap().pool("m")))
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_too_many_waits_and_who_comes_after_those_is_refused() {
        let admission = admission(1, 1);
        let first = admission.enter("", 1).await.unwrap();
        let waiting = Arc::clone(&admission);
        let second = tokio::spawn(async move { waiting.enter("", 1).await });
        tokio::task::yield_now().await;
        assert_eq!((admission.metrics.running.get(), admission.metrics.queued.get()), (1, 1));
        assert_eq!(admission.enter("", 1).await.unwrap_err(), Refusal::QueueFull { queued: 1 });
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert_eq!((admission.metrics.running.get(), admission.metrics.queued.get()), (1, 0));
        assert_eq!(admission.enter("", 1).await.unwrap_err(), Refusal::QueueTimeout { seconds: 5.0 });
        drop(second);
        assert_eq!((admission.metrics.running.get(), admission.metrics.queued.get()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_leaves_its_place_to_others() {
        let admission = admission(1, 1);
        let first = admission.enter("", 1).await.unwrap();
        for _ in 0..3 {
            let given_up = tokio::time::timeout(Duration::from_secs(1), admission.enter("", 1)).await;
            assert!(given_up.is_err(), "it waits");
            assert_eq!(admission.metrics.queued.get(), 0);
        }
        drop(first);
        assert!(admission.enter("", 1).await.is_ok());
    }

    #[tokio::test]
    async fn without_limits_everybody_is_let_in() {
        let admission = Admission::new(Options::default(), Metrics::new().unwrap().pool("m"));
        let mut tickets = Vec::new();
        for _ in 0..5000 {
            tickets.push(admission.enter("", 1).await.unwrap());
        }
        assert_eq!(admission.metrics.running.get(), 5000);
    }
}
