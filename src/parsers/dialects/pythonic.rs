//! Calls as Python writes them.
//!
//! ```text
//! [get_weather(city='Paris', days=3), ping()]
//! ```
//!
//! Emitted by Llama 3.2 and ToolACE. The calls are the whole reply: text before them makes everything content.

use super::super::engine::{Act, Body, By, Grammar, Manners, Mode, PyCalls, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["pythonic"],
    reasoning_names: &[],
    families: "Llama 3.2, ToolACE",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[("[", By::Text)],
    moves: &[on(Mode::Start, "[", &[Act::BeginHere], Mode::Body)],
    body: Body::PyCalls(PyCalls { listed: true, lenient: false }),
    manners: Manners {
        start: Mode::Start,
        closes: Some(Mode::Content),
        joined: true,
        says_end: true,
        says_empty: true,
        ..Manners::PLAIN
    },
    whole: whole::strict,
};
