//! Granite 20B Function Calling's tool calls.
//!
//! ```text
//! <function_call> {"name": "get_weather", "arguments": {"city": "Paris"}}
//! <function_call> {"name": "ping", "arguments": {}}
//! ```
//!
//! Emitted by IBM's granite-20b-functioncalling.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, Mode, on};
use super::super::registry::Definition;
use super::jamba;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["granite-20b-fc"],
    reasoning_names: &[],
    families: "Granite 20B Function Calling",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<function_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text)],
    moves: &[on(Mode::Content, OPEN, &[Act::Begin], Mode::Body), on(Mode::Between, OPEN, &[Act::Begin], Mode::Body)],
    body: Body::JsonCall(JsonCall::MARKED),
    ..jamba::GRAMMAR
};
