//! Where the tool half puts what it reads: events for the client and, for a whole answer, a record of the raw text.

use std::ops::Range;

use crate::parsers::{Context, Events, ToolChoice, ids};

/// The sink of one chunk.
#[derive(Debug)]
pub(in crate::parsers) struct Output<'a> {
    pub(in crate::parsers) context: &'a Context,
    pub(in crate::parsers) events: &'a mut Events,
    /// Calls announced so far.
    pub(in crate::parsers) calls: &'a mut usize,
    /// Present where a whole answer is made.
    pub(in crate::parsers) record: Option<&'a mut Record>,
}

/// The raw text of the tool half and where calls stand in it.
#[derive(Debug, Default)]
pub(in crate::parsers) struct Record {
    text: String,
    bodies: Vec<Range<usize>>,
    open: Option<usize>,
}

impl Output<'_> {
    /// Says reasoning (dialects whose halves are fused).
    #[allow(dead_code)]
    pub(in crate::parsers) fn reasoning(&mut self, text: &str) {
        self.events.push_reasoning(text);
    }

    /// Says content, unless there is none.
    pub(in crate::parsers) fn content(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push_content(text);
        }
    }

    /// Begins a call.
    pub(in crate::parsers) fn call(&mut self, name: &str) {
        if self.drops_calls() {
            return;
        }
        let index = *self.calls;
        *self.calls += 1;
        if self.hides(index) {
            return;
        }
        let id = ids::random(self.context.id_seed, index);
        self.events.push_call(index, &id, name);
    }

    /// Adds to the arguments of the call begun last, unless there is nothing to add.
    pub(in crate::parsers) fn arguments(&mut self, text: &str) {
        let Some(index) = self.calls.checked_sub(1) else { return };
        if !text.is_empty() && !self.drops_calls() && !self.hides(index) {
            self.events.push_arguments(index, text);
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

    /// `tool_choice: null` reads like `auto` and then drops the calls.
    fn drops_calls(&self) -> bool {
        matches!(self.context.tool_choice, ToolChoice::Null | ToolChoice::None)
    }

    /// `parallel_tool_calls: false` lets only the first call through.
    fn hides(&self, index: usize) -> bool {
        !self.context.parallel_tool_calls && index > 0
    }
}

impl Record {
    /// All raw text of the tool half.
    pub(in crate::parsers) fn text(&self) -> &str {
        &self.text
    }

    /// The raw bodies of the calls.
    pub(in crate::parsers) fn bodies(&self) -> impl Iterator<Item = &str> {
        self.bodies.iter().map(|range| self.text.get(range.clone()).unwrap_or_default())
    }
}
