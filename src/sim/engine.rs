//! What requests share: slots for running sequences, the table of running requests, counters.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::generation::Finish;
use super::options::Options;

/// One simulated engine.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) options: Options,
    slots: Arc<Semaphore>,
    requests: Mutex<Requests>,
    prompt_tokens: AtomicU64,
    generation_tokens: AtomicU64,
    finished: [AtomicU64; Finish::NAMES.len()],
}

#[derive(Debug, Default)]
struct Requests {
    next: u64,
    entries: HashMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    id: String,
    sequences: u32,
    running: bool,
    abort: Option<oneshot::Sender<()>>,
}

impl Engine {
    pub(super) fn new(options: Options) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(options.max_num_seqs as usize));
        Arc::new(Self {
            options,
            slots,
            requests: Mutex::default(),
            prompt_tokens: AtomicU64::new(0),
            generation_tokens: AtomicU64::new(0),
            finished: Default::default(),
        })
    }

    /// Enters a request into the table. It waits for slots until [`Ticket::start`] returns.
    pub(super) fn enter(self: &Arc<Self>, id: &str, sequences: u32) -> Ticket {
        let (sender, aborted) = oneshot::channel();
        let mut requests = self.requests();
        let key = requests.next;
        requests.next += 1;
        requests.entries.insert(key, Entry { id: id.to_owned(), sequences, running: false, abort: Some(sender) });
        drop(requests);
        Ticket { engine: self.clone(), key, sequences, aborted: Some(aborted), slots: None }
    }

    /// Ends requests by the engine's own ids (with `generate-tokens-`); the client's are not known here, as in vLLM.
    pub(super) fn abort(&self, ids: &[String]) {
        for entry in self.requests().entries.values_mut().filter(|entry| ids.contains(&entry.id)) {
            if let Some(abort) = entry.abort.take() {
                let _ = abort.send(()); // its request has just ended by itself
            }
        }
    }

    /// Requests in the table, each counted once.
    pub(super) fn load(&self) -> usize {
        self.requests().entries.len()
    }

    pub(super) fn count_prompt(&self, tokens: usize) {
        self.prompt_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    pub(super) fn count_generated(&self, tokens: usize) {
        self.generation_tokens.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    pub(super) fn count_finish(&self, finish: Finish) {
        self.finished[finish as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Prometheus text with the names of vLLM that a router looks at.
    pub(super) fn metrics(&self) -> String {
        let (running, waiting) = self.gauges();
        let model = self.options.model_name.first().map(String::as_str).unwrap_or_default();
        let labels = format!("engine=\"0\",model_name={model:?}");
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
            let _ = writeln!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}"); // a String takes all
            for (labels, value) in values {
                let _ = writeln!(out, "vllm:{name}{{{labels}}} {value}.0");
            }
        };
        let one = |value| vec![(labels.clone(), value)];
        let counter = |value: &AtomicU64| value.load(Ordering::Relaxed);
        family("num_requests_running", "gauge", "Number of requests in model execution batches.", &one(running));
        family("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", &one(waiting));
        let tokens = one(counter(&self.prompt_tokens));
        family("prompt_tokens_total", "counter", "Number of prefill tokens processed.", &tokens);
        let tokens = one(counter(&self.generation_tokens));
        family("generation_tokens_total", "counter", "Number of generation tokens processed.", &tokens);
        let finished: Vec<_> = Finish::NAMES
            .iter()
            .zip(&self.finished)
            .map(|(name, count)| {
                (format!("engine=\"0\",finished_reason={name:?},model_name={model:?}"), counter(count))
            })
            .collect();
        family("request_success_total", "counter", "Count of successfully processed requests.", &finished);
        out
    }

    /// Sequences that run, and those that wait.
    fn gauges(&self) -> (u64, u64) {
        let requests = self.requests();
        requests.entries.values().fold((0, 0), |(running, waiting), entry| {
            let sequences = u64::from(entry.sequences);
            if entry.running { (running + sequences, waiting) } else { (running, waiting + sequences) }
        })
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner) // counters stay true after a panic elsewhere
    }
}

/// A request's place in the engine; dropping it ends the request.
#[derive(Debug)]
pub(super) struct Ticket {
    engine: Arc<Engine>,
    key: u64,
    sequences: u32,
    aborted: Option<oneshot::Receiver<()>>,
    slots: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    /// Waits for free slots.
    pub(super) async fn start(&mut self) {
        // The semaphore is never closed, so there is always a permit in the end.
        self.slots = self.engine.slots.clone().acquire_many_owned(self.sequences).await.ok();
        if let Some(entry) = self.engine.requests().entries.get_mut(&self.key) {
            entry.running = true;
        }
    }

    /// Takes the receiver that tells when somebody aborts the request.
    pub(super) fn take_abort(&mut self) -> Option<oneshot::Receiver<()>> {
        self.aborted.take()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.engine.requests().entries.remove(&self.key);
    }
}
