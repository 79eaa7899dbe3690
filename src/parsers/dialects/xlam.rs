//! xLAM's tool calls.
//!
//! ```text
//! [{"name": "get_weather", "arguments": {"city": "Paris"}}]
//! ```
//!
//! Emitted by Salesforce's xLAM 2. The list may stand between `<tool_call>` and `</tool_call>`, behind `[TOOL_CALLS]` or
//! `</think>`, or in a Markdown block; without such a mark it must be the whole reply.

use super::super::engine::{Act, Body, By, Grammar, Ids, JsonCall, JsonList, Manners, Mode, on};
use super::super::registry::Definition;
use super::jamba;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["xlam"],
    reasoning_names: &[],
    families: "xLAM 2",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

static GRAMMAR: Grammar = Grammar {
    marks: &[
        ("[", By::Text),
        ("<tool_call>", By::Text),
        ("</tool_call>", By::Text),
        ("[TOOL_CALLS]", By::Text),
        ("```json", By::Text),
        ("```", By::Text),
        ("\n", By::Text),
    ],
    moves: &[
        on(Mode::Start, "\n", &[Act::Text], Mode::Start),
        on(Mode::Start, "[", &[Act::BeginHere], Mode::Body),
        on(Mode::Start, "<tool_call>", &[Act::Begin], Mode::Body),
        on(Mode::Start, "[TOOL_CALLS]", &[Act::Begin], Mode::Body),
        on(Mode::Start, "```json", &[Act::Begin], Mode::Body),
        on(Mode::Content, "<tool_call>", &[Act::Begin], Mode::Body),
        on(Mode::Content, "[TOOL_CALLS]", &[Act::Begin], Mode::Body),
        on(Mode::Content, "```json", &[Act::Begin], Mode::Body),
        on(Mode::Between, "</tool_call>", &[], Mode::Content),
        on(Mode::Between, "```", &[], Mode::Content),
    ],
    body: Body::JsonList(JsonList { call: JsonCall { ids: Ids::Counted, ..JsonCall::MARKED }, single: false }),
    manners: Manners { start: Mode::Start, ..jamba::GRAMMAR.manners },
    ..jamba::GRAMMAR
};
