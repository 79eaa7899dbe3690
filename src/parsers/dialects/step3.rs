//! Step 3: reasoning and tool calls.
//!
//! ```text
//! The user wants the weather.</think>I will check that now.
//! <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_weather">
//! <steptml:parameter name="city">Paris</steptml:parameter>
//! </steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>
//! ```
//!
//! Emitted by StepFun's Step 3, which begins inside reasoning. Values lose the white space around them; only integers,
//! numbers, booleans and nulls are typed, the rest is text. The arguments go out when the call is complete. In a whole answer
//! the calls must be closed.

use super::super::engine::Act::{Announce, Begin, End, GiveBack, Keep};
use super::super::engine::Mode::{Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Collected, Counting, Grammar, Manners, Record, Thinking, on};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::{Context, schema};
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["step3"],
    reasoning_names: &["step3"],
    families: "Step 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const CALLS: &str = "<｜tool_calls_begin｜>";
const END_CALLS: &str = "<｜tool_calls_end｜>";
const CALL: &str = "<｜tool_call_begin｜>";
const END_CALL: &str = "<｜tool_call_end｜>";
const INVOKE: &str = "<steptml:invoke name=\"";
const END_NAME: &str = "\">";
const PARAMETER: &str = "<steptml:parameter name=\"";
const END_PARAMETER: &str = "</steptml:parameter>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Text),
        (END_CALLS, By::Text),
        (CALL, By::Text),
        (END_CALL, By::Text),
        (INVOKE, By::Text),
        (END_NAME, By::Text),
    ],
    moves: &[
        on(Content, CALLS, &[Keep], Preamble),
        on(Preamble, CALL, &[Begin], Preamble),
        on(Preamble, INVOKE, &[], Name),
        on(Preamble, END_CALL, &[End], Preamble),
        on(Preamble, END_CALLS, &[GiveBack], Content),
        on(Name, END_NAME, &[Announce], Args),
        on(Args, END_CALL, &[End], Preamble),
        on(Args, END_CALLS, &[End, GiveBack], Content),
    ],
    body: Body::Collected(Collected { arguments }),
    manners: Manners::PLAIN,
    whole,
};

static THINKING: Thinking = Thinking { open: "", counting: Counting::Read, ..deepseek_r1::THINKING };

fn arguments(context: &Context, function: &str, body: &str) -> String {
    let known = schema::properties(&context.tools, function);
    let mut members: Vec<(String, Json)> = Vec::new();
    for parameter in body.split(PARAMETER).skip(1) {
        let Some((name, rest)) = parameter.split_once(END_NAME) else { continue };
        let Some((value, _)) = rest.split_once(END_PARAMETER) else { continue };
        let kind = known.and_then(|known| known.get(name)?.get("type")?.as_str()).unwrap_or_default();
        members.retain(|(key, _)| key != name);
        members.push((name.to_owned(), typed(value.trim(), kind)));
    }
    python::dumps(&Json::Dict(members))
}

fn typed(text: &str, kind: &str) -> Json {
    let value = match (kind, text.to_lowercase().as_str()) {
        ("integer", _) => schema::integer(text),
        ("number", _) => text.parse().ok().map(Json::Float),
        ("boolean", "true") => Some(Json::Bool(true)),
        ("boolean", "false") => Some(Json::Bool(false)),
        ("null", "null") => Some(Json::Null),
        _ => None,
    };
    value.unwrap_or_else(|| Json::Str(text.to_owned()))
}

/// Calls that were never closed are text.
fn whole(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    if said.calls.is_empty() || !record.text().contains(END_CALLS) {
        return Answer::text(record.text());
    }
    said.content = said.content.trim().to_owned();
    said
}
