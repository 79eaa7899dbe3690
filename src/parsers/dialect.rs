//! What a model speaks, and what one request makes of it.

use std::sync::Arc;

use super::{Context, Events, Message, State, Token, Vocabulary};

/// Why a dialect cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DialectError {
    /// No parser has this name.
    #[error("unknown {kind} parser {name:?}; the closest names are {}", closest.join(", "))]
    Unknown {
        /// `tool-call` or `reasoning`.
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// Names like it.
        closest: Vec<&'static str>,
    },
    /// The vocabulary lacks tokens that the dialect is made of.
    #[error("parser {name:?} needs tokens that the model's vocabulary lacks: {}", tokens.join(" "))]
    MissingTokens {
        /// The parser.
        name: &'static str,
        /// What is missing.
        tokens: Vec<String>,
    },
}

/// What a served model speaks; built once.
#[derive(Debug, Clone)]
pub struct Dialect(());

impl Dialect {
    /// The dialect of two parser names; `None` where neither is given. A tool parser counts only with
    /// `--enable-auto-tool-choice`.
    pub fn new(
        tool_parser: Option<&str>,
        reasoning_parser: Option<&str>,
        _vocabulary: &Vocabulary,
        _model_type: &str,
        _enable_auto_tools: bool,
    ) -> Result<Option<Self>, DialectError> {
        Ok((tool_parser.is_some() || reasoning_parser.is_some()).then_some(Self(())))
    }

    /// Applies one request's facts.
    pub fn plan(self: &Arc<Self>, context: Context) -> Plan {
        Plan { _dialect: Arc::clone(self), _context: context }
    }

    /// True where chat must be decoded with special tokens kept.
    pub fn needs_special_tokens(&self) -> bool {
        true
    }

    /// Whether the prompt already ended the reasoning; `None` without a reasoning parser.
    pub fn prompt_reasoning_ended(&self, _context: &Context) -> Option<bool> {
        None
    }
}

/// How the reply to one request is read.
#[derive(Debug, Clone)]
pub struct Plan {
    _dialect: Arc<Dialect>,
    _context: Context,
}

impl Plan {
    /// The state before the first token.
    pub fn start(&self) -> State {
        State::default()
    }

    /// Takes a state that came back from a client; one that cannot belong to this plan is the client's error.
    pub fn resume(&self, state: State) -> Result<State, String> {
        Ok(state)
    }

    /// Reads one engine chunk. `events` is added to, so clear it between chunks.
    pub fn step(&self, _state: &mut State, tokens: &[Token<'_>], events: &mut Events) {
        for token in tokens {
            events.push_content(token.text);
        }
    }

    /// Ends the reply: what was held back is said, what was left open is closed. Follows the last [`step`](Self::step)
    /// into the same `events`, so that both become one delta.
    pub fn finish(&self, _state: &mut State, _events: &mut Events) {}

    /// Reads a whole reply.
    pub fn message(&self, tokens: &[Token<'_>]) -> Message {
        Message { content: Some(tokens.iter().map(|token| token.text).collect()), ..Message::default() }
    }
}
