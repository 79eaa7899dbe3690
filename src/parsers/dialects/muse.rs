//! Muse: messages of reasoning, content and tool calls.
//!
//! ```text
//!  to=self<|message|>The user wants the weather.<|eom|>
//! <|start|>assistant to=commentary<|message|>I will check that now.<|eom|>
//! <|start|>assistant to=get_weather<|message|><atem:function_calls>
//! <atem:invoke name="get_weather">
//! <atem:parameter name="city">Paris</atem:parameter>
//! </atem:invoke>
//! </atem:function_calls><|eom|>
//! ```
//!
//! Emitted by Muse Spark (without the first line breaks). The prompt has already begun the first message. What a message is
//! depends on whom it is to: `self` or nobody is reasoning, `user` and `commentary` are content, `developer` is nothing, any
//! other name is a tool. A value is JSON or text, and text where the schema says string. A call goes out when it is complete.

use super::super::engine::messages::{BOUNDARIES, MESSAGE, Messages};
use super::super::engine::{Ids, Mode, Output, Piece, ReadReasoning, ReasoningMemory, Setup};
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::{Context, Token, schema};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["muse", "musespark1x"],
    reasoning_names: &["muse", "musespark1x"],
    families: "Muse Spark",
    needs: &[],
    tools: Some(|setup| MESSAGES.compile(setup)),
    reasoning: Some(|setup| Box::new(Framed::new(|to| addressed(to) == Mode::Think, setup))),
};

const INVOKE: &str = "<atem:invoke";
const PARAMETER: &str = "<atem:parameter";
const END_PARAMETER: &str = "</atem:parameter>";

pub(super) static MESSAGES: Messages = Messages {
    addressed,
    calls: |text, out| calls(text, true, out),
    end_call: "</atem:invoke>",
    around: &["<atem:function_calls>", "</atem:function_calls>"],
};

fn addressed(to: Option<&str>) -> Mode {
    match to {
        None | Some("self") => Mode::Think,
        Some("user" | "commentary") => Mode::Content,
        Some("developer") => Mode::Between,
        Some(_) => Mode::Body,
    }
}

/// A name longer than this is nobody's.
const MAX_NAME: usize = 1024;

/// The reasoning half: everything is for the tool half, which tells reasoning from content. It counts. Of its memory, `held`
/// is the last word, and `depth` says that a message of reasoning is open.
#[derive(Debug)]
pub(super) struct Framed {
    /// Whether tokens of a message to somebody count.
    counts: fn(Option<&str>) -> bool,
    message: Option<u32>,
    boundaries: [Option<u32>; BOUNDARIES.len()],
}

impl Framed {
    pub(super) fn new(counts: fn(Option<&str>) -> bool, setup: &Setup<'_>) -> Self {
        let id = |mark: &str| setup.vocabulary.ids.get(mark).copied();
        Self { counts, message: id(MESSAGE), boundaries: BOUNDARIES.map(id) }
    }

    fn follow(&self, memory: &mut ReasoningMemory, token: Token<'_>) {
        if token.id.is_some() && token.id == self.message {
            let to = memory.held.trim_end().strip_prefix("to=").filter(|name| !name.is_empty());
            memory.depth = u32::from((self.counts)(to));
            memory.held.clear();
        } else if token.id.is_some() && self.boundaries.contains(&token.id) {
            memory.depth = 0;
            memory.held.clear();
        } else {
            let counted = memory.depth > 0 && token.id.is_some();
            memory.tokens = memory.tokens.saturating_add(usize::from(counted));
            self.keep_last_word(memory, token.text);
        }
    }

    fn keep_last_word(&self, memory: &mut ReasoningMemory, text: &str) {
        memory.held.push_str(text);
        let solid = memory.held.trim_end().len();
        let word = memory.held.get(..solid).and_then(|held| held.rfind(char::is_whitespace)).unwrap_or(0);
        memory.held.drain(..word);
        memory.held.drain(..memory.held.len() - memory.held.trim_start().len());
        if memory.held.len() > MAX_NAME {
            memory.held.clear();
        }
    }
}

impl ReadReasoning for Framed {
    fn is_on(&self, _context: &Context) -> bool {
        true
    }

    fn start(&self, _context: &Context) -> ReasoningMemory {
        ReasoningMemory::default()
    }

    fn ended_by_prompt(&self, _context: &Context) -> bool {
        false
    }

    fn count(&self, _memory: &mut ReasoningMemory, _id: u32) {}

    fn read(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        self.follow(memory, token);
        say(Piece::Rest(token));
    }

    fn finish(&self, _memory: &mut ReasoningMemory, _say: &mut dyn FnMut(Piece<'_>)) {}

    fn says_empty(&self, _chunk: &[Token<'_>]) -> bool {
        false
    }
}

/// Says the calls that are complete; returns how much of the text that was. What is no call is given back.
pub(super) fn calls(text: &str, keeps_strings: bool, out: &mut Output<'_>) -> usize {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MESSAGES.end_call) {
        let invoke = before.split_once(INVOKE);
        match invoke.and_then(|(_, invoke)| call(out.context, invoke, keeps_strings)) {
            Some((name, arguments)) => {
                MESSAGES.aside(invoke.map_or("", |(before, _)| before), out);
                out.call(name, Ids::Random);
                out.arguments(&arguments);
            }
            None => MESSAGES.give_back(rest.split_at(rest.len() - after.len()).0, out),
        }
        rest = after;
    }
    text.len() - rest.len()
}

/// The name and the arguments of a call.
fn call<'t>(context: &Context, invoke: &'t str, keeps_strings: bool) -> Option<(&'t str, String)> {
    let (head, body) = invoke.split_once('>')?;
    let name = registered(context, attribute(head)?);
    let known = schema::properties(&context.tools, name);
    let mut members: Vec<(String, Json)> = Vec::new();
    for parameter in body.split(PARAMETER).skip(1) {
        let Some((head, rest)) = parameter.split_once('>') else { continue };
        let (Some(key), Some((text, _))) = (attribute(head), rest.split_once(END_PARAMETER)) else { continue };
        let is_string = known.and_then(|known| known.get(key)).is_some_and(|schema| schema["type"] == "string");
        let value = if is_string && keeps_strings { None } else { python::loads(text) };
        members.retain(|(other, _)| other != key);
        members.push((key.to_owned(), value.unwrap_or_else(|| Json::Str(text.to_owned()))));
    }
    Some((name, python::dumps(&Json::Dict(members))))
}

/// The request's name for a function: the model doubles it, `ping.ping`.
fn registered<'t>(context: &Context, name: &'t str) -> &'t str {
    match name.split_once('.') {
        Some((head, tail)) if head == tail && !context.tools.is_empty() && context.knows(head) => {
            if context.knows(name) { name } else { head }
        }
        _ => name,
    }
}

fn attribute(head: &str) -> Option<&str> {
    let (_, value) = head.split_once("name=\"")?;
    value.split_once('"').map(|(value, _)| value).filter(|value| !value.is_empty())
}
