//! dots' tool calls.
//!
//! ```text
//! <dots_function_call>
//! <invoke name="get_weather">
//! <parameter name="city">Paris</parameter>
//! </invoke>
//! </dots_function_call>
//! ```
//!
//! Emitted by RedNote's dots. Values are text that the tool's schema types. Text after the calls is dropped. In a whole answer
//! a call that was cut, or of a function that the request does not have, makes the whole text content.

use super::super::Context;
use super::super::engine::Act::{Begin, End, Text};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Manners, Params, Record, on, whole};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::minimax_m2;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["dots"],
    reasoning_names: &[],
    families: "dots",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const CALLS: &str = "<dots_function_call>";
const END_CALLS: &str = "</dots_function_call>";
const INVOKE: &str = "<invoke name=\"";
const END_NAME: &str = "\">";
const END_INVOKE: &str = "</invoke>";
const PARAMETER: &str = "<parameter name=";
const END_PARAMETER: &str = "</parameter>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Text),
        (END_CALLS, By::Text),
        (INVOKE, By::Text),
        (END_NAME, By::Text),
        (END_INVOKE, By::Text),
        (PARAMETER, By::Text),
        (END_PARAMETER, By::Text),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Preamble, INVOKE, &[Begin], Name),
        on(Preamble, END_CALLS, &[], Between),
        on(Name, END_NAME, &[], Args),
        on(Args, PARAMETER, &[Text], Args),
        on(Args, END_PARAMETER, &[Text], Args),
        on(Args, END_INVOKE, &[End], Between),
        on(Between, INVOKE, &[Begin], Name),
        on(Between, CALLS, &[], Preamble),
    ],
    body: Body::Params(Params::plain(minimax_m2::tag)),
    manners: Manners { forces_json: false, joined: true, ..Manners::PLAIN },
    whole: known,
};

/// Calls that are complete, of functions that the request has; else the text is content.
pub(super) fn known(context: &Context, record: &Record, said: Answer) -> Answer {
    if record.is_unclosed() || said.calls.iter().any(|call| !context.knows(&call.name)) {
        return Answer::text(record.text());
    }
    whole::trimmed(context, record, said)
}
