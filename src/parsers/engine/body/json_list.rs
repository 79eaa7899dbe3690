//! A list of calls that are JSON objects, `[{"name": "f", "arguments": {…}}, …]`.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use super::{BodyMemory, JsonCall, JsonCallMemory};

/// White space before a list that is kept at most, to be given back if no list follows.
const MAX_LEAD: usize = 1024;

/// A list of calls.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct JsonList {
    pub(in crate::parsers) call: JsonCall,
    /// One object without a list around it is a call, too.
    pub(in crate::parsers) single: bool,
}

/// Where the list stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct JsonListMemory {
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    /// What was read before the first call.
    #[serde(rename = "l", skip_serializing_if = "is_default")]
    lead: String,
    /// A call was begun.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    begun: bool,
    /// There is no list around the call.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    single: bool,
    /// The call being read.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    call: JsonCallMemory,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Before the list.
    #[default]
    #[serde(rename = "o")]
    Open,
    /// Between calls.
    #[serde(rename = "b")]
    Between,
    /// In a call.
    #[serde(rename = "c")]
    Call,
    /// After the list, or after what is no list.
    #[serde(rename = "e")]
    End,
}

impl JsonListMemory {
    /// A list that this mark begins.
    pub(super) fn begin(mark: &str) -> Self {
        Self { lead: mark.to_owned(), ..Self::default() }
    }

    /// The list is complete, or is none.
    pub(super) fn is_over(&self) -> bool {
        self.place == Place::End
    }

    /// There was a call in it.
    pub(super) fn is_begun(&self) -> bool {
        self.begun
    }
}

impl JsonList {
    pub(in crate::parsers) fn begin(&self) -> BodyMemory {
        BodyMemory::JsonList(Box::default())
    }

    /// Reads more of the list; returns what follows it, or what is no list.
    pub(in crate::parsers) fn read<'t>(
        &self,
        memory: &mut JsonListMemory,
        text: &'t str,
        out: &mut Output<'_>,
    ) -> &'t str {
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            match (memory.place, char) {
                (Place::End, _) => return rest,
                (Place::Call, _) => rest = self.read_call(memory, rest, out),
                (Place::Open | Place::Between, '{') if memory.place == Place::Between || self.single => {
                    memory.single = memory.place == Place::Open;
                    self.call.finish(&mut memory.call, out);
                    memory.call = JsonCallMemory::begin(&std::mem::take(&mut memory.lead));
                    memory.place = Place::Call;
                }
                _ => {
                    self.structure(memory, char);
                    if memory.place == Place::End && char != ']' {
                        return rest;
                    }
                    rest = rest.split_at(char.len_utf8()).1;
                }
            }
        }
        rest
    }

    fn read_call<'t>(&self, memory: &mut JsonListMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let rest = self.call.read(&mut memory.call, text, out);
        memory.call.settle(out);
        memory.begun |= memory.call.is_begun();
        if memory.call.is_over() {
            let goes_on = memory.call.is_closed() && memory.call.is_begun() && !memory.single;
            memory.place = if goes_on { Place::Between } else { Place::End };
        }
        rest
    }

    /// Reads one character between calls.
    fn structure(&self, memory: &mut JsonListMemory, char: char) {
        memory.place = match (memory.place, char) {
            (Place::Open, '[') => Place::Between,
            (place, ' ' | '\t' | '\n' | '\r') if memory.lead.len() < MAX_LEAD => place,
            (Place::Between, ',') => Place::Between,
            _ => Place::End,
        };
        if memory.place != Place::End {
            memory.lead.push(char);
        } else if !memory.begun {
            let closed = if char == ']' { "]" } else { "" };
            memory.call = JsonCallMemory::spoilt(std::mem::take(&mut memory.lead) + closed);
        }
        if memory.begun {
            memory.lead.clear();
        }
    }

    /// A chunk ends.
    pub(super) fn end_chunk(&self, memory: &mut JsonListMemory, out: &mut Output<'_>) {
        self.call.end_chunk(&mut memory.call, out);
    }

    /// Keeps text of what is no list, to be given back.
    pub(super) fn keep(&self, memory: &mut JsonListMemory, text: &str, out: &mut Output<'_>) {
        if memory.place == Place::End && !memory.begun {
            self.call.keep(&mut memory.call, text, out);
        }
    }

    /// The list ends. Without a call it was none.
    pub(super) fn end(&self, mut memory: JsonListMemory, mark: &str, out: &mut Output<'_>) {
        if !memory.lead.is_empty() && !memory.begun {
            memory.call = JsonCallMemory::spoilt(memory.lead);
        }
        self.call.end(&mut memory.call, mark, out);
    }
}
