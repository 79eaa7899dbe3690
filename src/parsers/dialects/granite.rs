//! Granite 3's tool calls.
//!
//! ```text
//! <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]
//! ```
//!
//! Emitted by IBM's Granite 3.0; Granite 3.1 writes `<tool_call>`. Text after the calls is content.

use super::super::engine::{Act, Body, By, Grammar, Ids, JsonCall, JsonList, Manners, Mode, on, whole};
use super::super::registry::Definition;
use super::jamba;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["granite"],
    reasoning_names: &[],
    families: "Granite 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const TOKEN: &str = "<|tool_call|>";
const WORD: &str = "<tool_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(TOKEN, By::Token), (WORD, By::Text)],
    moves: &[
        on(Mode::Content, TOKEN, &[Act::Begin], Mode::Body),
        on(Mode::Content, WORD, &[Act::Begin], Mode::Body),
    ],
    body: Body::JsonList(JsonList { call: JsonCall { ids: Ids::OfModel, ..JsonCall::MARKED }, single: false }),
    manners: Manners { closes: Some(Mode::Content), ..Manners::ENGINE },
    whole: whole::untrimmed,
    ..jamba::GRAMMAR
};
