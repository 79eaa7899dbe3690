//! Kimi K3: reasoning and tool calls.
//!
//! ```text
//! <|open|>think<|sep|>The user wants the weather.<|close|>think<|sep|>
//! <|open|>response<|sep|>I will check that now.<|close|>response<|sep|>
//! <|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>
//! <|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>
//! <|close|>call<|sep|><|close|>tools<|sep|>
//! ```
//!
//! Emitted by Moonshot's Kimi K3 (without the line breaks). A value whose type is no string is JSON. A call goes out when it
//! is complete.

use super::super::Context;
use super::super::engine::Act::{Announce, Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{
    Body, By, Collected, Empty, Grammar, Ids, Manners, Record, Reopens, Start, Stray, Thinking, on,
};
use super::super::message::Answer;
use super::super::python::{self, Json, truthy};
use super::super::registry::Definition;
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["kimi_k3"],
    reasoning_names: &["kimi_k3"],
    families: "Kimi K3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const THINK: &str = "<|open|>think<|sep|>";
const END_THINK: &str = "<|close|>think<|sep|>";
const RESPONSE: &str = "<|open|>response<|sep|>";
const END_RESPONSE: &str = "<|close|>response<|sep|>";
const END_MESSAGE: &str = "<|close|>message<|sep|>";
const TOOLS: &str = "<|open|>tools<|sep|>";
const END_TOOLS: &str = "<|close|>tools<|sep|>";
const CALL: &str = "<|open|>call ";
const END_CALL: &str = "<|close|>call<|sep|>";
const END_HEAD: &str = "<|sep|>";
const ARGUMENT: &str = "<|open|>argument ";
const END_ARGUMENT: &str = "<|close|>argument<|sep|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (RESPONSE, By::Text),
        (END_RESPONSE, By::Text),
        (END_MESSAGE, By::Text),
        (TOOLS, By::Text),
        (END_TOOLS, By::Text),
        (CALL, By::Text),
        (END_CALL, By::Text),
        (END_HEAD, By::Text),
    ],
    moves: &[
        on(Content, RESPONSE, &[], Content),
        on(Content, END_RESPONSE, &[], Content),
        on(Content, END_MESSAGE, &[], Content),
        on(Content, TOOLS, &[], Preamble),
        on(Preamble, CALL, &[Begin], Name),
        on(Preamble, END_TOOLS, &[], Between),
        on(Name, END_HEAD, &[], Args),
        on(Args, END_CALL, &[Announce, End], Preamble),
        on(Between, TOOLS, &[], Preamble),
    ],
    body: Body::Collected(Collected { arguments }),
    manners: Manners {
        joined: true,
        forces_json: false,
        always: true,
        ids: Ids::Within(|head| attribute(head, "tool")),
        ..Manners::PLAIN
    },
    whole: |_: &Context, _: &Record, said: Answer| Answer { settled: true, ..said },
};

static THINKING: Thinking = Thinking {
    open: THINK,
    close: END_THINK,
    by: By::Text,
    calls: &[RESPONSE],
    around: &[],
    stray: Stray::Text,
    reopens: Reopens::Never,
    start,
    says_empty: false,
    empty_whole: Empty::Never,
    ..deepseek_r1::THINKING
};

fn start(context: &Context) -> Start {
    let said = |key: &str| context.chat_template_kwargs.get(key).filter(|value| !value.is_null());
    let off = said("thinking").or_else(|| said("enable_thinking")).is_some_and(|value| !truthy(value));
    if off { Start::Never } else { Start::Inside }
}

fn arguments(_context: &Context, _function: &str, body: &str) -> String {
    let mut members: Vec<(String, Json)> = Vec::new();
    for argument in body.split(ARGUMENT).skip(1) {
        let Some((head, rest)) = argument.split_once(END_HEAD) else { continue };
        let Some((text, _)) = rest.split_once(END_ARGUMENT) else { continue };
        let key = attribute(head, "key").unwrap_or_default().replace("&quot;", "\"").replace("&amp;", "&");
        let value = match attribute(head, "type") {
            None | Some("string") => Json::Str(text.to_owned()),
            Some(_) => python::loads(text).unwrap_or_else(|| Json::Str(text.to_owned())),
        };
        members.retain(|(known, _)| *known != key);
        members.push((key, value));
    }
    python::dumps(&Json::Dict(members))
}

/// The value of `name="value"` in the head of a call or an argument.
fn attribute<'t>(head: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = head;
    while let Some((before, after)) = rest.split_once("=\"") {
        let (value, next) = after.split_once('"')?;
        if before.trim_start() == name {
            return Some(value);
        }
        rest = next;
    }
    None
}
