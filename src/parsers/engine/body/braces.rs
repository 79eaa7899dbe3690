//! Arguments in braces with quotes of their own, `{city:<|"|>Paris<|"|>,days:3}`, made into JSON while they arrive.
//!
//! A string that is an argument goes out as it comes, any other value when it has ended, after its key; what closes it waits for what follows.
//! What the reply's end cuts is closed.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use crate::parsers::python::{self, Json};
use crate::parsers::schema::{self, Types};

/// A key or a bare value that is longer than this is cut.
const MAX_WORD: usize = 64 * 1024;

/// Nesting that is read at most.
const MAX_DEPTH: usize = 64;

/// How values are written.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Braces {
    /// What stands on both sides of a string.
    pub(in crate::parsers) quote: &'static str,
    /// Everything is quoted, and the schema says what it is.
    pub(in crate::parsers) typed: bool,
}

/// Where the arguments stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct BracesMemory {
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    /// Open braces and brackets, outermost first.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    stack: String,
    /// Another value precedes at this level.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    comma: bool,
    /// The key, which waits for its value.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: String,
    /// The string being read waits for its end, since the schema may make something else of it.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    waits: bool,
    /// A value that waits for its end.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    word: String,
    /// JSON that waits for what follows.
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: String,
    /// Text that may still become a quote.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    held: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Before the arguments.
    #[default]
    #[serde(rename = "o")]
    Open,
    #[serde(rename = "k")]
    Key,
    /// Before a value.
    #[serde(rename = "v")]
    Value,
    #[serde(rename = "s")]
    Str,
    /// In a value without quotes.
    #[serde(rename = "w")]
    Bare,
    #[serde(rename = "a")]
    After,
    #[serde(rename = "e")]
    End,
}

impl BracesMemory {
    pub(super) fn named(&mut self, function: &str) {
        function.clone_into(&mut self.function);
    }

    fn in_list(&self) -> bool {
        self.stack.ends_with('[')
    }
}

impl Braces {
    pub(super) fn read(&self, memory: &mut BracesMemory, text: &str, out: &mut Output<'_>) {
        for char in text.chars() {
            memory.held.push(char);
            if memory.held == self.quote {
                memory.held.clear();
                self.quote(memory, out);
            }
            while !memory.held.is_empty() && !self.quote.starts_with(memory.held.as_str()) {
                let first = memory.held.remove(0);
                self.char(memory, first, out);
            }
        }
    }

    /// The call ends; what is open is closed.
    pub(super) fn end(&self, mut memory: BracesMemory, out: &mut Output<'_>) {
        match memory.place {
            Place::Open => memory.json.push('{'),
            Place::Str if memory.waits => self.typed(&mut memory, out),
            Place::Str => memory.json.push('"'),
            Place::Bare => self.bare(&mut memory, out),
            _ => {}
        }
        if memory.place == Place::Open {
            memory.json.push('}');
        }
        while let Some(open) = memory.stack.pop() {
            memory.json.push(if open == '{' { '}' } else { ']' });
        }
        out.arguments(&memory.json);
    }

    fn quote(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        match memory.place {
            Place::Value => {
                memory.place = Place::Str;
                let types = types(memory, out);
                memory.waits = self.typed || types.is_some_and(|types| !types.only_string);
                if !memory.waits {
                    say_key(memory);
                    memory.json.push('"');
                    flush(memory, out);
                }
            }
            Place::Str => {
                if memory.waits {
                    self.typed(memory, out);
                } else {
                    memory.json.push('"');
                }
                memory.place = Place::After;
            }
            _ => {}
        }
    }

    fn char(&self, memory: &mut BracesMemory, char: char, out: &mut Output<'_>) {
        match (memory.place, char) {
            (Place::Open, '{') => open(memory, '{'),
            (Place::Str, _) if memory.waits && memory.word.len() < MAX_WORD => memory.word.push(char),
            (Place::Str, _) if memory.stack.len() == 1 => out.quoted(char.encode_utf8(&mut [0; 4])),
            (Place::Str, _) => python::quote_into(char.encode_utf8(&mut [0; 4]), &mut memory.json),
            (Place::Key, ':') => memory.place = Place::Value,
            (Place::Key, '}') if memory.key.trim().is_empty() => close(memory),
            (Place::Key, ',') if memory.key.trim().is_empty() => {}
            (Place::Key, _) if memory.key.len() < MAX_WORD => memory.key.push(char),
            (Place::Value | Place::After, '}' | ']') => close(memory),
            (Place::Value, '{' | '[') if memory.stack.len() < MAX_DEPTH => {
                say_key(memory);
                flush(memory, out);
                open(memory, char);
            }
            (Place::Value | Place::After, _) if char.is_whitespace() => {}
            (Place::Bare | Place::After, ',') => self.next(memory, out),
            (Place::Bare, '}' | ']') => {
                self.bare(memory, out);
                close(memory);
            }
            (Place::Value | Place::Bare, _) if memory.word.len() < MAX_WORD => {
                if memory.place == Place::Value {
                    say_key(memory);
                    flush(memory, out);
                    memory.place = Place::Bare;
                }
                memory.word.push(char);
            }
            _ => {}
        }
    }

    fn next(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        if memory.place == Place::Bare {
            self.bare(memory, out);
        }
        memory.place = if memory.in_list() { Place::Value } else { Place::Key };
    }

    /// A bare value has ended.
    fn bare(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        let word = std::mem::take(&mut memory.word);
        let word = word.trim();
        let value = match python::loads(word) {
            Some(value @ (Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_))) => value,
            _ => Json::Str(word.to_owned()),
        };
        memory.json.push_str(&python::dumps(&value));
        flush(memory, out);
        memory.place = Place::After;
    }

    /// A value that the schema types has ended.
    fn typed(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        let word = std::mem::take(&mut memory.word);
        let value = match types(memory, out) {
            Some(types) => schema::coerce(&word, types),
            None => python::loads(&word).unwrap_or(Json::Str(word)),
        };
        say_key(memory);
        memory.json.push_str(&python::dumps(&value));
        flush(memory, out);
    }
}

/// What the schema allows, where the value is an argument itself.
fn types(memory: &BracesMemory, out: &Output<'_>) -> Option<Types> {
    let properties = schema::properties(&out.context.tools, &memory.function).filter(|_| memory.stack.len() == 1)?;
    properties.get(memory.key.trim()).filter(|schema| schema.is_object()).map(Types::of)
}

fn open(memory: &mut BracesMemory, char: char) {
    memory.json.push(char);
    memory.stack.push(char);
    memory.comma = false;
    memory.place = if char == '{' { Place::Key } else { Place::Value };
}

fn close(memory: &mut BracesMemory) {
    if let Some(open) = memory.stack.pop() {
        memory.json.push(if open == '{' { '}' } else { ']' });
    }
    memory.key.clear();
    memory.comma = true;
    memory.place = if memory.stack.is_empty() { Place::End } else { Place::After };
}

/// Adds the key, and the comma before it.
fn say_key(memory: &mut BracesMemory) {
    if std::mem::replace(&mut memory.comma, true) {
        memory.json.push_str(", ");
    }
    if !memory.in_list() {
        memory.json.push('"');
        python::quote_into(std::mem::take(&mut memory.key).trim(), &mut memory.json);
        memory.json.push_str("\": ");
    }
}

/// Says what waits, unless it is inside a value that waits for its end.
fn flush(memory: &mut BracesMemory, out: &mut Output<'_>) {
    if memory.stack.len() == 1 || memory.json.len() > MAX_WORD {
        out.arguments(&std::mem::take(&mut memory.json));
    }
}
