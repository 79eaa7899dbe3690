//! Hunyuan 3: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>I will check that now.<tool_calls>
//! <tool_call>get_weather<tool_sep>
//! <arg_key>city</arg_key>
//! <arg_value>Paris</arg_value>
//! </tool_call>
//! </tool_calls>
//! ```
//!
//! Emitted by Tencent's Hunyuan 3. The reasoning is DeepSeek R1's ([`deepseek_r1`]) where the request has an effort other than
//! `no_think`. Some of its models have a suffix in every mark,
//! `<think:6124c78e>`. Text after the calls is dropped.

use serde_json::Value;

use super::super::Context;
use super::super::engine::Act::{Announce, Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{
    Body, By, Grammar, Manners, Params, Record, Start, Tag, Thinking, Typing, Value as Kind, on,
};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::schema;
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["hy_v3"],
    reasoning_names: &["hy_v3"],
    families: "Hunyuan 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

pub(super) const CALLS: &str = "<tool_calls>";
pub(super) const END_CALLS: &str = "</tool_calls>";
pub(super) const CALL: &str = "<tool_call>";
pub(super) const END_CALL: &str = "</tool_call>";
const SEPARATOR: &str = "<tool_sep>";

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Suffixed),
        (END_CALLS, By::Suffixed),
        (CALL, By::Suffixed),
        (END_CALL, By::Suffixed),
        (SEPARATOR, By::Suffixed),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Preamble, CALL, &[Begin], Name),
        on(Preamble, END_CALLS, &[], Between),
        on(Name, SEPARATOR, &[Announce], Args),
        on(Name, END_CALL, &[End], Preamble),
        on(Args, END_CALL, &[End], Preamble),
        on(Args, END_CALLS, &[End], Between),
    ],
    body: Body::Params(Params { typing: Typing::Own { streams, value }, waits: true, ..Params::plain(tag) }),
    manners: Manners { joined: true, says_empty: true, ..Manners::PLAIN },
    whole,
};

pub(super) const THINKING: Thinking = Thinking { by: By::Suffixed, start, ..deepseek_r1::THINKING };

fn start(context: &Context) -> Start {
    if effort(context).is_none_or(|effort| effort == "no_think") { Start::Never } else { Start::Inside }
}

/// The effort that the request asks for.
pub(super) fn effort(context: &Context) -> Option<&str> {
    let said = context.chat_template_kwargs.get("reasoning_effort").and_then(Value::as_str);
    said.filter(|effort| !effort.is_empty()).or(context.reasoning_effort.as_deref())
}

/// `<arg_key>KEY</arg_key>`, white space, `<arg_value>`; and `</arg_value>`; with or without a suffix.
pub(super) fn tag(text: &str) -> Tag<'_> {
    let close = match mark(text, "</arg_value") {
        Mark::Whole(after) => return Tag::Close { len: text.len() - after.len() },
        other => matches!(other, Mark::Begun),
    };
    let rest = match mark(text, "<arg_key") {
        Mark::Whole(rest) => rest,
        Mark::Begun => return Tag::Maybe,
        Mark::No => return if close { Tag::Maybe } else { Tag::None },
    };
    let Some((key, end)) = rest.split_once("</arg_key") else { return Tag::Maybe };
    let Some((_, after)) = end.split_once('>') else { return Tag::Maybe };
    match mark(after.trim_start(), "<arg_value") {
        Mark::Whole(after) => Tag::Open { len: text.len() - after.len(), key, value: Kind::Text },
        Mark::Begun => Tag::Maybe,
        Mark::No => Tag::None,
    }
}

enum Mark<'t> {
    No,
    Begun,
    Whole(&'t str),
}

/// A mark at the start of a text, and what follows it.
fn mark<'t>(text: &'t str, stem: &str) -> Mark<'t> {
    let Some(rest) = text.strip_prefix(stem) else {
        return if stem.starts_with(text) { Mark::Begun } else { Mark::No };
    };
    match (rest.chars().next(), rest.split_once('>')) {
        (None, _) => Mark::Begun,
        (Some('>' | ':'), Some((_, after))) => Mark::Whole(after),
        (Some(':'), None) => Mark::Begun,
        _ => Mark::No,
    }
}

/// The types of a parameter, but for null; text where it has none.
fn types(schema: Option<&Value>) -> Vec<&str> {
    let Some(schema) = schema else { return vec!["string"] };
    let choices = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
    let kinds = |schema| match Value::get(schema, "type") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(kind)) => vec![kind.as_str()],
        _ => vec!["string"],
    };
    let mut kinds: Vec<_> = match choices {
        Some(choices) => choices.iter().flat_map(kinds).collect(),
        None => kinds(schema),
    };
    kinds.retain(|kind| *kind != "null");
    kinds
}

pub(super) fn streams(schema: Option<&Value>) -> bool {
    let types = types(schema);
    !types.is_empty() && types.iter().all(|kind| *kind == "string")
}

pub(super) fn value(text: &str, schema: Option<&Value>) -> Json {
    let types = types(schema);
    let has = |kind: &str| types.contains(&kind);
    let boolean = || match text.to_lowercase().as_str() {
        "true" if has("boolean") => Some(Json::Bool(true)),
        "false" if has("boolean") => Some(Json::Bool(false)),
        _ => None,
    };
    let other = types.iter().any(|kind| !matches!(*kind, "string" | "boolean" | "integer" | "number"));
    let text_or_json = || match has("string") {
        true => Some(Json::Str(text.to_owned())),
        false => python::loads(text),
    };
    boolean()
        .or_else(|| if has("integer") { schema::integer(text) } else { None })
        .or_else(|| if has("number") { number(text) } else { None })
        .or_else(|| if other { python::loads(text) } else { None })
        .or_else(text_or_json)
        .unwrap_or_else(|| Json::Str(text.to_owned()))
}

fn number(text: &str) -> Option<Json> {
    match text.contains(['.', 'e', 'E']) {
        true => text.trim().parse().ok().map(Json::Float),
        false => schema::integer(text),
    }
}

pub(super) fn whole(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    said.content = record.without_blank_after_calls(said.content);
    Answer { settled: record.text().contains(CALLS), ..said }
}
