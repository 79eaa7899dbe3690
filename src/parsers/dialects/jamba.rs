//! Jamba's tool calls.
//!
//! ```text
//! <tool_calls>
//! [{"name": "get_weather", "arguments": {"city": "Paris"}}]
//! </tool_calls>
//! ```
//!
//! Emitted by AI21's Jamba 1.5 and later.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, JsonList, Manners, Mode, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["jamba"],
    reasoning_names: &[],
    families: "Jamba 1.5 and later",
    needs: &["<tool_calls>", "</tool_calls>"],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<tool_calls>";
const CLOSE: &str = "</tool_calls>";

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Between),
        on(Mode::Between, CLOSE, &[], Mode::Between),
    ],
    body: Body::JsonList(JsonList { call: JsonCall::MARKED, single: false }),
    manners: Manners { closes: Some(Mode::Between), says_after: true, says_empty: true, ..Manners::PLAIN },
    whole: whole::objects,
};
