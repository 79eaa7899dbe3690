//! Whether an engine is well: what its `/health` says, and how requests to it end.
//!
//! ```text
//!            failures in a row, or too many of the latest           pause over
//! well ─────────────────────────────────────────────────▶ left alone ─────────▶ on trial: one request
//!   ▲                                                          ▲                   │ │
//!   └── with a small share first, which grows ◀── it answers ──┼───────────────────┘ │
//!                                                              └─ it fails: twice as long
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Of so many latest requests the error rate is told; fewer than [`LEAST_SEEN`] tell nothing.
const WINDOW: u32 = u32::BITS;
const LEAST_SEEN: u32 = 10;
/// How much longer a pause may be, by chance: several couplets should not come back all at once.
const JITTER: f64 = 0.25;
/// The share of an engine that has just come back.
const LEAST_SHARE: f64 = 0.1;

/// When an engine counts as unwell, and how it comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Time between two health checks.
    pub interval: Duration,
    /// Unanswered health checks in a row after which it counts as down; one that says so itself is down at once.
    pub unanswered_checks: u32,
    /// Failures in a row after which it is left alone.
    pub max_failures: u32,
    /// The part of its latest 32 requests that may fail, of ten at least.
    pub max_error_rate: f64,
    /// How long it is left alone at first; twice as long each time it fails again, and up to a quarter more by chance.
    pub pause: Duration,
    /// The longest pause.
    pub max_pause: Duration,
    /// How long it takes from its return until it gets its full share.
    pub slow_start: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            unanswered_checks: 2,
            max_failures: 3,
            max_error_rate: 0.5,
            pause: Duration::from_secs(1),
            max_pause: Duration::from_secs(60),
            slow_start: Duration::from_secs(30),
        }
    }
}

/// How a health check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// It is well.
    Well,
    /// It says that it is not: it starts, drains, or has died inside.
    Unwell,
    /// It does not answer.
    Silent,
}

/// The health of one engine: a circuit breaker, opened by failures, tried again with one request.
#[derive(Debug)]
pub struct Health {
    options: Mutex<Options>,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// Failures in a row.
    failures: u32,
    /// The latest outcomes, a bit each, 1 for a failure, and how many there are.
    latest: u32,
    seen: u32,
    /// Health checks in a row that were not answered.
    unanswered: u32,
    says_unwell: bool,
    /// How many pauses there were without a success between them.
    pauses: u32,
    paused_until: Option<Instant>,
    busy_until: Option<Instant>,
    on_trial: bool,
    returned: Option<Instant>,
    refused: Option<String>,
}

/// How an engine's breaker stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Breaker {
    /// Failures in a row.
    pub failures: u32,
    /// Pauses without a success between them.
    pub pauses: u32,
    /// How long it is still left alone.
    pub left_alone_for: Option<Duration>,
    /// Whether the request that tries it again is on its way.
    pub on_trial: bool,
}

impl Default for Health {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Health {
    /// Of an engine that is taken to be well until it shows otherwise.
    pub fn new(options: Options) -> Self {
        Self { options: Mutex::new(options), record: Mutex::default() }
    }

    fn options(&self) -> Options {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other rules hold from now on. What is known stays.
    pub fn follow(&self, options: Options) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may be sent a request now.
    pub fn is_well(&self, now: Instant) -> bool {
        let record = self.record();
        let over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        record.refused.is_none()
            && self.is_up(&record)
            && over(record.busy_until)
            && over(record.paused_until)
            && !(record.paused_until.is_some() && record.on_trial)
    }

    fn is_up(&self, record: &Record) -> bool {
        !record.says_unwell && record.unanswered < self.options().unanswered_checks
    }

    /// Why it gets no requests now; `None` where it is well.
    pub fn complaint(&self, now: Instant) -> Option<String> {
        if self.is_well(now) {
            return None;
        }
        let record = self.record();
        Some(match &record.refused {
            Some(reason) => reason.clone(),
            None if record.says_unwell => "says that it is not well".to_owned(),
            None if !self.is_up(&record) => "does not answer health checks".to_owned(),
            None if record.busy_until.is_some_and(|until| until > now) => "asked to be left alone".to_owned(),
            None => "left alone after failures".to_owned(),
        })
    }

    /// How its breaker stands.
    pub fn breaker(&self, now: Instant) -> Breaker {
        let record = self.record();
        Breaker {
            failures: record.failures,
            pauses: record.pauses,
            left_alone_for: record.paused_until.and_then(|until| until.checked_duration_since(now)),
            on_trial: record.on_trial,
        }
    }

    /// What part of its share it gets: after a return little first, as its caches are cold and many wait.
    pub fn share(&self, now: Instant) -> f64 {
        let Some(returned) = self.record().returned else { return 1.0 };
        let since = now.saturating_duration_since(returned).as_secs_f64();
        (since / self.options().slow_start.as_secs_f64()).clamp(LEAST_SHARE, 1.0)
    }

    /// How long it wants to be left alone.
    pub fn busy_for(&self, now: Instant) -> Option<Duration> {
        self.record().busy_until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// A request goes to it. After a pause this one is its trial: others wait for how it ends.
    pub fn begin(&self) {
        let mut record = self.record();
        record.on_trial = record.paused_until.is_some();
    }

    /// A request got an answer.
    pub fn succeeded(&self, now: Instant) {
        let mut record = self.record();
        if record.paused_until.take().is_some() {
            (record.latest, record.seen, record.returned) = (0, 0, Some(now));
        }
        record.note(false);
        (record.failures, record.pauses) = (0, 0);
        record.on_trial = false;
    }

    /// A request failed by the engine's fault. Returns whether it is left alone from now on.
    pub fn failed(&self, now: Instant) -> bool {
        let mut record = self.record();
        if record.paused_until.is_some_and(|until| until > now) {
            return false; // one of many requests that the same incident ended
        }
        record.failures += 1;
        record.note(true);
        let ejected =
            record.on_trial || record.failures >= self.options().max_failures || self.fails_too_often(&record);
        if ejected {
            record.paused_until = Some(now + self.pause(record.pauses));
            record.pauses = record.pauses.saturating_add(1);
            record.on_trial = false;
        }
        ejected
    }

    fn fails_too_often(&self, record: &Record) -> bool {
        let failed = f64::from(record.latest.count_ones());
        record.seen >= LEAST_SEEN && failed > self.options().max_error_rate * f64::from(record.seen)
    }

    /// Twice as long as the one before, and a bit more by chance.
    fn pause(&self, before: u32) -> Duration {
        let Options { pause, max_pause, .. } = self.options();
        let random = RandomState::new().hash_one(before) as f64 / u64::MAX as f64;
        pause.saturating_mul(1 << before.min(30)).min(max_pause).mul_f64(1.0 + JITTER * random)
    }

    /// It asked to be left alone.
    pub fn busy(&self, until: Instant) {
        let mut record = self.record();
        record.busy_until = Some(until);
        record.on_trial = false;
    }

    /// A request ended without telling anything about the engine.
    pub fn left(&self) {
        self.record().on_trial = false;
    }

    /// It is not the engine that this pool needs, for this reason; `None` takes that back.
    pub fn refuse(&self, reason: Option<String>) {
        self.record().refused = reason;
    }

    /// Whether it is not the engine that this pool needs.
    pub fn is_refused(&self) -> bool {
        self.record().refused.is_some()
    }

    /// How a health check ended. Returns whether that changed whether it counts as up.
    pub fn checked(&self, check: Check, now: Instant) -> bool {
        let mut record = self.record();
        let was_up = self.is_up(&record);
        // Who said so and then is silent has not got better.
        record.says_unwell = check == Check::Unwell || (check == Check::Silent && record.says_unwell);
        record.unanswered = if check == Check::Silent { record.unanswered.saturating_add(1) } else { 0 };
        let is_up = self.is_up(&record);
        if is_up && !was_up {
            record.returned = Some(now);
        }
        was_up != is_up
    }
}

impl Record {
    fn note(&mut self, failed: bool) {
        self.latest = self.latest << 1 | u32::from(failed);
        self.seen = (self.seen + 1).min(WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new() -> (Health, Instant) {
        (Health::default(), Instant::now())
    }

    fn fail(health: &Health, times: u32, now: Instant) {
        for _ in 0..times {
            health.failed(now);
        }
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn failures_in_a_row_open_the_breaker_and_one_trial_closes_it() {
        let (health, start) = new();
        let after = |time: f64| start + seconds(time);
        (0..2).for_each(|_| assert!(!health.failed(start)));
        assert!(health.is_well(start));
        assert!(health.failed(start));
        assert!(!health.is_well(after(0.99)));
        assert!(health.is_well(after(1.25)), "a second, and up to a quarter more");
        health.begin();
        assert!(!health.is_well(after(1.25)), "one trial at a time");
        assert!(health.failed(after(1.25)));
        assert!(!health.is_well(after(3.2)), "twice the pause");
        assert!(health.is_well(after(3.75)));
        health.begin();
        health.succeeded(after(3.75));
        assert!(health.is_well(after(3.75)));
        assert!(!health.failed(after(3.75)), "the count starts again");
        assert!(health.is_well(after(3.75)));
    }

    #[test]
    fn who_fails_too_often_is_left_alone_though_never_three_times_in_a_row() {
        let (health, now) = new();
        let outcomes = [true, true, false, true, true, false, true, true, false, true];
        let ejected = outcomes.map(|failed| {
            if failed {
                health.failed(now)
            } else {
                health.succeeded(now);
                false
            }
        });
        assert_eq!(ejected.iter().position(|ejected| *ejected), Some(9), "seven of ten");
        let (health, now) = new();
        for _ in 0..20 {
            health.succeeded(now);
            assert!(!health.failed(now), "half of them may");
        }
    }

    #[test]
    fn who_comes_back_gets_a_small_share_that_grows() {
        let (health, start) = new();
        assert_eq!(health.share(start), 1.0);
        fail(&health, 3, start);
        let back = start + seconds(2.0);
        health.begin();
        health.succeeded(back);
        assert_eq!(health.share(back), LEAST_SHARE);
        assert!((0.49..0.51).contains(&health.share(back + seconds(15.0))));
        assert_eq!(health.share(back + seconds(30.0)), 1.0);
    }

    #[test]
    fn many_requests_that_fail_at_once_are_one_incident() {
        let (health, start) = new();
        fail(&health, 100, start);
        assert!(health.is_well(start + seconds(1.25)));
    }

    #[test]
    fn a_pause_has_an_end() {
        let (health, mut now) = new();
        for _ in 0..40 {
            fail(&health, 3, now);
            now += seconds(75.0);
            assert!(health.is_well(now), "a minute, and up to a quarter more");
            health.begin();
        }
    }

    #[test]
    fn a_trial_that_tells_nothing_gives_way_to_the_next() {
        let (health, start) = new();
        fail(&health, 3, start);
        health.begin();
        health.left();
        assert!(health.is_well(start + seconds(1.25)));
    }

    #[test]
    fn unanswered_checks_take_it_out_and_an_answer_takes_it_back() {
        let (health, now) = new();
        assert!(!health.checked(Check::Silent, now));
        assert!(health.is_well(now));
        assert!(health.checked(Check::Silent, now));
        assert!(!health.is_well(now));
        assert!(health.checked(Check::Well, now));
        assert!(health.is_well(now));
        assert_eq!(health.share(now), LEAST_SHARE);
    }

    #[test]
    fn who_says_that_it_is_unwell_is_taken_out_at_once() {
        let (health, now) = new();
        assert!(health.checked(Check::Unwell, now));
        assert!(!health.is_well(now));
        assert!(!health.checked(Check::Silent, now), "it is not back because it does not answer any more");
        assert!(!health.is_well(now));
    }

    #[test]
    fn who_is_busy_is_left_alone_for_as_long_as_it_said() {
        let (health, now) = new();
        health.busy(now + seconds(5.0));
        assert_eq!(health.busy_for(now), Some(seconds(5.0)));
        assert!(!health.is_well(now + seconds(4.9)));
        assert!(health.is_well(now + seconds(5.0)));
        assert_eq!(health.busy_for(now + seconds(5.0)), None);
    }
}
