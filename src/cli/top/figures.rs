//! What two scrapes say of the time between them.
//!
//! Counters are looked at as Prometheus does: one that became less has begun anew. Quantiles are those of its
//! `histogram_quantile` over what a histogram's buckets gained.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exposition::{Labels, Scrape};
use super::told::{Breaker, Told};
use crate::endpoints::route::Route;

/// One screen of figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    /// couplet's version.
    pub(super) version: String,
    /// How long its process runs, where it tells.
    pub(super) uptime: Option<Duration>,
    /// What it serves.
    pub(super) models: Vec<String>,
    /// Answers in a second, by their codes.
    pub(super) codes: Vec<(String, f64)>,
    /// Answers in a second that ended too early.
    pub(super) aborts: f64,
    /// Tokens of prompts in a second.
    pub(super) tokens_in: f64,
    /// Tokens of replies in a second.
    pub(super) tokens_out: f64,
    /// Times, by what took them.
    pub(super) times: Vec<(&'static str, Option<Quantiles>)>,
    /// Requests that are not answered in full.
    pub(super) in_flight: f64,
    /// Those of them that engines work on.
    pub(super) running: f64,
    /// Those that wait for a place.
    pub(super) queued: f64,
    /// Requests in a second that were not let in.
    pub(super) refused: f64,
    /// Times in a second that another engine was asked.
    pub(super) retries: f64,
    /// The part of the prompts' tokens that their engine had served lately.
    pub(super) prefix_hits: Option<f64>,
    /// The engines, by their names.
    pub(super) engines: Vec<Engine>,
}

/// p50, p90 and p99, in seconds.
pub(super) type Quantiles = [f64; 3];
const QUANTILES: Quantiles = [0.5, 0.9, 0.99];

/// The histograms whose quantiles are shown.
const TIMES: [(&str, &str); 5] = [
    ("first token", "couplet_time_to_first_token_seconds"),
    ("between tokens", "couplet_inter_token_latency_seconds"),
    ("whole request", "couplet_request_duration_seconds"),
    ("in the queue", "couplet_pool_queue_seconds"),
    ("engine's first", "couplet_engine_first_token_seconds"),
];

/// One engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Engine {
    /// Its URL.
    pub(super) name: String,
    /// What it runs, where `/debug/engines` can be asked.
    pub(super) model: Option<String>,
    /// Whether it may be sent requests.
    pub(super) state: State,
    /// How its breaker stands, and why it gets nothing, where these can be asked.
    pub(super) breaker: Option<Breaker>,
    /// Why it gets no requests.
    pub(super) reason: Option<String>,
    /// Requests that it works on, where that can be asked.
    pub(super) requests: Option<u64>,
    /// Tokens that it works on.
    pub(super) tokens: f64,
    /// The median time to its first token.
    pub(super) first_token: Option<f64>,
    /// Failures since couplet started.
    pub(super) errors: f64,
    /// Whether there were new ones.
    pub(super) fails: bool,
    /// Replies that began elsewhere and went on at it.
    pub(super) resumes: f64,
    /// Tokens of prompts that were routed to it lately, where that can be asked.
    pub(super) prefix: Option<f64>,
}

/// Whether an engine may be sent requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It may.
    Up,
    /// It is up, and gets none: it fails, is busy, or is another model's.
    LeftAlone,
    /// It does not answer.
    #[default]
    Down,
}

impl Figures {
    /// Of the `seconds` between two scrapes, the second of which came at `now`, in seconds since 1970. `None` where the
    /// scrape is none of couplet.
    pub(super) fn new(before: &Scrape, after: &Scrape, seconds: f64, now: f64, told: Option<&Told>) -> Option<Self> {
        let between = Between { before, after, seconds };
        let (build, _) = after.series("couplet_build_info").next()?;
        let started = after.series("process_start_time_seconds").next();
        let [hits, queries] =
            ["hit", "query"].map(|what| between.gain(&format!("couplet_pool_prefix_{what}_tokens_total"), any));
        Some(Self {
            version: build.get("version").cloned().unwrap_or_default(),
            uptime: started.and_then(|(_, at)| Duration::try_from_secs_f64(now - at).ok()),
            models: names(after, "couplet_fast_tokenizer", "model"),
            codes: between.rates_by("couplet_requests_total", "code", is_work),
            aborts: between.rate("couplet_aborts_total"),
            tokens_in: between.rate("couplet_prompt_tokens_total"),
            tokens_out: between.rate("couplet_generated_tokens_total"),
            times: TIMES.map(|(what, name)| (what, between.quantiles(name, is_work))).into(),
            in_flight: sum(after, "couplet_requests_in_flight", is_work),
            running: sum(after, "couplet_pool_running_requests", any),
            queued: sum(after, "couplet_pool_queued_requests", any),
            refused: between.rate("couplet_pool_refused_total"),
            retries: between.rate("couplet_pool_retries_total"),
            prefix_hits: (queries > 0.0).then(|| hits / queries),
            engines: names(after, "couplet_engine_up", "engine")
                .iter()
                .map(|name| between.engine(name, told))
                .collect(),
        })
    }
}

/// What only tells of couplet, the scrapes among it, is no work.
fn is_work(labels: &Labels) -> bool {
    labels.get("route").is_none_or(|route| Route::of(route).is_none_or(|route| !route.only_tells()))
}

fn any(_: &Labels) -> bool {
    true
}

fn names(scrape: &Scrape, metric: &str, label: &str) -> Vec<String> {
    scrape.series(metric).filter_map(|(labels, _)| labels.get(label).cloned()).collect()
}

fn sum(scrape: &Scrape, metric: &str, wanted: impl Fn(&Labels) -> bool) -> f64 {
    scrape.series(metric).filter(|(labels, _)| wanted(labels)).map(|(_, value)| value).sum()
}

/// Two scrapes and the time between them.
struct Between<'a> {
    before: &'a Scrape,
    after: &'a Scrape,
    seconds: f64,
}

impl Between<'_> {
    /// What each series of a counter gained.
    fn gains(&self, metric: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.after.series(metric).map(move |(labels, after)| {
            let before = self.before.value(metric, labels).filter(|before| *before <= after);
            (labels, after - before.unwrap_or(0.0))
        })
    }

    fn gain(&self, metric: &str, wanted: impl Fn(&Labels) -> bool) -> f64 {
        self.gains(metric).filter(|(labels, _)| wanted(labels)).map(|(_, gain)| gain).sum()
    }

    /// In a second, over all series.
    fn rate(&self, metric: &str) -> f64 {
        self.gain(metric, any) / self.seconds
    }

    /// In a second, by the values of a label; what did not happen is left out.
    fn rates_by(&self, metric: &str, label: &str, wanted: impl Fn(&Labels) -> bool) -> Vec<(String, f64)> {
        let mut rates = BTreeMap::<String, f64>::new();
        for (labels, gain) in self.gains(metric).filter(|(labels, gain)| *gain > 0.0 && wanted(labels)) {
            *rates.entry(labels.get(label).cloned().unwrap_or_default()).or_default() += gain / self.seconds;
        }
        rates.into_iter().collect()
    }

    /// Of what a histogram's series gained together.
    fn quantiles(&self, metric: &str, wanted: impl Fn(&Labels) -> bool) -> Option<Quantiles> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        let metric = format!("{metric}_bucket");
        for (labels, gain) in self.gains(&metric).filter(|(labels, _)| wanted(labels)) {
            let Some(bound) = labels.get("le").and_then(|bound| bound.parse().ok()) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, count)) => *count += gain,
                None => buckets.push((bound, gain)),
            }
        }
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let [p50, p90, p99] = QUANTILES.map(|part| quantile(part, &buckets));
        Some([p50?, p90?, p99?])
    }

    fn engine(&self, name: &str, told: Option<&Told>) -> Engine {
        let of_it = |labels: &Labels| labels.get("engine").is_some_and(|engine| engine == name);
        let now = |metric: &str| sum(self.after, &format!("couplet_engine_{metric}"), of_it);
        let state = match (now("up") > 0.0, now("available") > 0.0) {
            (true, true) => State::Up,
            (true, false) => State::LeftAlone,
            (false, _) => State::Down,
        };
        let (model, told) = told.and_then(|told| told.engine(name)).unzip();
        Engine {
            name: name.to_owned(),
            model: model.map(str::to_owned),
            state,
            breaker: told.map(|told| told.breaker.clone()),
            reason: told.and_then(|told| told.reason.clone()),
            requests: told.and_then(|told| told.requests),
            tokens: now("outstanding_tokens"),
            first_token: self.quantiles("couplet_engine_first_token_seconds", of_it).map(|[median, ..]| median),
            errors: now("failures_total"),
            fails: self.gain("couplet_engine_failures_total", of_it) > 0.0,
            resumes: now("resumes_total"),
            prefix: told.and_then(|told| told.prefix.as_ref()).map(|prefix| prefix.recent_tokens),
        }
    }
}

/// Prometheus' `histogram_quantile`: within a bucket values are taken to lie evenly, from 0 on in the first; above the
/// highest bound that is known nothing is told but that bound. `buckets` are cumulative, by their upper bounds.
fn quantile(part: f64, buckets: &[(f64, f64)]) -> Option<f64> {
    let [.., (highest, _), (f64::INFINITY, total)] = buckets else { return None };
    if *total <= 0.0 {
        return None;
    }
    let rank = part * total;
    let at = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (end, count) = buckets[at];
    if end == f64::INFINITY {
        return Some(*highest);
    }
    let (start, below) = at.checked_sub(1).map_or((0.0, 0.0), |at| buckets[at]);
    Some(start + (end - start) * (rank - below) / (count - below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_evenly_within_its_bucket() {
        let buckets = [(0.1, 10.0), (0.2, 30.0), (0.5, 40.0), (f64::INFINITY, 50.0)];
        // The 25th of 50 is the 15th of 20 between 0.1 and 0.2; the 5th the 5th of 10 from 0 on.
        assert_eq!(quantile(0.5, &buckets), Some(0.1 + 0.1 * 15.0 / 20.0));
        assert_eq!(quantile(0.1, &buckets), Some(0.1 * 5.0 / 10.0));
        assert_eq!(quantile(0.2, &buckets), Some(0.1), "a bound");
        assert_eq!(quantile(0.99, &buckets), Some(0.5), "beyond all bounds");
        assert_eq!(quantile(0.5, &[(0.1, 0.0), (f64::INFINITY, 0.0)]), None, "nothing happened");
        assert_eq!(quantile(0.5, &[(0.1, 1.0)]), None, "no histogram");
        assert_eq!(quantile(0.5, &[]), None);
    }

    const BEFORE: &str = r#"
        couplet_build_info{version="0.1.0"} 1
        couplet_requests_total{route="/v1/chat/completions",code="200"} 100
        couplet_requests_total{route="/v1/chat/completions",code="429"} 7
        couplet_requests_total{route="/metrics",code="200"} 50
        couplet_generated_tokens_total{route="/v1/chat/completions",model="m"} 1000
        couplet_prompt_tokens_total{route="/v1/chat/completions",model="m"} 9000
        couplet_time_to_first_token_seconds_bucket{route="/v1/chat/completions",model="m",le="0.1"} 5
        couplet_time_to_first_token_seconds_bucket{route="/v1/chat/completions",model="m",le="0.2"} 9
        couplet_time_to_first_token_seconds_bucket{route="/v1/chat/completions",model="m",le="+Inf"} 9
        couplet_engine_up{engine="http://a"} 1
        couplet_engine_failures_total{engine="http://a",kind="connect"} 3
    "#;
    const AFTER: &str = r#"
        couplet_build_info{version="0.1.0"} 1
        process_start_time_seconds 900
        couplet_fast_tokenizer{model="m"} 1
        couplet_requests_total{route="/v1/chat/completions",code="200"} 110
        couplet_requests_total{route="/v1/completions",code="200"} 4
        couplet_requests_total{route="/v1/chat/completions",code="429"} 7
        couplet_requests_total{route="/v1/chat/completions",code="503"} 1
        couplet_requests_total{route="/metrics",code="200"} 52
        couplet_requests_in_flight{route="/v1/chat/completions"} 6
        couplet_requests_in_flight{route="/metrics"} 1
        couplet_generated_tokens_total{route="/v1/chat/completions",model="m"} 1300
        couplet_prompt_tokens_total{route="/v1/chat/completions",model="m"} 40
        couplet_pool_prefix_hit_tokens_total{model="m"} 30
        couplet_pool_prefix_query_tokens_total{model="m"} 40
        couplet_time_to_first_token_seconds_bucket{route="/v1/chat/completions",model="m",le="0.1"} 7
        couplet_time_to_first_token_seconds_bucket{route="/v1/chat/completions",model="m",le="0.2"} 19
        couplet_time_to_first_token_seconds_bucket{route="/v1/chat/completions",model="m",le="+Inf"} 19
        couplet_engine_up{engine="http://a"} 1
        couplet_engine_available{engine="http://a"} 0
        couplet_engine_failures_total{engine="http://a",kind="connect"} 4
        couplet_engine_failures_total{engine="http://a",kind="status"} 1
        couplet_engine_up{engine="http://b"} 0
        couplet_engine_outstanding_tokens{engine="http://b"} 77
    "#;

    #[test]
    fn figures_are_those_of_the_time_between_two_scrapes() {
        let [before, after] = [BEFORE, AFTER].map(|text| Scrape::parse(text).unwrap());
        let figures = Figures::new(&before, &after, 2.0, 1000.0, None).unwrap();
        assert_eq!((figures.version.as_str(), figures.models.as_slice()), ("0.1.0", &["m".to_owned()][..]));
        assert_eq!(figures.uptime, Some(Duration::from_secs(100)));
        assert_eq!(figures.codes, [("200".to_owned(), 14.0 / 2.0), ("503".to_owned(), 1.0 / 2.0)]);
        assert_eq!((figures.tokens_out, figures.in_flight), (300.0 / 2.0, 6.0));
        assert_eq!(figures.tokens_in, 40.0 / 2.0, "the counter began anew");
        assert_eq!(figures.prefix_hits, Some(0.75));
        // 2 of 10 came below 0.1, 8 between 0.1 and 0.2: the 5th is the 3rd of those.
        let [p50, p90, p99] = figures.times[0].1.unwrap();
        for (got, wanted) in [(p50, 0.1 + 0.1 * 3.0 / 8.0), (p90, 0.1 + 0.1 * 7.0 / 8.0), (p99, 0.1 + 0.1 * 7.9 / 8.0)]
        {
            assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
        }
        assert_eq!(figures.times[1], ("between tokens", None));
        let [a, b] = &figures.engines[..] else { panic!("{figures:?}") };
        assert_eq!((a.state, a.errors, a.fails), (State::LeftAlone, 5.0, true));
        assert_eq!((b.state, b.tokens, b.fails, b.model.as_deref()), (State::Down, 77.0, false, None));
    }

    #[test]
    fn a_scrape_of_something_else_has_no_figures() {
        let other = Scrape::parse("up 1\n").unwrap();
        assert_eq!(Figures::new(&other, &other, 1.0, 0.0, None), None);
    }
}
