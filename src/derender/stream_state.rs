//! `stream_state`: where a reply stands, carried by the client between stateless calls.
//!
//! vLLM's documented fields keep vLLM's meaning, so that a stream may move between vLLM's derenderer and this one at any
//! chunk. Beside them `couplet` holds the state itself, so that a chunk costs its own tokens and not a replay of all that
//! came before. A state without it (it came from vLLM) is replayed once. Everything here is untrusted input.

use serde::{Deserialize, Serialize};

use super::history::History;
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
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StreamState<'a> {
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
    /// All tokens so far, where they have not been taken out as text ([`StreamState::carry`]).
    #[serde(deserialize_with = "token_ids")]
    output_token_ids: Vec<u32>,
    output_chunk_lens: Vec<usize>,
    /// `output_token_ids` and `output_chunk_lens`. With a parser only; left out of a compact state.
    #[serde(skip)]
    pub history: History<'a>,
    /// A call has been passed on.
    pub tools_streamed: bool,
    /// Ids of the calls so far.
    pub last_tool_call_ids: Vec<String>,
    /// Our own state.
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
    /// [`History::sum`] of what vLLM's fields said when they were right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history: Option<u64>,
    /// A stop string ended the reply: what comes later is dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    stopped: bool,
}

impl<'a> StreamState<'a> {
    /// Takes over the JSON texts of `output_token_ids` and `output_chunk_lens`, where they were taken out of the body.
    pub fn carry(&mut self, texts: [Option<&'a [u8]>; 2]) {
        self.history = History::new(texts, &self.output_token_ids, &self.output_chunk_lens);
    }

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
        let own = self.couplet.as_ref();
        let listed = match own.and_then(|own| own.history) {
            Some(checked) if checked == self.history.sum() => 0,
            _ => self.history.read()?.0.len(),
        };
        own.map_or(Ok(()), |own| own.validate(listed))
    }

    /// Tokens of the reply so far.
    pub fn tokens(&self) -> usize {
        self.couplet.as_ref().map_or_else(|| self.history.tokens(), |own| own.tokens)
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

    /// Takes out the state of a reply's text without a parser.
    pub fn take_text(&mut self, plan: &text::Plan) -> Result<text::State, String> {
        let tokens = self.couplet.as_ref().map_or(0, |own| own.tokens);
        let window = detok::WireState {
            prev_tokens: std::mem::take(&mut self.prev_tokens),
            prefix_offset: self.prefix_offset,
            read_offset: self.read_offset,
        };
        self.text_state(plan, window, tokens)
    }

    /// Takes out the state of a chat reply: without a parser that of its text, else our own or a replay of vLLM's fields.
    pub fn take_chat(&mut self, plan: &chat::Plan, prompt: &[u32]) -> Result<chat::State, String> {
        if plan.parser.is_none() {
            return Ok(chat::State { text: self.take_text(&plan.text)?, parser: None, tools_streamed: false });
        }
        let own = self.couplet.as_mut().map(|own| (own.tokens, own.window.take(), own.parser.take()));
        let Some((tokens, Some(window), Some(parser))) = own else { return self.replay(plan, prompt) };
        let text = self.text_state(&plan.text, window, tokens)?;
        Ok(chat::State { text, parser: Some(parser), tools_streamed: self.tools_streamed })
    }

    fn text_state(&self, plan: &text::Plan, window: detok::WireState, tokens: usize) -> Result<text::State, String> {
        Ok(text::State {
            detok: detok::State::from_wire(&plan.vocabulary, window),
            stop: self.stop(plan)?,
            counts: Counts {
                tokens,
                context: self.logprob_context_token_ids.clone(),
                text_offset: self.logprob_text_offset,
            },
        })
    }

    /// Reads all earlier chunks again, as they arrived.
    fn replay(&self, plan: &chat::Plan, prompt: &[u32]) -> Result<chat::State, String> {
        let (ids, lens) = self.history.read()?;
        let mut state = plan.start(prompt);
        let (mut pieces, mut events) = (Pieces::default(), Events::default());
        let mut rest = ids.as_slice();
        for len in lens {
            let (chunk, later) = rest.split_at(len.min(rest.len()));
            rest = later;
            let choice = GenerateChoice { token_ids: Some(chunk.to_vec()), ..GenerateChoice::default() };
            plan.step(&mut state, &choice, &mut pieces, &mut events);
        }
        state.tools_streamed = self.tools_streamed;
        state.text.counts.context.clone_from(&self.logprob_context_token_ids);
        Ok(state)
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

    /// Puts back where the text of a reply stands now.
    pub fn set_text(&mut self, plan: &text::Plan, state: text::State, stopped: bool) {
        let window = state.detok.to_wire(&plan.vocabulary);
        self.prev_tokens = window.prev_tokens;
        self.prefix_offset = window.prefix_offset;
        self.read_offset = window.read_offset;
        self.couplet = Some(self.compact(plan, state, stopped));
    }

    /// Puts back where a chat reply stands now. `chunk` are the tokens that came last; without `compact` they are added to
    /// the history that vLLM needs.
    pub fn set_chat(&mut self, plan: &chat::Plan, state: chat::State, chunk: &[u32], stopped: bool, compact: bool) {
        let chat::State { text, parser: Some(parser), tools_streamed } = state else {
            return self.set_text(&plan.text, state.text, stopped);
        };
        self.tools_streamed = tools_streamed;
        if compact {
            self.history = History::default();
        } else if !chunk.is_empty() {
            self.history.push(chunk);
        }
        self.couplet = Some(Compact {
            window: Some(text.detok.to_wire(&plan.text.vocabulary)),
            parser: Some(parser),
            thinks: plan.parser.as_ref().map(parsers::Plan::thinks),
            history: (!self.history.is_empty()).then(|| self.history.sum()),
            ..self.compact(&plan.text, text, stopped)
        });
    }

    fn compact(&mut self, plan: &text::Plan, state: text::State, stopped: bool) -> Compact {
        self.logprob_context_token_ids = state.counts.context;
        self.logprob_text_offset = state.counts.text_offset;
        Compact {
            v: VERSION,
            tokens: state.counts.tokens,
            stop: (!plan.stop.is_empty()).then_some(state.stop),
            stopped,
            ..Compact::default()
        }
    }
}

impl Compact {
    /// `listed` is the length of vLLM's list of tokens, unless it was checked before.
    fn validate(&self, listed: usize) -> Result<(), String> {
        if self.v != VERSION {
            return Err(format!(
                "couplet.v is {}, this server writes and reads version {VERSION}; send the state without `couplet`, or \
                 start the stream again",
                self.v
            ));
        }
        if listed > 0 && listed != self.tokens {
            return Err(format!("couplet.tokens ({}) must equal len(output_token_ids) ({listed})", self.tokens));
        }
        match &self.window {
            Some(window) if window.prev_tokens.len() > MAX_PREV_TOKENS => {
                Err(format!("couplet.window.prev_tokens exceeds {MAX_PREV_TOKENS} entries"))
            }
            _ => Ok(()),
        }
    }
}
