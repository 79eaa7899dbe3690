//! Arguments that are the body itself: JSON that goes out as the model wrote it, `{"city": "Paris"}`.
//!
//! White space around it is dropped.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;

/// White space, or what follows the last brace, that is kept back at most.
const MAX_HELD: usize = 1024;

/// How raw arguments behave.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Raw {
    /// The brace that closes the arguments waits for what follows, as in vLLM's engine.
    pub(in crate::parsers) holds_brace: bool,
    /// What stands for no arguments at all.
    pub(in crate::parsers) empty: &'static str,
}

/// Where the arguments stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct RawMemory {
    #[serde(rename = "d", skip_serializing_if = "is_default")]
    depth: u32,
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    in_string: bool,
    #[serde(rename = "e", skip_serializing_if = "is_default")]
    escaped: bool,
    /// Something was said.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    begun: bool,
    /// Said only if more follows, but for the brace in it.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    held: String,
}

impl RawMemory {
    /// Follows the JSON; true after a brace that closes all others.
    fn closes(&mut self, byte: u8) -> bool {
        if self.in_string {
            let quote = byte == b'"' && !self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            self.in_string = !quote;
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

impl Raw {
    pub(super) fn read(&self, memory: &mut RawMemory, text: &str, out: &mut Output<'_>) {
        let text = if memory.begun { text } else { text.trim_start() };
        let said = self.solid(memory, text);
        let (said, held) = text.split_at(said);
        if !said.is_empty() {
            memory.begun = true;
            out.arguments(&std::mem::take(&mut memory.held));
            out.arguments(said);
        }
        memory.held.push_str(held);
        memory.begun |= !memory.held.is_empty();
        if memory.held.len() > MAX_HELD {
            out.arguments(&std::mem::take(&mut memory.held));
        }
    }

    /// How much of the text is more than white space around the JSON, and the closing brace.
    fn solid(&self, memory: &mut RawMemory, text: &str) -> usize {
        let mut solid = 0;
        for (at, char) in text.char_indices() {
            let closes = char.is_ascii() && memory.closes(char as u8);
            let inside = memory.in_string || memory.depth > 0;
            if inside || !(char.is_whitespace() || closes && self.holds_brace) {
                solid = at + char.len_utf8();
            }
        }
        solid
    }

    /// The call ends, by a mark or at the end of the reply.
    pub(super) fn end(&self, memory: &RawMemory, out: &mut Output<'_>) {
        out.arguments(if memory.begun { memory.held.trim_end() } else { self.empty });
    }
}
