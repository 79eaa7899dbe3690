//! GigaChat 3's tool calls.
//!
//! ```text
//! I will check that now.<|message_sep|>
//!
//! function call<|role_sep|>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! ```
//!
//! Emitted by Sber's GigaChat 3; later ones put `<|function_call|>` before the object instead.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, Manners, Mode, on};
use super::super::registry::Definition;
use super::jamba;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["gigachat3"],
    reasoning_names: &[],
    families: "GigaChat 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const ROLE: &str = "<|message_sep|>\n\nfunction call<|role_sep|>\n";
const MARK: &str = "<|function_call|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(ROLE, By::Text), (MARK, By::Text)],
    moves: &[
        on(Mode::Content, ROLE, &[Act::Begin], Mode::Body),
        on(Mode::Content, MARK, &[Act::Begin], Mode::Body),
        on(Mode::Between, ROLE, &[Act::Begin], Mode::Body),
        on(Mode::Between, MARK, &[Act::Begin], Mode::Body),
    ],
    body: Body::JsonCall(JsonCall::MARKED),
    manners: Manners { says_empty: false, ..jamba::GRAMMAR.manners },
    ..jamba::GRAMMAR
};
