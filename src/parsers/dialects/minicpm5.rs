//! MiniCPM 5's tool calls.
//!
//! ```text
//! <function name="get_weather"><param name="city">Paris</param></function>
//! ```
//!
//! Emitted by OpenBMB's MiniCPM 5. A value is JSON, or a Python literal, or text, in `<![CDATA[…]]>` or not; a parameter that the
//! schema says is a string is text. The model may forget the space before `name`. A call of a function that the request does
//! not have is content; in a whole answer a call that was cut makes the whole text content.

use super::super::Context;
use super::super::engine::Act::{Announce, Begin, End, Text};
use super::super::engine::Mode::{Body as Args, Content, Name, Preamble};
use super::super::engine::tags::{self, Part};
use super::super::engine::{Body, By, Grammar, Manners, Params, Record, Tag, Typing, Unknown, Value, on, whole};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::minimax_m2;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["minicpm5"],
    reasoning_names: &[],
    families: "MiniCPM 5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const CALL: &str = "<function name=\"";
const TIGHT: &str = "<functionname=\"";
const QUOTE: &str = "\"";
const END_HEAD: &str = ">";
const END_CALL: &str = "</function>";
const PARAM: &str = "<param";
const END_PARAM: &str = "</param>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALL, By::Text),
        (TIGHT, By::Text),
        (QUOTE, By::Text),
        (END_HEAD, By::Text),
        (END_CALL, By::Text),
        (PARAM, By::Text),
        (END_PARAM, By::Text),
    ],
    moves: &[
        on(Content, CALL, &[Begin], Name),
        on(Content, TIGHT, &[Begin], Name),
        on(Name, QUOTE, &[Announce], Preamble),
        on(Preamble, END_HEAD, &[], Args),
        on(Args, PARAM, &[Text], Args),
        on(Args, END_PARAM, &[Text], Args),
        on(Args, END_CALL, &[End], Content),
    ],
    body: Body::Params(Params { typing: Typing::Own { streams: |_| false, value }, ..Params::plain(tag) }),
    manners: Manners { joined: true, unknown: Unknown::GivenBack, ..Manners::PLAIN },
    whole: complete,
};

/// Ids of whole answers have another shape.
fn complete(context: &Context, record: &Record, said: Answer) -> Answer {
    if record.is_unclosed() {
        return Answer::text(record.text());
    }
    let mut answer = whole::trimmed(context, record, said);
    for call in &mut answer.calls {
        call.id = call.id.replace("chatcmpl-tool-", "call_");
    }
    answer
}

/// `<param name="NAME">` and `</param>`.
fn tag(text: &str) -> Tag<'_> {
    const OPEN: &[Part] = &[Part::Text("<param"), Part::Blank, Part::Text("name="), Part::Blank];
    match tags::closing(text, &[Part::Text(END_PARAM)]).or(|| tags::opening(text, OPEN, ">")) {
        Tag::Open { len, key, .. } => Tag::Open { len, key: minimax_m2::unquoted(key.trim()), value: Value::Text },
        tag => tag,
    }
}

fn value(text: &str, schema: Option<&serde_json::Value>) -> Json {
    let inside = text.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
    let text = inside.unwrap_or(text);
    let is_text = schema.is_some_and(|schema| schema.get("type").and_then(serde_json::Value::as_str) == Some("string"));
    let read = || python::loads(text);
    if is_text { None } else { read() }.unwrap_or_else(|| Json::Str(text.to_owned()))
}
