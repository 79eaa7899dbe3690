//! Structured outputs on engines that refuse grammars: each token is looked at before the client sees it.
//!
//! The engine generates freely. A token that the grammar does not allow is dropped with what comes behind it; what must
//! come then is inserted without asking anybody, or the engine is asked for one token among those that are allowed, and
//! goes on freely behind it. So every token comes from the distribution that a mask would leave: for each step it is
//! drawn until it is allowed, or drawn among what is allowed. Where a model breaks its grammar again and again, several
//! steps in a row are asked for with a mask: one round trip per token instead of two.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use futures_util::stream::SelectAll;
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::Served;
use crate::api::error::ApiError;
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

/// Steps with a mask after the first violation; twice as many after each that follows closely.
const FIRST_MASKED: usize = 1;
const MOST_MASKED: usize = 64;
/// Tokens that come freely until a violation counts as the first again.
const FORGIVEN: usize = 8;
/// How far the seeds of two asks for one reply lie apart: a seed begins the same row of random numbers.
const SEED_STEP: i64 = 1 << 20;

/// A grammar that couplet keeps to, and what tells where it begins.
pub(super) struct Grammar {
    matcher: Matcher,
    /// Follows the reasoning, which no grammar binds; `None` where it is over.
    reasoning: Option<chat::Plan>,
    model: Arc<Model>,
    metrics: Arc<GrammarMetrics>,
}

/// Takes the grammar out of a request for engines that would refuse it.
pub(super) fn take(
    served: &Served,
    request: &mut GenerateRequest,
    plan: Option<&chat::Plan>,
) -> Result<Option<Grammar>, ApiError> {
    let Some(given) = request.sampling_params.get("structured_outputs").filter(|given| !given.is_null()) else {
        return Ok(None);
    };
    if served.pool.as_ref().is_some_and(|pool| pool.takes_grammars()) {
        return Ok(None);
    }
    let matcher = served.grammars()?.matcher(given).map_err(refused)?;
    request.sampling_params.shift_remove("structured_outputs");
    let ended = request.rest.get("reasoning_ended") == Some(&Value::Bool(true));
    let reasoning = plan.filter(|plan| !ended && plan.parser.is_some()).cloned();
    let model = Arc::clone(&served.model);
    Ok(Some(Grammar { matcher, reasoning, model, metrics: Arc::clone(&served.grammar_metrics) }))
}

/// A grammar that is wrong is the client's doing; a model without grammars is nobody's.
pub(super) fn refused(error: GrammarError) -> ApiError {
    match error {
        GrammarError::Invalid(_) | GrammarError::Model(_) => ApiError::bad_request(error.to_string()),
        GrammarError::Lost(_) => ApiError::internal(error.to_string()),
    }
}

type Chunks = Pin<Box<dyn Stream<Item = Result<GenerateResponse, EngineError>> + Send>>;

/// An answer on its way, bound or not.
pub(super) enum Answer {
    /// As the engine gives it.
    Free(Box<Generation>),
    /// Its choices, each by itself.
    Bound(SelectAll<Chunks>),
}

impl Answer {
    /// Sends a request, bound where there is a grammar.
    pub(super) async fn open(
        pool: &Arc<Pool>,
        caller: &Caller,
        ticket: &Arc<Ticket>,
        request: GenerateRequest,
        grammar: Option<Grammar>,
    ) -> Result<Self, EngineError> {
        let Some(grammar) = grammar else {
            let generation = pool.generate(request, caller, Arc::clone(ticket)).await?;
            return Ok(Self::Free(Box::new(generation)));
        };
        grammar.metrics.requests.inc();
        let count = request.sampling_params.get("n").and_then(Value::as_u64).unwrap_or(1).max(1);
        let mut choices = SelectAll::new();
        for index in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let mut choice = Bound::new(pool, caller, ticket, &request, &grammar, index);
            // Whether there is an engine at all is told by the status, as without a grammar.
            choice.running = Some(choice.ask().await?);
            let chunks =
                stream::unfold(choice, |mut choice| async { choice.next().await.map(|chunk| (chunk, choice)) });
            choices.push(Box::pin(chunks) as Chunks);
        }
        Ok(Self::Bound(choices))
    }

    /// Tells the engine to stop: what comes from now on is of no use.
    pub(super) fn stop(&mut self) {
        match self {
            Self::Free(generation) => generation.stop(),
            Self::Bound(choices) => *choices = SelectAll::new(),
        }
    }
}

impl Stream for Answer {
    type Item = Result<GenerateResponse, EngineError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::Free(generation) => generation.poll_next_unpin(cx),
            Self::Bound(choices) => choices.poll_next_unpin(cx),
        }
    }
}

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
struct Bound {
    pool: Arc<Pool>,
    caller: Caller,
    ticket: Arc<Ticket>,
    request: GenerateRequest,
    index: u32,
    matcher: Matcher,
    reasoning: Option<Reasoning>,
    model: Arc<Model>,
    metrics: Arc<GrammarMetrics>,
    /// Tokens of the reply so far.
    told: Vec<u32>,
    running: Option<Generation>,
    /// What comes next must not be left to the engine.
    violated: bool,
    /// The engine was asked for one token with a mask.
    single: bool,
    /// Steps that are still asked for with a mask.
    masked: usize,
    /// How many there were after the last violation.
    masks: usize,
    /// Tokens that came freely since.
    free: usize,
    asks: i64,
    ended: bool,
}

impl Bound {
    fn new(
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
            model: Arc::clone(&grammar.model),
            metrics: Arc::clone(&grammar.metrics),
            told: Vec::new(),
            running: None,
            violated: false,
            single: false,
            masked: 0,
            masks: 0,
            free: 0,
            asks: 0,
            ended: false,
        }
    }

    /// The next chunk of the reply.
    async fn next(&mut self) -> Option<Result<GenerateResponse, EngineError>> {
        loop {
            if self.ended {
                return None;
            }
            if self.running.is_none() {
                match self.insert() {
                    Ok(Some(chunk)) => return Some(Ok(chunk)),
                    Ok(None) => {}
                    Err(error) => return Some(Ok(self.lost(&error))),
                }
                match self.ask().await {
                    Ok(generation) => self.running = Some(generation),
                    Err(error) => return self.failed(error),
                }
            }
            let looked = match self.running.as_mut()?.next().await {
                Some(Ok(chunk)) => self.look(chunk),
                Some(Err(error)) => return self.failed(error),
                None if self.single || self.violated => {
                    self.running = None;
                    continue;
                }
                None => return None,
            };
            match looked {
                Ok(Some(chunk)) => return Some(Ok(chunk)),
                Ok(None) => {}
                Err(error) => return Some(Ok(self.lost(&error))),
            }
        }
    }

    fn failed(&mut self, error: EngineError) -> Option<Result<GenerateResponse, EngineError>> {
        self.ended = true;
        Some(Err(error))
    }

    /// The reply ends as one that an engine gave up on.
    fn lost(&mut self, error: &GrammarError) -> GenerateResponse {
        tracing::warn!(%error, "a reply left its grammar");
        self.end(Vec::new(), "error")
    }

    fn most(&self) -> usize {
        let most = self.request.sampling_params.get("max_tokens").and_then(Value::as_u64);
        most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    fn left(&self) -> usize {
        self.most().saturating_sub(self.told.len())
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

    /// Asks an engine for what comes next: freely, or for one token with a mask.
    async fn ask(&mut self) -> Result<Generation, EngineError> {
        let mut request = self.rest();
        self.single = self.masked > 0;
        if self.single {
            self.masked -= 1;
            if let Ok(allowed) = self.matcher.allowed() {
                self.mask(&mut request, allowed);
            }
        }
        self.violated = false;
        self.asks += 1;
        self.metrics.asks.inc();
        self.pool.generate(request, &self.caller, Arc::clone(&self.ticket)).await
    }

    /// The request for the rest of the reply.
    fn rest(&self) -> GenerateRequest {
        let mut request = self.request.clone();
        if self.index > 0 || self.asks > 0 {
            request.request_id = format!("{}-{}-{}", request.request_id, self.index, self.asks);
        }
        let told = self.told.len();
        let params = &mut request.sampling_params;
        params.insert("n".to_owned(), json!(1));
        if let Some(seed) = params.get("seed").and_then(Value::as_i64) {
            let step = i64::from(self.index).wrapping_add(SEED_STEP.wrapping_mul(self.asks));
            params.insert("seed".to_owned(), json!(seed.wrapping_add(step) & i64::MAX));
        }
        for key in ["max_tokens", "min_tokens"] {
            if let Some(count) = params.get(key).and_then(Value::as_u64) {
                params.insert(key.to_owned(), json!(count.saturating_sub(told as u64)));
            }
        }
        if self.asks > 0 {
            params.shift_remove("prompt_logprobs");
            request.rest.shift_remove("kv_transfer_params");
        }
        request.rest.insert("stream".to_owned(), json!(true));
        request.token_ids.extend_from_slice(&self.told);
        request
    }

    /// One token among these, and among those that the request itself allows.
    fn mask(&self, request: &mut GenerateRequest, mut allowed: Vec<u32>) {
        let params = &mut request.sampling_params;
        if let Some(given) = params.get("allowed_token_ids").and_then(Value::as_array) {
            allowed.retain(|id| given.iter().any(|given| given.as_u64() == Some(u64::from(*id))));
        }
        params.insert("max_tokens".to_owned(), json!(1));
        if params.get("min_tokens").and_then(Value::as_u64).is_some_and(|least| least > 1) {
            params.insert("min_tokens".to_owned(), json!(1));
        }
        params.insert("allowed_token_ids".to_owned(), json!(allowed));
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
        if kept == 0 && choice.finish_reason.get().is_none() {
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
        if taken && !self.single {
            self.free += 1;
        }
        Ok(taken)
    }

    /// The engine is stopped; what it would have said is left out.
    fn violation(&mut self) {
        self.metrics.violations.inc();
        self.running = None;
        self.violated = true;
        self.masks =
            if self.free >= FORGIVEN { FIRST_MASKED } else { (self.masks * 2).clamp(FIRST_MASKED, MOST_MASKED) };
        self.masked = self.masks;
        self.free = 0;
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
