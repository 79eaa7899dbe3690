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
//! Emitted by RedNote's dots. Values are text that the tool's schema types. Instead of `<invoke>`s a group may hold one call as
//! JSON. Calls are said when their group is complete; a group that was cut, or has no call of a function of the request, is
//! content, and so is text after a group.

use super::super::Context;
use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Body as Args, Content};
use super::super::engine::block::Calls;
use super::super::engine::{Block, Body, By, Grammar, Ids, Manners, on, whole};
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::schema::{self, Types};
use super::minimax_m2::unquoted;

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

static GRAMMAR: Grammar = Grammar {
    marks: &[(CALLS, By::Text), (END_CALLS, By::Text)],
    moves: &[on(Content, CALLS, &[Begin], Args), on(Args, END_CALLS, &[End], Content)],
    body: Body::Block(Block { calls, ids: Ids::Random, drops_cut: false }),
    manners: Manners { forces_json: false, joined: true, ..Manners::PLAIN },
    whole: whole::trimmed,
};

/// The calls of functions that the request has; others are content.
fn calls(context: &Context, text: &str) -> Calls {
    let text = text.trim();
    if !text.starts_with("<invoke") {
        let call = json_call(text).filter(|(name, _)| context.knows(name));
        return Calls { calls: call.into_iter().collect(), rest: String::new() };
    }
    let (mut read, mut tail) = (Calls::default(), text);
    for Element { name, inside, raw, after } in elements(text, "<invoke", "</invoke>") {
        tail = after;
        if context.knows(name) {
            read.calls.push((name.to_owned(), arguments(context, name, inside)));
        } else {
            read.rest.push_str(raw);
        }
    }
    read.rest.push_str(tail.trim());
    read
}

fn json_call(text: &str) -> Option<(String, String)> {
    let call = python::loads(text)?;
    let name = call.get("name").and_then(Json::as_str)?;
    let arguments = call.get("arguments").or_else(|| call.get("parameters"));
    let arguments = arguments.filter(|value| matches!(value, Json::Dict(_)));
    Some((name.to_owned(), arguments.map_or_else(|| "{}".to_owned(), python::dumps)))
}

/// Parameters without a closing tag are none.
fn arguments(context: &Context, function: &str, body: &str) -> String {
    let known = schema::properties(&context.tools, function);
    let mut members: Vec<(String, Json)> = Vec::new();
    for Element { name, inside, .. } in elements(body, "<parameter", "</parameter>") {
        let types = known.and_then(|known| known.get(name)).map_or(Types::STRING, Types::of);
        members.retain(|(before, _)| before != name);
        members.push((name.to_owned(), schema::coerce(inside.trim(), types)));
    }
    python::dumps(&Json::Dict(members))
}

/// `<tag name="NAME">inside</tag>`, all of it, and what follows.
struct Element<'t> {
    name: &'t str,
    inside: &'t str,
    raw: &'t str,
    after: &'t str,
}

/// One element after the other.
fn elements<'t>(text: &'t str, open: &'t str, close: &'t str) -> impl Iterator<Item = Element<'t>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, element) = rest.split_at(rest.find(open)?);
        let (head, after) = element.split_once('>')?;
        let (inside, after) = after.split_once(close)?;
        let name = head.strip_prefix(open)?.trim().strip_prefix("name")?.trim_start().strip_prefix('=')?;
        rest = after;
        let raw = element.strip_suffix(after).unwrap_or(element);
        Some(Element { name: unquoted(name.trim()), inside, raw, after })
    })
}
