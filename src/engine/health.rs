//! Whether an engine is well: what its `/health` says, and how requests to it end.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures in a row after which an engine is left alone.
const MOST_FAILURES: u32 = 3;
/// Unanswered health checks in a row after which it counts as down.
const MOST_UNANSWERED: u32 = 2;
/// How long it is left alone at first; twice as long each time it fails again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The health of one engine: a circuit breaker, opened by failures, tried again with one request.
#[derive(Debug, Default)]
pub struct Health(Mutex<Record>);

#[derive(Debug)]
struct Record {
    failures: u32,
    unanswered: u32,
    pause: Duration,
    paused_until: Option<Instant>,
    busy_until: Option<Instant>,
    on_trial: bool,
    refused: Option<String>,
}

impl Default for Record {
    fn default() -> Self {
        Self {
            failures: 0,
            unanswered: 0,
            pause: FIRST_PAUSE,
            paused_until: None,
            busy_until: None,
            on_trial: false,
            refused: None,
        }
    }
}

impl Health {
    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may be sent a request now.
    pub fn is_well(&self, now: Instant) -> bool {
        let record = self.record();
        let over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        record.refused.is_none()
            && record.unanswered < MOST_UNANSWERED
            && over(record.busy_until)
            && over(record.paused_until)
            && !(record.paused_until.is_some() && record.on_trial)
    }

    /// A request goes to it. After a pause this one is its trial: others wait for how it ends.
    pub fn begin(&self) {
        let mut record = self.record();
        record.on_trial = record.paused_until.is_some();
    }

    /// A request got an answer.
    pub fn succeeded(&self) {
        let mut record = self.record();
        let (unanswered, refused) = (record.unanswered, record.refused.take());
        *record = Record { unanswered, refused, ..Record::default() };
    }

    /// A request failed by the engine's fault.
    pub fn failed(&self, now: Instant) {
        let mut record = self.record();
        if record.paused_until.is_some_and(|until| until > now) {
            return; // one of many requests that the same incident ended
        }
        record.failures += 1;
        if record.on_trial || record.failures >= MOST_FAILURES {
            record.paused_until = Some(now + record.pause);
            record.pause = (record.pause * 2).min(LONGEST_PAUSE);
            record.on_trial = false;
        }
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

    /// Why it gets no requests now; `None` where it is well.
    pub fn complaint(&self, now: Instant) -> Option<String> {
        if self.is_well(now) {
            return None;
        }
        let record = self.record();
        Some(match &record.refused {
            Some(reason) => reason.clone(),
            None if record.unanswered >= MOST_UNANSWERED => "does not answer health checks".to_owned(),
            None if record.busy_until.is_some_and(|until| until > now) => "asked to be left alone".to_owned(),
            None => "left alone after failures".to_owned(),
        })
    }

    /// A health check was answered or not. Returns whether that changed whether it counts as up.
    pub fn checked(&self, answered: bool) -> bool {
        let mut record = self.record();
        let was_up = record.unanswered < MOST_UNANSWERED;
        record.unanswered = if answered { 0 } else { record.unanswered.saturating_add(1) };
        was_up != (record.unanswered < MOST_UNANSWERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_the_breaker_and_one_trial_closes_it() {
        let (health, start) = (Health::default(), Instant::now());
        let after = |seconds: f64| start + Duration::from_secs_f64(seconds);
        (0..2).for_each(|_| health.failed(start));
        assert!(health.is_well(start));
        health.failed(start);
        assert!(!health.is_well(after(0.9)));
        assert!(health.is_well(after(1.0)));
        health.begin();
        assert!(!health.is_well(after(1.0)), "one trial at a time");
        health.failed(after(1.0));
        assert!(!health.is_well(after(2.9)), "twice the pause");
        assert!(health.is_well(after(3.0)));
        health.begin();
        health.succeeded();
        assert!(health.is_well(after(3.0)));
        health.failed(after(3.0));
        assert!(health.is_well(after(3.0)), "the count starts again");
    }

    #[test]
    fn many_requests_that_fail_at_once_are_one_incident() {
        let (health, start) = (Health::default(), Instant::now());
        (0..100).for_each(|_| health.failed(start));
        assert!(health.is_well(start + FIRST_PAUSE));
    }

    #[test]
    fn a_trial_that_tells_nothing_gives_way_to_the_next() {
        let (health, start) = (Health::default(), Instant::now());
        (0..3).for_each(|_| health.failed(start));
        health.begin();
        health.left();
        assert!(health.is_well(start + FIRST_PAUSE));
    }

    #[test]
    fn unanswered_checks_take_it_out_and_an_answer_takes_it_back() {
        let (health, now) = (Health::default(), Instant::now());
        assert!(!health.checked(false));
        assert!(health.is_well(now));
        assert!(health.checked(false));
        assert!(!health.is_well(now));
        assert!(health.checked(true));
        assert!(health.is_well(now));
    }
}
