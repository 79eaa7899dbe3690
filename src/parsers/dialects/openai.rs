//! Harmony: reasoning, content and tool calls of gpt-oss.
//!
//! ```text
//! <|channel|>analysis<|message|>The user wants the weather.<|end|>
//! <|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>
//! <|start|>assistant<|channel|>final<|message|>It is sunny.<|return|>
//! ```
//!
//! (without the line breaks). Emitted by OpenAI's gpt-oss. A reply is a list of messages with a header each; the prompt has
//! already begun the first header. A recipient in `functions` makes a message a call, else the channel says what it is. Both
//! halves read all of it, and either alone does what both do. Only tokens are marks; inside a message only those that end it.
//! What stands between messages, or behind a header that is none, is dropped. Messages of one kind are joined by a line break.

use super::super::engine::{
    Ids, Mode, Output, Piece, ReadReasoning, ReadTools, ReasoningMemory, Record, Setup, ToolMemory,
};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::super::{Context, Token, python};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["openai"],
    reasoning_names: &["openai_gptoss"],
    families: "gpt-oss",
    needs: &["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"],
    tools: Some(|setup| Box::new(Harmony::new(setup))),
    reasoning: Some(|setup| Box::new(Harmony::new(setup))),
};

/// A header longer than this is none.
const MAX_HEADER: usize = 1024;

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";

/// The marks, as tokens of one vocabulary.
#[derive(Debug)]
struct Harmony {
    start: Option<u32>,
    message: Option<u32>,
    ends: Vec<u32>,
    beside_tools: bool,
}

/// What a message is.
#[derive(Debug, PartialEq, Eq)]
enum Kind<'h> {
    Reasoning,
    Content,
    Call(&'h str),
}

/// Where the messages stand: `Preamble` is a header, `Body` a message, `Between` what follows it.
struct Place<'m> {
    mode: &'m mut Mode,
    header: &'m mut String,
}

/// What a token is.
enum Said<'h> {
    /// Part of a header, or nothing.
    Nothing,
    /// A message begins.
    Begins(Kind<'h>),
    /// Text of a message.
    Text(Kind<'h>),
}

impl Harmony {
    fn new(setup: &Setup<'_>) -> Self {
        let id = |text: &str| setup.vocabulary.ids.get(text).copied();
        let ends = ["<|end|>", "<|call|>", "<|return|>"].into_iter().filter_map(id).collect();
        Self { start: id(START), message: id(MESSAGE), ends, beside_tools: setup.beside_tools }
    }

    fn read<'m>(&self, place: &'m mut Place<'_>, token: Token<'_>) -> Said<'m> {
        let ends = token.id.is_some_and(|id| self.ends.contains(&id));
        let is = |mark: Option<u32>| token.id.is_some() && token.id == mark;
        match *place.mode {
            Mode::Body if ends => *place.mode = Mode::Between,
            Mode::Body => return kind(place.header).map_or(Said::Nothing, Said::Text),
            Mode::Between if is(self.start) => {
                place.header.clear();
                *place.mode = Mode::Preamble;
            }
            Mode::Preamble if is(self.start) => {}
            Mode::Preamble if is(self.message) => {
                let known = kind(place.header).is_some();
                *place.mode = if known { Mode::Body } else { Mode::Name };
                return kind(place.header).map_or(Said::Nothing, Said::Begins);
            }
            Mode::Preamble if ends || place.header.len() > MAX_HEADER => *place.mode = Mode::Name,
            Mode::Preamble => place.header.push_str(token.text),
            // A header that was none: what follows cannot be read.
            _ => {}
        }
        Said::Nothing
    }
}

/// What a header says that the message is.
fn kind(header: &str) -> Option<Kind<'_>> {
    let channel = header.split_once(CHANNEL)?.1.trim_start();
    let recipient = header.split_once("to=").map(|(_, rest)| rest.split([' ', '<']).next().unwrap_or(rest));
    if let Some(name) = recipient.and_then(|recipient| recipient.strip_prefix("functions.")) {
        return Some(Kind::Call(name));
    }
    let end = channel.find([' ', '<']).unwrap_or(channel.len());
    Some(if channel.get(..end) == Some("analysis") { Kind::Reasoning } else { Kind::Content })
}

impl ReadReasoning for Harmony {
    fn is_on(&self, _context: &Context) -> bool {
        true
    }

    fn start(&self, _context: &Context) -> ReasoningMemory {
        ReasoningMemory { mode: Mode::Preamble, ..ReasoningMemory::default() }
    }

    fn ended_by_prompt(&self, _context: &Context) -> bool {
        false
    }

    fn count(&self, memory: &mut ReasoningMemory, id: u32) {
        let thinks = memory.mode == Mode::Body && kind(&memory.held) == Some(Kind::Reasoning);
        memory.tokens = memory.tokens.saturating_add(usize::from(thinks && !self.ends.contains(&id)));
    }

    fn read(&self, memory: &mut ReasoningMemory, token: Token<'_>, say: &mut dyn FnMut(Piece<'_>)) {
        let mut place = Place { mode: &mut memory.mode, header: &mut memory.held };
        let said = Harmony::read(self, &mut place, token);
        if self.beside_tools {
            return say(Piece::Rest(token));
        }
        match said {
            Said::Begins(Kind::Reasoning) if std::mem::replace(&mut memory.opened, true) => say(Piece::Reasoning("\n")),
            Said::Begins(Kind::Content) if std::mem::replace(&mut memory.spoken, true) => {
                say(Piece::Rest(Token { id: None, text: "\n" }));
            }
            Said::Text(Kind::Reasoning) => say(Piece::Reasoning(token.text)),
            Said::Text(Kind::Content) => say(Piece::Rest(token)),
            _ => {}
        }
    }

    fn finish(&self, _memory: &mut ReasoningMemory, _say: &mut dyn FnMut(Piece<'_>)) {}

    fn says_empty(&self, _chunk: &[Token<'_>]) -> bool {
        false
    }

    fn passes(&self, _context: &Context, _memory: &ReasoningMemory) -> bool {
        false
    }

    fn is_engine(&self) -> bool {
        true
    }
}

impl ReadTools for Harmony {
    fn start(&self, _context: &Context) -> ToolMemory {
        ToolMemory { mode: Mode::Preamble, ..ToolMemory::default() }
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        let mut place = Place { mode: &mut memory.mode, header: &mut memory.name };
        match Harmony::read(self, &mut place, token) {
            Said::Begins(Kind::Reasoning) if std::mem::replace(&mut memory.called, true) => {
                out.events.push_reasoning("\n");
            }
            Said::Begins(Kind::Content) if std::mem::replace(&mut memory.spoken, true) => out.content("\n"),
            Said::Begins(Kind::Call(name)) => {
                out.call(name, Ids::Random);
                out.even_empty_arguments("");
            }
            Said::Text(Kind::Reasoning) if !token.text.is_empty() => out.events.push_reasoning(token.text),
            Said::Text(Kind::Content) => out.content(token.text),
            Said::Text(Kind::Call(_)) => out.arguments(token.text),
            _ => {}
        }
    }

    fn finish(&self, _memory: &mut ToolMemory, _out: &mut Output<'_>) {}

    fn joins(&self) -> bool {
        true
    }

    fn forces_json(&self) -> bool {
        false
    }

    fn is_engine(&self) -> bool {
        true
    }

    /// Arguments are written anew, in ASCII.
    fn whole(&self, _context: &Context, _record: &Record, said: Answer) -> Answer {
        let arguments = |text: &str| python::loads(text).map(|value| ascii(&python::dumps(&value)));
        let all = said.calls.iter().map(|call| arguments(&call.arguments).unwrap_or_else(|| call.arguments.clone()));
        let all = all.collect();
        said.with_arguments(all)
    }
}

/// JSON text without characters beyond ASCII.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() {
            out.push(char);
        } else {
            out.extend(char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}
