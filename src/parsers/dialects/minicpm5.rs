//! MiniCPM 5's tool calls.
//!
//! ```text
//! <function name="get_weather"><param name="city">Paris</param></function>
//! ```
//!
//! Emitted by OpenBMB's MiniCPM 5. Values are text that the tool's schema types; the model may forget the space before `name`.
//! In a whole answer a call that was cut, or of a function that the request does not have, makes the whole text content.

use super::super::Context;
use super::super::engine::Act::{Begin, End, Text};
use super::super::engine::Mode::{Between, Body as Args, Content, Name};
use super::super::engine::tags::{self, Part};
use super::super::engine::{Body, By, Grammar, Manners, Params, Record, Tag, Value, on};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::{dots, minimax_m2};

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
const END_NAME: &str = "\">";
const END_CALL: &str = "</function>";
const PARAM: &str = "<param";
const END_PARAM: &str = "</param>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALL, By::Text),
        (TIGHT, By::Text),
        (END_NAME, By::Text),
        (END_CALL, By::Text),
        (PARAM, By::Text),
        (END_PARAM, By::Text),
    ],
    moves: &[
        on(Content, CALL, &[Begin], Name),
        on(Content, TIGHT, &[Begin], Name),
        on(Name, END_NAME, &[], Args),
        on(Args, PARAM, &[Text], Args),
        on(Args, END_PARAM, &[Text], Args),
        on(Args, END_CALL, &[End], Between),
        on(Between, CALL, &[Begin], Name),
        on(Between, TIGHT, &[Begin], Name),
    ],
    body: Body::Params(Params::plain(tag)),
    manners: Manners { joined: true, ..Manners::PLAIN },
    whole,
};

/// Ids of whole answers have another shape.
fn whole(context: &Context, record: &Record, said: Answer) -> Answer {
    let mut answer = dots::known(context, record, said);
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
