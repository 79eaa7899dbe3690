//! The metrics of replies under the names that vLLM gives them, for dashboards and autoscalers that ask for those.
//!
//! In: what couplet has counted, as it is scraped. Out: the same numbers again; nothing is counted twice. vLLM knows no
//! routes: what they have is added up.

use std::collections::BTreeMap;

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// Our name, and vLLM's for what means the same.
pub const SAME: [(&str, &str); 8] = [
    ("couplet_generated_tokens_total", "vllm:generation_tokens_total"),
    ("couplet_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"),
    ("couplet_pool_queued_requests", "vllm:num_requests_waiting"),
    ("couplet_pool_running_requests", "vllm:num_requests_running"),
    ("couplet_prompt_tokens_total", "vllm:prompt_tokens_total"),
    ("couplet_replies_total", "vllm:request_success_total"),
    ("couplet_reply_duration_seconds", "vllm:e2e_request_latency_seconds"),
    ("couplet_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"),
];
/// vLLM numbers its engines; to whoever asks couplet, there is one.
const ENGINE: &str = "0";

/// What has a name of vLLM's, by that name.
pub(super) fn renamed(families: &[MetricFamily]) -> Vec<MetricFamily> {
    let of = |name: &str| families.iter().find(|family| family.name() == name);
    SAME.iter().filter_map(|(ours, theirs)| of(ours).map(|family| rename(family, theirs))).collect()
}

fn rename(family: &MetricFamily, name: &str) -> MetricFamily {
    let kind = family.get_field_type();
    let mut sums: BTreeMap<Vec<(&str, &str)>, Metric> = BTreeMap::new();
    for metric in family.get_metric() {
        let sum = sums.entry(labels(metric)).or_default();
        match kind {
            MetricType::COUNTER => sum.set_counter(counters(sum.get_counter(), metric.get_counter())),
            MetricType::HISTOGRAM => sum.set_histogram(histograms(sum.get_histogram(), metric.get_histogram())),
            _ => sum.set_gauge(gauges(sum.get_gauge(), metric.get_gauge())),
        }
    }
    let labelled = sums.into_iter().map(|(labels, mut metric)| {
        metric.set_label(labels.into_iter().map(pair).collect());
        metric
    });
    let mut renamed = MetricFamily::default();
    renamed.set_name(name.to_owned());
    renamed.set_help(family.help().to_owned());
    renamed.set_field_type(kind);
    renamed.set_metric(labelled.collect());
    renamed
}

/// vLLM's labels, in the order of their names.
fn labels(metric: &Metric) -> Vec<(&str, &str)> {
    let mut labels = vec![("engine", ENGINE)];
    for pair in metric.get_label() {
        match (pair.name(), pair.value()) {
            ("model", name) => labels.push(("model_name", name)),
            // To an engine a call is text like any other.
            ("finish_reason", "tool_calls") => labels.push(("finished_reason", "stop")),
            ("finish_reason", reason) => labels.push(("finished_reason", reason)),
            _ => {}
        }
    }
    labels.sort_unstable();
    labels
}

fn pair((name, value): (&str, &str)) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn counters(one: &Counter, other: &Counter) -> Counter {
    let mut sum = Counter::default();
    sum.set_value(one.get_value() + other.get_value());
    sum
}

fn gauges(one: &Gauge, other: &Gauge) -> Gauge {
    let mut sum = Gauge::default();
    sum.set_value(one.get_value() + other.get_value());
    sum
}

/// Of the same buckets, or none in the first.
fn histograms(one: &Histogram, other: &Histogram) -> Histogram {
    let before = |at: usize| one.get_bucket().get(at).map_or(0, Bucket::cumulative_count);
    let buckets = other.get_bucket().iter().enumerate().map(|(at, bucket)| {
        let mut sum = bucket.clone();
        sum.set_cumulative_count(before(at) + bucket.cumulative_count());
        sum
    });
    let mut sum = Histogram::default();
    sum.set_bucket(buckets.collect());
    sum.set_sample_count(one.get_sample_count() + other.get_sample_count());
    sum.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
    sum
}
