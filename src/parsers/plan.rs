//! How the reply to one request is read: a dialect and the request's facts.

use std::sync::Arc;

use super::engine::{Output, Piece, Record};
use super::message::Answer;
use super::{Context, Dialect, Events, Message, State, Token, ToolChoice};

/// How the reply to one request is read.
#[derive(Debug, Clone)]
pub struct Plan {
    dialect: Arc<Dialect>,
    context: Context,
    /// Reasoning may come.
    thinks: bool,
    /// Calls may come.
    calls: bool,
}

impl Plan {
    pub(super) fn new(dialect: Arc<Dialect>, context: Context) -> Self {
        let thinks =
            dialect.reasoning.as_ref().is_some_and(|half| half.is_on(&context) && !half.ended_by_prompt(&context));
        let calls = dialect.tools.is_some() && context.tool_choice != ToolChoice::None;
        Self { dialect, context, thinks, calls }
    }

    /// The state before the first token.
    pub fn start(&self) -> State {
        let mut state = State::default();
        if let Some(half) = self.dialect.reasoning.as_ref().filter(|_| self.thinks) {
            state.reasoning = half.start(&self.context);
        }
        if let Some(half) = &self.dialect.tools {
            state.tools = half.start(&self.context);
        }
        state
    }

    /// Reads one engine chunk, which may have no tokens. `events` is added to, so clear it between chunks.
    pub fn step(&self, state: &mut State, tokens: &[Token<'_>], events: &mut Events) {
        let reasoned = state.reasoning.inside;
        self.read(state, tokens, events, None);
        if reasoned {
            self.empty_reasoning(state, tokens, events);
        } else if self.dialect.tools.is_none() {
            events.push_content("");
        }
    }

    /// Ends the reply: what was held back is said, what was left open is closed. Follows the last [`step`](Self::step)
    /// into the same `events`, so that both become one delta.
    pub fn finish(&self, state: &mut State, events: &mut Events) {
        self.end(state, events, None);
    }

    /// Reads a whole reply.
    pub fn message(&self, tokens: &[Token<'_>]) -> Message {
        let (mut state, mut events, mut record) = (self.start(), Events::default(), Record::default());
        self.read(&mut state, tokens, &mut events, Some(&mut record));
        self.end(&mut state, &mut events, Some(&mut record));
        self.whole(&state, &events, &record)
    }

    fn read(&self, state: &mut State, tokens: &[Token<'_>], events: &mut Events, mut record: Option<&mut Record>) {
        let State { reasoning, tools, calls } = state;
        let half = self.dialect.reasoning.as_deref();
        for token in tokens {
            if let (Some(half), Some(id)) = (half, token.id) {
                half.count(reasoning, id);
            }
            let mut say = |piece: Piece<'_>| match piece {
                Piece::Reasoning(text) => events.push_reasoning_text(text),
                Piece::Rest(token) => {
                    let record = record.as_deref_mut();
                    let mut out = Output { context: &self.context, events, calls, record };
                    self.rest(tools, token, &mut out);
                }
            };
            match half.filter(|_| self.thinks) {
                Some(half) => half.read(reasoning, *token, &mut say),
                None => say(Piece::Rest(*token)),
            }
        }
    }

    fn rest(&self, memory: &mut super::engine::ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        match self.dialect.tools.as_deref().filter(|_| self.calls) {
            Some(half) => half.read(&self.context, memory, token, out),
            None => {
                out.note(token.text);
                out.content(token.text);
            }
        }
    }

    fn end(&self, state: &mut State, events: &mut Events, mut record: Option<&mut Record>) {
        let State { reasoning, tools, calls } = state;
        if let Some(half) = self.dialect.reasoning.as_deref().filter(|_| self.thinks) {
            half.finish(reasoning, &mut |piece| match piece {
                Piece::Reasoning(text) => events.push_reasoning_text(text),
                Piece::Rest(token) => {
                    let record = record.as_deref_mut();
                    let mut out = Output { context: &self.context, events, calls, record };
                    self.rest(tools, token, &mut out);
                }
            });
        }
        if let Some(half) = self.dialect.tools.as_deref().filter(|_| self.calls) {
            half.finish(&self.context, tools, &mut Output { context: &self.context, events, calls, record });
        }
    }

    /// vLLM sends an empty `reasoning` for some chunks of reasoning without text.
    fn empty_reasoning(&self, state: &State, tokens: &[Token<'_>], events: &mut Events) {
        let ended = !state.reasoning.inside;
        if let Some(half) = self.dialect.reasoning.as_deref()
            && half.says_empty(tokens)
            && !(ended && self.dialect.tools.is_some())
        {
            events.push_reasoning("");
        }
    }

    fn whole(&self, state: &State, events: &Events, record: &Record) -> Message {
        let mut said = Answer::of(events);
        let reasoning = events.reasoning().unwrap_or_default().to_owned();
        let (reasoning, rest) = match self.dialect.reasoning.as_deref().filter(|_| self.thinks) {
            Some(half) => half.whole(&state.reasoning, reasoning, record.text().to_owned()),
            None => (None, Some(record.text().to_owned())),
        };
        if let Some(half) = self.dialect.tools.as_deref().filter(|_| self.calls) {
            said = half.whole(&self.context, record, said);
        }
        let content = if said.calls.is_empty() { rest.map(|_| said.content) } else { blank_to_none(said.content) };
        let forced = matches!(self.context.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        let content = if forced { Some(content.unwrap_or_default()) } else { content };
        Message { reasoning, content, tool_calls: said.calls, reasoning_tokens: state.reasoning_tokens() }
    }
}

/// Beside calls, content that is only white space is none.
fn blank_to_none(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}
