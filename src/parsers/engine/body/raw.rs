//! Arguments that are the body itself: JSON that goes out as the model wrote it, `{"city": "Paris"}`.
//!
//! White space around it is dropped.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use super::nesting::{Nesting, Spot};

/// White space, or what follows the last brace, that is kept back at most.
const MAX_HELD: usize = 1024;

/// How raw arguments behave.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Raw {
    /// The brace that closes the arguments waits for what follows, as in vLLM's engine.
    pub(in crate::parsers) holds_brace: bool,
    /// What stands for no arguments at all.
    pub(in crate::parsers) empty: &'static str,
    /// They end with the brace that closes them; what follows is none of them.
    pub(in crate::parsers) closes: bool,
}

impl Raw {
    /// Up to a mark.
    pub(in crate::parsers) const PLAIN: Self = Self { holds_brace: false, empty: "", closes: false };

    /// Up to a mark, as vLLM's engine sends them.
    pub(in crate::parsers) const HELD: Self = Self { holds_brace: true, empty: "{}", closes: false };
}

/// Where the arguments stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct RawMemory {
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: Nesting,
    /// Something was said.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    begun: bool,
    /// Said only if more follows, but for the brace in it.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    held: String,
    /// The brace that closes them was read.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    closed: bool,
    /// Something follows that brace.
    #[serde(rename = "o", skip_serializing_if = "is_default")]
    over: bool,
}

impl RawMemory {
    /// They ended, and something follows.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }
}

/// True after a brace or a bracket that closes all others.
fn closes(json: &mut Nesting, char: char) -> bool {
    json.follow_char(char) == Spot::Close && json.depth == 0
}

impl Raw {
    /// Reads more; returns what follows arguments that ended.
    pub(super) fn read<'t>(&self, memory: &mut RawMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        if !self.closes {
            self.follow(memory, text, out);
            return "";
        }
        let (inside, rest) = text.split_at(self.inside(memory, text));
        self.follow(memory, inside, out);
        memory.over = !rest.is_empty();
        rest
    }

    /// How much of the text belongs to arguments that end with their brace, white space behind it included.
    fn inside(&self, memory: &RawMemory, text: &str) -> usize {
        let RawMemory { mut json, mut closed, .. } = *memory;
        for (at, char) in text.char_indices() {
            if closed && !char.is_whitespace() {
                return at;
            }
            closed |= closes(&mut json, char) && char == '}';
        }
        text.len()
    }

    fn follow(&self, memory: &mut RawMemory, text: &str, out: &mut Output<'_>) {
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
            let closes = closes(&mut memory.json, char);
            memory.closed |= closes && char == '}';
            let inside = memory.json.in_string || memory.json.depth > 0;
            if inside || !(char.is_whitespace() || closes && self.holds_brace) {
                solid = at + char.len_utf8();
            }
        }
        solid
    }

    /// The call ends, by a mark or at the end of the reply.
    pub(super) fn end(&self, memory: &RawMemory, out: &mut Output<'_>) {
        let solid = memory.held.trim_end();
        out.arguments(if memory.begun { solid } else { self.empty });
        if memory.over {
            out.content(memory.held.split_at(solid.len()).1);
        }
    }
}
