//! Token ids → what a chat reply says: text first, then the model's dialect.

use super::pieces::Pieces;
use super::text::{self, Finish};
use crate::api::generate::GenerateChoice;
use crate::parsers::{self, Events, Message, ToolCall, ToolChoice};

/// How the reply to one chat request is read. Immutable.
#[derive(Clone)]
pub struct Plan {
    /// Token ids → text.
    pub text: text::Plan,
    /// Text → reasoning, content, calls; `None` where the model has no parser: all is content.
    pub parser: Option<parsers::Plan>,
    /// `include_reasoning`: false hides reasoning, and what could give it away.
    pub include_reasoning: bool,
    /// Which calls are passed on.
    pub calls: Calls,
    /// `tool_choice` required or named: content is a string even where it is empty.
    pub forced_call: bool,
    /// `parallel_tool_calls: false`: only the first call is passed on.
    pub single_call: bool,
}

/// What becomes of the calls that a parser finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// They are dropped: `tool_choice` is none or null, or the server has no auto tool choice.
    Drop,
    /// They are passed on, and a reply that stopped by itself ends with `tool_calls`.
    Keep,
    /// A named function was asked for: passed on, but the reply ends with `stop`.
    Named,
}

impl Calls {
    /// vLLM's rule: required and named choices always, `auto` with tools and auto tool choice on.
    pub fn of(choice: &ToolChoice, has_tools: bool, auto_tools: bool) -> Self {
        match choice {
            ToolChoice::Named(_) => Self::Named,
            ToolChoice::Required => Self::Keep,
            ToolChoice::Auto if has_tools && auto_tools => Self::Keep,
            _ => Self::Drop,
        }
    }
}

/// Where one reply stands.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Token ids → text.
    pub text: text::State,
    /// The dialect's state.
    pub parser: Option<parsers::State>,
    /// A call was passed on.
    pub tools_streamed: bool,
}

impl Plan {
    /// The state after a prompt.
    pub fn start(&self, prompt: &[u32]) -> State {
        State {
            text: self.text.start(prompt),
            parser: self.parser.as_ref().map(parsers::Plan::start),
            tools_streamed: false,
        }
    }

    /// True where logprobs and token ids are left out, because they would give hidden reasoning away.
    pub fn hides_metadata(&self) -> bool {
        self.parser.is_some() && !self.include_reasoning
    }

    /// Reads one engine chunk; `events` then says what it adds to the reply (nothing: no chunk need be sent).
    pub fn step(
        &self,
        state: &mut State,
        choice: &GenerateChoice,
        pieces: &mut Pieces,
        events: &mut Events,
    ) -> text::Step {
        pieces.clear();
        events.clear();
        let silent = state.text.counts.tokens == 0;
        let mut step = self.text.step(&mut state.text, choice, pieces);
        match (&self.parser, &mut state.parser) {
            // An end without any output is passed on unparsed.
            (Some(_), Some(_)) if silent && step.kept == 0 && pieces.text().is_empty() => {}
            (Some(parser), Some(parsed)) => {
                parser.step(parsed, &pieces.tokens(), events);
                if step.finish.is_some() {
                    parser.finish(parsed, events);
                }
                self.filter(state, events);
            }
            _ => events.push_content(pieces.text()),
        }
        if let Some(finish) = &mut step.finish {
            finish.reason = self.finish_reason(finish, state.tools_streamed);
        }
        step
    }

    fn filter(&self, state: &mut State, events: &mut Events) {
        if !self.include_reasoning {
            events.drop_reasoning();
            if events.content().is_some_and(str::is_empty) && events.calls().next().is_none() {
                events.clear();
            }
        }
        if events.calls().next().is_none() {
            return;
        }
        if self.calls == Calls::Drop {
            events.retain_calls(|_| false);
            let empty = |text: Option<&str>| text.is_none_or(str::is_empty);
            if empty(events.content()) && empty(events.reasoning()) {
                events.clear();
            }
            return;
        }
        state.tools_streamed = true;
        if self.single_call {
            events.retain_calls(|index| index == 0);
        }
    }

    fn finish_reason(&self, finish: &Finish, called: bool) -> String {
        match (called, finish.reason.as_str(), self.calls) {
            (true, "stop", Calls::Keep) => "tool_calls".to_owned(),
            _ => finish.reason.clone(),
        }
    }

    /// Reads a whole reply from all of its pieces.
    pub fn message(&self, pieces: &Pieces) -> Message {
        let Some(parser) = &self.parser else {
            return Message { content: Some(pieces.text().to_owned()), ..Message::default() };
        };
        let mut message = parser.message(&pieces.tokens());
        if !self.include_reasoning {
            message.reasoning = None;
        }
        if self.calls == Calls::Drop {
            message.tool_calls.clear();
        }
        if self.forced_call {
            message.content.get_or_insert_default();
        }
        if self.single_call {
            message.tool_calls.truncate(1);
        }
        message
    }

    /// The `finish_reason` of a whole reply.
    pub fn whole_finish_reason(&self, finish: &Finish, calls: &[ToolCall]) -> String {
        self.finish_reason(finish, !calls.is_empty())
    }
}
