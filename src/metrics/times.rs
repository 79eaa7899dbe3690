//! A histogram of times for what happens with every token.
//!
//! Prometheus' own counts in floating point and guards against torn reads, which costs four atomics and a loop; here a
//! time costs two additions. Whoever reads while somebody counts may see a sum that is behind by that one time.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::Registry;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType};

const NANOSECONDS: f64 = 1e9;

/// The times of all label sets.
#[derive(Debug, Clone)]
pub(super) struct TimesFamily {
    desc: Desc,
    buckets: &'static [f64],
    series: Arc<Mutex<BTreeMap<Vec<String>, Arc<Times>>>>,
}

/// The times of one label set.
#[derive(Debug)]
pub(super) struct Times {
    /// The upper end of each bucket, in nanoseconds.
    bounds: Box<[u64]>,
    /// How many lie in each bucket, and in none of them.
    counts: Box<[AtomicU64]>,
    /// Of all, in nanoseconds: enough for 584 years.
    sum: AtomicU64,
}

impl TimesFamily {
    pub(super) fn register(
        registry: &Registry,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &'static [f64],
    ) -> Result<Self, prometheus::Error> {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new())?;
        let family = Self { desc, buckets, series: Arc::default() };
        registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// The times of these values of the labels.
    pub(super) fn with_label_values(&self, values: &[&str]) -> Arc<Times> {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(series.entry(values).or_insert_with(|| Arc::new(Times::new(self.buckets))))
    }

    fn metric(&self, values: &[String], times: &Times) -> Metric {
        let pair = |(name, value): (&String, &String)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value(value.clone());
            pair
        };
        let mut labels: Vec<LabelPair> = self.desc.variable_labels.iter().zip(values).map(pair).collect();
        labels.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        let mut metric = Metric::from_label(labels);
        metric.set_histogram(times.histogram(self.buckets));
        metric
    }
}

impl Collector for TimesFamily {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(series.iter().map(|(values, times)| self.metric(values, times)).collect());
        vec![family]
    }
}

impl Times {
    fn new(buckets: &[f64]) -> Self {
        Self {
            bounds: buckets.iter().map(|seconds| (seconds * NANOSECONDS) as u64).collect(),
            counts: (0..=buckets.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Something took so long.
    pub(super) fn observe(&self, took: Duration) {
        let took = took.as_secs().saturating_mul(1_000_000_000).saturating_add(took.subsec_nanos().into());
        let at = self.bounds.iter().position(|bound| took <= *bound).unwrap_or(self.bounds.len());
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(took, Ordering::Relaxed);
    }

    fn histogram(&self, buckets: &[f64]) -> Histogram {
        let mut count = 0;
        let mut ends = Vec::with_capacity(buckets.len());
        for (bound, here) in buckets.iter().zip(&self.counts) {
            count += here.load(Ordering::Relaxed);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            ends.push(bucket);
        }
        count += self.counts[buckets.len()].load(Ordering::Relaxed);
        let mut histogram = Histogram::default();
        histogram.set_bucket(ends);
        histogram.set_sample_count(count);
        histogram.set_sample_sum(self.sum.load(Ordering::Relaxed) as f64 / NANOSECONDS);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{HistogramOpts, HistogramVec, TextEncoder};

    use super::*;

    const BUCKETS: [f64; 3] = [0.01, 0.025, 1.0];
    const MILLISECONDS: [u64; 7] = [0, 10, 11, 25, 26, 1000, 90_000];

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn it_reads_as_one_of_prometheus_does() {
        let (ours, theirs) = (Registry::new(), Registry::new());
        let family = TimesFamily::register(&ours, "t_seconds", "Times.", &["route", "model"], &BUCKETS).unwrap();
        let options = HistogramOpts::new("t_seconds", "Times.").buckets(BUCKETS.to_vec());
        let other = HistogramVec::new(options, &["route", "model"]).unwrap();
        theirs.register(Box::new(other.clone())).unwrap();
        for labels in [["/b", "one"], ["/a", "two"], ["/b", "one"]] {
            for time in MILLISECONDS.map(Duration::from_millis) {
                family.with_label_values(&labels).observe(time);
                other.with_label_values(&labels).observe(time.as_secs_f64());
            }
        }
        assert_eq!(text(&ours), text(&theirs));
    }
}
