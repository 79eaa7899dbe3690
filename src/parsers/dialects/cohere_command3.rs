//! Cohere Command 3: reasoning and tool calls.
//!
//! ```text
//! <|START_THINKING|>The user wants the weather.<|END_THINKING|><|START_RESPONSE|>I will check that now.<|END_RESPONSE|>
//! <|START_ACTION|>[
//!     {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}
//! ]<|END_ACTION|>
//! ```
//!
//! Emitted by Cohere's Command A. A call's id is its number in the reply. White space at the end of
//! reasoning and content is dropped, and so are the marks of citations.

use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Preamble, Think};
use super::super::engine::{Blank, Body, By, Flow, Grammar, Ids, JsonCall, JsonList, Lexer, Manners, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["cohere_command3"],
    reasoning_names: &["cohere_command3"],
    families: "Command A",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const ACTION: &str = "<|START_ACTION|>";
const END_ACTION: &str = "<|END_ACTION|>";
const RESPONSE: &str = "<|START_RESPONSE|>";
const END_RESPONSE: &str = "<|END_RESPONSE|>";
const TEXT: &str = "<|START_TEXT|>";
const END_TEXT: &str = "<|END_TEXT|>";

const THINKING: &str = "<|START_THINKING|>";
const END_THINKING: &str = "<|END_THINKING|>";
const CITATION: &str = "<co>";
const END_CITATION: &str = "</co";

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[
        (ACTION, By::Token),
        (END_ACTION, By::Token),
        (RESPONSE, By::Token),
        (END_RESPONSE, By::Token),
        (TEXT, By::Token),
        (END_TEXT, By::Token),
        (THINKING, By::Token),
        (END_THINKING, By::Token),
        (CITATION, By::Text),
        (END_CITATION, By::Text),
        (">", By::Text),
    ],
    moves: &[
        on(Content, ACTION, &[Begin], Args),
        on(Content, RESPONSE, &[], Content),
        on(Content, END_RESPONSE, &[], Content),
        on(Content, TEXT, &[], Content),
        on(Content, END_TEXT, &[], Content),
        on(Content, THINKING, &[], Think),
        on(Content, END_THINKING, &[], Content),
        on(Content, CITATION, &[], Content),
        on(Content, END_CITATION, &[], Preamble),
        on(Preamble, ">", &[], Content),
        on(Think, END_THINKING, &[], Content),
        on(Think, THINKING, &[], Think),
        on(Think, RESPONSE, &[], Content),
        on(Think, TEXT, &[], Content),
        on(Think, ACTION, &[Begin], Args),
        on(Args, END_ACTION, &[End], Between),
        on(Between, END_ACTION, &[], Between),
        on(Between, ACTION, &[Begin], Args),
        on(Between, RESPONSE, &[], Content),
        on(Between, TEXT, &[], Content),
        on(Between, THINKING, &[], Think),
    ],
    body: Body::JsonList(JsonList {
        call: JsonCall {
            name: "tool_name",
            arguments: &["parameters"],
            ids: Ids::Index,
            flow: Flow::Escapes,
            ..JsonCall::MARKED
        },
        single: false,
    }),
    manners: Manners {
        closes: Some(Between),
        forces_json: false,
        always: true,
        lexer: Lexer::Tokens,
        holds_tail: true,
        blank: Blank::Said,
        ..Manners::ENGINE
    },
    whole: whole::as_said,
};
