//! How the reply to one request is read: a dialect and the request's facts.

use std::sync::Arc;

use super::engine::{Named, Output, Piece, ReadReasoning, ReadTools, Record, Required, ToolMemory};
use super::message::Answer;
use super::{Context, Dialect, Events, Message, State, Token, ToolChoice};

/// How the reply to one request is read.
#[derive(Debug, Clone)]
pub struct Plan {
    dialect: Arc<Dialect>,
    context: Context,
    /// Reasoning may come.
    thinks: bool,
    calls: Calls,
}

/// What reads calls.
#[derive(Debug, Clone, Copy)]
enum Calls {
    /// Nothing: markup is content.
    Off,
    /// The dialect.
    Native,
    /// Plain JSON, for a named function.
    Named,
    /// Plain JSON, for `required`.
    Required,
}

impl Plan {
    pub(super) fn new(dialect: Arc<Dialect>, context: Context) -> Self {
        let thinks = dialect.reasoning.as_deref();
        let thinks = thinks.is_some_and(|half| half.reads(&context));
        let calls = calls(&dialect, &context.tool_choice);
        Self { dialect, context, thinks, calls }
    }

    /// The same plan in the middle of a reply, without the prompt: `thinks` is what [`thinks`](Self::thinks) said where
    /// the prompt was there.
    pub(super) fn resumed(dialect: Arc<Dialect>, context: Context, thinks: bool) -> Self {
        let thinks = thinks && dialect.reasoning.is_some();
        let calls = calls(&dialect, &context.tool_choice);
        Self { dialect, context, thinks, calls }
    }

    /// Whether reasoning may come: what the plan took from the prompt.
    pub fn thinks(&self) -> bool {
        self.thinks
    }

    /// The state before the first token.
    pub fn start(&self) -> State {
        let mut state = State::default();
        if let Some(half) = self.reasoning() {
            state.reasoning = half.start(&self.context);
        }
        if let Some(half) = self.tools() {
            state.tools = half.start(&self.context);
        }
        state
    }

    /// Reads one engine chunk, which may have no tokens. `events` is added to, so clear it between chunks.
    pub fn step(&self, state: &mut State, tokens: &[Token<'_>], events: &mut Events) {
        let (reasoned, passed) = (state.reasoning.inside, self.passes(state));
        self.read(state, tokens, events, None);
        match self.tools() {
            Some(half) if !state.reasoning.inside => {
                let State { tools, calls, .. } = state;
                half.end_chunk(tools, &mut self.output(events, calls, None));
            }
            None if !reasoned && !state.reasoning.inside && self.dialect.tools.is_none() && passed => {
                events.push_content("");
            }
            _ => {}
        }
        if reasoned {
            self.empty_reasoning(state, tokens, events);
        }
        if let Some(half) = self.dialect.reasoning.as_deref() {
            half.polish(&mut state.reasoning, events, false);
        }
    }

    /// Ends the reply: what was held back is said, what was left open is closed. Follows the last [`step`](Self::step)
    /// into the same `events`, so that both become one delta.
    pub fn finish(&self, state: &mut State, events: &mut Events) {
        // vLLM's engine ends a reply in a delta of its own, whose entries go behind those of the last chunk.
        if self.tools().is_some_and(ReadTools::is_engine) {
            events.set_apart();
        }
        self.end(state, events, None);
    }

    /// Reads a whole reply.
    pub fn message(&self, tokens: &[Token<'_>]) -> Message {
        let (mut state, mut events, mut record) = (self.start(), Events::default(), Record::default());
        state.reasoning.keeps = false;
        self.read(&mut state, tokens, &mut events, Some(&mut record));
        self.end(&mut state, &mut events, Some(&mut record));
        self.whole(&state, &events, &record)
    }

    fn reasoning(&self) -> Option<&dyn ReadReasoning> {
        self.dialect.reasoning.as_deref().filter(|_| self.thinks)
    }

    fn tools(&self) -> Option<&dyn ReadTools> {
        match self.calls {
            Calls::Off => None,
            Calls::Native => self.dialect.tools.as_deref(),
            Calls::Named => Some(&Named),
            Calls::Required => Some(&Required),
        }
    }

    fn output<'a>(
        &'a self,
        events: &'a mut Events,
        calls: &'a mut usize,
        record: Option<&'a mut Record>,
    ) -> Output<'a> {
        Output { context: &self.context, events, calls, record, numbered: self.dialect.numbered, ends: false }
    }

    fn read(&self, state: &mut State, tokens: &[Token<'_>], events: &mut Events, mut record: Option<&mut Record>) {
        events.join(self.tools().is_some_and(ReadTools::joins));
        events.type_entries(self.tools().is_some_and(ReadTools::types_entries));
        let State { reasoning, tools, calls } = state;
        for token in tokens {
            if let (Some(half), Some(id)) = (self.dialect.reasoning.as_deref(), token.id) {
                half.count(reasoning, id);
            }
            let mut say = |piece: Piece<'_>| match piece {
                Piece::Reasoning(text) => events.push_reasoning_text(text),
                Piece::Rest(token) => self.rest(tools, token, &mut self.output(events, calls, record.as_deref_mut())),
            };
            match self.reasoning() {
                Some(half) => half.read(reasoning, *token, &mut say),
                None => say(Piece::Rest(*token)),
            }
        }
    }

    fn rest(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        match self.tools() {
            Some(half) => half.read(memory, token, out),
            None => {
                out.note(token.text);
                out.content(token.text);
            }
        }
    }

    fn end(&self, state: &mut State, events: &mut Events, mut record: Option<&mut Record>) {
        events.join(self.tools().is_some_and(ReadTools::joins));
        events.type_entries(self.tools().is_some_and(ReadTools::types_entries));
        let State { reasoning, tools, calls } = state;
        if let Some(half) = self.reasoning() {
            half.finish(reasoning, &mut |piece| match piece {
                Piece::Reasoning(text) => events.push_reasoning_text(text),
                Piece::Rest(token) => self.rest(tools, token, &mut self.output(events, calls, record.as_deref_mut())),
            });
        }
        if let Some(half) = self.tools() {
            half.finish(tools, &mut Output { ends: true, ..self.output(events, calls, record) });
        }
        if let Some(half) = self.dialect.reasoning.as_deref() {
            half.polish(reasoning, events, true);
        }
    }

    fn passes(&self, state: &State) -> bool {
        self.reasoning().is_none_or(|half| half.passes(&self.context, &state.reasoning))
    }

    /// vLLM sends an empty `reasoning` for some chunks of reasoning without text.
    fn empty_reasoning(&self, state: &State, tokens: &[Token<'_>], events: &mut Events) {
        let ended = !state.reasoning.inside;
        if let Some(half) = self.reasoning()
            && half.says_empty(tokens)
            && !(ended && self.dialect.tools.is_some())
        {
            events.push_reasoning("");
        }
    }

    fn whole(&self, state: &State, events: &Events, record: &Record) -> Message {
        let reasoning = events.reasoning().unwrap_or_default().to_owned();
        let (reasoning, rest) = match self.reasoning() {
            Some(half) => half.whole(&self.context, &state.reasoning, reasoning, record.text().to_owned()),
            None => (Some(reasoning).filter(|text| !text.is_empty()), Some(record.text().to_owned())),
        };
        let promoted = rest.as_deref().is_some_and(|rest| rest != record.text());
        let mut said = Answer::of(events);
        if self.context.tool_choice == ToolChoice::None && !self.context.tools.is_empty() {
            said.calls.clear();
        }
        let mut fallbacks = events.fallbacks();
        let announced = !said.calls.is_empty();
        if let Some(half) = self.tools() {
            said = half.whole(&self.context, record, said);
        }
        if announced && said.calls.is_empty() {
            fallbacks.add(record.fallback());
        }
        let content = match self.calls {
            Calls::Named | Calls::Required => None,
            _ if !said.calls.is_empty() => {
                let blank = |content: &str| content.is_empty() || !said.settled && content.trim().is_empty();
                Some(said.content).filter(|content| !blank(content))
            }
            _ if promoted => rest,
            // Nothing looked for calls: the text is content as it is, were it empty.
            Calls::Off => rest,
            // Where one half is not of vLLM's engine, markup that called nothing is given back.
            Calls::Native if !engine_only(&self.dialect) && !said.settled => rest,
            _ => rest.and((!said.content.is_empty()).then_some(said.content)),
        };
        let content = match self.context.tool_choice {
            ToolChoice::Required | ToolChoice::Named(_) => Some(content.unwrap_or_default()),
            _ => content,
        };
        let mut tool_calls = said.calls;
        tool_calls.truncate(match self.context.tool_choice {
            ToolChoice::None | ToolChoice::Null => 0,
            _ if self.context.parallel_tool_calls => usize::MAX,
            _ => 1,
        });
        Message { reasoning, content, tool_calls, reasoning_tokens: state.reasoning_tokens(), fallbacks }
    }
}

fn calls(dialect: &Dialect, choice: &ToolChoice) -> Calls {
    let forces_json = dialect.tools.as_deref().is_some_and(ReadTools::forces_json);
    let always = dialect.tools.as_deref().is_some_and(ReadTools::reads_always);
    match choice {
        _ if dialect.tools.is_none() => Calls::Off,
        ToolChoice::None if !engine_only(dialect) && !always => Calls::Off,
        ToolChoice::Named(_) if forces_json => Calls::Named,
        ToolChoice::Required if forces_json => Calls::Required,
        _ => Calls::Native,
    }
}

fn engine_only(dialect: &Dialect) -> bool {
    let reasoning = dialect.reasoning.as_deref().is_none_or(ReadReasoning::is_engine);
    reasoning && dialect.tools.as_deref().is_none_or(ReadTools::is_engine)
}
