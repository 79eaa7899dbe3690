//! Poolside: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>I will check that now.
//! <tool_call>get_weather
//! <arg_key>city</arg_key>
//! <arg_value>Paris</arg_value>
//! </tool_call>
//! ```
//!
//! Emitted by Poolside's Laguna. GLM's format ([`glm45`]), read by looser rules: a value that the schema does not call a
//! string is JSON, a Python constant, or text. The reasoning is DeepSeek V3's ([`deepseek_v3`]), off by default.

use super::super::Context;
use super::super::engine::Act::{Announce, Begin, End, First, GiveBack, Keep};
use super::super::engine::Mode::{Body as Args, Content, Name};
use super::super::engine::{Body, By, Grammar, Manners, Params, Record, Start, Thinking, Typing, on};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::glm45::{CALL, END_CALL, KEY, tag};
use super::{deepseek_r1, deepseek_v3};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["poolside_v1"],
    reasoning_names: &["poolside_v1"],
    families: "Poolside Laguna",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

static GRAMMAR: Grammar = Grammar {
    marks: &[(CALL, By::Text), (END_CALL, By::Text), (KEY, By::Text), ("\n", By::Text)],
    moves: &[
        on(Content, CALL, &[Begin, Keep], Name),
        on(Name, "\n", &[Announce], Args),
        on(Name, KEY, &[Announce, First], Args),
        on(Name, END_CALL, &[Announce, End, GiveBack], Content),
        on(Args, END_CALL, &[End, GiveBack], Content),
    ],
    body: Body::Params(Params { typing: Typing::Own { streams, value }, ..Params::plain(tag) }),
    manners: Manners { joined: true, empty_head: true, forces_json: false, ..Manners::PLAIN },
    whole,
};

fn streams(schema: Option<&serde_json::Value>) -> bool {
    schema.is_some_and(|schema| schema["type"] == "string")
}

fn value(text: &str, _schema: Option<&serde_json::Value>) -> Json {
    let text = text.trim();
    match text {
        "True" => Json::Bool(true),
        "False" => Json::Bool(false),
        "None" => Json::Null,
        _ => python::loads(text).unwrap_or_else(|| Json::Str(text.to_owned())),
    }
}

/// A call that was cut is text, where it is the only one.
fn whole(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    if record.is_unclosed() && said.calls.len() == 1 {
        said.calls.clear();
    }
    said.content = record.without_blank_after_calls(said.content);
    said
}

static THINKING: Thinking = Thinking {
    start: |context| if deepseek_v3::thinks(context, false) { Start::Inside } else { Start::Never },
    turns: &["<assistant>"],
    ..deepseek_r1::THINKING
};
