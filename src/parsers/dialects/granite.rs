//! Granite 3: reasoning and tool calls.
//!
//! ```text
//! Here is my thought process: The user wants the weather. Here is my response: I will check that now.
//! <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]
//! ```
//!
//! Emitted by IBM's Granite 3.0; Granite 3.1 writes `<tool_call>`. Text after the calls is content.
//! The sentences that begin reasoning and response are plain text, and count only at the start of a reply.

use super::super::engine::{
    Act, Body, By, Empty, Flow, Grammar, Ids, JsonCall, JsonList, Manners, Mode, Reopens, Start, Thinking, on, whole,
};
use super::super::registry::Definition;
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["granite"],
    reasoning_names: &["granite"],
    families: "Granite 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const TOKEN: &str = "<|tool_call|>";
const WORD: &str = "<tool_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(TOKEN, By::Token), (WORD, By::Text)],
    moves: &[on(Mode::Content, TOKEN, &[Act::Begin], Mode::Body), on(Mode::Content, WORD, &[Act::Begin], Mode::Body)],
    body: Body::JsonList(JsonList {
        call: JsonCall { ids: Ids::OfModel, flow: Flow::Certain, ..JsonCall::MARKED },
        single: false,
    }),
    manners: Manners { closes: Some(Mode::Content), ..Manners::ENGINE },
    whole: whole::trimmed,
};

static THINKING: Thinking = Thinking {
    open: "Here is my thought process:",
    close: "Here is my response:",
    spellings: &[("Here's my thought process:", "Here's my response:")],
    reopens: Reopens::AtStart,
    follows_prompt: false,
    start: |_| Start::Outside,
    says_empty: false,
    empty_whole: Empty::Never,
    ..deepseek_r1::THINKING
};
