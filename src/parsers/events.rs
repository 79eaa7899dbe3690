//! What a chunk says: reasoning, content, and calls, in buffers that are used again for the next chunk.

use std::ops::Range;

use super::{Fallback, Fallbacks};

/// One part of what a chunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// More reasoning; may be empty.
    Reasoning(&'a str),
    /// More content; may be empty.
    Content(&'a str),
    /// A tool call begins or goes on.
    Call(CallDelta<'a>),
}

/// One entry of `delta.tool_calls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallDelta<'a> {
    /// Position among the reply's calls, from 0.
    pub index: usize,
    /// Where the call begins: its id and the function's name.
    pub head: Option<(&'a str, &'a str)>,
    /// A piece of the arguments' JSON text; may be empty.
    pub arguments: Option<&'a str>,
    /// The entry says that the call is of a function; where a call begins, it always does.
    pub typed: bool,
}

#[derive(Debug, Clone)]
struct Item {
    index: usize,
    head: Option<(Range<usize>, Range<usize>)>,
    arguments: Option<Range<usize>>,
}

/// Text that is absent, empty, or not.
#[derive(Debug, Clone, Default)]
struct Text {
    present: bool,
    text: String,
    /// How much of it was rewritten.
    polished: usize,
}

/// The events of one chunk. Text of one kind is joined: a chunk becomes one delta. Clear it and use it again.
#[derive(Debug, Clone, Default)]
pub struct Events {
    reasoning: Text,
    content: Text,
    call_text: String,
    joined: bool,
    typed: bool,
    apart: bool,
    fallbacks: Fallbacks,
    hidden: bool,
    calls: Vec<Item>,
}

impl Events {
    /// Forgets all events and keeps the memory.
    pub fn clear(&mut self) {
        self.reasoning.clear();
        self.content.clear();
        self.call_text.clear();
        self.calls.clear();
        self.fallbacks = Fallbacks::default();
        self.apart = false;
        self.hidden = false;
    }

    /// True where nothing was emitted, not even empty text.
    pub fn is_empty(&self) -> bool {
        !self.reasoning.present && !self.content.present && self.calls.is_empty()
    }

    /// `delta.reasoning`; `Some("")` where vLLM sends an empty string.
    pub fn reasoning(&self) -> Option<&str> {
        self.reasoning.get()
    }

    /// `delta.content`; `Some("")` where vLLM sends an empty string.
    pub fn content(&self) -> Option<&str> {
        self.content.get()
    }

    /// `delta.tool_calls`, entry by entry. Whether a call's head and its first arguments share an entry or follow each
    /// other in two is the dialect's choice and already made here.
    pub fn calls(&self) -> impl Iterator<Item = CallDelta<'_>> {
        self.calls.iter().map(|item| CallDelta {
            index: item.index,
            head: item.head.as_ref().map(|(id, name)| (self.get(id), self.get(name))),
            arguments: item.arguments.as_ref().map(|range| self.get(range)),
            typed: item.head.is_some() || self.typed,
        })
    }

    /// What looked like a call and is content.
    pub fn fallbacks(&self) -> Fallbacks {
        self.fallbacks
    }

    /// Everything: reasoning, content, then the calls.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        let reasoning = self.reasoning().map(Event::Reasoning);
        let content = self.content().map(Event::Content);
        reasoning.into_iter().chain(content).chain(self.calls().map(Event::Call))
    }

    /// Adds reasoning; empty text makes it present all the same.
    pub(crate) fn push_reasoning(&mut self, text: &str) {
        self.reasoning.push(text);
    }

    /// Adds content; empty text makes it present all the same.
    pub(crate) fn push_content(&mut self, text: &str) {
        self.content.push(text);
    }

    /// Takes the reasoning away (`include_reasoning: false`).
    pub fn drop_reasoning(&mut self) {
        self.reasoning.clear();
    }

    /// Keeps the calls that `keep` accepts by their position.
    pub fn retain_calls(&mut self, keep: impl Fn(usize) -> bool) {
        self.calls.retain(|item| keep(item.index));
    }

    /// Gives a call that begins here another id.
    pub fn rename_call(&mut self, index: usize, id: &str) {
        let start = self.call_text.len();
        let heads = self.calls.iter_mut().filter(|item| item.index == index).filter_map(|item| item.head.as_mut());
        for head in heads {
            head.0 = start..start + id.len();
        }
        self.call_text.push_str(id);
    }

    /// Adds reasoning, unless there is none.
    pub(super) fn push_reasoning_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push_reasoning(text);
        }
    }

    /// Rewrites the reasoning that was added since the last time; none is left where that makes it empty.
    pub(super) fn polish_reasoning(&mut self, rewrite: impl FnOnce(&str) -> String) {
        self.reasoning.polish(rewrite);
    }

    /// The same for content.
    pub(super) fn polish_content(&mut self, rewrite: impl FnOnce(&str) -> String) {
        self.content.polish(rewrite);
    }

    /// Notes that a call said something that nobody shall see.
    pub(super) fn hide(&mut self) {
        self.hidden = true;
    }

    /// True where nothing was said, not even by a call that is hidden.
    pub(super) fn is_silent(&self) -> bool {
        self.is_empty() && !self.hidden
    }

    /// Notes that what looked like a call is content.
    pub(super) fn push_fallback(&mut self, reason: Fallback) {
        self.fallbacks.add(reason);
    }

    /// Begins a call.
    pub(super) fn push_call(&mut self, index: usize, id: &str, name: &str) {
        let head = Some((self.push(id), self.push(name)));
        self.calls.push(Item { index, head, arguments: None });
    }

    /// From here on a call's head and its arguments share an entry, or not.
    pub(super) fn join(&mut self, joined: bool) {
        self.joined = joined;
    }

    /// From here on every entry says its type, or only those where a call begins.
    pub(super) fn type_entries(&mut self, typed: bool) {
        self.typed = typed;
    }

    /// What is next added to the arguments has an entry of its own.
    pub(super) fn set_apart(&mut self) {
        self.apart = true;
    }

    /// Adds to the arguments of a call; empty text makes them present all the same.
    pub(super) fn push_arguments(&mut self, index: usize, text: &str) {
        self.push_arguments_with(index, |out| out.push_str(text));
    }

    /// Adds what is written to the arguments of a call.
    pub(super) fn push_arguments_with(&mut self, index: usize, write: impl FnOnce(&mut String)) {
        let start = self.call_text.len();
        write(&mut self.call_text);
        let end = self.call_text.len();
        let apart = std::mem::take(&mut self.apart);
        match self.calls.last_mut().filter(|last| last.index == index && !apart) {
            Some(Item { arguments: Some(before), .. }) if before.end == start => before.end = end,
            Some(Item { arguments: before @ None, .. }) if self.joined => *before = Some(start..end),
            _ => self.calls.push(Item { index, head: None, arguments: Some(start..end) }),
        }
    }

    fn push(&mut self, text: &str) -> Range<usize> {
        let start = self.call_text.len();
        self.call_text.push_str(text);
        start..self.call_text.len()
    }

    #[expect(clippy::string_slice, reason = "ranges are made by push alone, from whole strings")]
    fn get(&self, range: &Range<usize>) -> &str {
        &self.call_text[range.clone()]
    }
}

impl Text {
    fn clear(&mut self) {
        self.present = false;
        self.text.clear();
        self.polished = 0;
    }

    fn polish(&mut self, rewrite: impl FnOnce(&str) -> String) {
        let added = self.text.split_off(self.polished);
        self.text.push_str(&rewrite(&added));
        self.polished = self.text.len();
        self.present = !self.text.is_empty();
    }

    fn push(&mut self, text: &str) {
        self.present = true;
        self.text.push_str(text);
    }

    fn get(&self) -> Option<&str> {
        self.present.then_some(self.text.as_str())
    }
}
