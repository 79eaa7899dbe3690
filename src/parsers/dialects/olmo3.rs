//! Olmo 3: tool calls and reasoning.
//!
//! ```text
//! <think>The user wants the weather.</think><function_calls>get_weather(city="Paris", days=3)
//! ping()</function_calls>
//! ```
//!
//! Emitted by Ai2's Olmo 3. Calls as Python writes them ([`pythonic`]), one a line, but with `true`, `false` and `null`.

use super::super::engine::{Act, Body, By, Empty, Grammar, Manners, Mode, PyCalls, Thinking, on};
use super::super::registry::Definition;
use super::{deepseek_r1, pythonic};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["olmo3"],
    reasoning_names: &["olmo3"],
    families: "Olmo 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const OPEN: &str = "<function_calls>";
const CLOSE: &str = "</function_calls>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[on(Mode::Content, OPEN, &[Act::Begin], Mode::Body), on(Mode::Body, CLOSE, &[Act::End], Mode::Content)],
    body: Body::PyCalls(PyCalls { listed: false, lenient: false }),
    manners: Manners { start: Mode::Content, ..pythonic::GRAMMAR.manners },
    ..pythonic::GRAMMAR
};

static THINKING: Thinking = Thinking { says_empty: false, empty_whole: Empty::Never, ..deepseek_r1::THINKING };
