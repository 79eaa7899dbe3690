//! One request from its headers to the end of its answer: what is counted of it, and the line that is logged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

/// Seconds: the buckets of `vllm:e2e_request_latency_seconds`.
pub(super) const VLLM_DURATION_BUCKETS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
/// Seconds: before those, for what no engine answers.
const SHORT_BUCKETS: [f64; 7] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1];
/// Most bytes of an id that are logged: clients choose them.
const LOGGED_ID: usize = 128;

/// The metrics of all requests.
#[derive(Debug)]
pub(super) struct RequestFamilies {
    requests: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGaugeVec,
    aborts: IntCounterVec,
}

impl RequestFamilies {
    pub(super) fn register(registry: &Registry) -> Result<Arc<Self>, prometheus::Error> {
        let counter = |name, help, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone())).map(|()| metric)
        };
        let duration = HistogramOpts::new(
            "couplet_request_duration_seconds",
            "From the request's headers to the end of its answer.",
        );
        let duration =
            HistogramVec::new(duration.buckets([&SHORT_BUCKETS[..], &VLLM_DURATION_BUCKETS[..]].concat()), &["route"])?;
        registry.register(Box::new(duration.clone()))?;
        let in_flight = Opts::new("couplet_requests_in_flight", "Requests not answered in full.");
        let in_flight = IntGaugeVec::new(in_flight, &["route"])?;
        registry.register(Box::new(in_flight.clone()))?;
        Ok(Arc::new(Self {
            requests: counter("couplet_requests_total", "Requests by route and status.", &["route", "code"])?,
            aborts: counter(
                "couplet_aborts_total",
                "Answers that ended before their end: by client, engine, timeout, shutdown, or refused after a wait.",
                &["route", "cause"],
            )?,
            duration,
            in_flight,
        }))
    }

    /// All series of a route exist: of its answers with these statuses, and, where it does work, of its time and troubles.
    pub(super) fn expect(&self, route: &str, statuses: &[u16], is_work: bool) {
        for status in statuses {
            self.requests.with_label_values(&[route, itoa::Buffer::new().format(*status)]);
        }
        self.in_flight.with_label_values(&[route]);
        if is_work {
            self.duration.with_label_values(&[route]);
            Cause::ALL.iter().for_each(|cause| drop(self.aborts.with_label_values(&[route, cause.name()])));
        }
    }

    /// A request begins, whose client calls it `id`.
    pub(super) fn begin(self: &Arc<Self>, route: &'static str, id: String) -> Arc<Record> {
        self.in_flight.with_label_values(&[route]).inc();
        let told = Mutex::new(Told { id, ..Told::default() });
        Arc::new(Record { families: Arc::clone(self), route, started: Instant::now(), told })
    }

    /// Requests of all routes that are not answered in full.
    pub(super) fn in_flight(&self) -> i64 {
        use prometheus::core::Collector;
        let families = self.in_flight.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        series.map(|metric| metric.get_gauge().get_value() as i64).sum()
    }
}

/// Why an answer ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The client went away.
    Client,
    /// The engine failed, and none went on.
    Engine,
    /// It took longer than it may.
    Timeout,
    /// It waited for so long that its answer had begun, and was not let in, or no engine was left.
    Refused,
    /// couplet stopped.
    Shutdown,
}

impl Cause {
    const ALL: [Self; 5] = [Self::Client, Self::Engine, Self::Timeout, Self::Refused, Self::Shutdown];

    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Engine => "engine",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What is known of one request: those that work on it tell, and the end counts and logs it.
#[derive(Debug)]
pub struct Record {
    families: Arc<RequestFamilies>,
    route: &'static str,
    started: Instant,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    id: String,
    model: Option<String>,
    engine: Option<String>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    ttft: Option<Duration>,
    finish_reason: Option<String>,
    resumed: u64,
    aborted: Option<Cause>,
}

impl Record {
    /// The name of its route.
    pub(super) fn route(&self) -> &'static str {
        self.route
    }

    /// When its headers had come.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// What the client calls it, or else couplet.
    pub fn id(&self) -> String {
        self.told().id.clone()
    }

    /// Its body calls it otherwise.
    pub fn named(&self, id: &str) {
        id.clone_into(&mut self.told().id);
    }

    /// It is for this model, by the name that the settings give it.
    pub fn model(&self, name: &str) {
        self.told().model = Some(name.to_owned());
    }

    /// An engine answers it.
    pub fn engine(&self, id: &str) {
        self.told().engine = Some(id.to_owned());
    }

    /// Its answer goes on at another engine.
    pub fn resumed(&self, engine: &str) {
        let mut told = self.told();
        told.engine = Some(engine.to_owned());
        told.resumed += 1;
    }

    /// A reply ended for this reason.
    pub fn finished(&self, reason: &str) {
        self.told().finish_reason = Some(reason.to_owned());
    }

    /// So much was read and said.
    pub(super) fn counted(&self, prompt: u64, completion: u64, ttft: Option<Duration>) {
        let mut told = self.told();
        (told.prompt_tokens, told.completion_tokens, told.ttft) = (Some(prompt), Some(completion), ttft);
    }

    /// Its answer ends before its end; the first cause counts.
    pub fn aborted(&self, cause: Cause) {
        self.told().aborted.get_or_insert(cause);
    }

    /// Its answer has ended. What only tells of couplet is asked again and again, and not worth a line.
    pub fn end(&self, status: u16, is_work: bool) {
        let took = self.started.elapsed();
        let Self { families, route, .. } = self;
        families.requests.with_label_values(&[route, itoa::Buffer::new().format(status)]).inc();
        families.duration.with_label_values(&[route]).observe(took.as_secs_f64());
        families.in_flight.with_label_values(&[route]).dec();
        let told = self.told();
        if let Some(cause) = told.aborted {
            families.aborts.with_label_values(&[route, cause.name()]).inc();
        }
        if is_work {
            told.log(route, status, took);
        }
    }

    /// What is known of it by now, for those who tell it elsewhere than in the log.
    pub fn outcome(&self) -> Outcome {
        let told = self.told();
        Outcome {
            model: told.model.clone(),
            prompt_tokens: told.prompt_tokens,
            completion_tokens: told.completion_tokens,
            ttft: told.ttft,
            finish_reason: told.finish_reason.clone(),
            resumed: told.resumed,
            aborted: told.aborted.map(Cause::name),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of a request.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The model that answered, by its first name.
    pub model: Option<String>,
    /// Tokens of its prompts.
    pub prompt_tokens: Option<u64>,
    /// Tokens of its replies.
    pub completion_tokens: Option<u64>,
    /// How long its first token took.
    pub ttft: Option<Duration>,
    /// Why a reply ended.
    pub finish_reason: Option<String>,
    /// How many times it went on at another engine.
    pub resumed: u64,
    /// Why it ended too early.
    pub aborted: Option<&'static str>,
}

impl Told {
    /// Never what was asked or answered.
    fn log(&self, route: &str, code: u16, took: Duration) {
        // A stream calls this step for every token: its lines are for those that look for them.
        if route.ends_with("/derender") && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        tracing::info!(
            id = self.id.get(..self.id.floor_char_boundary(LOGGED_ID)),
            model = self.model,
            engine = self.engine,
            route,
            code,
            prompt_tokens = self.prompt_tokens,
            completion_tokens = self.completion_tokens,
            ttft = self.ttft.map(|ttft| ttft.as_secs_f64()),
            duration = took.as_secs_f64(),
            finish_reason = self.finish_reason,
            resumed = self.resumed,
            aborted = self.aborted.map(Cause::name),
            "request"
        );
    }
}
