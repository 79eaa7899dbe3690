//! MiniMax M3: reasoning and tool calls.
//!
//! ```text
//! <mm:think>The user wants the weather.</mm:think>I will check that now.
//! ]<]minimax[>[<tool_call>
//! ]<]minimax[>[<invoke name="get_weather">
//! ]<]minimax[>[<city>Paris]<]minimax[>[</city>
//! ]<]minimax[>[<days>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[</days>
//! ]<]minimax[>[</invoke>
//! ]<]minimax[>[</tool_call>
//! ```
//!
//! Emitted by MiniMax M3. Parameters are elements that may nest: one with children is an object, or a list where the schema
//! says so. A repeated name makes a list, so the arguments go out when the call is complete. Text after the calls is dropped.

use serde_json::Value;

use super::super::Context;
use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Collected, Empty, Grammar, Manners, Reopens, Start, Stray, Thinking, on, whole};
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::schema::{self, Types};
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["minimax_m3"],
    reasoning_names: &["minimax_m3"],
    families: "MiniMax M3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const CALLS: &str = "]<]minimax[>[<tool_call>";
const END_CALLS: &str = "]<]minimax[>[</tool_call>";
const INVOKE: [&str; 3] = ["]<]minimax[>[<invoke name=\"", "]<]minimax[>[<invoke name='", "]<]minimax[>[<invoke name="];
const END_NAME: [&str; 3] = ["\">", "'>", ">"];
const END_INVOKE: &str = "]<]minimax[>[</invoke>";
const NAMESPACE: &str = "]<]minimax[>[";

/// Elements that nest deeper are malformed.
const MAX_DEPTH: usize = 128;

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Text),
        (END_CALLS, By::Text),
        (INVOKE[0], By::Text),
        (INVOKE[1], By::Text),
        (INVOKE[2], By::Text),
        (END_NAME[0], By::Text),
        (END_NAME[1], By::Text),
        (END_NAME[2], By::Text),
        (END_INVOKE, By::Text),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Preamble, INVOKE[0], &[Begin], Name),
        on(Preamble, INVOKE[1], &[Begin], Name),
        on(Preamble, INVOKE[2], &[Begin], Name),
        on(Preamble, END_CALLS, &[], Between),
        on(Name, END_NAME[0], &[], Args),
        on(Name, END_NAME[1], &[], Args),
        on(Name, END_NAME[2], &[], Args),
        on(Args, END_INVOKE, &[End], Between),
        on(Between, INVOKE[0], &[Begin], Name),
        on(Between, INVOKE[1], &[Begin], Name),
        on(Between, INVOKE[2], &[Begin], Name),
        on(Between, END_CALLS, &[], Between),
    ],
    body: Body::Collected(Collected { arguments }),
    manners: Manners { forces_json: false, ..Manners::ENGINE },
    whole: whole::untrimmed,
};

static THINKING: Thinking = Thinking {
    open: "<mm:think>",
    close: "</mm:think>",
    by: By::Text,
    stray: Stray::DroppedFirst,
    reopens: Reopens::Once,
    follows_prompt: false,
    start,
    says_empty: false,
    empty_whole: Empty::Opened,
    ..deepseek_r1::THINKING
};

fn start(context: &Context) -> Start {
    let enabled = context.chat_template_kwargs.get("thinking_mode") == Some(&Value::from("enabled"));
    if enabled { Start::Inside } else { Start::Outside }
}

/// A parameter, or a part of one.
enum Element<'t> {
    Text(String),
    Children(Vec<(&'t str, Element<'t>)>),
}

/// The arguments, up to the first malformed element.
fn arguments(context: &Context, function: &str, body: &str) -> String {
    let mut members = Vec::new();
    let mut rest = body.trim_start();
    while let Some((name, element, after)) = element(rest, 1) {
        members.push((name, element));
        rest = after.trim_start();
    }
    let known = schema::properties(&context.tools, function);
    let typed = object(members, |name| known.and_then(|known| known.get(name)));
    python::dumps(&typed)
}

/// The element at the start of a text, and what follows.
fn element(text: &str, depth: usize) -> Option<(&str, Element<'_>, &str)> {
    let (name, mut rest) = text.strip_prefix(NAMESPACE)?.strip_prefix('<')?.split_once('>')?;
    if depth > MAX_DEPTH || name.starts_with('/') || name.trim().is_empty() {
        return None;
    }
    let (mut words, mut children) = (String::new(), Vec::new());
    loop {
        let at = rest.find(NAMESPACE)?;
        let (before, mark) = rest.split_at(at);
        words.push_str(before);
        let closing = mark.strip_prefix(NAMESPACE)?.strip_prefix("</").and_then(|end| end.strip_prefix(name));
        if let Some(after) = closing.and_then(|end| end.strip_prefix('>')) {
            return Some((name, joined(words, children), after));
        }
        let (name, child, after) = element(mark, depth + 1)?;
        children.push((name, child));
        rest = after;
    }
}

/// Text beside children is a child, too, under a name that no other has.
fn joined<'t>(words: String, mut children: Vec<(&'t str, Element<'t>)>) -> Element<'t> {
    const NAMES: [&str; 3] = ["$text", "$$text", "$$$text"];
    if children.is_empty() {
        return Element::Text(words);
    }
    let free = NAMES.iter().find(|name| children.iter().all(|(other, _)| other != *name));
    if let Some(name) = free.filter(|_| !words.trim().is_empty()) {
        children.push((name, Element::Text(words)));
    }
    Element::Children(children)
}

fn typed(element: Element<'_>, schema: Option<&Value>) -> Json {
    let container = schema.and_then(container);
    match (element, container) {
        (Element::Text(text), container) => text_as(text, schema, container.map(|(kind, _)| kind)),
        (Element::Children(children), Some((Kind::Array, schema))) => {
            let items = schema.get("items").filter(|items| items.is_object());
            Json::List(children.into_iter().map(|(_, child)| typed(child, items)).collect())
        }
        (Element::Children(children), container) => {
            let schema = container.map(|(_, schema)| schema);
            let known = |name: &str| {
                let member = schema?.get("properties").and_then(|known| known.get(name));
                member.or_else(|| schema?.get("additionalProperties")).filter(|member| member.is_object())
            };
            object(children, known)
        }
    }
}

fn text_as(text: String, schema: Option<&Value>, container: Option<Kind>) -> Json {
    let Some(schema) = schema.filter(|schema| schema.is_object()) else { return Json::Str(text) };
    let types = Types::of(schema);
    match container {
        Some(Kind::Array) if text.trim().is_empty() && !types.allows_string() => Json::List(Vec::new()),
        Some(Kind::Object) if text.trim().is_empty() && !types.allows_string() => Json::Dict(Vec::new()),
        _ => schema::coerce(&text, types),
    }
}

/// Members by name; a repeated name collects its values.
fn object<'s>(members: Vec<(&str, Element<'_>)>, schema: impl Fn(&str) -> Option<&'s Value>) -> Json {
    let mut values: Vec<(String, Vec<Json>)> = Vec::new();
    for (name, element) in members {
        let value = typed(element, schema(name));
        match values.iter_mut().find(|(known, _)| known == name) {
            Some((_, list)) => list.push(value),
            None => values.push((name.to_owned(), vec![value])),
        }
    }
    let single = |(name, mut list): (String, Vec<Json>)| match list.pop() {
        Some(only) if list.is_empty() => (name, only),
        last => (name, Json::List(list.into_iter().chain(last).collect())),
    };
    Json::Dict(values.into_iter().map(single).collect())
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Array,
    Object,
}

/// The first alternative of a schema that is a list or an object.
fn container(schema: &Value) -> Option<(Kind, &Value)> {
    let kind = schema.get("type");
    let has = |word: &str| match kind {
        Some(Value::String(name)) => name == word,
        Some(Value::Array(names)) => names.iter().any(|name| name == word),
        _ => false,
    };
    let untyped = |key: &str| kind.is_none() && schema.get(key).is_some();
    if has("array") || untyped("items") {
        return Some((Kind::Array, schema));
    }
    if has("object") || untyped("properties") || untyped("additionalProperties") {
        return Some((Kind::Object, schema));
    }
    let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array());
    choices.flatten().find_map(container)
}
