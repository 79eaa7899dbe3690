//! K2 Horizon: reasoning and tool calls.
//!
//! ```text
//! <ifm|think>The user wants the weather.</ifm|think>I will check that now.
//! <ifm|tool_calls>
//! <ifm|tool_call>get_weather
//! <ifm|arg_key>city</ifm|arg_key><ifm|arg_value>Paris</ifm|arg_value>
//! </ifm|tool_call>
//! </ifm|tool_calls>
//! ```
//!
//! Emitted by MBZUAI IFM's K2 Horizon. The marks of the reasoning name its effort. The request says in `tool_call_format`
//! whether a call is such XML, XML with a type beside every value, or JSON. All calls stand in one group, which is either well
//! formed as a whole or content; so they go out when it is complete.

use super::super::engine::{
    Counting, Ids, Output, Piece, ReadReasoning, ReadTools, ReasoningMemory, Record, Setup, Stray, Thinking, ToolMemory,
};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::schema::{self, Types};
use super::super::{Context, Fallback, Token, ToolChoice, Unsupported};
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["k2_horizon"],
    reasoning_names: &["k2_horizon"],
    families: "K2 Horizon",
    needs: &[],
    tools: Some(|_| Box::new(Horizon)),
    reasoning: Some(|setup| Box::new(Efforts::new(setup))),
};

const GROUP: &str = "<ifm|tool_calls>";
const END_GROUP: &str = "</ifm|tool_calls>";
const CALL: &str = "<ifm|tool_call>";
const END_CALL: &str = "</ifm|tool_call>";
const KEY: &str = "<ifm|arg_key>";
const END_KEY: &str = "</ifm|arg_key>";
const TYPE: &str = "<ifm|arg_type>";
const END_TYPE: &str = "</ifm|arg_type>";
const VALUE: &str = "<ifm|arg_value>";
const END_VALUE: &str = "</ifm|arg_value>";

/// A group longer than this is content.
const MAX_GROUP: usize = 1024 * 1024;

const HIGH: Thinking = Thinking {
    open: "<ifm|think>",
    close: "</ifm|think>",
    calls: &[GROUP],
    stray: Stray::Text,
    counting: Counting::Marked,
    says_empty: false,
    ..deepseek_r1::THINKING
};

static LEVELS: [Thinking; 3] = [
    HIGH,
    Thinking { open: "<ifm|think_fast>", close: "</ifm|think_fast>", ..HIGH },
    Thinking { open: "<ifm|think_faster>", close: "</ifm|think_faster>", ..HIGH },
];

/// The reasoning half: one pair of marks per effort.
#[derive(Debug)]
struct Efforts {
    levels: Vec<Box<dyn ReadReasoning>>,
}

impl Efforts {
    fn new(setup: &Setup<'_>) -> Self {
        Self { levels: LEVELS.iter().map(|level| level.compile(setup)).collect() }
    }

    fn level(context: &Context) -> u8 {
        match context.chat_template_kwargs.get("reasoning_effort").and_then(serde_json::Value::as_str) {
            Some("medium") => 1,
            Some("low") => 2,
            _ => 0,
        }
    }

    fn half(&self, level: u8) -> Option<&dyn ReadReasoning> {
        self.levels.get(usize::from(level)).map(|half| &**half)
    }

    fn of(&self, context: &Context) -> Option<&dyn ReadReasoning> {
        self.half(Self::level(context))
    }
}

/// A template argument that is there must be one of these.
fn one_of(context: &Context, argument: &'static str, supported: &'static [&'static str]) -> Option<Unsupported> {
    let value = context.chat_template_kwargs.get(argument)?;
    let known = value.as_str().is_some_and(|value| supported.contains(&value));
    (!known).then_some(Unsupported { argument, supported })
}

impl ReadReasoning for Efforts {
    fn refuses(&self, context: &Context) -> Option<Unsupported> {
        one_of(context, "reasoning_effort", &["high", "medium", "low"])
    }

    fn is_on(&self, _context: &Context) -> bool {
        true
    }

    fn start(&self, context: &Context) -> ReasoningMemory {
        let memory = self.of(context).map(|half| half.start(context)).unwrap_or_default();
        ReasoningMemory { level: Self::level(context), ..memory }
    }

    fn ended_by_prompt(&self, context: &Context) -> bool {
        self.of(context).is_some_and(|half| half.ended_by_prompt(context))
    }

    fn count(&self, memory: &mut ReasoningMemory, id: u32) {
        if let Some(half) = self.half(memory.level) {
            half.count(memory, id);
        }
    }

    fn read(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        match self.half(memory.level) {
            Some(half) => half.read(memory, token, say),
            None => say(Piece::Rest(token)),
        }
    }

    fn finish(&self, memory: &mut ReasoningMemory, say: &mut dyn FnMut(Piece<'_>)) {
        if let Some(half) = self.half(memory.level) {
            half.finish(memory, say);
        }
    }

    fn says_empty(&self, chunk: &[Token<'_>]) -> bool {
        chunk.iter().any(|token| token.text == GROUP || LEVELS.iter().any(|level| level.close == token.text))
    }

    fn whole(
        &self,
        _context: &Context,
        _memory: &ReasoningMemory,
        reasoning: String,
        rest: String,
    ) -> (Option<String>, Option<String>) {
        (Some(reasoning), (!rest.is_empty()).then_some(rest))
    }
}

/// The tool half.
#[derive(Debug)]
struct Horizon;

impl ReadTools for Horizon {
    fn refuses(&self, context: &Context) -> Option<Unsupported> {
        one_of(context, "tool_call_format", &["json", "xml", "xml_typed"])
    }

    fn start(&self, _context: &Context) -> ToolMemory {
        ToolMemory::default()
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        if memory.called {
            return content(memory, token.text, out);
        }
        let mut held = std::mem::take(&mut memory.held);
        let seen = held.len().saturating_sub(END_GROUP.len());
        held.push_str(token.text);
        if !memory.open {
            let (before, rest) = held.split_at(held.find(GROUP).unwrap_or_else(|| safe(&held)));
            content(memory, before, out);
            memory.open = rest.starts_with(GROUP);
            held = rest.to_owned();
        }
        let end = if memory.open { find_from(&held, seen) } else { None };
        match end {
            Some(end) => group(memory, held.split_at(end), out),
            None if held.len() > MAX_GROUP => group(memory, (&held, ""), out),
            None => memory.held = held,
        }
    }

    fn finish(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        let held = std::mem::take(&mut memory.held);
        if memory.open && !memory.called {
            out.events.push_fallback(Fallback::Unfinished);
        }
        content(memory, &held, out);
    }

    fn joins(&self) -> bool {
        true
    }

    fn forces_json(&self) -> bool {
        false
    }

    fn whole(&self, _context: &Context, _record: &Record, said: Answer) -> Answer {
        Answer { settled: true, ..said }
    }
}

/// How much of a text cannot become the mark of a group.
fn safe(text: &str) -> usize {
    let starts = text.char_indices().map(|(at, _)| at).skip_while(|at| text.len() - at >= GROUP.len());
    starts.into_iter().find(|at| GROUP.starts_with(text.split_at(*at).1)).unwrap_or(text.len())
}

/// Where the group ends; everything before `seen` was searched before.
fn find_from(text: &str, seen: usize) -> Option<usize> {
    let from = (0..=seen.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let (before, rest) = text.split_at(from);
    rest.find(END_GROUP).map(|at| before.len() + at + END_GROUP.len())
}

/// White space is content only before other content.
fn content(memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
    if !memory.spoken && text.trim().is_empty() {
        if memory.blank.len() < MAX_GROUP {
            memory.blank.push_str(text);
        }
        return;
    }
    memory.spoken = true;
    out.content(&std::mem::take(&mut memory.blank));
    out.content(text);
}

/// Says the calls of a group, or the group itself, and what follows.
fn group(memory: &mut ToolMemory, (text, rest): (&str, &str), out: &mut Output<'_>) {
    memory.called = true;
    match calls(out.context, text) {
        Some(calls) => {
            for (name, arguments) in calls {
                out.call(&name, Ids::Random);
                out.arguments(&python::dumps(&Json::Dict(arguments)));
            }
        }
        None => {
            out.events.push_fallback(Fallback::Malformed);
            content(memory, text, out);
        }
    }
    content(memory, rest, out);
}

type Call = (String, Vec<(String, Json)>);

/// The calls of a well formed group.
fn calls(context: &Context, group: &str) -> Option<Vec<Call>> {
    let mut rest = group.strip_prefix(GROUP)?.strip_suffix(END_GROUP)?.trim();
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let (body, after) = rest.strip_prefix(CALL)?.split_once(END_CALL)?;
        let format = context.chat_template_kwargs.get("tool_call_format").and_then(serde_json::Value::as_str);
        let (name, arguments) = match format {
            Some("json") => json_call(context, body)?,
            format => xml_call(context, body, format == Some("xml_typed"))?,
        };
        calls.push((allowed(context, name)?, arguments));
        rest = after.trim_start();
    }
    (!calls.is_empty()).then_some(calls)
}

/// A name that the request allows.
fn allowed(context: &Context, name: String) -> Option<String> {
    let named = match &context.tool_choice {
        ToolChoice::Named(only) => *only == name,
        _ => true,
    };
    let well_formed = !name.is_empty() && !name.contains(char::is_whitespace);
    (well_formed && named && context.knows(&name)).then_some(name)
}

fn json_call(context: &Context, body: &str) -> Option<Call> {
    let call = python::loads(body.trim())?;
    let name = call.get("name")?.as_str()?.to_owned();
    let Json::Dict(members) = call.get("arguments").cloned().unwrap_or(Json::Dict(Vec::new())) else { return None };
    let known = schema::properties(&context.tools, &name);
    let typed = members.into_iter().map(|(key, value)| match known.and_then(|known| known.get(&key)) {
        Some(schema) if schema.is_object() => {
            let text = value.as_str().map_or_else(|| python::dumps(&value), str::to_owned);
            (key, schema::coerce(&text, Types::of(schema)))
        }
        _ => (key, value),
    });
    let members = typed.collect();
    Some((name, members))
}

fn xml_call(context: &Context, body: &str, is_typed: bool) -> Option<Call> {
    let (name, mut rest) = body.split_at(body.find(KEY).unwrap_or(body.len()));
    let name = name.trim();
    if [END_KEY, TYPE, END_TYPE, VALUE, END_VALUE].iter().any(|mark| name.contains(mark)) {
        return None;
    }
    let known = schema::properties(&context.tools, name);
    let mut members: Vec<(String, Json)> = Vec::new();
    while !rest.trim().is_empty() {
        let (key, after) = rest.trim_start().strip_prefix(KEY)?.split_once(END_KEY)?;
        let (kind, after) = match after.trim_start().strip_prefix(TYPE) {
            Some(after) => after.split_once(END_TYPE).map(|(kind, after)| (Some(kind.trim()), after))?,
            None => (None, after),
        };
        let (text, after) = after.trim_start().strip_prefix(VALUE)?.split_once(END_VALUE)?;
        let key = key.trim();
        let fits = is_typed == kind.is_some_and(|kind| !kind.is_empty()) && (is_typed || kind.is_none());
        if key.is_empty() || !fits || members.iter().any(|(other, _)| other == key) {
            return None;
        }
        members.push((key.to_owned(), typed(text, known.and_then(|known| known.get(key)), kind)));
        rest = after;
    }
    Some((name.to_owned(), members))
}

/// A value by its schema, where it has one; else by the type beside it.
fn typed(text: &str, schema: Option<&serde_json::Value>, kind: Option<&str>) -> Json {
    let kind = kind.map(|kind| kind.split('[').next().unwrap_or(kind).trim().to_lowercase());
    let beside = kind.as_deref().map(|kind| serde_json::json!({ "type": kind }));
    let types = match (schema.filter(|schema| schema.is_object()), &beside, kind.as_deref()) {
        (Some(schema), Some(beside), Some(kind)) if Types::of(schema).has_choice_of(kind) => Types::of(beside),
        (Some(schema), ..) => Types::of(schema),
        (None, _, Some("any")) => return Json::Str(text.to_owned()),
        (None, Some(beside), _) => Types::of(beside),
        (None, None, _) => Types::of(&serde_json::json!({ "type": "string" })),
    };
    schema::coerce(if types.allows_string() { text } else { text.trim() }, types)
}
