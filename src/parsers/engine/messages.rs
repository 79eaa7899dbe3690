//! Messages in frames, `<|start|>assistant to=NAME<|message|>…<|eom|>`: what one is depends on whom it is to.
//!
//! A frame may lack its beginning: a bare ` to=NAME<|message|>`, after white space, ends the message before it. What stands
//! outside of all messages and is no head of one is content.

use super::scan::{Found, Literals, MarkId};
use super::{Mode, Output, ReadTools, Record, Setup, ToolMemory};
use crate::parsers::message::Answer;
use crate::parsers::{Context, Token, ToolChoice};

/// The mark that ends a head.
pub(in crate::parsers) const MESSAGE: &str = "<|message|>";

/// The marks that end a message.
pub(in crate::parsers) const BOUNDARIES: [&str; 3] = ["<|start|>", "<|eom|>", "<|eot|>"];

/// A head longer than this is none.
const MAX_HEAD: usize = 1024;

/// A call longer than this is none.
const MAX_CALL: usize = 1024 * 1024;

/// A dialect of such messages, as data.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Messages {
    /// What a message to somebody is: `Think`, `Content`, `Body` for calls, `Between` for what nobody shall see.
    pub(in crate::parsers) addressed: fn(Option<&str>) -> Mode,
    /// Says the calls that are complete and returns how much of the text they were.
    pub(in crate::parsers) calls: fn(&str, &mut Output<'_>) -> usize,
    /// What ends a call.
    pub(in crate::parsers) end_call: &'static str,
    /// What may stand around calls.
    pub(in crate::parsers) around: &'static [&'static str],
}

impl Messages {
    /// Looks the marks up in a vocabulary.
    pub(in crate::parsers) fn compile(&'static self, setup: &Setup<'_>) -> Box<dyn ReadTools> {
        let marks = || std::iter::once(MESSAGE).chain(BOUNDARIES);
        let literals = Literals::new(marks().zip(0..).map(|(mark, id)| (mark.to_owned(), id)));
        let in_prompt = marks().map(|mark| setup.vocabulary.ids.get(mark).copied()).collect();
        Box::new(Compiled { messages: self, literals, in_prompt, always: setup.beside_reasoning })
    }

    /// Says text between calls, unless it is nothing.
    pub(in crate::parsers) fn aside(&self, text: &str, out: &mut Output<'_>) {
        if !self.is_nothing(text) {
            out.content(text);
        }
    }

    /// Says what was to be a call, unless it is nothing.
    pub(in crate::parsers) fn give_back(&self, text: &str, out: &mut Output<'_>) {
        if !self.is_nothing(text) {
            out.give_back(text);
        }
    }

    fn is_nothing(&self, text: &str) -> bool {
        let bare = self.around.iter().fold(text.to_owned(), |text, mark| text.replace(mark, ""));
        bare.trim().is_empty()
    }
}

/// The messages of one vocabulary. Of its memory, `mode` is `Preamble` outside of messages, `spoken` says that there are
/// frames, `name` has the text of a call, and `blank` the white space that was said last.
#[derive(Debug)]
struct Compiled {
    messages: &'static Messages,
    literals: Literals,
    /// The tokens of the marks; the first ends a head.
    in_prompt: Vec<Option<u32>>,
    /// A reasoning half was configured: frames are never content.
    always: bool,
}

const HEAD_END: MarkId = 0;

impl ReadTools for Compiled {
    /// A message that the prompt began is one of reasoning.
    fn start(&self, context: &Context) -> ToolMemory {
        let opened = self.opened_by_prompt(context);
        let mode = if opened { Mode::Think } else { Mode::Preamble };
        ToolMemory { mode, spoken: opened, ..ToolMemory::default() }
    }

    fn read(&self, memory: &mut ToolMemory, token: Token<'_>, out: &mut Output<'_>) {
        out.note(token.text);
        self.text(memory, token.text, false, out);
    }

    fn finish(&self, memory: &mut ToolMemory, out: &mut Output<'_>) {
        self.text(memory, "", true, out);
        self.end_message(memory, "", out);
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

impl Compiled {
    fn opened_by_prompt(&self, context: &Context) -> bool {
        let mut ids = context.prompt_token_ids.iter().rev().map(|id| Some(*id));
        let last = ids.find(|id| self.in_prompt.contains(id));
        last.is_some_and(|id| self.in_prompt.first() == Some(&id))
    }

    /// Reads text; what may become a mark or a head is kept. With `last` no text follows.
    fn text(&self, memory: &mut ToolMemory, text: &str, last: bool, out: &mut Output<'_>) {
        let mut held = std::mem::take(&mut memory.held);
        held.push_str(text);
        let mut rest = held.as_str();
        let border = loop {
            match self.literals.find(rest, last) {
                Found::Mark { at, len, mark } => {
                    let (before, after) = rest.split_at(at);
                    let (literal, after) = after.split_at(len);
                    self.mark(memory, before, (mark, literal), out);
                    rest = after;
                }
                Found::Maybe { at } => break at,
                Found::Nothing => break rest.len(),
            }
        };
        let said = self.unmarked(memory, rest.split_at(border).0, last, out);
        let kept = rest.len() - said;
        held.drain(..held.len() - kept);
        memory.held = held;
    }

    /// Says what cannot become a head, of text without marks; returns how much that is.
    fn unmarked(&self, memory: &mut ToolMemory, text: &str, last: bool, out: &mut Output<'_>) -> usize {
        if memory.mode == Mode::Preamble {
            if may_be_head(text) && (memory.spoken || !last) {
                return if last { text.len() } else { 0 };
            }
            memory.mode = Mode::Content;
        }
        let solid = if last { text.len() } else { solid(text, !memory.blank.is_empty()) };
        self.say(memory, text.split_at(solid).0, out);
        solid
    }

    fn mark(&self, memory: &mut ToolMemory, before: &str, (mark, literal): (MarkId, &str), out: &mut Output<'_>) {
        let mut to = None;
        if memory.mode == Mode::Preamble && may_be_head(before) {
            to = before.split_once("to=").map(|(_, name)| name.trim()).filter(|name| !name.is_empty());
        } else {
            if memory.mode == Mode::Preamble {
                memory.mode = Mode::Content;
            }
            let body = match addressee(before, !memory.blank.is_empty()).filter(|_| mark == HEAD_END) {
                Some((body, name)) => {
                    to = Some(name);
                    body
                }
                None => before,
            };
            self.say(memory, body, out);
        }
        self.end_message(memory, if mark == HEAD_END { "" } else { literal }, out);
        memory.spoken = true;
        if mark == HEAD_END {
            self.begin_message(memory, to, out);
        }
    }

    fn begin_message(&self, memory: &mut ToolMemory, to: Option<&str>, out: &mut Output<'_>) {
        memory.mode = (self.messages.addressed)(to);
        if memory.mode == Mode::Body && !may_call(out) {
            out.content("to=");
            out.content(to.unwrap_or_default());
            out.content(MESSAGE);
        }
    }

    /// A message ends, by this mark, by another head, or with the reply.
    fn end_message(&self, memory: &mut ToolMemory, mark: &str, out: &mut Output<'_>) {
        if memory.mode == Mode::Body {
            self.messages.give_back(&std::mem::take(&mut memory.name), out);
            if !may_call(out) {
                out.content(mark);
            }
        }
        memory.blank.clear();
        memory.mode = Mode::Preamble;
    }

    fn say(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        match memory.mode {
            Mode::Think => out.events.push_reasoning_text(text),
            Mode::Body if may_call(out) => self.calls(memory, text, out),
            Mode::Content | Mode::Body => out.content(text),
            Mode::Preamble | Mode::Between | Mode::Name | Mode::Start => {}
        }
        if let Some(last) = text.chars().next_back() {
            memory.blank.clear();
            memory.blank.extend(Some(last).filter(|last| last.is_whitespace()));
        }
    }

    /// Says every call that is complete.
    fn calls(&self, memory: &mut ToolMemory, text: &str, out: &mut Output<'_>) {
        let seen = memory.name.len().saturating_sub(self.messages.end_call.len());
        memory.name.push_str(text);
        let from = (0..=seen).rev().find(|at| memory.name.is_char_boundary(*at)).unwrap_or(0);
        if memory.name.split_at(from).1.contains(self.messages.end_call) {
            let read = (self.messages.calls)(&memory.name, out);
            memory.name.drain(..read);
        }
        if memory.name.len() > MAX_CALL {
            self.messages.give_back(&std::mem::take(&mut memory.name), out);
        }
    }
}

/// Calls may come; else their messages are content, frames and all.
fn may_call(out: &Output<'_>) -> bool {
    out.context.tool_choice != ToolChoice::None
}

/// Whether a text may begin a message's head: `assistant`, `to=NAME`, both or neither, with white space around.
fn may_be_head(text: &str) -> bool {
    if text.len() > MAX_HEAD {
        return false;
    }
    let text = text.trim_start();
    let text = match text.strip_prefix("assistant") {
        Some(rest) => rest.trim_start(),
        None if "assistant".starts_with(text) => return true,
        None => text,
    };
    match text.strip_prefix("to=") {
        Some(name) => !name.trim_end().contains(|char: char| char.is_whitespace() || char == '<'),
        None => "to=".starts_with(text),
    }
}

/// The last word of a text and where it begins, if white space is before it: in the text, or said before.
fn last_word(text: &str, after_blank: bool) -> Option<(usize, &str)> {
    match text.rfind(char::is_whitespace) {
        Some(at) => {
            let (_, rest) = text.split_at(at);
            Some((at, rest.trim_start()))
        }
        None => after_blank.then_some((0, text)),
    }
}

/// A text that ends in a bare `to=NAME`: what stands before, and the name.
fn addressee(text: &str, after_blank: bool) -> Option<(&str, &str)> {
    let (_, word) = last_word(text, after_blank)?;
    let name = word.strip_prefix("to=").filter(|name| !name.is_empty() && is_name(name))?;
    Some((text.split_at(text.len() - word.len()).0, name))
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_HEAD && !text.contains('<')
}

/// How much of a text cannot become a bare `to=NAME`. The white space before it waits, too, as in vLLM.
fn solid(text: &str, after_blank: bool) -> usize {
    match last_word(text, after_blank) {
        Some((at, "t" | "to")) => at,
        Some((at, word)) if word.strip_prefix("to=").is_some_and(is_name) => at,
        _ => text.len(),
    }
}
