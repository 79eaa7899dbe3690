//! Apertus's tool calls.
//!
//! ```text
//! <|tools_prefix|>[{"get_weather": {"city": "Paris"}}, {"ping": {}}]<|tools_suffix|>
//! ```
//!
//! Emitted by the Swiss AI Initiative's Apertus. The function's name is the key of its arguments. Text after the calls is
//! content.

use super::super::engine::{Act, Body, By, Flow, Grammar, JsonCall, JsonList, Manners, Mode, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["apertus"],
    reasoning_names: &[],
    families: "Apertus",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<|tools_prefix|>";
const CLOSE: &str = "<|tools_suffix|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Content),
        on(Mode::Between, CLOSE, &[], Mode::Content),
    ],
    body: Body::JsonList(JsonList { call: JsonCall { name: "", flow: Flow::Firm, ..JsonCall::MARKED }, single: false }),
    manners: Manners { closes: Some(Mode::Between), joined: true, ..Manners::PLAIN },
    whole: |context, record, said| whole::open_or(whole::strict, context, record, said),
};
