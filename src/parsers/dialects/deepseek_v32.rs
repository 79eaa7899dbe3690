//! DeepSeek V3.2's tool calls.
//!
//! ```text
//! I will check that now.
//!
//! <｜DSML｜function_calls>
//! <｜DSML｜invoke name="get_weather">
//! <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
//! <｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
//! </｜DSML｜invoke>
//! </｜DSML｜function_calls>
//! ```
//!
//! Emitted by DeepSeek V3.2, with [`deepseek_v3`](super::deepseek_v3) for the reasoning; with other outer marks by V4 and
//! V4.1. A value that is no string is JSON. Text after the calls is dropped. Arguments that the model wrapped once more, in
//! a parameter `arguments` or `input` that the function does not have, are unwrapped.

use super::super::engine::Act::{Begin, End, Text};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Manners, Move, Params, Tag, Value, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["deepseek_v32"],
    reasoning_names: &[],
    families: "DeepSeek V3.2",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[
        (OUTER.0, By::Token),
        (OUTER.1, By::Token),
        (INNER.invoke, By::Text),
        (INNER.end_invoke, By::Text),
        (INNER.parameter, By::Text),
        (INNER.end_parameter, By::Text),
        NAME_END,
    ],
    moves: &moves(OUTER, &INNER),
    body: BODY,
    manners: Manners { forces_json: false, ..Manners::ENGINE },
    whole: whole::untrimmed,
};

const OUTER: (&str, &str) = ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>");

/// The inner marks.
pub(super) struct Inner {
    pub(super) invoke: &'static str,
    pub(super) end_invoke: &'static str,
    pub(super) parameter: &'static str,
    pub(super) end_parameter: &'static str,
}

/// Of V3.2 and V4.
pub(super) const INNER: Inner = Inner {
    invoke: "<｜DSML｜invoke name=\"",
    end_invoke: "</｜DSML｜invoke>",
    parameter: "<｜DSML｜parameter",
    end_parameter: "</｜DSML｜parameter>",
};

pub(super) const NAME_END: (&str, By) = ("\">", By::Text);

pub(super) const BODY: Body = Body::Params(PARAMS);

/// Strings go out when their closing tag is there.
pub(super) const PARAMS: Params =
    Params { says_at: Some('>'), wrappers: &["arguments", "input"], ..Params::plain(|text| tag(text, &INNER)) };

/// The moves of all dialects with these calls.
pub(super) const fn moves((open, close): (&'static str, &'static str), inner: &Inner) -> [Move; 11] {
    [
        on(Content, open, &[], Preamble),
        on(Content, inner.invoke, &[Begin], Name),
        on(Preamble, inner.invoke, &[Begin], Name),
        on(Name, NAME_END.0, &[], Args),
        on(Args, inner.end_invoke, &[End], Between),
        on(Args, close, &[End], Between),
        on(Args, inner.parameter, &[Text], Args),
        on(Args, inner.end_parameter, &[Text], Args),
        on(Between, inner.invoke, &[Begin], Name),
        on(Between, close, &[], Between),
        on(Between, open, &[], Preamble),
    ]
}

/// `<…parameter name="NAME" string="true">`, where the second attribute may be missing, and its end.
pub(super) fn tag<'t>(text: &'t str, inner: &Inner) -> Tag<'t> {
    if text.starts_with(inner.end_parameter) {
        return Tag::Close { len: inner.end_parameter.len() };
    }
    let Some(rest) = text.strip_prefix(inner.parameter) else {
        let begun = inner.parameter.starts_with(text) || inner.end_parameter.starts_with(text);
        return if begun { Tag::Maybe } else { Tag::None };
    };
    let Some((attributes, after)) = rest.split_once('>') else { return Tag::Maybe };
    let name = attributes.trim_start().strip_prefix("name=\"").and_then(|name| name.split_once('"'));
    let Some((key, more)) = name.filter(|(key, _)| !key.is_empty()) else { return Tag::None };
    let value = if more.trim() == "string=\"true\"" { Value::Text } else { Value::Json };
    Tag::Open { len: text.len() - after.len(), key, value }
}
