//! What a parser emits: a flat list of events over one shared text buffer, so that a token costs no allocation.

use std::ops::Range;

/// One step of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// More reasoning.
    Reasoning(&'a str),
    /// More content.
    Content(&'a str),
    /// A tool call begins.
    Call {
        /// Position among the reply's calls, from 0.
        index: usize,
        /// Id that the client will send back with the result.
        id: &'a str,
        /// The function's name.
        name: &'a str,
    },
    /// More of a call's arguments: a piece of JSON text.
    Arguments {
        /// Which call.
        index: usize,
        /// The piece.
        text: &'a str,
    },
}

#[derive(Debug, Clone)]
enum Item {
    Reasoning(Range<usize>),
    Content(Range<usize>),
    Call { index: usize, id: Range<usize>, name: Range<usize> },
    Arguments { index: usize, text: Range<usize> },
}

/// The events of one chunk, in order. Neighbours of one kind are one event. Clear it and use it again.
#[derive(Debug, Clone, Default)]
pub struct Events {
    text: String,
    items: Vec<Item>,
}

impl Events {
    /// Forgets all events and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.items.clear();
    }

    /// True where nothing was emitted.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds reasoning; empty text adds nothing.
    pub fn reasoning(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let range = self.push(text);
        match self.items.last_mut() {
            Some(Item::Reasoning(last)) if last.end == range.start => last.end = range.end,
            _ => self.items.push(Item::Reasoning(range)),
        }
    }

    /// Adds content; empty text adds nothing.
    pub fn content(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let range = self.push(text);
        match self.items.last_mut() {
            Some(Item::Content(last)) if last.end == range.start => last.end = range.end,
            _ => self.items.push(Item::Content(range)),
        }
    }

    /// Begins a tool call.
    pub fn call(&mut self, index: usize, id: &str, name: &str) {
        let (id, name) = (self.push(id), self.push(name));
        self.items.push(Item::Call { index, id, name });
    }

    /// Adds to the arguments of a call; empty text adds nothing.
    pub fn arguments(&mut self, index: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        let range = self.push(text);
        match self.items.last_mut() {
            Some(Item::Arguments { index: last, text }) if *last == index && text.end == range.start => {
                text.end = range.end;
            }
            _ => self.items.push(Item::Arguments { index, text: range }),
        }
    }

    /// The events in order.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> {
        self.items.iter().map(|item| match item {
            Item::Reasoning(text) => Event::Reasoning(self.get(text)),
            Item::Content(text) => Event::Content(self.get(text)),
            Item::Call { index, id, name } => Event::Call { index: *index, id: self.get(id), name: self.get(name) },
            Item::Arguments { index, text } => Event::Arguments { index: *index, text: self.get(text) },
        })
    }

    fn push(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    #[expect(clippy::string_slice, reason = "ranges are made by push alone, from whole strings")]
    fn get(&self, range: &Range<usize>) -> &str {
        &self.text[range.clone()]
    }
}
