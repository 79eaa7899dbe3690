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

use super::super::engine::{
    Ids, Mode, Output, Piece, ReadReasoning, ReadTools, ReasoningMemory, Record, Setup, ToolMemory,
};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::super::{Context, Token, schema};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["muse", "musespark1x"],
    reasoning_names: &["muse", "musespark1x"],
    families: "Muse Spark",
    needs: &[],
    tools: Some(|setup| Box::new(Messages::new(setup, addressed, true))),
    reasoning: Some(|_| Box::new(Framed("muse"))),
};

const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
const MARKS: [&str; 4] = [MESSAGE, START, "<|eom|>", "<|eot|>"];
const INVOKE: &str = "<atem:invoke";
const END_INVOKE: &str = "</atem:invoke>";
const PARAMETER: &str = "<atem:parameter";
const END_PARAMETER: &str = "</atem:parameter>";

/// A head or a call longer than this is none.
const MAX_HELD: usize = 1024 * 1024;

fn addressed(to: Option<&str>) -> Mode {
    match to {
        None | Some("self") => Mode::Name,
        Some("user" | "commentary") => Mode::Content,
        Some("developer") => Mode::Between,
        Some(_) => Mode::Body,
    }
}

/// The reasoning half: everything is for the tool half, which tells reasoning from content.
#[derive(Debug)]
pub(super) struct Framed(pub(super) &'static str);

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

    fn read(&self, _memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        say(Piece::Rest(token));
    }

    fn finish(&self, _memory: &mut ReasoningMemory, _say: &mut dyn FnMut(Piece<'_>)) {}

    fn says_empty(&self, _chunk: &[Token<'_>]) -> bool {
        false
    }

    fn content_by(&self) -> Option<&'static str> {
        Some(self.0)
    }
}

/// The tool half. Its modes: `Preamble` in a head, `Name` in reasoning, `Content`, `Body` in calls, `Between` in what nobody
/// shall see.
#[derive(Debug)]
pub(super) struct Messages {
    /// What a message to somebody is.
    addressed: fn(Option<&str>) -> Mode,
    /// A value that the schema calls a string is text.
    keeps_strings: bool,
    /// A reasoning half was configured: frames are never content.
    always: bool,
    /// The tokens of the marks.
    marks: [Option<u32>; MARKS.len()],
}

impl ReadTools for Messages {
    fn start(&self, context: &Context) -> ToolMemory {
        let opened = self.opened_by_prompt(context);
        let mode = if opened { Mode::Name } else { Mode::Preamble };
        ToolMemory { mode, spoken: opened, ..ToolMemory::default() }
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        let mut held = std::mem::take(&mut memory.held);
        held.push_str(token.text);
        let mut rest = held.as_str();
        while let Some((at, mark)) = first_mark(rest) {
            let (before, after) = rest.split_at(at);
            self.mark(memory, before, mark, out);
            rest = after.split_at(mark.len()).1;
        }
        if memory.mode == Mode::Preamble {
            if memory.spoken || rest.len() < MAX_HELD && may_be_head(rest) {
                memory.held = if rest.len() < MAX_HELD { rest.to_owned() } else { String::new() };
                return;
            }
            (memory.mode, memory.spoken) = (Mode::Content, true);
        }
        let (now, later) = rest.split_at(safe(rest));
        self.say(memory, now, out);
        memory.held = later.to_owned();
    }

    fn finish(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        let held = std::mem::take(&mut memory.held);
        if memory.mode == Mode::Preamble && !memory.spoken {
            memory.mode = Mode::Content;
        }
        self.say(memory, &held, out);
    }

    fn joins(&self) -> bool {
        true
    }

    fn forces_json(&self) -> bool {
        false
    }

    fn reads_always(&self) -> bool {
        self.always
    }

    fn whole(&self, _context: &Context, _record: &Record, said: Answer) -> Answer {
        Answer { settled: true, ..said }
    }
}

impl Messages {
    pub(super) fn new(setup: &Setup<'_>, addressed: fn(Option<&str>) -> Mode, keeps_strings: bool) -> Self {
        let marks = MARKS.map(|mark| setup.vocabulary.ids.get(mark).copied());
        Self { addressed, keeps_strings, always: setup.beside_reasoning, marks }
    }

    /// The prompt began a message, which is then one of reasoning.
    fn opened_by_prompt(&self, context: &Context) -> bool {
        let [message, ..] = self.marks;
        let last = context.prompt_token_ids.iter().rev().find(|id| self.marks.contains(&Some(**id)));
        message.is_some() && last.copied() == message
    }

    fn mark(&self, memory: &mut ToolMemory, before: &str, mark: &str, out: &mut Output<'_>) {
        let (body, to) = if mark == MESSAGE { addressee(before) } else { (before, None) };
        if memory.mode != Mode::Preamble || !memory.spoken && !may_be_head(before) {
            let mode = if memory.mode == Mode::Preamble { Mode::Content } else { memory.mode };
            memory.mode = mode;
            self.say(memory, body, out);
        }
        memory.spoken = true;
        memory.name.clear();
        memory.mode = if mark == MESSAGE { (self.addressed)(to) } else { Mode::Preamble };
    }

    fn say(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        match memory.mode {
            Mode::Content => out.content(text),
            Mode::Name => out.events.push_reasoning_text(text),
            Mode::Body => self.calls(memory, text, out),
            Mode::Preamble | Mode::Between => {}
        }
    }

    /// Says every call that is complete.
    fn calls(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        let seen = memory.name.len().saturating_sub(END_INVOKE.len());
        memory.name.push_str(text);
        let from = (0..=seen).rev().find(|at| memory.name.is_char_boundary(*at)).unwrap_or(0);
        if !memory.name.split_at(from).1.contains(END_INVOKE) {
            if memory.name.len() > MAX_HELD {
                memory.name.clear();
            }
            return;
        }
        let all = std::mem::take(&mut memory.name);
        let mut rest = all.as_str();
        while let Some((call, after)) = rest.split_once(END_INVOKE) {
            if let Some((name, arguments)) = self.call(out.context, call) {
                out.call(&name, Ids::Random);
                out.arguments(&arguments);
            }
            rest = after;
        }
        memory.name = rest.to_owned();
    }

    fn call(&self, context: &Context, text: &str) -> Option<(String, String)> {
        let (_, invoke) = text.split_once(INVOKE)?;
        let (head, body) = invoke.split_once('>')?;
        let name = registered(context, attribute(head)?);
        let known = schema::properties(&context.tools, name);
        let mut members: Vec<(String, Json)> = Vec::new();
        for parameter in body.split(PARAMETER).skip(1) {
            let Some((head, rest)) = parameter.split_once('>') else { continue };
            let (Some(key), Some((text, _))) = (attribute(head), rest.split_once(END_PARAMETER)) else { continue };
            let is_string = known.and_then(|known| known.get(key)).is_some_and(|schema| schema["type"] == "string");
            let value = if is_string && self.keeps_strings { None } else { python::loads(text) };
            members.retain(|(other, _)| other != key);
            members.push((key.to_owned(), value.unwrap_or_else(|| Json::Str(text.to_owned()))));
        }
        Some((name.to_owned(), python::dumps(&Json::Dict(members))))
    }
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

fn first_mark(text: &str) -> Option<(usize, &'static str)> {
    MARKS.iter().filter_map(|mark| Some((text.find(mark)?, *mark))).min()
}

/// A text that ends in ` to=NAME`: what stands before, and the name.
fn addressee(text: &str) -> (&str, Option<&str>) {
    let found = text.rsplit_once("to=").filter(|(_, name)| !name.is_empty() && name.chars().all(is_of_name));
    match found {
        Some((before, name)) => (before.trim_end_matches([' ', '\t']), Some(name)),
        None => (text, None),
    }
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '.' | '-')
}

/// Whether a text may be the start of a message's head, where the mark that begins it was read or is the prompt's.
fn may_be_head(text: &str) -> bool {
    let text = text.trim_start();
    let text = match text.strip_prefix("assistant") {
        Some(rest) => rest.trim_start(),
        None if "assistant".starts_with(text) => return true,
        None => text,
    };
    match text.strip_prefix("to=") {
        Some(name) => MESSAGE.starts_with(name.trim_start_matches(is_of_name)),
        None => "to=".starts_with(text) || MESSAGE.starts_with(text),
    }
}

/// How much of a text cannot become a mark or a head.
fn safe(text: &str) -> usize {
    let starts = || text.char_indices().map(|(at, _)| at);
    let is_mark = |at: usize| MARKS.iter().any(|mark| mark.starts_with(text.split_at(at).1));
    let end =
        starts().find(|at| text.len() - at < START.len().max(MESSAGE.len()) && is_mark(*at)).unwrap_or(text.len());
    let (body, _) = text.split_at(end);
    let line = body.rfind(['\n', '<', '>']).map_or(0, |at| at + 1);
    let tail = body.split_at(line).1.trim_end_matches(is_of_name);
    let tail = tail.strip_suffix("to=").unwrap_or(body.split_at(line).1);
    let solid = tail.trim_end_matches([' ', '\t']);
    let is_head = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '\t']);
        "to=".starts_with(rest) || rest.strip_prefix("to=").is_some_and(|name| name.chars().all(is_of_name))
    };
    let cut = line + solid.len();
    let short = ["t", "to"].iter().find_map(|word| body.strip_suffix(word)).filter(|rest| rest.ends_with([' ', '\t']));
    match short {
        Some(rest) => rest.trim_end_matches([' ', '\t']).len(),
        None if cut < body.len() && is_head(body.split_at(cut).1) => cut,
        None => end,
    }
}
