//! LongCat's tool calls.
//!
//! ```text
//! <longcat_tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </longcat_tool_call>
//! ```
//!
//! Emitted by Meituan's LongCat-Flash. Hermes's calls ([`hermes`]) between marks of their own.

use super::super::engine::{Act, By, Grammar, Mode, on};
use super::super::registry::Definition;
use super::hermes;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["longcat"],
    reasoning_names: &[],
    families: "LongCat-Flash",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<longcat_tool_call>";
const CLOSE: &str = "</longcat_tool_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Between),
        on(Mode::Between, OPEN, &[Act::Begin], Mode::Body),
    ],
    ..hermes::GRAMMAR
};
