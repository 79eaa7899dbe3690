//! A list of calls that are JSON objects, `[{"name": "f", "arguments": {…}}, …]`.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use super::{BodyMemory, JsonCall, JsonCallMemory};

/// A list of calls.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct JsonList {
    pub(in crate::parsers) call: JsonCall,
}

/// Where the list stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct JsonListMemory {
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
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

impl JsonList {
    pub(in crate::parsers) fn begin(&self) -> BodyMemory {
        BodyMemory::JsonList(Box::default())
    }

    pub(in crate::parsers) fn read(&self, memory: &mut BodyMemory, text: &str, out: &mut Output<'_>) {
        let BodyMemory::JsonList(memory) = memory else { return };
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            match (memory.place, char) {
                (Place::End, _) => return,
                (Place::Call, _) => {
                    rest = self.call.read(&mut memory.call, rest, out);
                    if memory.call.is_closed() {
                        memory.place = Place::Between;
                    } else if !rest.is_empty() {
                        memory.place = Place::End;
                    }
                    continue;
                }
                (Place::Between, '{') => {
                    memory.call = JsonCallMemory::default();
                    memory.place = Place::Call;
                    continue;
                }
                (Place::Open, '[') => memory.place = Place::Between,
                (Place::Open | Place::Between, ' ' | '\t' | '\n' | '\r') | (Place::Between, ',') => {}
                _ => memory.place = Place::End,
            }
            rest = rest.split_at(char.len_utf8()).1;
        }
    }
}
