//! The tool half as data: marks, and what each mark does in each mode.

use serde::{Deserialize, Serialize};

use super::json_call::{JsonCall, JsonCallMemory};
use super::scan::{Found, Literals, MarkId};
use super::{BodyMemory, By, Marks, Output, ReadTools, Record, ToolMemory};
use crate::parsers::message::Answer;
use crate::parsers::{Context, Token, Vocabulary};

/// What text is, until the next mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::parsers) enum Mode {
    /// Content.
    #[default]
    #[serde(rename = "c")]
    Content,
    /// The body of a call.
    #[serde(rename = "b")]
    Body,
    /// Between calls and after the last one, where the dialect drops text.
    #[serde(rename = "x")]
    Aside,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Content, Self::Body, Self::Aside];
}

/// What a mark does beside changing the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Act {
    /// A call begins.
    Begin,
    /// The open call ends.
    End,
}

/// In mode `from`, `mark` does `act` and goes to mode `to`.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Move {
    pub(in crate::parsers) from: Mode,
    pub(in crate::parsers) mark: &'static str,
    pub(in crate::parsers) act: Act,
    pub(in crate::parsers) to: Mode,
}

/// How the body of a call is read.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) enum Body {
    /// One JSON object with the name and the arguments.
    JsonCall(JsonCall),
}

/// The tool half of a dialect, as data.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Grammar {
    pub(in crate::parsers) marks: &'static [(&'static str, By)],
    pub(in crate::parsers) moves: &'static [Move],
    pub(in crate::parsers) body: Body,
    /// What a whole answer makes of the events.
    pub(in crate::parsers) whole: fn(&Context, &Record, Answer) -> Answer,
}

impl Grammar {
    /// Looks the marks up in a vocabulary.
    pub(in crate::parsers) fn compile(&'static self, vocabulary: &Vocabulary) -> Box<dyn ReadTools> {
        let marks = Marks::new(self.marks, vocabulary);
        let literals = Mode::ALL.map(|mode| {
            let here = self.moves.iter().filter(|found| found.from == mode);
            marks.literals(here.filter_map(|found| marks.id_of(found.mark)))
        });
        Box::new(Compiled { grammar: self, marks, literals })
    }
}

/// A grammar over the marks of one vocabulary.
#[derive(Debug)]
struct Compiled {
    grammar: &'static Grammar,
    marks: Marks,
    literals: [Literals; Mode::ALL.len()],
}

impl ReadTools for Compiled {
    fn start(&self, _context: &Context) -> ToolMemory {
        ToolMemory::default()
    }

    fn read(&self, _context: &Context, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        match token.id.and_then(|id| self.marks.of_token(id)) {
            Some(mark) => {
                self.text(memory, "", true, out);
                self.mark(memory, mark, token.text, out);
            }
            None => self.text(memory, token.text, false, out),
        }
    }

    fn finish(&self, _context: &Context, memory: &mut ToolMemory, out: &mut Output<'_>) {
        self.text(memory, "", true, out);
        self.end(memory, out);
    }

    fn whole(&self, context: &Context, record: &Record, said: Answer) -> Answer {
        (self.grammar.whole)(context, record, said)
    }
}

impl Compiled {
    /// Reads text: marks act, the rest is what the mode says. With `last` no text follows that could complete a mark.
    fn text(&self, memory: &mut ToolMemory, text: &str, last: bool, out: &mut Output<'_>) {
        if memory.held.is_empty() {
            let kept = self.pieces(memory, text, last, out);
            memory.held.push_str(kept);
            return;
        }
        let mut held = std::mem::take(&mut memory.held);
        held.push_str(text);
        let kept = self.pieces(memory, &held, last, out).len();
        held.drain(..held.len() - kept);
        memory.held = held;
    }

    /// Reads as far as it can and returns the end that may become a mark.
    fn pieces<'t>(&self, memory: &mut ToolMemory, mut text: &'t str, last: bool, out: &mut Output<'_>) -> &'t str {
        loop {
            let literals = &self.literals[memory.mode as usize];
            let (at, len, mark) = match literals.find(text, last) {
                Found::Nothing => (text.len(), 0, None),
                Found::Maybe { at } => (at, 0, None),
                Found::Mark { at, len, mark } => (at, len, Some(mark)),
            };
            let (plain, rest) = text.split_at(at);
            self.plain(memory, plain, out);
            let Some(mark) = mark else { return rest };
            let (literal, rest) = rest.split_at(len);
            self.mark(memory, mark, literal, out);
            text = rest;
        }
    }

    fn plain(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        if text.is_empty() {
            return;
        }
        out.note(text);
        match memory.mode {
            Mode::Content => out.content(text),
            Mode::Aside => {}
            Mode::Body => self.body(&mut memory.body, text, out),
        }
    }

    fn mark(&self, memory: &mut ToolMemory, mark: MarkId, literal: &str, out: &mut Output<'_>) {
        let name = self.marks.text(mark);
        let found = self.grammar.moves.iter().find(|found| found.from == memory.mode && found.mark == name);
        let Some(found) = found else { return self.plain(memory, literal, out) };
        match found.act {
            Act::Begin => {
                self.end(memory, out);
                out.note(literal);
                out.note_body();
                memory.body = self.begin(literal);
            }
            Act::End => {
                self.end_with(memory, literal, out);
                out.note(literal);
            }
        }
        memory.mode = found.to;
    }

    /// A body that does not fit the grammar came from a stranger: nothing to read.
    fn body(&self, memory: &mut BodyMemory, text: &str, out: &mut Output<'_>) {
        match (&self.grammar.body, memory) {
            (Body::JsonCall(body), BodyMemory::JsonCall(memory)) => body.read(memory, text, out),
            (_, BodyMemory::None) => {}
        }
    }

    fn begin(&self, literal: &str) -> BodyMemory {
        match &self.grammar.body {
            Body::JsonCall(_) => BodyMemory::JsonCall(JsonCallMemory::begin(literal)),
        }
    }

    fn end(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        self.end_with(memory, "", out);
    }

    fn end_with(&self, memory: &mut ToolMemory, literal: &str, out: &mut Output<'_>) {
        match (&self.grammar.body, std::mem::take(&mut memory.body)) {
            (Body::JsonCall(body), BodyMemory::JsonCall(memory)) => {
                out.note_body_end();
                body.end(&memory, literal, out);
            }
            (_, BodyMemory::None) => {}
        }
    }
}
