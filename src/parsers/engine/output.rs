//! Where the tool half puts what it reads: events for the client and, for a whole answer, a record of the raw text.

use std::ops::Range;

use crate::parsers::python::quote_into;
use crate::parsers::{Context, Events, Fallback, ToolChoice, ids};

/// The sink of one chunk.
#[derive(Debug)]
pub(in crate::parsers) struct Output<'a> {
    pub(in crate::parsers) context: &'a Context,
    pub(in crate::parsers) events: &'a mut Events,
    /// Calls announced so far.
    pub(in crate::parsers) calls: &'a mut usize,
    /// Present where a whole answer is made.
    pub(in crate::parsers) record: Option<&'a mut Record>,
    /// The model numbers its calls.
    pub(in crate::parsers) numbered: bool,
    /// Nothing follows: what is open was cut.
    pub(in crate::parsers) ends: bool,
}

/// The raw text of the tool half and where calls stand in it.
#[derive(Debug, Default)]
pub(in crate::parsers) struct Record {
    text: String,
    bodies: Vec<Range<usize>>,
    open: Option<usize>,
    /// How much content was said before the first call.
    content_before_calls: Option<usize>,
    /// The last call was open when the reply ended; whether it was announced.
    unclosed: Option<bool>,
}

/// What the id of a call looks like.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) enum Ids {
    /// Random, whatever the model.
    Random,
    /// Random, but `functions.NAME:INDEX` for models that number their calls.
    OfModel,
    /// The call's number in the reply.
    Index,
    /// `call_INDEX_…`.
    Counted,
    /// Nine letters and digits.
    Nine,
    /// `call_` and random digits.
    Call,
    /// As the model spelled it, before the name: the id and the name in a call's head, or `None` if that is no head.
    Spelled(fn(&str) -> Option<(&str, &str)>),
    /// Random; the name stands somewhere in the call's head.
    Within(fn(&str) -> Option<&str>),
}

impl Output<'_> {
    /// Says content, unless there is none.
    pub(in crate::parsers) fn content(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push_content(text);
        }
    }

    /// Says as content what was to be a call.
    pub(in crate::parsers) fn give_back(&mut self, text: &str) {
        let reason = if self.ends { Fallback::Unfinished } else { Fallback::Malformed };
        self.give_back_for(reason, text);
    }

    /// The same, for a reason that is known.
    pub(in crate::parsers) fn give_back_for(&mut self, reason: Fallback, text: &str) {
        self.events.push_fallback(reason);
        self.content(text);
    }

    /// Begins a call.
    pub(in crate::parsers) fn call(&mut self, name: &str, ids: Ids) {
        let number = self.context.history_tool_calls.saturating_add(*self.calls);
        let id = match ids {
            Ids::OfModel if self.numbered => ids::numbered(name, number),
            Ids::Index => self.calls.to_string(),
            Ids::Counted => ids::counted(self.context.id_seed, *self.calls),
            Ids::Nine => ids::nine(self.context.id_seed, *self.calls),
            Ids::Call => ids::call(self.context.id_seed, *self.calls),
            _ => ids::random(self.context.id_seed, *self.calls),
        };
        self.call_with(&id, name);
    }

    /// Begins a call that has an id.
    pub(in crate::parsers) fn call_with(&mut self, id: &str, name: &str) {
        if let Some(record) = &mut self.record {
            let said = self.events.content().map_or(0, str::len);
            record.content_before_calls.get_or_insert(said);
        }
        if self.drops_calls() {
            return;
        }
        let index = *self.calls;
        *self.calls = self.calls.saturating_add(1);
        match self.hides(index) {
            true => self.events.hide(),
            false => self.events.push_call(index, id, name),
        }
    }

    /// Adds to the arguments of the call begun last, unless there is nothing to add.
    pub(in crate::parsers) fn arguments(&mut self, text: &str) {
        if !text.is_empty() {
            self.even_empty_arguments(text);
        }
    }

    /// Adds to the arguments of the call begun last; empty text is sent as such.
    pub(in crate::parsers) fn even_empty_arguments(&mut self, text: &str) {
        match self.open_call() {
            Some(index) => self.events.push_arguments(index, text),
            None if !self.drops_calls() => self.events.hide(),
            None => {}
        }
    }

    /// Adds text to the arguments as it stands inside a JSON string.
    pub(in crate::parsers) fn quoted(&mut self, text: &str) {
        if let Some(index) = self.open_call().filter(|_| !text.is_empty()) {
            self.events.push_arguments_with(index, |out| quote_into(text, out));
        }
    }

    /// Notes raw text in the order in which it is read.
    pub(in crate::parsers) fn note(&mut self, text: &str) {
        if let Some(record) = &mut self.record {
            record.text.push_str(text);
        }
    }

    /// Notes that the body of a call begins here.
    pub(in crate::parsers) fn note_body(&mut self) {
        if let Some(record) = &mut self.record {
            record.open = Some(record.text.len());
        }
    }

    /// Notes that the body ended here.
    pub(in crate::parsers) fn note_body_end(&mut self) {
        if let Some(record) = &mut self.record
            && let Some(start) = record.open.take()
        {
            record.bodies.push(start..record.text.len());
        }
    }

    /// Notes that what began like a body was none.
    pub(in crate::parsers) fn forget_body(&mut self) {
        if let Some(record) = &mut self.record {
            record.open = None;
        }
    }

    /// Notes that the open call never ended.
    pub(in crate::parsers) fn note_unclosed(&mut self, announced: bool) {
        if let Some(record) = &mut self.record {
            record.unclosed = Some(announced);
        }
    }

    fn open_call(&self) -> Option<usize> {
        self.calls.checked_sub(1).filter(|index| !self.drops_calls() && !self.hides(*index))
    }

    /// `tool_choice: null` reads like `auto` and then drops the calls. A whole answer drops them only in the end.
    fn drops_calls(&self) -> bool {
        self.record.is_none() && matches!(self.context.tool_choice, ToolChoice::Null | ToolChoice::None)
    }

    /// `parallel_tool_calls: false` lets only the first call through. A whole answer hides the others only in the end.
    fn hides(&self, index: usize) -> bool {
        self.record.is_none() && !self.context.parallel_tool_calls && index > 0
    }
}

impl Record {
    /// All raw text of the tool half.
    pub(in crate::parsers) fn text(&self) -> &str {
        &self.text
    }

    /// Content without the white space that is all there is after the first call.
    pub(in crate::parsers) fn without_blank_after_calls(&self, content: String) -> String {
        let before = self.content_before_calls.and_then(|len| content.split_at_checked(len));
        match before {
            Some((before, after)) if after.trim().is_empty() => before.to_owned(),
            _ => content,
        }
    }

    /// Why no call came of what was begun.
    pub(in crate::parsers) fn fallback(&self) -> Fallback {
        if self.is_cut() { Fallback::Unfinished } else { Fallback::Malformed }
    }

    /// True where the reply ended in a call.
    pub(in crate::parsers) fn is_cut(&self) -> bool {
        self.unclosed.is_some()
    }

    /// True where the last call was announced and never ended.
    pub(in crate::parsers) fn is_unclosed(&self) -> bool {
        self.unclosed == Some(true)
    }

    /// The raw bodies of the calls that ended.
    pub(in crate::parsers) fn closed_bodies(&self) -> impl Iterator<Item = &str> {
        let closed = self.bodies.len() - usize::from(self.unclosed.is_some() && !self.bodies.is_empty());
        self.bodies().take(closed)
    }

    /// The raw bodies of the calls.
    pub(in crate::parsers) fn bodies(&self) -> impl Iterator<Item = &str> {
        self.bodies.iter().map(|range| self.text.get(range.clone()).unwrap_or_default())
    }
}
