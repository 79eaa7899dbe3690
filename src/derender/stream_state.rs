//! `stream_state`: where a reply stands, carried by the client between stateless calls.
//!
//! vLLM's documented fields keep vLLM's meaning, so that a stream may move between vLLM's derenderer and this one at any
//! chunk. Beside them `couplet` holds the state itself, so that a chunk costs its own tokens and not a replay of all that
//! came before. A state without it (it came from vLLM) is replayed once. Everything here is untrusted input.

use serde::{Deserialize, Serialize};

use super::pieces::Pieces;
use super::text::Counts;
use super::{chat, detok, stop, text};
use crate::api::generate::GenerateChoice;
use crate::api::ids::token_ids;
use crate::parsers::{self, Events};

/// Longest `prev_tokens` that is accepted (vLLM's bound).
const MAX_PREV_TOKENS: usize = 1024;
/// Version of [`Compact`].
const VERSION: u32 = 1;

/// The JSON object that travels.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamState {
    /// The decode window, without a parser only: token strings from `prefix_offset` on.
    pub prev_tokens: Vec<String>,
    /// Start of what is decoded again with every token.
    pub prefix_offset: usize,
    /// Start of what has not become text yet.
    pub read_offset: usize,
    /// The role has been sent.
    pub role_sent: bool,
    /// The last sampled tokens, at most four.
    #[serde(deserialize_with = "token_ids")]
    pub logprob_context_token_ids: Vec<u32>,
    /// Characters of the tokens listed in completion logprobs so far.
    pub logprob_text_offset: usize,
    /// All tokens so far. With a parser only; left out of a compact state.
    #[serde(deserialize_with = "token_ids")]
    pub output_token_ids: Vec<u32>,
    /// How many of them arrived with each chunk.
    pub output_chunk_lens: Vec<usize>,
    /// A call has been passed on.
    pub tools_streamed: bool,
    /// Ids of the calls so far.
    pub last_tool_call_ids: Vec<String>,
    /// Our own state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub couplet: Option<Compact>,
}

/// Where a reply stands, without its history. Bounded, whatever the length of the reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compact {
    /// Version of this object.
    v: u32,
    /// Tokens so far, stop token included.
    tokens: usize,
    /// The decode window, where a parser keeps vLLM's own fields empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<detok::WireState>,
    /// Stop strings, where the request has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<stop::State>,
    /// The dialect's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parser: Option<parsers::State>,
    /// What the dialect took from the prompt (`parsers::Plan::thinks`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinks: Option<bool>,
    /// A stop string ended the reply: what comes later is dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
}

impl StreamState {
    /// Checks what can be checked without the request.
    pub fn validate(&self) -> Result<(), String> {
        let window = self.prev_tokens.len();
        if window > MAX_PREV_TOKENS {
            return Err(format!("prev_tokens length ({window}) exceeds maximum ({MAX_PREV_TOKENS})"));
        }
        if self.logprob_context_token_ids.len() > super::logprobs::CONTEXT {
            return Err(format!(
                "logprob_context_token_ids should have at most 4 items, not {}",
                self.logprob_context_token_ids.len()
            ));
        }
        if self.output_chunk_lens.contains(&0) {
            return Err("output_chunk_lens entries should be greater than 0".to_owned());
        }
        let sum = self.output_chunk_lens.iter().try_fold(0_usize, |sum, len| sum.checked_add(*len));
        if sum != Some(self.output_token_ids.len()) {
            return Err(format!(
                "output_chunk_lens must sum to len(output_token_ids) (got sum={}, len(output_token_ids)={})",
                sum.map_or_else(|| "more than memory holds".to_owned(), |sum| sum.to_string()),
                self.output_token_ids.len()
            ));
        }
        self.couplet.as_ref().map_or(Ok(()), |own| own.validate(self))
    }

    /// Tokens of the reply so far.
    pub fn tokens(&self) -> usize {
        self.couplet.as_ref().map_or(self.output_token_ids.len(), |own| own.tokens)
    }

    /// What the dialect took from the prompt, where our own state tells it: then nobody need look at the prompt again.
    /// `None` where only vLLM's fields are there and, with a parser, the reply so far has to be read again.
    pub fn thinks(&self) -> Option<bool> {
        let own = self.couplet.as_ref().filter(|own| own.window.is_some() && own.parser.is_some())?;
        own.thinks
    }

    /// True where a stop string has ended the reply.
    pub fn stopped(&self) -> bool {
        self.couplet.as_ref().is_some_and(|own| own.stopped)
    }

    /// The state of a reply's text without a parser.
    pub fn text(&self, plan: &text::Plan) -> Result<text::State, String> {
        let own = self.couplet.as_ref();
        Ok(text::State {
            detok: detok::State::from_wire(&plan.vocabulary, self.window()),
            stop: self.stop(plan)?,
            counts: self.counts(own.map_or(0, |own| own.tokens)),
        })
    }

    /// The state of a chat reply: without a parser that of its text, else our own or a replay of vLLM's fields.
    pub fn chat(&self, plan: &chat::Plan, prompt: &[u32]) -> Result<chat::State, String> {
        if plan.parser.is_none() {
            return Ok(chat::State { text: self.text(&plan.text)?, parser: None, tools_streamed: false });
        }
        let own = self.couplet.as_ref();
        let (Some(tokens), Some(window), Some(parsed)) =
            (own.map(|own| own.tokens), own.and_then(|own| own.window.clone()), own.and_then(|own| own.parser.clone()))
        else {
            return Ok(self.replay(plan, prompt));
        };
        Ok(chat::State {
            text: text::State {
                detok: detok::State::from_wire(&plan.text.vocabulary, window),
                stop: self.stop(&plan.text)?,
                counts: self.counts(tokens),
            },
            parser: Some(parsed),
            tools_streamed: self.tools_streamed,
        })
    }

    /// Reads all earlier chunks again, as they arrived.
    fn replay(&self, plan: &chat::Plan, prompt: &[u32]) -> chat::State {
        let mut state = plan.start(prompt);
        let (mut pieces, mut events) = (Pieces::default(), Events::default());
        let mut rest = self.output_token_ids.as_slice();
        for len in &self.output_chunk_lens {
            let (chunk, later) = rest.split_at((*len).min(rest.len()));
            rest = later;
            let choice = GenerateChoice { token_ids: Some(chunk.to_vec()), ..GenerateChoice::default() };
            plan.step(&mut state, &choice, &mut pieces, &mut events);
        }
        state.tools_streamed = self.tools_streamed;
        state.text.counts.context.clone_from(&self.logprob_context_token_ids);
        state
    }

    fn window(&self) -> detok::WireState {
        detok::WireState {
            prev_tokens: self.prev_tokens.clone(),
            prefix_offset: self.prefix_offset,
            read_offset: self.read_offset,
        }
    }

    fn stop(&self, plan: &text::Plan) -> Result<stop::State, String> {
        let Some(stop) = self.couplet.as_ref().and_then(|own| own.stop.clone()) else { return Ok(plan.stop.start()) };
        if plan.stop.accepts(&stop) {
            Ok(stop)
        } else {
            Err("couplet.stop does not belong to the request's stop strings; send the same request with every chunk"
                .to_owned())
        }
    }

    fn counts(&self, tokens: usize) -> Counts {
        Counts { tokens, context: self.logprob_context_token_ids.clone(), text_offset: self.logprob_text_offset }
    }

    /// Takes over where the text of a reply stands now.
    pub fn set_text(&mut self, plan: &text::Plan, state: &text::State, stopped: bool) {
        let window = state.detok.to_wire(&plan.vocabulary);
        self.prev_tokens = window.prev_tokens;
        self.prefix_offset = window.prefix_offset;
        self.read_offset = window.read_offset;
        self.couplet = Some(self.compact(plan, state, stopped));
    }

    /// Takes over where a chat reply stands now. `chunk` are the tokens that came last; without `compact` they are
    /// added to the history that vLLM needs.
    pub fn set_chat(&mut self, plan: &chat::Plan, state: &chat::State, chunk: &[u32], stopped: bool, compact: bool) {
        let Some(parsed) = &state.parser else { return self.set_text(&plan.text, &state.text, stopped) };
        self.couplet = Some(Compact {
            window: Some(state.text.detok.to_wire(&plan.text.vocabulary)),
            parser: Some(parsed.clone()),
            thinks: plan.parser.as_ref().map(parsers::Plan::thinks),
            ..self.compact(&plan.text, &state.text, stopped)
        });
        self.tools_streamed = state.tools_streamed;
        if compact {
            self.output_token_ids.clear();
            self.output_chunk_lens.clear();
        } else if !chunk.is_empty() {
            self.output_token_ids.extend_from_slice(chunk);
            self.output_chunk_lens.push(chunk.len());
        }
    }

    fn compact(&mut self, plan: &text::Plan, state: &text::State, stopped: bool) -> Compact {
        self.logprob_context_token_ids.clone_from(&state.counts.context);
        self.logprob_text_offset = state.counts.text_offset;
        Compact {
            v: VERSION,
            tokens: state.counts.tokens,
            stop: (!plan.stop.is_empty()).then(|| state.stop.clone()),
            stopped,
            ..Compact::default()
        }
    }
}

impl Compact {
    fn validate(&self, around: &StreamState) -> Result<(), String> {
        if self.v != VERSION {
            return Err(format!(
                "couplet.v is {}, this server writes and reads version {VERSION}; send the state without `couplet`, or \
                 start the stream again",
                self.v
            ));
        }
        let history = around.output_token_ids.len();
        if history > 0 && history != self.tokens {
            return Err(format!("couplet.tokens ({}) must equal len(output_token_ids) ({history})", self.tokens));
        }
        match &self.window {
            Some(window) if window.prev_tokens.len() > MAX_PREV_TOKENS => {
                Err(format!("couplet.window.prev_tokens exceeds {MAX_PREV_TOKENS} entries"))
            }
            _ => Ok(()),
        }
    }
}
