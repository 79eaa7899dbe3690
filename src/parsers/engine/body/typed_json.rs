//! Arguments that are JSON, `{"city": "Paris", "days": "3"}`, with values that the tool's schema corrects while they arrive.
//!
//! As in vLLM's engine a value that can only be a string goes out as it comes, but for its closing quote. Any other value
//! waits for its end, since the schema may make something else of it, and goes out with the next key or the end of the call.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use crate::parsers::{python, schema};

/// A value or a key that waits and is longer than this goes out as the model wrote it.
const MAX_WAITING: usize = 256 * 1024;

/// Where the arguments stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct TypedJsonMemory {
    /// The function.
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    #[serde(rename = "d", skip_serializing_if = "is_default")]
    depth: u32,
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    in_string: bool,
    #[serde(rename = "e", skip_serializing_if = "is_default")]
    escaped: bool,
    /// The key being read, then that of the value being read.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: String,
    /// What waits for the next key: what follows a value, and the key itself.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    waiting: String,
    /// A value that waits for its end.
    #[serde(rename = "v", skip_serializing_if = "is_default")]
    value: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Before the object.
    #[default]
    #[serde(rename = "o")]
    Open,
    /// Between a value and the colon after the next key.
    #[serde(rename = "k")]
    Key,
    /// Before a value.
    #[serde(rename = "b")]
    Before,
    /// In a string that goes out as it comes.
    #[serde(rename = "s")]
    Streams,
    /// In a value that waits for its end.
    #[serde(rename = "v")]
    Waits,
    /// In what is no object, or too long to wait: it goes out as it comes.
    #[serde(rename = "x")]
    Raw,
}

impl TypedJsonMemory {
    /// The arguments of this function begin.
    pub(super) fn of(function: &str) -> Self {
        Self { function: function.to_owned(), ..Self::default() }
    }

    /// Reads more of the arguments.
    pub(super) fn read(&mut self, text: &str, out: &mut Output<'_>) {
        let mut said = String::new();
        for char in text.chars() {
            self.char(char, &mut said, out);
        }
        out.arguments(&said);
    }

    /// The call ends. A value that was cut goes out as it is; no arguments at all are an empty object.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        if self.place == Place::Open {
            out.arguments("{}");
        }
        out.arguments(&std::mem::take(&mut self.waiting));
        out.arguments(&std::mem::take(&mut self.value));
    }

    fn char(&mut self, char: char, said: &mut String, out: &Output<'_>) {
        match self.place {
            Place::Raw => return said.push(char),
            Place::Open if char == '{' => self.place = Place::Key,
            Place::Open if char.is_whitespace() => return said.push(char),
            Place::Open => {
                self.place = Place::Raw;
                return said.push(char);
            }
            Place::Before if !char.is_whitespace() => {
                let streams = char == '"' && schema::is_string(&out.context.tools, &self.function, &self.key);
                self.place = if streams { Place::Streams } else { Place::Waits };
            }
            _ => {}
        }
        let (was_in_string, ended) = self.follow(char);
        match self.place {
            Place::Streams if ended => {
                self.place = Place::Key;
                self.waiting.push(char);
            }
            Place::Streams | Place::Before => said.push(char),
            Place::Waits if ended => {
                self.value(out);
                self.waiting.push(char);
                self.place = Place::Key;
            }
            Place::Waits => self.value.push(char),
            _ => self.between(char, was_in_string, said),
        }
        if self.waiting.len() + self.value.len() > MAX_WAITING {
            said.push_str(&std::mem::take(&mut self.waiting));
            said.push_str(&std::mem::take(&mut self.value));
            self.place = Place::Raw;
        }
    }

    /// Reads a character between two values. The colon after a key lets all out that waited.
    fn between(&mut self, char: char, was_in_string: bool, said: &mut String) {
        self.waiting.push(char);
        match char {
            '"' if !was_in_string => self.key.clear(),
            '"' if !self.in_string => {}
            ':' if !was_in_string && self.depth == 1 => {
                said.push_str(&std::mem::take(&mut self.waiting));
                self.place = Place::Before;
            }
            _ if was_in_string => self.key.push(char),
            _ => {}
        }
    }

    /// Follows the JSON. Says whether the character stands in a string, and whether it ends the value being read: its last
    /// quote where it streams, what stands behind it where it waits.
    fn follow(&mut self, char: char) -> (bool, bool) {
        let was_in_string = self.in_string;
        if was_in_string {
            let quote = char == '"' && !self.escaped;
            self.escaped = char == '\\' && !self.escaped;
            self.in_string = !quote;
            return (true, quote && self.place == Place::Streams);
        }
        match char {
            '"' => self.in_string = true,
            '{' | '[' => self.depth = self.depth.saturating_add(1),
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        let ended = self.depth == 0 || self.depth == 1 && char == ',';
        (false, ended && self.place == Place::Waits)
    }

    /// A value has ended: what the schema makes of it waits for what follows.
    fn value(&mut self, out: &Output<'_>) {
        let value = std::mem::take(&mut self.value);
        let solid = value.trim_end();
        match self.fitted(solid, out) {
            Some(fitted) => {
                self.waiting.push_str(&fitted);
                self.waiting.push_str(value.split_at(solid.len()).1);
            }
            None => self.waiting.push_str(&value),
        }
    }

    /// The value that the schema wants, where it is another than the model's.
    fn fitted(&self, text: &str, out: &Output<'_>) -> Option<String> {
        let schema = schema::of_parameter(&out.context.tools, &self.function, &self.key)?;
        let value = python::loads(text)?;
        let fitted = schema::fit(value.clone(), schema);
        (fitted != value).then(|| python::dumps(&fitted))
    }
}
