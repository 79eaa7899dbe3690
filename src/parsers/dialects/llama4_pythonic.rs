//! Llama 4's tool calls.
//!
//! ```text
//! <|python_start|>[get_weather(city='Paris', days=3), ping()]<|python_end|>
//! ```
//!
//! Emitted by Llama 4. Calls as Python writes them ([`pythonic`]); the marks around them may be missing.

use super::super::engine::{Act, By, Grammar, Manners, Mode, on};
use super::super::registry::Definition;
use super::pythonic;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["llama4_pythonic"],
    reasoning_names: &[],
    families: "Llama 4",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<|python_start|>";
const CLOSE: &str = "<|python_end|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[("[", By::Text), (OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Start, OPEN, &[], Mode::Start),
        on(Mode::Start, "[", &[Act::BeginHere], Mode::Body),
        on(Mode::Between, CLOSE, &[], Mode::Content),
    ],
    manners: Manners { closes: Some(Mode::Between), says_after: true, ..pythonic::GRAMMAR.manners },
    ..pythonic::GRAMMAR
};
