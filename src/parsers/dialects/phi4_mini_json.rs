//! Phi-4-mini's tool calls.
//!
//! ```text
//! functools[{"name": "get_weather", "arguments": {"city": "Paris"}}]
//! ```
//!
//! Emitted by Microsoft's Phi-4-mini. Arguments may be called `parameters`.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, JsonList, Mode, on};
use super::super::registry::Definition;
use super::jamba;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["phi4_mini_json"],
    reasoning_names: &[],
    families: "Phi-4-mini",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "functools";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text)],
    moves: &[on(Mode::Content, OPEN, &[Act::Begin], Mode::Body), on(Mode::Between, OPEN, &[Act::Begin], Mode::Body)],
    body: Body::JsonList(JsonList {
        call: JsonCall { arguments: &["arguments", "parameters"], ..JsonCall::MARKED },
        single: false,
    }),
    ..jamba::GRAMMAR
};
