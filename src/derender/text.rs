//! Token ids → text: detokenization, the stop token, stop strings. What chat and completions share.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::pieces::Pieces;
use super::stop::{self, StopStrings};
use super::{detok, logprobs};
use crate::api::generate::{GenerateChoice, StopReason};
use crate::model::vocabulary::{Hidden, Vocabulary};

/// How the token ids of one request become text. Immutable.
#[derive(Clone)]
pub struct Plan {
    /// The model's tokens.
    pub vocabulary: Arc<Vocabulary>,
    /// `skip_special_tokens`; nothing is hidden in chat with a parser, which has to see its markers.
    pub hidden: Hidden,
    /// Stop strings to match here.
    pub stop: Arc<StopStrings>,
    /// Which token ends a reply.
    pub stop_tokens: StopTokens,
    /// `min_tokens`: stop strings count only behind so many tokens.
    pub min_tokens: usize,
}

/// The tokens that end a reply, and are no part of its text.
#[derive(Debug, Clone, Default)]
pub struct StopTokens {
    /// The tokenizer's EOS token, which a coupled server reports as `stop_reason: null`.
    pub eos: Option<u32>,
    /// It and those of `generation_config.json`.
    pub all_eos: Arc<[u32]>,
    /// `ignore_eos`: none of them ends the reply.
    pub ignore_eos: bool,
    /// `stop_token_ids` of the request.
    pub requested: Vec<u32>,
    /// `include_stop_str_in_output`: the stop token stays in the text.
    pub include: bool,
}

/// Where one reply stands.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Detokenization.
    pub detok: detok::State,
    /// Stop strings.
    pub stop: stop::State,
    /// What goes on beside the text.
    pub counts: Counts,
}

/// Small facts about the tokens so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Tokens so far, stop token included.
    pub tokens: usize,
    /// The last sampled tokens, for logprobs of characters that are split over tokens.
    pub context: Vec<u32>,
    /// Characters of all tokens listed in completion logprobs so far.
    pub text_offset: usize,
}

/// What one chunk did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Tokens of the chunk that belong to the reply: fewer than it had where a stop string ended it.
    pub kept: usize,
    /// The reply is over.
    pub finish: Option<Finish>,
}

/// How a reply ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// `stop`, `length`, `abort`, …
    pub reason: String,
    /// The stop string or stop token.
    pub stop_reason: Option<StopReason>,
    /// A stop string was found here: the engine does not know yet.
    pub stopped_here: bool,
}

impl Plan {
    /// The state after a prompt.
    pub fn start(&self, prompt: &[u32]) -> State {
        State {
            detok: detok::State::after_prompt(&self.vocabulary, prompt, self.hidden),
            stop: self.stop.start(),
            counts: Counts::default(),
        }
    }

    /// The same plan, with `stop` as its only stop string or with none.
    pub fn with_stop(&self, stop: Option<String>) -> Self {
        Self { stop: Arc::new(StopStrings::new(stop, self.stop_tokens.include)), ..self.clone() }
    }

    /// Reads one engine chunk; its text is added to `pieces`.
    pub fn step(&self, state: &mut State, choice: &GenerateChoice, pieces: &mut Pieces) -> Step {
        let ids = choice.token_ids.as_deref().unwrap_or_default();
        let (text_ids, stop_reason) = self.stop_tokens.split(ids, choice);
        let mut scratch = String::new();
        for (at, id) in text_ids.iter().enumerate() {
            let armed = state.counts.tokens + at >= self.min_tokens;
            if let Some(found) = self.push(state, *id, armed, &mut scratch, pieces) {
                let finish = Finish {
                    reason: "stop".to_owned(),
                    stop_reason: Some(StopReason::Text(found)),
                    stopped_here: true,
                };
                state.counts.add(&ids[..=at]);
                return Step { kept: at + 1, finish: Some(finish) };
            }
        }
        if text_ids.len() < ids.len() {
            pieces.push(ids.last().copied(), "");
        }
        state.counts.add(ids);
        let finish = choice.finish_reason.get().map(|reason| {
            self.stop.flush(&mut state.stop, pieces);
            Finish { reason: reason.to_owned(), stop_reason, stopped_here: false }
        });
        Step { kept: ids.len(), finish }
    }

    /// Adds one token; returns the stop string that it completed. `text` is a buffer.
    fn push(&self, state: &mut State, id: u32, armed: bool, text: &mut String, pieces: &mut Pieces) -> Option<String> {
        if self.stop.is_empty() {
            pieces.push_with(id, |text| state.detok.push(&self.vocabulary, id, self.hidden, text));
            return None;
        }
        text.clear();
        state.detok.push(&self.vocabulary, id, self.hidden, text);
        let piece = stop::Piece { id, text, marker: self.vocabulary.is_added(id) };
        self.stop.push(&mut state.stop, piece, armed, pieces).map(str::to_owned)
    }
}

impl Counts {
    fn add(&mut self, ids: &[u32]) {
        self.tokens += ids.len();
        for id in &ids[ids.len().saturating_sub(logprobs::CONTEXT)..] {
            logprobs::remember(&mut self.context, *id);
        }
    }
}

impl StopTokens {
    /// Cuts off the token that ended the reply, and says what ended it. The engine names it in `stop_reason`; where it
    /// does not (EOS on some, any stop token on older ones), the last token is compared with those that could.
    fn split<'a>(&self, ids: &'a [u32], choice: &GenerateChoice) -> (&'a [u32], Option<StopReason>) {
        let reported = choice.stop_reason.clone();
        let (Some("stop"), Some((last, before))) = (choice.finish_reason.get(), ids.split_last()) else {
            return (ids, reported);
        };
        let (stopped, reason) = match reported {
            Some(StopReason::Text(_)) => (false, reported),
            Some(StopReason::Token(id)) => (i64::from(*last) == id, reported),
            None if !self.ignore_eos && self.eos == Some(*last) => (true, None),
            None if self.ends(*last) => (true, Some(StopReason::Token(i64::from(*last)))),
            None => (false, None),
        };
        if stopped && !self.include { (before, reason) } else { (ids, reason) }
    }

    fn ends(&self, id: u32) -> bool {
        self.requested.contains(&id) || (!self.ignore_eos && self.all_eos.contains(&id))
    }

    /// What a coupled server reports: null for the tokenizer's EOS, which a tokens-only engine reports by its id.
    pub fn reported(&self, reason: Option<StopReason>) -> Option<StopReason> {
        let eos = self.eos.map(|eos| StopReason::Token(i64::from(eos)));
        if reason.is_some() && reason == eos && !self.requested.iter().any(|id| self.eos == Some(*id)) {
            return None;
        }
        reason
    }
}
