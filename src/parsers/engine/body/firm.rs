//! JSON arguments as some of vLLM's parsers let them go: at the end of a chunk, what a lenient reader of what there is so far
//! would write down, without what closes it.
//!
//! A key waits for its value, a number or a word for its end, and the quote or bracket that closes a value for what follows.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use super::nesting::{Nesting, Spot};

/// What waits and is longer than this goes out.
const MAX_HELD: usize = 256 * 1024;

/// Nesting that is followed at most.
const MAX_DEPTH: usize = 1024;

/// Where the arguments stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct FirmMemory {
    /// Open braces and brackets, outermost first.
    #[serde(rename = "d", skip_serializing_if = "is_default")]
    stack: String,
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: Nesting,
    /// The next string, or the one being read, is a key.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: bool,
    /// In a number, or a word like `true`.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    word: bool,
    /// What waits.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    held: String,
    /// How much of that a reader would write down.
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    read: usize,
}

impl FirmMemory {
    pub(super) fn read(&mut self, text: &str, out: &mut Output<'_>) {
        for char in text.chars() {
            match self.json.follow_char(char) {
                Spot::Inside | Spot::Unquote => self.string(char),
                _ => self.structure(char),
            }
        }
        if self.held.len() > MAX_HELD {
            self.end(out);
        }
    }

    /// A chunk ends.
    pub(super) fn end_chunk(&mut self, out: &mut Output<'_>) {
        let Some((read, _)) = self.held.split_at_checked(self.read) else { return self.end(out) };
        let firm = read.trim_end_matches(['"', ']', '}', ' ']).len();
        out.arguments(self.held.split_at(firm).0);
        self.held.drain(..firm);
        self.read -= firm;
    }

    /// The arguments are complete, or were cut.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        out.arguments(&self.held);
        self.held.clear();
        self.read = 0;
    }

    fn string(&mut self, char: char) {
        self.held.push(char);
        if !self.key && !self.json.escaped {
            self.read = self.held.len();
        }
    }

    fn structure(&mut self, char: char) {
        let delimits = matches!(char, '}' | ']' | ',' | ' ' | '\t' | '\n' | '\r');
        if self.word && delimits {
            self.read = self.held.len();
        }
        self.word = !delimits && !matches!(char, '"' | '{' | '[' | ':');
        match char {
            '{' | '[' if self.stack.len() < MAX_DEPTH => self.stack.push(char),
            '}' | ']' => drop(self.stack.pop()),
            _ => {}
        }
        self.held.push(char);
        let literal = self.word && ["true", "false", "null"].iter().any(|word| self.held.ends_with(word));
        if literal || matches!(char, '{' | '[' | '}' | ']') || char == '"' && !self.key {
            self.read = self.held.len();
        }
        if matches!(char, '{' | '[' | ',' | ':' | '}' | ']') {
            self.key = matches!(char, '{' | ',') && self.stack.ends_with('{');
        }
    }
}
