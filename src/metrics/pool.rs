//! What is counted of engines and their pools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::replies::FIRST_TOKEN_BUCKETS;

/// How requests fail at engines.
const FAILURES: [&str; 10] =
    ["connect", "busy", "refused", "status", "broken", "garbage", "too_large", "gave_up", "timeout", "reported"];

/// The metrics of all engines. An engine that left the pools leaves no series behind: where pools follow DNS, addresses
/// come and go without end.
#[derive(Debug)]
pub(super) struct EngineFamilies {
    up: IntGaugeVec,
    outstanding_tokens: IntGaugeVec,
    failures: IntCounterVec,
    ejections: IntCounterVec,
    resumes: IntCounterVec,
    reconnects: IntCounterVec,
    available: IntGaugeVec,
    first_token: HistogramVec,
    known: Mutex<HashMap<String, Weak<EngineMetrics>>>,
}

/// The metrics of one engine, resolved once.
#[derive(Debug)]
pub struct EngineMetrics {
    /// 1 where it answers health checks.
    pub up: IntGauge,
    /// 1 where it may be sent requests: it is up, fits its pool, and is not left alone. Set when somebody asks.
    pub available: IntGauge,
    /// From a request to the first token of a streamed reply.
    pub first_token: Histogram,
    /// Tokens of prompts and replies that it works on.
    pub outstanding_tokens: IntGauge,
    /// How many times it was left alone after failures.
    pub ejections: IntCounter,
    /// Replies that began elsewhere and went on at it.
    pub resumes: IntCounter,
    /// Requests that were sent again because their connection broke before an answer came.
    pub reconnects: IntCounter,
    url: String,
    families: Arc<EngineFamilies>,
}

impl EngineFamilies {
    /// Registers everything.
    pub(super) fn register(registry: &Registry) -> Result<Arc<Self>, prometheus::Error> {
        let gauge = |name, help| {
            let metric = IntGaugeVec::new(Opts::new(name, help), &["engine"])?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let counter = |name, help, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let first_token = HistogramOpts::new(
            "couplet_engine_first_token_seconds",
            "From the request to the engine to the first token of a streamed reply.",
        );
        let first_token = HistogramVec::new(first_token.buckets(FIRST_TOKEN_BUCKETS.to_vec()), &["engine"])?;
        registry.register(Box::new(first_token.clone()))?;
        Ok(Arc::new(Self {
            available: gauge(
                "couplet_engine_available",
                "1 where the engine may be sent requests: up, of the right model, and not left alone after failures.",
            )?,
            first_token,
            up: gauge("couplet_engine_up", "1 where the engine answers health checks.")?,
            outstanding_tokens: gauge(
                "couplet_engine_outstanding_tokens",
                "Tokens of prompts and replies that the engine works on.",
            )?,
            failures: counter(
                "couplet_engine_failures_total",
                "Requests that failed at the engine, by what went wrong.",
                &["engine", "kind"],
            )?,
            ejections: counter(
                "couplet_engine_ejections_total",
                "How many times the engine was left alone after failures.",
                &["engine"],
            )?,
            resumes: counter(
                "couplet_engine_resumes_total",
                "Replies that began at another engine and went on at this one.",
                &["engine"],
            )?,
            reconnects: counter(
                "couplet_engine_reconnects_total",
                "Requests that were sent again, on a new connection, because theirs broke before an answer came.",
                &["engine"],
            )?,
            known: Mutex::default(),
        }))
    }

    /// The metrics of the engine at a URL: the same for all who ask, for as long as one of them keeps them.
    pub(super) fn engine(self: &Arc<Self>, url: &str) -> Arc<EngineMetrics> {
        let mut known = self.known();
        if let Some(metrics) = known.get(url).and_then(Weak::upgrade) {
            return metrics;
        }
        let metrics = Arc::new(EngineMetrics {
            up: self.up.with_label_values(&[url]),
            available: self.available.with_label_values(&[url]),
            first_token: self.first_token.with_label_values(&[url]),
            outstanding_tokens: self.outstanding_tokens.with_label_values(&[url]),
            ejections: self.ejections.with_label_values(&[url]),
            resumes: self.resumes.with_label_values(&[url]),
            reconnects: self.reconnects.with_label_values(&[url]),
            url: url.to_owned(),
            families: Arc::clone(self),
        });
        FAILURES.iter().for_each(|kind| drop(self.failures.with_label_values(&[url, kind])));
        known.insert(url.to_owned(), Arc::downgrade(&metrics));
        metrics
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Weak<EngineMetrics>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EngineMetrics {
    fn drop(&mut self) {
        let mut known = self.families.known();
        let labels = [self.url.as_str()];
        if known.get(&self.url).is_some_and(|other| other.strong_count() > 0) {
            return; // the engine is back, and goes on counting
        }
        known.remove(&self.url);
        for gauge in [&self.families.up, &self.families.available, &self.families.outstanding_tokens] {
            let _ = gauge.remove_label_values(&labels); // fails where it is gone, which is as good
        }
        let _ = self.families.first_token.remove_label_values(&labels);
        for counter in [&self.families.ejections, &self.families.resumes, &self.families.reconnects] {
            let _ = counter.remove_label_values(&labels);
        }
        for kind in FAILURES {
            let _ = self.families.failures.remove_label_values(&[self.url.as_str(), kind]);
        }
    }
}

impl EngineMetrics {
    /// A request failed in this way.
    pub fn failed(&self, kind: &'static str) {
        debug_assert!(FAILURES.contains(&kind), "{kind} is not known");
        self.families.failures.with_label_values(&[self.url.as_str(), kind]).inc();
    }
}

/// Seconds: from a place that comes free at once to the longest that anybody waits.
const QUEUE_BUCKETS: [f64; 9] = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Why requests are not let in.
const REFUSALS: [&str; 3] = ["queue_full", "queue_timeout", "rate_limit"];
/// What becomes of prompts for prefill engines.
const PREFILLS: [&str; 3] = ["ok", "fallback", "failed"];

/// The metrics of all pools, by the model that they run.
#[derive(Debug)]
pub(super) struct PoolFamilies {
    running: IntGaugeVec,
    queued: IntGaugeVec,
    queue_seconds: HistogramVec,
    refused: IntCounterVec,
    prefills: IntCounterVec,
    retries: IntCounterVec,
    prefix_queries: IntCounterVec,
    prefix_hits: IntCounterVec,
}

/// The metrics of one pool, resolved once.
#[derive(Debug)]
pub struct PoolMetrics {
    /// Requests that were let in and whose answer has not been sent in full.
    pub running: IntGauge,
    /// Requests that wait for a place.
    pub queued: IntGauge,
    /// How long they waited, however that ended.
    pub queue_seconds: Histogram,
    /// Times that another engine was asked for a request that none had begun to answer.
    pub retries: IntCounter,
    prefix_queries: IntCounter,
    prefix_hits: IntCounter,
    refused: IntCounterVec,
    prefills: IntCounterVec,
    model: String,
}

impl PoolFamilies {
    /// Registers everything.
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| {
            let metric = IntGaugeVec::new(Opts::new(name, help), &["model"])?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let queue_seconds = HistogramOpts::new("couplet_pool_queue_seconds", "How long requests waited for a place.")
            .buckets(QUEUE_BUCKETS.to_vec());
        let queue_seconds = HistogramVec::new(queue_seconds, &["model"])?;
        registry.register(Box::new(queue_seconds.clone()))?;
        let refused = IntCounterVec::new(
            Opts::new(
                "couplet_pool_refused_total",
                "Requests that were not let in: queue_full, queue_timeout, rate_limit.",
            ),
            &["model", "reason"],
        )?;
        registry.register(Box::new(refused.clone()))?;
        let prefills = IntCounterVec::new(
            Opts::new("couplet_pool_prefills_total", "Prompts for prefill engines: ok, fallback to decode, failed."),
            &["model", "outcome"],
        )?;
        registry.register(Box::new(prefills.clone()))?;
        let counter = |name, help| {
            let metric = IntCounterVec::new(Opts::new(name, help), &["model"])?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        Ok(Self {
            retries: counter("couplet_pool_retries_total", "Times that another engine was asked after one failed.")?,
            prefix_queries: counter(
                "couplet_pool_prefix_query_tokens_total",
                "Tokens of prompts that were routed by their beginning.",
            )?,
            prefix_hits: counter(
                "couplet_pool_prefix_hit_tokens_total",
                "Tokens of such prompts that the chosen engine had served lately.",
            )?,
            running: gauge("couplet_pool_running_requests", "Requests that were let in and not answered in full.")?,
            queued: gauge("couplet_pool_queued_requests", "Requests that wait for a place.")?,
            queue_seconds,
            refused,
            prefills,
        })
    }

    /// The metrics of the pool of a model.
    pub(super) fn pool(&self, model: &str) -> Arc<PoolMetrics> {
        REFUSALS.iter().for_each(|reason| drop(self.refused.with_label_values(&[model, reason])));
        PREFILLS.iter().for_each(|outcome| drop(self.prefills.with_label_values(&[model, outcome])));
        Arc::new(PoolMetrics {
            running: self.running.with_label_values(&[model]),
            queued: self.queued.with_label_values(&[model]),
            queue_seconds: self.queue_seconds.with_label_values(&[model]),
            retries: self.retries.with_label_values(&[model]),
            prefix_queries: self.prefix_queries.with_label_values(&[model]),
            prefix_hits: self.prefix_hits.with_label_values(&[model]),
            refused: self.refused.clone(),
            prefills: self.prefills.clone(),
            model: model.to_owned(),
        })
    }
}

impl PoolMetrics {
    /// A prompt was given to a prefill engine, and this became of it.
    pub fn prefilled(&self, outcome: &'static str) {
        debug_assert!(PREFILLS.contains(&outcome), "{outcome} is not known");
        self.prefills.with_label_values(&[self.model.as_str(), outcome]).inc();
    }

    /// A prompt of `tokens` went where `known` of them had been served lately.
    pub fn routed_by_prefix(&self, tokens: usize, known: usize) {
        self.prefix_queries.inc_by(tokens as u64);
        self.prefix_hits.inc_by(known as u64);
    }

    /// A request was not let in.
    pub fn refused(&self, reason: &'static str) {
        debug_assert!(REFUSALS.contains(&reason), "{reason} is not known");
        self.refused.with_label_values(&[self.model.as_str(), reason]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_nobody_keeps_leaves_no_series() {
        let registry = Registry::new();
        let families = EngineFamilies::register(&registry).unwrap();
        let series = || registry.gather().iter().map(|family| family.get_metric().len()).sum::<usize>();
        let (first, second) = (families.engine("http://a"), families.engine("http://a"));
        first.resumes.inc();
        let all = 7 + FAILURES.len();
        assert_eq!((second.resumes.get(), series()), (1, all));
        first.failed("connect");
        drop(first);
        assert_eq!(series(), all);
        drop(second);
        assert_eq!(series(), 0);
        assert_eq!(families.engine("http://a").resumes.get(), 0);
    }
}
