//! Structured outputs on engines that refuse grammars: each token is looked at before the client sees it.
//!
//! The engine generates freely. A token that the grammar does not allow is dropped with what comes behind it; what must
//! come then is inserted without asking anybody, or the engine is asked for one token among those that are allowed, and
//! goes on freely behind it. So every token comes from the distribution that a mask would leave: for each step it is
//! drawn until it is allowed, or drawn among what is allowed. Where `top_p`, `top_k` or `min_p` cut the unlikely off, an
//! engine with a mask cuts what is left by the grammar, and a free draw what there was before it: then a token may come a
//! little more often that both cuts leave.
//!
//! [`bound`] follows one reply, [`masks`] decides when an engine is asked with a mask.

mod bound;
mod masks;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::SelectAll;
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;

use super::Served;
use crate::api::error::ApiError;
use crate::api::generate::{GenerateRequest, GenerateResponse};
use crate::derender::chat;
use crate::engine::{Caller, EngineError, Generation, Pool, Ticket};
use crate::grammar::{GrammarError, Matcher};
use crate::metrics::GrammarMetrics;
use crate::model::Model;
use bound::Bound;

/// A grammar that couplet keeps to, and what tells where it begins.
pub(super) struct Grammar {
    matcher: Matcher,
    /// Follows the reasoning, which no grammar binds; `None` where it is over.
    reasoning: Option<chat::Plan>,
    /// The tokens that the request allows anywhere, where it names some.
    permitted: Option<Arc<HashSet<u64>>>,
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
    let permitted = request.sampling_params.get("allowed_token_ids").and_then(Value::as_array);
    let permitted = permitted.map(|ids| Arc::new(ids.iter().filter_map(Value::as_u64).collect()));
    let model = Arc::clone(&served.model);
    Ok(Some(Grammar { matcher, reasoning, permitted, model, metrics: Arc::clone(&served.grammar_metrics) }))
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
            choice.begin().await?;
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

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *self {
            Self::Free(generation) => generation.poll_next_unpin(cx),
            Self::Bound(choices) => choices.poll_next_unpin(cx),
        }
    }
}
