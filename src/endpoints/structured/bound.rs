//! One choice that keeps to its grammar: what the engine says is looked at token by token, and asked for again where it
//! breaks the grammar.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::Grammar;
use super::masks::Masks;
use crate::api::generate::{
    FinishReason, GenerateChoice, GenerateLogprobs, GenerateRequest, GenerateResponse, PositionLogprobs, TokenLogprob,
};
use crate::derender::chat;
use crate::derender::pieces::Pieces;
use crate::engine::{Caller, EngineError, Generation, Pool, Ticket};
use crate::grammar::{GrammarError, Matcher};
use crate::metrics::GrammarMetrics;
use crate::model::Model;
use crate::parsers::Events;

/// How far the seeds of two asks for one reply lie apart: a seed begins the same row of random numbers.
const SEED_STEP: i64 = 1 << 20;

/// Follows a reply's reasoning to its end.
struct Reasoning {
    plan: chat::Plan,
    state: chat::State,
    pieces: Pieces,
    events: Events,
}

impl Reasoning {
    /// `None` where the reply does not begin with reasoning.
    fn new(plan: &chat::Plan, prompt: &[u32]) -> Option<Self> {
        let state = plan.start(prompt);
        state.parser.as_ref().filter(|parser| parser.is_reasoning())?;
        Some(Self { plan: plan.clone(), state, pieces: Pieces::default(), events: Events::default() })
    }

    /// Reads a token; false where the reasoning ended with it.
    fn goes_on(&mut self, token: u32) -> bool {
        let choice = GenerateChoice { token_ids: Some(vec![token]), ..GenerateChoice::default() };
        self.plan.step(&mut self.state, &choice, &mut self.pieces, &mut self.events);
        self.state.parser.as_ref().is_some_and(crate::parsers::State::is_reasoning)
    }
}

/// One choice that keeps to a grammar.
pub(super) struct Bound {
    pool: Arc<Pool>,
    caller: Caller,
    ticket: Arc<Ticket>,
    request: GenerateRequest,
    index: u32,
    matcher: Matcher,
    reasoning: Option<Reasoning>,
    permitted: Option<Arc<HashSet<u64>>>,
    model: Arc<Model>,
    metrics: Arc<GrammarMetrics>,
    /// Tokens of the reply so far.
    told: Vec<u32>,
    running: Option<Generation>,
    /// What comes next must not be left to the engine.
    violated: bool,
    /// The engine was asked for one token with a mask.
    single: bool,
    masks: Masks,
    asks: i64,
    /// When the engine was asked again; `None` once it has answered.
    asked: Option<Instant>,
    /// How long the reply waited for engines that were asked again.
    waited: Duration,
    ended: bool,
}

impl Bound {
    pub(super) fn new(
        pool: &Arc<Pool>,
        caller: &Caller,
        ticket: &Arc<Ticket>,
        request: &GenerateRequest,
        grammar: &Grammar,
        index: u32,
    ) -> Self {
        let reasoning = grammar.reasoning.as_ref().and_then(|plan| Reasoning::new(plan, &request.token_ids));
        Self {
            pool: Arc::clone(pool),
            caller: caller.clone(),
            ticket: Arc::clone(ticket),
            request: request.clone(),
            index,
            matcher: grammar.matcher.clone(),
            reasoning,
            permitted: grammar.permitted.clone(),
            model: Arc::clone(&grammar.model),
            metrics: Arc::clone(&grammar.metrics),
            told: Vec::new(),
            running: None,
            violated: false,
            single: false,
            masks: Masks::default(),
            asks: 0,
            asked: None,
            waited: Duration::ZERO,
            ended: false,
        }
    }

    /// Asks for the first time.
    pub(super) async fn begin(&mut self) -> Result<(), EngineError> {
        let request = self.rest();
        self.ask(request).await
    }

    /// The next chunk of the reply.
    pub(super) async fn next(&mut self) -> Option<Result<GenerateResponse, EngineError>> {
        loop {
            if self.ended {
                return None;
            }
            let said = if self.running.is_some() { self.listen().await } else { self.go_on().await };
            match said {
                Ok(Some(chunk)) => return Some(Ok(chunk)),
                Ok(None) => {}
                Err(Failure::Engine(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                Err(Failure::Grammar(error)) => return Some(Ok(self.lost(&error))),
            }
        }
    }

    /// What comes without an engine, or asks one.
    async fn go_on(&mut self) -> Said {
        if let Some(chunk) = self.insert()? {
            return Ok(Some(chunk));
        }
        let mut request = self.rest();
        self.single = self.mask(&mut request)?;
        self.asked = Some(Instant::now());
        self.ask(request).await?;
        Ok(None)
    }

    /// What the engine says next, as far as it is passed on.
    async fn listen(&mut self) -> Said {
        let Some(running) = &mut self.running else { return Ok(None) };
        let chunk = running.next().await.transpose()?;
        self.waited += self.asked.take().map_or(Duration::ZERO, |asked| asked.elapsed());
        match chunk {
            Some(chunk) => Ok(self.look(chunk)?),
            None => {
                self.ended = !self.single;
                self.running = None;
                Ok(None)
            }
        }
    }

    /// The reply ends as one that an engine gave up on.
    fn lost(&mut self, error: &GrammarError) -> GenerateResponse {
        tracing::warn!(%error, "a reply left its grammar");
        self.end(Vec::new(), "error")
    }

    fn left(&self) -> usize {
        let left = self.request.left(self.told.len()).unwrap_or(u64::MAX);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// What can come without the engine: the end, or the text that must come.
    fn insert(&mut self) -> Result<Option<GenerateResponse>, GrammarError> {
        if self.left() == 0 {
            return Ok(Some(self.end(Vec::new(), "length")));
        }
        if !self.violated || self.reasoning.is_some() {
            return Ok(None);
        }
        if self.matcher.must_end() {
            let end = self.matcher.end();
            return Ok(Some(self.end(vec![end], "stop")));
        }
        let mut tokens = self.forced_tokens();
        let mut taken = 0;
        for token in tokens.iter().take(self.left()) {
            if !self.matcher.accept(*token)? {
                break;
            }
            taken += 1;
        }
        tokens.truncate(taken);
        if tokens.is_empty() {
            return Ok(None);
        }
        self.masks.accepted(false);
        self.metrics.inserted_tokens.inc_by(tokens.len() as u64);
        self.told.extend_from_slice(&tokens);
        Ok(Some(self.chunk(tokens, FinishReason::Null)))
    }

    /// The tokens of the text that must come. What follows may join with the last of them, so that is left to the engine.
    fn forced_tokens(&mut self) -> Vec<u32> {
        let text = self.matcher.forced();
        if text.is_empty() {
            return Vec::new();
        }
        let mut tokens = self.model.encoder().encode_ordinary(&text).unwrap_or_default();
        tokens.pop();
        tokens
    }

    /// Asks an engine for what comes next.
    async fn ask(&mut self, request: GenerateRequest) -> Result<(), EngineError> {
        self.violated = false;
        self.asks += 1;
        self.metrics.asks.inc();
        self.running = Some(self.pool.generate(request, &self.caller, Arc::clone(&self.ticket)).await?);
        Ok(())
    }

    /// The request for the rest of the reply.
    fn rest(&self) -> GenerateRequest {
        let is_first = self.asks == 0;
        let mut request = if is_first { self.request.clone() } else { self.request.rest(&self.told) };
        if self.index > 0 || !is_first {
            request.request_id = format!("{}-{}-{}", request.request_id, self.index, self.asks);
        }
        let params = &mut request.sampling_params;
        params.insert("n".to_owned(), json!(1));
        if let Some(seed) = params.get("seed").and_then(Value::as_i64) {
            let step = i64::from(self.index).wrapping_add(SEED_STEP.wrapping_mul(self.asks));
            params.insert("seed".to_owned(), json!(seed.wrapping_add(step) & i64::MAX));
        }
        if !is_first {
            params.shift_remove("prompt_logprobs"); // they have come, even where no token was taken
        }
        request.rest.insert("stream".to_owned(), json!(true));
        request
    }

    /// Where a mask is due, asks for one token only, among those that the grammar and the request itself allow.
    fn mask(&mut self, request: &mut GenerateRequest) -> Result<bool, GrammarError> {
        if !self.masks.is_due() {
            return Ok(false);
        }
        let mut allowed = self.matcher.allowed()?;
        let params = &mut request.sampling_params;
        let is_wide = allowed.len() > self.model.vocabulary().len() / 2 && !is_greedy(params);
        if !self.masks.take(is_wide) {
            return Ok(false);
        }
        if let Some(permitted) = &self.permitted {
            allowed.retain(|id| permitted.contains(&u64::from(*id)));
        }
        params.insert("max_tokens".to_owned(), json!(1));
        if params.get("min_tokens").and_then(Value::as_u64).is_some_and(|least| least > 1) {
            params.insert("min_tokens".to_owned(), json!(1));
        }
        params.insert("allowed_token_ids".to_owned(), json!(allowed));
        Ok(true)
    }

    /// Looks at what an engine sent: what of it is passed on.
    fn look(&mut self, mut chunk: GenerateResponse) -> Result<Option<GenerateResponse>, GrammarError> {
        let Some(choice) = chunk.choices.first_mut() else { return Ok(None) };
        choice.index = self.index;
        let tokens = choice.token_ids.clone().unwrap_or_default();
        let mut kept = 0;
        for token in &tokens {
            if !self.accept(*token)? {
                break;
            }
            kept += 1;
        }
        self.told.extend_from_slice(&tokens[..kept]);
        if kept < tokens.len() {
            self.violation();
            cut(choice, kept);
        } else if self.single && choice.finish_reason.get() == Some("length") && self.left() > 0 {
            // It was asked for one token; the reply goes on.
            choice.finish_reason = FinishReason::Null;
        } else if choice.finish_reason.get().is_some() {
            self.ended = true;
        }
        if kept == 0 && choice.finish_reason.get().is_none() && !chunk.tells_of_prompt() {
            return Ok(None);
        }
        Ok(Some(chunk))
    }

    fn accept(&mut self, token: u32) -> Result<bool, GrammarError> {
        if let Some(reasoning) = &mut self.reasoning {
            if !reasoning.goes_on(token) {
                self.reasoning = None;
            }
            return Ok(true);
        }
        let taken = self.matcher.accept(token)?;
        if taken {
            self.masks.accepted(!self.single);
        }
        Ok(taken)
    }

    /// The engine is stopped; what it would have said is left out.
    fn violation(&mut self) {
        self.metrics.violations.inc();
        self.running = None;
        self.violated = true;
        self.masks.violated();
    }

    fn end(&mut self, tokens: Vec<u32>, reason: &str) -> GenerateResponse {
        self.ended = true;
        self.told.extend_from_slice(&tokens);
        self.chunk(tokens, FinishReason::Ended(reason.to_owned()))
    }

    /// Tokens that nobody sampled are certain: probability 1.
    fn chunk(&self, tokens: Vec<u32>, finish_reason: FinishReason) -> GenerateResponse {
        let certain = |token_id: &u32| {
            let sampled = TokenLogprob { token_id: *token_id, logprob: 0.0, rank: Some(1) };
            PositionLogprobs { sampled, top: vec![sampled] }
        };
        let wanted = self.request.sampling_params.get("logprobs").is_some_and(|count| !count.is_null());
        let logprobs = wanted.then(|| GenerateLogprobs { content: Some(tokens.iter().map(certain).collect()) });
        let choice = GenerateChoice {
            index: self.index,
            finish_reason,
            token_ids: Some(tokens),
            logprobs,
            ..GenerateChoice::default()
        };
        GenerateResponse { choices: vec![choice], ..GenerateResponse::default() }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.metrics.added_seconds.observe(self.waited.as_secs_f64());
    }
}

/// What is passed on of a step, if anything is.
type Said = Result<Option<GenerateResponse>, Failure>;

enum Failure {
    Engine(EngineError),
    Grammar(GrammarError),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        Self::Grammar(error)
    }
}

/// Whether the same token comes however often it is drawn.
fn is_greedy(params: &serde_json::Map<String, Value>) -> bool {
    params.get("temperature").and_then(Value::as_f64) == Some(0.0) || params.get("top_k") == Some(&json!(1))
}

/// Keeps the first tokens of a chunk.
fn cut(choice: &mut GenerateChoice, kept: usize) {
    if let Some(tokens) = &mut choice.token_ids {
        tokens.truncate(kept);
    }
    if let Some(content) = choice.logprobs.as_mut().and_then(|logprobs| logprobs.content.as_mut()) {
        content.truncate(kept);
    }
    choice.finish_reason = FinishReason::Null;
    choice.stop_reason = None;
}
