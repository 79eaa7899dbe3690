//! Hermes tool calls.
//!
//! ```text
//! I will check that now.
//!
//! <tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </tool_call>
//! <tool_call>
//! {"name": "ping", "arguments": {}}
//! </tool_call>
//! ```
//!
//! Emitted by NousResearch's Hermes 2 Pro and 3, and by Qwen 2.5, QwQ and Qwen3, whose chat templates took the format
//! over. A call may lack its closing mark at the end of the reply. Text after a call is dropped. In a whole answer one
//! malformed call makes the whole text content.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, Manners, Mode, Record, on};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::super::{Context, python};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["hermes", "qwen3_json"],
    reasoning_names: &[],
    families: "Hermes 2 Pro and 3, Qwen 2.5, QwQ, Qwen3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Between),
        on(Mode::Between, OPEN, &[Act::Begin], Mode::Body),
    ],
    body: Body::JsonCall(JsonCall::MARKED),
    manners: Manners { forces_json: false, ..Manners::PLAIN },
    whole,
};

/// Either every call is well formed, or the text is content.
fn whole(_context: &Context, record: &Record, said: Answer) -> Answer {
    let call = |body: &str| {
        let call = python::loads(body)?;
        call.get("name")?.as_str()?;
        call.get("arguments").map(python::dumps)
    };
    match record.bodies().map(call).collect::<Option<Vec<_>>>() {
        Some(arguments) => said.with_arguments(arguments),
        None => Answer::text(record.text()),
    }
}
