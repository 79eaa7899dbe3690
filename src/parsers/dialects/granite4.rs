//! Granite 4's tool calls.
//!
//! ```text
//! <tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </tool_call>
//! ```
//!
//! Emitted by IBM's Granite 4. Hermes's calls ([`hermes`]), but text between and after them is content, and forced calls are
//! plain JSON.

use super::super::engine::{Act, By, Grammar, Manners, Mode, on};
use super::super::registry::Definition;
use super::hermes;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["granite4"],
    reasoning_names: &[],
    families: "Granite 4",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[on(Mode::Content, OPEN, &[Act::Begin], Mode::Body), on(Mode::Body, CLOSE, &[Act::End], Mode::Content)],
    manners: Manners::PLAIN,
    ..hermes::GRAMMAR
};
