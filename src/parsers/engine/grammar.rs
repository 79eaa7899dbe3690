//! The tool half as data: marks, and what each mark does in each mode.

use serde::{Deserialize, Serialize};

use super::body::{Body, BodyMemory};
use super::marks::LOOKALIKE;
use super::scan::{Found, Literals, MarkId};
use super::{Blank, By, Ids, Lexer, Manners, Marks, Output, ReadTools, Record, Setup, ToolMemory, Unknown};
use crate::parsers::message::Answer;
use crate::parsers::{Context, Fallback, Token, ToolChoice};

/// White space at the start of content that is kept back at most.
const MAX_BLANK: usize = 1024;

/// A call that may have to be given back and is longer than this is given back.
const MAX_RAW: usize = 1024 * 1024;

/// A name longer than this is none.
const MAX_NAME: usize = 1024;

/// What text is, until the next mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::parsers) enum Mode {
    /// Content.
    #[default]
    #[serde(rename = "c")]
    Content,
    /// Between an opening mark and the name: dropped.
    #[serde(rename = "p")]
    Preamble,
    /// The name of a function.
    #[serde(rename = "n")]
    Name,
    /// The body of a call.
    #[serde(rename = "b")]
    Body,
    /// Between calls, or after the last where the dialect drops text: dropped.
    #[serde(rename = "x")]
    Between,
    /// Before anything else: content, but with marks that only count here.
    #[serde(rename = "s")]
    Start,
    /// Reasoning, in a dialect whose tool half says it.
    #[serde(rename = "r")]
    Think,
}

impl Mode {
    const ALL: [Self; 7] =
        [Self::Content, Self::Preamble, Self::Name, Self::Body, Self::Between, Self::Start, Self::Think];
}

/// What a mark does beside changing the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Act {
    /// A call begins.
    Begin,
    /// A call begins, and the mark is the first of its body.
    BeginHere,
    /// The open call ends.
    End,
    /// The mark is text of its mode, too.
    Text,
    /// The mark is the first text of the mode that it leads to.
    First,
    /// The name is complete: the call is announced, before its body says anything. In a grammar that has this, a call
    /// that ends before is none.
    Announce,
    /// The text from here on is kept until a call is announced.
    Keep,
    /// What was kept is content: there was no call in it.
    GiveBack,
}

/// In mode `from`, `mark` does `acts` and goes to mode `to`.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Move {
    pub(in crate::parsers) from: Mode,
    pub(in crate::parsers) mark: &'static str,
    pub(in crate::parsers) acts: &'static [Act],
    pub(in crate::parsers) to: Mode,
}

/// Shorthand for one line of a grammar.
pub(in crate::parsers) const fn on(from: Mode, mark: &'static str, acts: &'static [Act], to: Mode) -> Move {
    Move { from, mark, acts, to }
}

/// The tool half of a dialect, as data.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Grammar {
    pub(in crate::parsers) marks: &'static [(&'static str, By)],
    pub(in crate::parsers) moves: &'static [Move],
    pub(in crate::parsers) body: Body,
    pub(in crate::parsers) manners: Manners,
    /// What a whole answer makes of the events.
    pub(in crate::parsers) whole: fn(&Context, &Record, Answer) -> Answer,
}

impl Grammar {
    /// Looks the marks up in a vocabulary.
    pub(in crate::parsers) fn compile(&'static self, setup: &Setup<'_>) -> Box<dyn ReadTools> {
        let mut marks = Marks::new(self.marks, setup.vocabulary);
        if let Some(kept) = self.manners.engine {
            marks = marks.dropping_specials(setup.vocabulary, kept);
        }
        if self.manners.lexer != Lexer::None {
            let all = self.manners.lexer == Lexer::Marks;
            let words: Vec<_> = self.marks.iter().filter(|_| all).map(|(text, _)| *text).collect();
            marks = marks.waiting_for(setup.vocabulary, &words);
        }
        let ids: Vec<_> = (0..self.marks.len() as MarkId).collect();
        let strays = if setup.beside_reasoning { self.manners.strays } else { &[] };
        let moves = |mode: Mode| {
            let find =
                |id: &MarkId| self.moves.iter().find(|found| found.from == mode && found.mark == marks.text(*id));
            ids.iter().map(find).collect::<Vec<_>>()
        };
        let table = Mode::ALL.map(moves);
        let literals = Mode::ALL.map(|mode| {
            let here = &table[mode as usize];
            marks.literals(ids.iter().copied().filter(|id| here[usize::from(*id)].is_some()))
        });
        let strays = strays.iter().filter_map(|text| marks.id_of(text)).collect();
        let announces = self.moves.iter().any(|found| found.acts.contains(&Act::Announce));
        let keeps = setup.mixed && self.manners.engine.is_some() && !self.body.names_itself();
        Box::new(Compiled { grammar: self, marks, table, literals, strays, announces, keeps })
    }
}

/// A grammar over the marks of one vocabulary.
#[derive(Debug)]
struct Compiled {
    grammar: &'static Grammar,
    marks: Marks,
    /// By mode and mark.
    table: [Vec<Option<&'static Move>>; Mode::ALL.len()],
    literals: [Literals; Mode::ALL.len()],
    strays: Vec<MarkId>,
    /// Some mark announces calls; the first text of a body does not.
    announces: bool,
    /// Markup before the first call is content if there is no call in it, as whole answers have it.
    keeps: bool,
}

impl ReadTools for Compiled {
    fn start(&self, context: &Context) -> ToolMemory {
        let Manners { start, start_forced, .. } = self.grammar.manners;
        let forced = matches!(context.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        let mode = start_forced.filter(|_| forced).unwrap_or(start);
        ToolMemory { mode, ..ToolMemory::default() }
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        let mark = token.id.and_then(|id| self.marks.of_token(id));
        let dropped = token.id.is_some_and(|id| self.marks.drops(id));
        if mark.is_none() && !dropped {
            return self.text(memory, token.text, false, out);
        }
        self.text(memory, "", true, out);
        if let Some(mark) = mark {
            self.mark(memory, mark, token.text, out);
        }
    }

    fn end_chunk(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        let manners = &self.grammar.manners;
        if memory.open && (memory.announced || self.grammar.body.names_itself()) {
            self.grammar.body.end_chunk(&mut memory.body, out);
        }
        let ended = manners.says_end && memory.called && !memory.open;
        let spoken = memory.mode == Mode::Content && memory.held.is_empty();
        if out.events.is_silent() && (ended || manners.says_empty && spoken) {
            out.events.push_content("");
        }
    }

    fn finish(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        let cut = self.grammar.manners.drops_cut;
        if !cut.is_empty() && memory.held.starts_with(cut) {
            memory.held.clear();
        }
        self.text(memory, "", true, out);
        if memory.open {
            out.note_body_end();
            out.note_unclosed(memory.announced);
            self.end(memory, "", out);
        }
        give_back(memory, out);
        let blank = std::mem::take(&mut memory.blank);
        if !memory.called && !self.grammar.manners.holds_tail {
            out.content(&blank);
        }
    }

    fn joins(&self) -> bool {
        self.grammar.manners.joined
    }

    fn types_entries(&self) -> bool {
        self.grammar.manners.types_entries
    }

    fn forces_json(&self) -> bool {
        self.grammar.manners.forces_json
    }

    fn is_engine(&self) -> bool {
        self.grammar.manners.engine.is_some()
    }

    fn reads_always(&self) -> bool {
        self.grammar.manners.always
    }

    fn takes_over(&self) -> bool {
        self.grammar.manners.always
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
            let (at, len, mark) = match self.literals[memory.mode as usize].find(text, last) {
                Found::Nothing => (text.len(), 0, None),
                Found::Maybe { at } => (at, 0, None),
                Found::Mark { at, len, mark } => (at, len, Some(mark)),
            };
            let (plain, rest) = text.split_at(at);
            let unread = self.plain(memory, plain, out).len();
            if unread > 0 {
                text = text.split_at(at - unread).1;
                continue;
            }
            let Some(mark) = mark else { return rest };
            let (literal, rest) = rest.split_at(len);
            self.mark(memory, mark, literal, out);
            text = rest;
        }
    }

    /// Reads plain text; returns what follows a body that ended by itself.
    fn plain<'t>(&self, memory: &mut ToolMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        if text.is_empty() {
            return text;
        }
        if memory.mode == Mode::Body && self.grammar.manners.closes.is_some() {
            return self.closing(memory, text, out);
        }
        if memory.mode == Mode::Between && self.grammar.manners.says_after {
            return self.after(memory, text, out);
        }
        if self.note(memory, text, out) {
            return "";
        }
        match memory.mode {
            Mode::Content | Mode::Think if self.grammar.manners.holds_tail => self.solid(memory, text, out),
            Mode::Content => self.content(memory, text, out),
            Mode::Think => out.events.push_reasoning(text),
            Mode::Start => {
                memory.mode = Mode::Content;
                self.content(memory, text, out);
            }
            Mode::Preamble | Mode::Between => {}
            Mode::Name if memory.name.len() < MAX_NAME => memory.name.push_str(text),
            Mode::Name => {}
            Mode::Body => {
                self.announce_late(memory, out);
                if memory.announced || self.grammar.body.says_at_end() || self.grammar.body.names_itself() {
                    let rest = self.grammar.body.read(&mut memory.body, text, out);
                    self.grammar.body.keep(&mut memory.body, rest, out);
                }
            }
        }
        ""
    }

    /// Notes raw text, and keeps that of a call that may have to be given back. Returns true where it has been: a call
    /// too long to be kept.
    fn note(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) -> bool {
        out.note(text);
        if memory.raw.is_empty() {
            return false;
        }
        memory.raw.push_str(text);
        let too_long = memory.raw.len() > MAX_RAW;
        if too_long {
            give_back(memory, out);
            (memory.open, memory.mode) = (false, Mode::Content);
        }
        too_long
    }

    /// Reads a body that may end by itself. What turned out to be no call is content.
    fn closing<'t>(&self, memory: &mut ToolMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        self.announce_late(memory, out);
        let rest = self.grammar.body.read(&mut memory.body, text, out);
        out.note(text.split_at(text.len() - rest.len()).0);
        let body = &self.grammar.body;
        if let Some(called) = body.over(&memory.body) {
            if called {
                out.note_body_end();
            } else {
                out.forget_body();
            }
            self.end(memory, "", out);
            memory.called |= called;
            memory.mode = self.grammar.manners.closes.filter(|_| called).unwrap_or_default();
            return rest;
        }
        ""
    }

    /// White space at the end of reasoning or content waits for more of it.
    fn solid(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        let mut all = std::mem::take(&mut memory.blank);
        all.push_str(text);
        let keep = if all.len() > MAX_BLANK { all.len() } else { all.trim_end().len() };
        let (said, blank) = all.split_at(keep);
        match memory.mode {
            Mode::Think if !said.is_empty() => out.events.push_reasoning(said),
            _ => out.content(said),
        }
        memory.blank = blank.to_owned();
    }

    /// White space before the first other content waits: beside a call it is nothing.
    fn content(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        if memory.spoken || self.grammar.manners.blank == Blank::Said {
            return out.content(text);
        }
        if text.trim().is_empty() && memory.blank.len() < MAX_BLANK {
            return match self.grammar.manners.blank {
                Blank::Held if memory.called => out.content(text),
                _ => memory.blank.push_str(text),
            };
        }
        memory.spoken = true;
        let blank = std::mem::take(&mut memory.blank);
        out.content(&blank);
        out.content(text);
    }

    /// What may only separate calls waits for more. Returns what is content for certain.
    fn after<'t>(&self, memory: &mut ToolMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let content = text.trim_start_matches(|char: char| char.is_whitespace() || char == ';');
        let (separator, _) = text.split_at(text.len() - content.len());
        out.note(separator);
        memory.blank.push_str(separator);
        if memory.blank.len() > MAX_BLANK || !content.is_empty() {
            (memory.mode, memory.spoken) = (Mode::Content, true);
            out.content(&std::mem::take(&mut memory.blank));
        }
        content
    }

    fn mark(&self, memory: &mut ToolMemory, mark: MarkId, literal: &str, out: &mut Output<'_>) {
        if memory.mode == Mode::Content && self.strays.contains(&mark) {
            return out.note(literal);
        }
        let found = self.table[memory.mode as usize].get(usize::from(mark)).copied().flatten();
        let Some(found) = found.filter(|_| mark != LOOKALIKE) else { return self.all(memory, literal, out) };
        if found.acts.contains(&Act::End) {
            out.note_body_end();
        }
        if found.acts.contains(&Act::BeginHere) {
            self.begin(memory, "", out);
            memory.mode = found.to;
            return self.all(memory, literal, out);
        }
        if found.acts.contains(&Act::Text) {
            self.all(memory, literal, out);
        } else if !found.acts.contains(&Act::First) {
            self.note(memory, literal, out);
        }
        for act in found.acts {
            match act {
                Act::Begin => self.begin(memory, literal, out),
                Act::End => self.end(memory, literal, out),
                Act::Announce => self.announce(memory, out),
                Act::Keep => literal.clone_into(&mut memory.raw),
                Act::GiveBack => drop(give_back(memory, out)),
                Act::BeginHere | Act::Text | Act::First => {}
            }
        }
        if self.keeps && !memory.called {
            match (memory.mode, found.to) {
                (Mode::Content, Mode::Content) => {}
                (Mode::Content, _) => literal.clone_into(&mut memory.raw),
                (_, Mode::Content) => drop(give_back(memory, out)),
                _ => {}
            }
        }
        if self.grammar.manners.holds_tail && memory.mode != found.to {
            memory.blank.clear();
        }
        memory.mode = found.to;
        if found.acts.contains(&Act::First) {
            self.all(memory, literal, out);
        }
    }

    /// Reads text that has no marks, to its end.
    fn all(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        let mut rest = text;
        while !rest.is_empty() {
            rest = self.plain(memory, rest, out);
        }
    }

    fn begin(&self, memory: &mut ToolMemory, literal: &str, out: &mut Output<'_>) {
        memory.open = true;
        memory.announced = false;
        memory.name.clear();
        if memory.mode == Mode::Between {
            memory.blank.clear();
        }
        if self.grammar.manners.unknown == Unknown::GivenBack {
            literal.clone_into(&mut memory.raw);
        }
        memory.body = self.grammar.body.begin(literal);
        out.note_body();
    }

    /// A call whose name no mark ends begins with the first text of its body, or ends without any.
    fn announce_late(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        if !self.announces {
            self.announce(memory, out);
        }
    }

    /// A call whose name was read by marks begins.
    fn announce(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        if memory.announced || self.grammar.body.names_itself() {
            return;
        }
        memory.announced = true;
        let known = |name: &str| self.grammar.manners.unknown == Unknown::Called || out.context.knows(name);
        let head = memory.name.trim();
        let (id, name) = match self.grammar.manners.ids {
            Ids::Spelled(split) => split(head).map_or((None, ""), |(id, name)| (Some(id), name)),
            Ids::Within(find) => (None, find(head).unwrap_or_default()),
            _ => (None, head),
        };
        if name.is_empty() || !known(name) {
            memory.body = BodyMemory::None;
            return;
        }
        memory.called = true;
        memory.raw.clear();
        let blank = std::mem::take(&mut memory.blank);
        if self.grammar.manners.blank != Blank::Dropped {
            out.content(&blank);
        }
        match id {
            Some(id) => out.call_with(id, name),
            None => out.call(name, self.grammar.manners.ids),
        }
        if self.grammar.manners.empty_head {
            out.even_empty_arguments("");
        }
        self.grammar.body.named(&mut memory.body, name);
    }

    fn end(&self, memory: &mut ToolMemory, literal: &str, out: &mut Output<'_>) {
        self.announce_late(memory, out);
        let body = std::mem::take(&mut memory.body);
        if self.grammar.body.names_itself() && !self.grammar.body.is_begun(&body) && !memory.blank.is_empty() {
            // No call after all: the white space before it is content, too.
            memory.spoken = true;
            out.content(&std::mem::take(&mut memory.blank));
        }
        if self.grammar.manners.ends_apart && literal.is_empty() {
            out.events.set_apart();
        }
        let none = self.grammar.manners.unknown == Unknown::GivenBack && give_back(memory, out);
        if !none && (memory.announced || self.grammar.body.names_itself()) {
            self.grammar.body.end(body, literal, out);
        }
        memory.open = false;
    }
}

/// What was kept is no call: its text is content. False where nothing was kept.
fn give_back(memory: &mut ToolMemory, out: &mut Output<'_>) -> bool {
    let raw = std::mem::take(&mut memory.raw);
    if raw.is_empty() {
        return false;
    }
    let name = memory.name.trim();
    match name.is_empty() || out.context.knows(name) {
        true => out.give_back(&raw),
        false => out.give_back_for(Fallback::Unknown, &raw),
    }
    true
}
