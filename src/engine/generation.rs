//! A reply that survives its engine: when one dies, another goes on from the tokens that came.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use serde_json::Value;
use tokio::time::{Instant, Sleep, sleep};

use super::EngineError;
use super::admission::Ticket;
use super::client::Attempt;
use super::member::{Lease, Role};
use super::pool::{Errand, Pool};
use crate::api::generate::{FinishReason, GenerateChoice, GenerateRequest, GenerateResponse};

/// An answer on its way: a stream of chunks that ends after an error. Dropping it before its end stops the engine.
///
/// Where an engine fails by its own fault, another is asked: for the whole reply if nothing came yet, else for the rest
/// of it, with the tokens so far behind the prompt. Not where that could not be the same reply: several choices that have
/// begun, a grammar (the engine would begin it anew). Penalties that tell the prompt from the reply (presence, frequency)
/// count only the rest.
pub struct Generation {
    pool: Arc<Pool>,
    request: GenerateRequest,
    errand: Arc<Errand>,
    /// Its place in the pool.
    ticket: Arc<Ticket>,
    state: State,
    silence: Pin<Box<Sleep>>,
    /// Where there is one.
    deadline: Option<Pin<Box<Sleep>>>,
    streams: bool,
    /// Tokens so far; of use only where there is one choice.
    told: Vec<u32>,
    begun: bool,
    finished: bool,
    resumes: usize,
    /// The engine gave up with what it said last.
    gave_up: Option<EngineError>,
}

type Switch = Pin<Box<dyn Future<Output = Result<(Lease, Attempt), EngineError>> + Send>>;

enum State {
    Reading(Lease, Attempt),
    Switching(Switch),
    Ended,
}

impl Generation {
    pub(super) fn new(
        pool: Arc<Pool>,
        request: GenerateRequest,
        errand: Errand,
        ticket: Arc<Ticket>,
        (lease, attempt): (Lease, Attempt),
    ) -> Self {
        let mut generation = Self {
            silence: Box::pin(sleep(Duration::MAX)),
            streams: request.streams(),
            pool,
            request,
            errand: Arc::new(errand),
            deadline: ticket.deadline().map(|deadline| deadline.comes()),
            ticket,
            state: State::Reading(lease, attempt),
            told: Vec::new(),
            begun: false,
            finished: false,
            resumes: 0,
            gave_up: None,
        };
        generation.wait();
        generation
    }

    /// Tells the engine to stop: what comes from now on is of no use.
    pub fn stop(&mut self) {
        if let State::Reading(_, attempt) = &mut self.state {
            attempt.stop();
        }
        self.state = State::Ended;
    }

    /// How long the engine may be silent now, what is waited for, and the setting that says so.
    fn patience(&self) -> (Duration, &'static str, &'static str) {
        let options = self.pool.options();
        if !self.streams {
            (options.whole_answer_timeout, "end of the answer", "whole_answer_timeout")
        } else if self.begun {
            (options.token_timeout, "next token", "token_timeout")
        } else {
            (options.first_token_timeout, "first token", "first_token_timeout")
        }
    }

    fn wait(&mut self) {
        let until = Instant::now() + self.patience().0;
        self.silence.as_mut().reset(until);
    }

    /// Polls the engine; silence is an error.
    fn poll_attempt(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<GenerateResponse, EngineError>>> {
        let State::Reading(lease, attempt) = &mut self.state else { return Poll::Ready(None) };
        if let Poll::Ready(chunk) = Pin::new(attempt).poll_next(cx) {
            return Poll::Ready(chunk);
        }
        if self.silence.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        let url = lease.member.engine.url().to_owned();
        let (silence, awaited, key) = self.patience();
        Poll::Ready(Some(Err(EngineError::Timeout { url, awaited, seconds: silence.as_secs_f64(), key })))
    }

    /// An engine that shuts down, or fails inside, ends replies in its own way, which is no end of the reply: the tokens
    /// that came with it count, and it goes on elsewhere. Not where there are several choices: what has ended cannot go on.
    fn notice_giving_up(&mut self, chunk: &mut GenerateResponse) {
        let State::Reading(lease, _) = &self.state else { return };
        let [choice] = &mut *chunk.choices else { return };
        if let Some(reason @ ("abort" | "error")) = choice.finish_reason.get() {
            self.gave_up = Some(EngineError::GaveUp { url: lease.id().to_owned(), reason: reason.to_owned() });
            choice.finish_reason = FinishReason::Null;
        }
    }

    fn note(&mut self, chunk: &GenerateResponse) {
        let State::Reading(lease, _) = &mut self.state else { return };
        lease.succeeded();
        let mut count = 0;
        for choice in &chunk.choices {
            let ids = choice.token_ids.as_deref().unwrap_or_default();
            count += ids.len();
            self.told.extend_from_slice(ids);
            self.finished |= choice.finish_reason.get().is_some();
        }
        if count > 0 {
            if self.streams {
                lease.spoke();
            }
            lease.add(count);
            self.ticket.charge(count);
            self.begun = true;
        }
        self.wait();
    }

    /// After a failure: the error, unless the reply is complete or goes on elsewhere.
    fn recover(&mut self, error: EngineError) -> Option<Result<GenerateResponse, EngineError>> {
        let State::Reading(lease, attempt) = std::mem::replace(&mut self.state, State::Ended) else { return None };
        let tried = lease.id().to_owned();
        lease.failed(&error);
        drop(attempt);
        if self.finished && self.is_single() {
            return None; // all that anybody waits for has come
        }
        if !error.is_engines_fault() || !self.can_resume() || !self.pool.pays_for_retry() {
            return Some(last_word(error));
        }
        self.resumes += 1;
        if self.request.left(self.told.len()) == Some(0) {
            return Some(Ok(out_of_tokens()));
        }
        let mut request = self.request.rest(&self.told);
        request.request_id = format!("{}-{}", request.request_id, self.resumes);
        tracing::warn!(
            %error,
            request_id = %self.request.request_id,
            x_couplet_resumed = self.resumes,
            tokens = self.told.len(),
            "the reply goes on at another engine"
        );
        let (pool, errand) = (Arc::clone(&self.pool), Arc::clone(&self.errand));
        let retries = pool.options().max_retries;
        self.state = State::Switching(Box::pin(async move {
            // Where no other engine is left, what the first one said is the answer.
            let opened = pool.open(&request, &errand, Role::Decode, vec![tried], retries).await;
            opened.map_err(|other| if matches!(other, EngineError::NoneLeft { .. }) { error } else { other })
        }));
        None
    }

    /// Whether the whole answer has taken too long.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let open = !matches!(self.state, State::Ended);
        open && self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(cx).is_ready())
    }

    /// Stops the engine. The error, unless all that anybody waits for has come.
    fn give_up(&mut self) -> Option<EngineError> {
        let complete = self.finished && self.is_single();
        self.stop();
        self.ticket.deadline().filter(|_| !complete).map(|deadline| deadline.missed())
    }

    fn is_single(&self) -> bool {
        self.request.sampling_params.get("n").and_then(Value::as_u64).unwrap_or(1) == 1
    }

    fn can_resume(&self) -> bool {
        let may_go_on = !self.begun || (self.is_single() && !has_grammar(&self.request));
        may_go_on && self.resumes < self.pool.options().max_resumes
    }
}

fn has_grammar(request: &GenerateRequest) -> bool {
    request.sampling_params.get("structured_outputs").is_some_and(|grammar| !grammar.is_null())
}

fn has_no_tokens(chunk: &GenerateResponse) -> bool {
    chunk.choices.iter().all(|choice| choice.token_ids.as_ref().is_none_or(Vec::is_empty))
}

/// What is said where no engine goes on: a reply that its engine aborted ends as the engine said.
fn last_word(error: EngineError) -> Result<GenerateResponse, EngineError> {
    match error {
        EngineError::GaveUp { reason, .. } if reason == "abort" => Ok(ended(&reason)),
        other => Err(other),
    }
}

/// The engine died between the last token that was allowed and the end of its answer.
fn out_of_tokens() -> GenerateResponse {
    ended("length")
}

fn ended(reason: &str) -> GenerateResponse {
    let choice = GenerateChoice { finish_reason: FinishReason::Ended(reason.to_owned()), ..GenerateChoice::default() };
    GenerateResponse { choices: vec![choice], ..GenerateResponse::default() }
}

impl Stream for Generation {
    type Item = Result<GenerateResponse, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.is_late(cx) {
            return Poll::Ready(this.give_up().map(Err));
        }
        loop {
            let chunk = match &mut this.state {
                State::Ended => return Poll::Ready(None),
                State::Switching(switch) => match ready!(switch.as_mut().poll(cx)) {
                    Ok((lease, attempt)) => {
                        lease.member.count_resume();
                        this.errand.record().resumed(lease.id());
                        this.state = State::Reading(lease, attempt);
                        this.wait();
                        continue;
                    }
                    Err(error) => {
                        this.state = State::Ended;
                        return Poll::Ready(Some(last_word(error)));
                    }
                },
                State::Reading(..) => match this.gave_up.take() {
                    Some(error) => Some(Err(error)),
                    None => ready!(this.poll_attempt(cx)),
                },
            };
            match chunk {
                Some(Ok(mut chunk)) => {
                    if this.is_single() {
                        this.notice_giving_up(&mut chunk);
                    }
                    this.note(&chunk);
                    if this.gave_up.is_some() && has_no_tokens(&chunk) {
                        continue;
                    }
                    return Poll::Ready(Some(Ok(chunk)));
                }
                Some(Err(error)) => {
                    if let Some(chunk) = this.recover(error) {
                        return Poll::Ready(Some(chunk));
                    }
                }
                None => this.state = State::Ended,
            }
        }
    }
}
