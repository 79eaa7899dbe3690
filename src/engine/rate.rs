//! What an API key may ask for in a minute: buckets of requests and tokens that fill up again at a steady rate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::admission::Refusal;
use super::policy::rendezvous;

/// Keys that are remembered. Beyond them those that have not spent anything lately are forgotten, and where there are none,
/// the keys that come share a bucket: whoever invents keys gains nothing.
const MOST_KEYS: usize = 10_000;
/// The bucket of the keys that found no room.
const OTHERS: u64 = 0;
const MINUTE: f64 = 60.0;

/// The limits, and what every key has left.
#[derive(Debug)]
pub(super) struct Rates {
    requests: Option<u32>,
    tokens: Option<u32>,
    buckets: Arc<Mutex<HashMap<u64, Bucket>>>,
}

/// What a key has left. Tokens of replies are charged when they come, so that there may be less than nothing.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    requests: f64,
    tokens: f64,
    at: Instant,
}

/// The key that a request was charged to.
#[derive(Debug)]
pub(super) struct Spent {
    key: u64,
    buckets: Arc<Mutex<HashMap<u64, Bucket>>>,
}

impl Rates {
    pub(super) fn new(requests: Option<u32>, tokens: Option<u32>) -> Self {
        Self { requests, tokens, buckets: Arc::default() }
    }

    /// Charges a key with a request and the tokens of its prompt, if it has anything left. A prompt may be longer than what
    /// is left: the debt is paid off before the next one. `None` without limits.
    pub(super) fn spend(&self, key: &str, tokens: usize, now: Instant) -> Result<Option<Spent>, Refusal> {
        if self.requests.is_none() && self.tokens.is_none() {
            return Ok(None);
        }
        let mut buckets = lock(&self.buckets);
        let key = self.find(rendezvous::hash(key.as_bytes()), &mut buckets, now);
        let bucket = buckets.entry(key).or_insert_with(|| self.full(now));
        self.refill(bucket, now);
        self.allow("requests", bucket.requests, 1.0, self.requests)?;
        self.allow("tokens", bucket.tokens, f64::MIN_POSITIVE, self.tokens)?;
        bucket.requests -= 1.0;
        bucket.tokens -= tokens as f64;
        Ok(Some(Spent { key, buckets: Arc::clone(&self.buckets) }))
    }

    /// The key itself where it has a bucket or there is room for one.
    fn find(&self, key: u64, buckets: &mut HashMap<u64, Bucket>, now: Instant) -> u64 {
        if buckets.len() < MOST_KEYS || buckets.contains_key(&key) {
            return key;
        }
        buckets.retain(|_, bucket| {
            self.refill(bucket, now);
            let full = self.full(now);
            bucket.requests < full.requests || bucket.tokens < full.tokens
        });
        if buckets.len() < MOST_KEYS { key } else { OTHERS }
    }

    fn full(&self, now: Instant) -> Bucket {
        let full = |limit: Option<u32>| limit.map_or(f64::INFINITY, f64::from);
        Bucket { requests: full(self.requests), tokens: full(self.tokens), at: now }
    }

    fn refill(&self, bucket: &mut Bucket, now: Instant) {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        let full = self.full(now);
        let filled =
            |left: f64, full: f64| if full.is_finite() { (left + full * passed / MINUTE).min(full) } else { full };
        *bucket = Bucket {
            requests: filled(bucket.requests, full.requests),
            tokens: filled(bucket.tokens, full.tokens),
            at: now,
        };
    }

    fn allow(&self, what: &'static str, left: f64, needed: f64, limit: Option<u32>) -> Result<(), Refusal> {
        let Some(limit) = limit.filter(|_| left < needed) else { return Ok(()) };
        let seconds = (needed - left) * MINUTE / f64::from(limit.max(1));
        Err(Refusal::RateLimited { what, limit, retry_after: (seconds.ceil() as u64).max(1) })
    }
}

impl Spent {
    /// More tokens.
    pub(super) fn charge(&self, tokens: usize) {
        if let Some(bucket) = lock(&self.buckets).get_mut(&self.key) {
            bucket.tokens -= tokens as f64;
        }
    }
}

fn lock(buckets: &Mutex<HashMap<u64, Bucket>>) -> MutexGuard<'_, HashMap<u64, Bucket>> {
    buckets.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_may_ask_so_often_and_then_as_fast_as_its_bucket_fills() {
        let (rates, start) = (Rates::new(Some(6), None), Instant::now());
        (0..6).for_each(|_| assert!(rates.spend("a", 100, start).is_ok()));
        let refused = rates.spend("a", 100, start).unwrap_err();
        assert_eq!(refused, Refusal::RateLimited { what: "requests", limit: 6, retry_after: 10 });
        assert!(rates.spend("b", 100, start).is_ok(), "another key");
        assert!(rates.spend("a", 100, start + Duration::from_secs(9)).is_err());
        assert!(rates.spend("a", 100, start + Duration::from_secs(10)).is_ok());
        assert!(rates.spend("a", 100, start + Duration::from_secs(11)).is_err());
    }

    #[test]
    fn a_debt_of_tokens_is_paid_off_first() {
        let (rates, start) = (Rates::new(None, Some(600)), Instant::now());
        let spent = rates.spend("a", 500, start).unwrap().unwrap();
        spent.charge(400);
        let refused = rates.spend("a", 1, start).unwrap_err();
        assert_eq!(refused, Refusal::RateLimited { what: "tokens", limit: 600, retry_after: 30 });
        assert!(rates.spend("a", 1, start + Duration::from_secs(31)).is_ok());
    }

    #[test]
    fn invented_keys_are_forgotten_or_share_a_bucket() {
        let (rates, start) = (Rates::new(Some(1), None), Instant::now());
        let spend = |key: usize, now| rates.spend(&key.to_string(), 1, now).is_ok();
        assert!((0..MOST_KEYS).all(|key| spend(key, start)));
        assert!(spend(MOST_KEYS, start), "the first of the others");
        assert!(!spend(MOST_KEYS + 1, start) && !spend(MOST_KEYS + 2, start));
        assert!(lock(&rates.buckets).len() <= MOST_KEYS + 1);
        let later = start + Duration::from_secs(60);
        assert!(spend(MOST_KEYS + 1, later));
        assert!(lock(&rates.buckets).len() <= 2);
    }
}
