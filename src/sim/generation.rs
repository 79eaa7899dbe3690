//! One request being generated: queue, pace, stop conditions, faults.
//!
//! [`Generation::next`] is the whole machine: it waits until the next tokens are due and returns them, choice by choice.
//! Dropping a generation ends the request, wherever it stood.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::engine::{Engine, Ticket};
use super::faults::Fault;
use super::options::Options;
use super::request::Job;
use super::transfer;
use super::voice::{Voice, mix};

/// Why a choice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
    Abort,
}

impl Finish {
    /// vLLM's names, in the order of the variants.
    pub(super) const NAMES: [&str; 3] = ["stop", "length", "abort"];

    pub(super) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What happens next in a generation.
#[derive(Debug)]
pub(super) enum Step {
    /// New tokens of one choice, or its end, or both.
    Tokens(Delta),
    /// The connection breaks.
    Die,
    /// Something that is not an event goes out.
    Garbage,
    /// The answer ends in the middle.
    Truncate,
    /// An event that is far too long goes out.
    Oversize,
}

/// New tokens of one choice.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) choice: u32,
    /// Position of the first of `ids` in the choice's output.
    pub(super) position: u32,
    pub(super) ids: Vec<u32>,
    pub(super) finish: Option<Finish>,
    pub(super) stop_reason: Option<u32>,
}

impl Delta {
    /// Tokens of the choice, these included.
    pub(super) fn total(&self) -> u32 {
        self.position + self.ids.len() as u32
    }
}

/// A request on its way through the engine.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) job: Job,
    pub(super) engine: Arc<Engine>,
    ticket: Option<Ticket>,
    abort: Option<oneshot::Receiver<()>>,
    aborted: bool,
    choices: Vec<Choice>,
    /// The choice whose turn it is; all of them take one turn per round.
    turn: usize,
    pace: Pace,
    faults: VecDeque<(u64, Fault)>,
    /// Tokens of all choices, those of earlier engines included.
    done: u64,
}

#[derive(Debug)]
struct Choice {
    voice: Voice,
    position: u32,
    finished: bool,
}

impl Generation {
    /// Enters the request into the engine. It does not run before the first [`next`](Self::next).
    pub(super) fn new(job: Job, engine: &Arc<Engine>) -> Self {
        let options = &engine.options;
        let choices: Vec<_> =
            Voice::of(&job, options).into_iter().map(|voice| Choice { voice, position: 0, finished: false }).collect();
        let mut ticket = engine.enter(&job.id, job.n);
        Self {
            abort: ticket.take_abort(),
            ticket: Some(ticket),
            aborted: false,
            turn: choices.len(),
            choices,
            pace: Pace::new(options, job.prompt.len() as u64),
            faults: job.faults.schedule(job.resumed_tokens()).into(),
            done: job.resumed_tokens(),
            engine: engine.clone(),
            job,
        }
    }

    /// The next step, when it is due; `None` when every choice has ended.
    pub(super) async fn next(&mut self) -> Option<Step> {
        loop {
            if self.choices.iter().all(|choice| choice.finished) {
                self.ticket = None;
                return None;
            }
            if self.turn >= self.choices.len() {
                self.turn = 0;
                self.wait_for_round().await;
            }
            let at = self.turn;
            if self.choices[at].finished {
                self.turn += 1;
                continue;
            }
            match self.due_fault() {
                Some(Fault::Die) => {
                    tokio::task::yield_now().await; // what was said before reaches the client
                    return Some(Step::Die);
                }
                Some(Fault::Garbage) => return Some(Step::Garbage),
                Some(Fault::Truncate) => return Some(Step::Truncate),
                Some(Fault::Oversize) => return Some(Step::Oversize),
                Some(Fault::Abort) => self.aborted = true,
                Some(Fault::Stall) => self.wait_for_abort().await,
                None => {
                    self.turn += 1;
                    return Some(Step::Tokens(self.speak(at)));
                }
            }
        }
    }

    /// Tokens generated here, over all choices.
    pub(super) fn generated(&self) -> u64 {
        self.choices.iter().map(|choice| u64::from(choice.position)).sum()
    }

    async fn wait_for_round(&mut self) {
        let Self { ticket, pace, engine, job, abort, aborted, .. } = self;
        if *aborted {
            return;
        }
        let due = async {
            if !pace.started() {
                if let Some(ticket) = ticket {
                    ticket.start().await;
                }
                engine.count_prompt(transfer::computed(job));
            }
            pace.wait().await;
        };
        tokio::select! {
            biased;
            () = told(abort) => *aborted = true,
            () = due => {}
        }
    }

    async fn wait_for_abort(&mut self) {
        if !self.aborted {
            told(&mut self.abort).await;
            self.aborted = true;
        }
    }

    fn due_fault(&mut self) -> Option<Fault> {
        if self.aborted || self.faults.front()?.0 > self.done {
            return None;
        }
        self.faults.pop_front().map(|(_, fault)| fault)
    }

    /// The next tokens of choice `at`: up to a chunk, its end, or the next fault.
    fn speak(&mut self, at: usize) -> Delta {
        let before_fault = self.faults.front().map_or(u64::MAX, |(after, _)| after - self.done);
        let most = u64::from(self.engine.options.chunk_tokens).min(before_fault);
        let most = if self.aborted { 0 } else { most };
        let choice = &mut self.choices[at];
        let position = choice.position;
        let mut ids = Vec::with_capacity(most as usize);
        let mut end = self.aborted.then_some((Finish::Abort, None));
        while (ids.len() as u64) < most && end.is_none() {
            let id = choice.voice.id(choice.position);
            choice.position += 1;
            ids.push(id);
            end = ended(&self.job, &self.engine.options, id, choice.position);
        }
        choice.finished = end.is_some();
        self.done += ids.len() as u64;
        self.engine.count_generated(ids.len());
        if let Some((finish, _)) = end {
            self.engine.count_finish(finish);
        }
        let (finish, stop_reason) = end.map_or((None, None), |(finish, reason)| (Some(finish), reason));
        Delta { choice: at as u32, position, ids, finish, stop_reason }
    }
}

/// Completes when the request is aborted; never otherwise.
async fn told(abort: &mut Option<oneshot::Receiver<()>>) {
    let aborted = match abort {
        Some(receiver) => receiver.await.is_ok(),
        None => false,
    };
    *abort = None; // a receiver is asked once
    if !aborted {
        std::future::pending().await
    }
}

/// Whether a choice ends with `id` as its `length`-th token: a stop token first, then the limits, as vLLM checks them.
fn ended(job: &Job, options: &Options, id: u32, length: u32) -> Option<(Finish, Option<u32>)> {
    if !job.ignore_eos && options.eos_token_id.contains(&id) {
        // Only an engine with a tokenizer knows which of its stop tokens is the EOS, and gives no reason then.
        let known = options.scale_out && options.eos_token_id.first() == Some(&id);
        return Some((Finish::Stop, (!known).then_some(id)));
    }
    if job.stop_token_ids.contains(&id) {
        return Some((Finish::Stop, Some(id)));
    }
    let full = job.prompt.len() as u64 + u64::from(length) >= u64::from(options.max_model_len);
    (full || job.max_tokens.is_some_and(|max| length >= max)).then_some((Finish::Length, None))
}

/// When tokens are due. Deadlines follow each other, not the clock, so a late reader does not slow the rate down.
#[derive(Debug)]
struct Pace {
    due: Option<Instant>,
    ttft: Duration,
    itl: Duration,
    jitter: Duration,
    chunk: u32,
    seed: u64,
    round: u64,
}

impl Pace {
    fn new(options: &Options, salt: u64) -> Self {
        let seed = mix(options.seed, salt);
        let Options { ttft, itl, itl_jitter, chunk_tokens, .. } = *options;
        Self { due: None, ttft, itl, jitter: itl_jitter, chunk: chunk_tokens, seed, round: 0 }
    }

    fn started(&self) -> bool {
        self.due.is_some()
    }

    async fn wait(&mut self) {
        let gap = match self.due {
            None => self.ttft + self.itl * (self.chunk - 1),
            Some(_) => self.jittered(self.itl * self.chunk),
        };
        let due = self.due.unwrap_or_else(Instant::now) + gap;
        self.due = Some(due);
        self.round += 1;
        if gap.is_zero() {
            tokio::task::consume_budget().await; // unpaced: leave room for others
        } else if due > Instant::now() {
            sleep_until(due).await;
        }
    }

    fn jittered(&self, gap: Duration) -> Duration {
        if self.jitter.is_zero() {
            return gap;
        }
        let share = mix(self.seed, self.round) as f64 / u64::MAX as f64;
        (gap + self.jitter.mul_f64(2.0 * share)).saturating_sub(self.jitter)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn generation(options: Options, sampling: &serde_json::Value) -> Generation {
        let body = json!({"token_ids": [1, 2, 3], "sampling_params": sampling}).to_string();
        let job = super::super::request::read(body.as_bytes(), None, &options).unwrap();
        Generation::new(job, &Engine::new(options))
    }

    async fn run(generation: &mut Generation) -> Vec<(u32, Vec<u32>, Option<Finish>)> {
        let mut out = Vec::new();
        while let Some(Step::Tokens(delta)) = generation.next().await {
            out.push((delta.choice, delta.ids, delta.finish));
        }
        out
    }

    #[tokio::test]
    async fn choices_take_turns_and_end_on_their_own() {
        let script = json!({"n": 2, "seed": 0, "extra_args": {"script": [7, 8], "script_seed": 0, "script_1": [9]}});
        let options = Options { eos_token_id: vec![100], ..Options::default() };
        let steps = run(&mut generation(options, &script)).await;
        let stop = Some(Finish::Stop);
        let want =
            [(0, vec![7], None), (1, vec![9], None), (0, vec![8], None), (1, vec![100], stop), (0, vec![100], stop)];
        assert_eq!(steps, want);
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_come_at_their_time_whatever_the_chunk() {
        for chunk_tokens in [1, 4] {
            let [ttft, itl] = [50, 10].map(Duration::from_millis);
            let options = Options { ttft, itl, chunk_tokens, ..Options::default() };
            let start = Instant::now();
            let sampling = json!({"max_tokens": 8, "extra_args": {"script": [1, 1, 1, 1, 1, 1, 1, 1, 1]}});
            let steps = run(&mut generation(options, &sampling)).await;
            assert_eq!(steps.len(), 8 / chunk_tokens as usize);
            assert_eq!(start.elapsed(), Duration::from_millis(50 + 7 * 10));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn jitter_moves_single_gaps_and_not_the_average() {
        let [itl, itl_jitter] = [20, 5].map(Duration::from_millis);
        let options = Options { itl, itl_jitter, ..Options::default() };
        let mut generation = generation(options, &json!({"max_tokens": 401, "ignore_eos": true}));
        let (start, mut last, mut gaps) = (Instant::now(), Instant::now(), Vec::new());
        while generation.next().await.is_some() {
            gaps.push(last.elapsed().as_millis());
            last = Instant::now();
        }
        assert!(gaps[1..].iter().all(|gap| (14..=26).contains(gap)), "{gaps:?}");
        assert!(gaps[1..].iter().any(|gap| *gap != gaps[1]));
        assert!((7_800..8_200).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn a_dropped_generation_leaves_no_trace_in_the_gauges() {
        let options = Options { ttft: Duration::from_secs(60), ..Options::default() };
        let mut generation = generation(options, &json!({}));
        let engine = generation.engine.clone();
        let waited = tokio::time::timeout(Duration::from_millis(20), generation.next()).await;
        assert!(waited.is_err());
        assert_eq!(engine.load(), 1);
        drop(generation);
        assert_eq!(engine.load(), 0);
    }
}
