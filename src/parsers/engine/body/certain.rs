//! JSON arguments as vLLM's engine lets them go: no further than they are certain.
//!
//! A member goes out when the next one's key is complete; before that only a string that the tool's schema leaves a string,
//! as it comes. Any other string is what the schema makes of it.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use super::nesting::{Nesting, Spot};
use crate::parsers::python;
use crate::parsers::schema::{self, Types};

/// What waits and is longer than this goes out.
const MAX_HELD: usize = 256 * 1024;

/// Where the arguments stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct CertainMemory {
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: Nesting,
    /// The last key of the top level, as it is spelled.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: String,
    /// What waits.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    held: String,
    /// Nothing follows.
    #[serde(rename = "z", skip_serializing_if = "is_default")]
    ended: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Before or in a key of the top level.
    #[default]
    #[serde(rename = "k")]
    Key,
    /// Before a value.
    #[serde(rename = "v")]
    Value,
    /// In a string that goes out as it comes.
    #[serde(rename = "s")]
    Streams,
    /// In another value, or behind one.
    #[serde(rename = "w")]
    Waits,
}

impl CertainMemory {
    /// Arguments of this function.
    pub(super) fn of(function: &str) -> Self {
        Self { function: function.to_owned(), ..Self::default() }
    }

    pub(super) fn read(&mut self, text: &str, out: &mut Output<'_>) {
        for char in text.chars() {
            self.char(char, out);
            if self.place == Place::Streams || self.held.len() > MAX_HELD {
                self.flush(out);
            }
        }
    }

    /// The arguments are complete, or were cut. Where there were none, they are an empty object.
    pub(super) fn end(&mut self, out: &mut Output<'_>) {
        let read = self.ended || self.place != Place::Key || self.json.depth > 0 || !self.held.is_empty();
        if !read && !self.function.is_empty() {
            out.arguments("{}");
        }
        self.ended = true;
        self.flush(out);
    }

    fn flush(&mut self, out: &mut Output<'_>) {
        out.arguments(&self.held);
        self.held.clear();
    }

    fn char(&mut self, char: char, out: &mut Output<'_>) {
        let top = self.json.depth == 1;
        match self.json.follow_char(char) {
            Spot::Inside if top && self.place == Place::Key => self.key.push(char),
            Spot::Unquote if self.place == Place::Streams => self.place = Place::Waits,
            Spot::Inside | Spot::Unquote => {}
            Spot::Other if self.place == Place::Value && matches!(char, ' ' | '\t' | '\n' | '\r') => {
                return out.arguments(char.encode_utf8(&mut [0; 4]));
            }
            Spot::Other if top && char == ':' && self.place == Place::Key => {
                self.held.push(char);
                self.place = Place::Value;
                return self.flush(out);
            }
            _ if self.place == Place::Value => {
                self.place = if char == '"' && self.streams(out) { Place::Streams } else { Place::Waits };
            }
            Spot::Quote if top && self.place == Place::Key => self.key.clear(),
            Spot::Close | Spot::Other if top && matches!(char, ',' | '}') && self.place == Place::Waits => {
                self.fit(out);
                self.place = Place::Key;
            }
            _ => {}
        }
        self.held.push(char);
    }

    /// The value can only be a string: its schema says so, or the function has none.
    fn streams(&self, out: &Output<'_>) -> bool {
        let Some(properties) = schema::properties(&out.context.tools, &self.function) else { return true };
        properties.get(&self.key).map_or(Types::UNKNOWN, Types::of).only_string
    }

    /// A value that waited is what the schema makes of it.
    fn fit(&mut self, out: &Output<'_>) {
        let schema = schema::properties(&out.context.tools, &self.function).and_then(|known| known.get(&self.key));
        let Some((schema, value)) = schema.and_then(|schema| Some((schema, python::loads(self.held.trim())?))) else {
            return;
        };
        let fitted = schema::fit(value.clone(), schema);
        if fitted != value {
            self.held = python::dumps(&fitted);
        }
    }
}
