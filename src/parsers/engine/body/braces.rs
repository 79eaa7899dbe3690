//! Arguments in braces with quotes of their own, `{city:<|"|>Paris<|"|>,days:3}`, made into JSON while they arrive.
//!
//! A string that can only be a string goes out as it comes. Any other argument waits for the next one's key, since the tool's
//! schema makes of it what it says; its own key goes out when it is certain that a value follows. What the reply's end cuts
//! is closed.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use crate::parsers::python::{self, Json};
use crate::parsers::schema::{self, Types};

/// A quoted value that waits and is longer than this goes out as a string.
const MAX_WAITING: usize = 256 * 1024;

/// A list or an object that is longer than this goes out as it stands; a key or a bare value is cut here.
const MAX_VALUE: usize = 1024 * 1024;

/// Nesting that is read at most.
const MAX_DEPTH: usize = 64;

/// How values are written.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Braces {
    /// What stands on both sides of a string.
    pub(in crate::parsers) quote: &'static str,
    /// Everything is quoted, and the schema says what it is.
    pub(in crate::parsers) typed: bool,
    /// The opening brace stands before the body.
    pub(in crate::parsers) opened: bool,
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
    /// The key being read, or whose value is being read.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: String,
    /// The argument that the list or object being read is.
    #[serde(rename = "a", skip_serializing_if = "is_default")]
    argument: String,
    /// The string being read waits for its end, since the schema may make something else of it.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    waits: bool,
    /// A value that waits for its end.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    word: String,
    /// JSON that waits for what follows.
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: String,
    /// JSON of the list or object being read.
    #[serde(rename = "v", skip_serializing_if = "is_default")]
    value: String,
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
    fn in_list(&self) -> bool {
        self.stack.ends_with('[')
    }

    /// Inside a list or an object that is an argument.
    fn nested(&self) -> bool {
        self.stack.len() > 1
    }

    /// Where JSON is written.
    fn sink(&mut self) -> &mut String {
        if self.nested() { &mut self.value } else { &mut self.json }
    }
}

impl Braces {
    pub(super) fn named(&self, memory: &mut BracesMemory, function: &str) {
        function.clone_into(&mut memory.function);
        if self.opened {
            open(memory, '{');
        }
    }

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
        if memory.value.len() > MAX_VALUE {
            let value = std::mem::take(&mut memory.value);
            memory.json.push_str(&value);
            flush(memory, out);
        }
    }

    /// The call ends; what is open is closed.
    pub(super) fn end(&self, mut memory: BracesMemory, out: &mut Output<'_>) {
        match memory.place {
            Place::Open => open(&mut memory, '{'),
            Place::Str if memory.waits => self.typed(&mut memory, out),
            Place::Str => memory.sink().push('"'),
            Place::Bare => bare(&mut memory, false, out),
            _ => {}
        }
        while !memory.stack.is_empty() {
            close(&mut memory, out);
        }
        out.arguments(&memory.json);
    }

    fn quote(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        match memory.place {
            Place::Value => {
                memory.place = Place::Str;
                let types = types(memory, out);
                memory.waits = self.typed || types.is_some_and(|types| !types.only_string);
                if self.typed {
                    return;
                }
                say_key(memory);
                if !memory.waits {
                    memory.sink().push('"');
                }
                flush(memory, out);
            }
            Place::Str => {
                if memory.waits {
                    self.typed(memory, out);
                } else {
                    memory.sink().push('"');
                }
                memory.place = Place::After;
            }
            _ => {}
        }
    }

    fn char(&self, memory: &mut BracesMemory, char: char, out: &mut Output<'_>) {
        match (memory.place, char) {
            (Place::Open, '{') => open(memory, '{'),
            (Place::Str, _) if memory.waits => {
                memory.word.push(char);
                if memory.word.len() > MAX_WAITING {
                    self.stop_waiting(memory, out);
                }
            }
            (Place::Str, _) => {
                python::quote_into(char.encode_utf8(&mut [0; 4]), memory.sink());
                // vLLM takes what may be the end of the call for no part of the string until more follows.
                if !(char.is_whitespace() || char == '}') {
                    flush(memory, out);
                }
            }
            (Place::Key, ':') => memory.place = Place::Value,
            (Place::Key, '}') if memory.key.trim().is_empty() => close(memory, out),
            (Place::Key, ',') if memory.key.trim().is_empty() => {}
            (Place::Key, _) if memory.key.len() < MAX_VALUE => memory.key.push(char),
            (Place::Value | Place::After, '}' | ']') => close(memory, out),
            (Place::Value, '{' | '[') if memory.stack.len() < MAX_DEPTH => {
                say_key(memory);
                flush(memory, out);
                open(memory, char);
            }
            (Place::Value | Place::After, _) if char.is_whitespace() => {}
            (Place::Bare, ',') => {
                bare(memory, true, out);
                next(memory);
            }
            (Place::After, ',') => next(memory),
            (Place::Bare, '}' | ']') => {
                bare(memory, false, out);
                close(memory, out);
            }
            (Place::Value | Place::Bare, _) if memory.word.len() < MAX_VALUE => {
                memory.place = Place::Bare;
                memory.word.push(char);
            }
            _ => {}
        }
    }

    /// A quoted value is too long to wait for its end: it is a string.
    fn stop_waiting(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        if self.typed {
            say_key(memory);
        }
        let word = std::mem::take(&mut memory.word);
        memory.waits = false;
        memory.sink().push('"');
        python::quote_into(&word, memory.sink());
        flush(memory, out);
    }

    /// A quoted value that the schema types has ended.
    fn typed(&self, memory: &mut BracesMemory, out: &mut Output<'_>) {
        let word = std::mem::take(&mut memory.word);
        let value = match types(memory, out) {
            Some(types) => schema::coerce(&word, types),
            None => python::loads(&word).unwrap_or(Json::Str(word)),
        };
        if self.typed {
            say_key(memory);
        }
        memory.sink().push_str(&python::dumps(&value));
        if self.typed {
            flush(memory, out);
        }
    }
}

/// The schema of an argument.
fn schema_of<'o>(memory: &BracesMemory, key: &str, out: &'o Output<'_>) -> Option<&'o serde_json::Value> {
    let properties = schema::properties(&out.context.tools, &memory.function)?;
    properties.get(key.trim()).filter(|schema| schema.is_object())
}

/// What the schema allows, where the value is an argument itself. Its key was said or was not.
fn types(memory: &BracesMemory, out: &Output<'_>) -> Option<Types> {
    let key = if memory.key.is_empty() { &memory.argument } else { &memory.key };
    schema_of(memory, key, out).filter(|_| !memory.nested()).map(Types::of)
}

/// A bare value has ended, and `more` may follow. It is text, of which an argument's schema may make something else.
fn bare(memory: &mut BracesMemory, more: bool, out: &mut Output<'_>) {
    let word = std::mem::take(&mut memory.word);
    let text = word.trim();
    let value = types(memory, out).map_or_else(|| Json::Str(text.to_owned()), |types| schema::coerce(text, types));
    say_key(memory);
    if more {
        flush(memory, out);
    }
    memory.sink().push_str(&python::dumps(&value));
    memory.place = Place::After;
}

fn next(memory: &mut BracesMemory) {
    memory.place = if memory.in_list() { Place::Value } else { Place::Key };
}

fn open(memory: &mut BracesMemory, char: char) {
    memory.stack.push(char);
    memory.sink().push(char);
    memory.comma = false;
    memory.place = if char == '{' { Place::Key } else { Place::Value };
}

/// A list or an object ends. What is an argument itself is what the schema makes of it.
fn close(memory: &mut BracesMemory, out: &Output<'_>) {
    let closer = if memory.in_list() { ']' } else { '}' };
    memory.sink().push(closer);
    memory.stack.pop();
    memory.comma = true;
    memory.place = if memory.stack.is_empty() { Place::End } else { Place::After };
    if memory.stack.len() != 1 {
        return;
    }
    let value = std::mem::take(&mut memory.value);
    let fitted =
        schema_of(memory, &memory.argument, out).and_then(|schema| Some(schema::fit(python::loads(&value)?, schema)));
    memory.json.push_str(&fitted.map_or(value, |fitted| python::dumps(&fitted)));
}

/// Adds the key, and the comma before it.
fn say_key(memory: &mut BracesMemory) {
    let comma = std::mem::replace(&mut memory.comma, true);
    let key = std::mem::take(&mut memory.key);
    let in_list = memory.in_list();
    let sink = memory.sink();
    if comma {
        sink.push_str(", ");
    }
    if !in_list {
        sink.push('"');
        python::quote_into(key.trim(), sink);
        sink.push_str("\": ");
    }
    if !memory.nested() {
        memory.argument = key;
    }
}

/// Says what waits, unless it is inside a value that waits for its end.
fn flush(memory: &mut BracesMemory, out: &mut Output<'_>) {
    if !memory.nested() {
        out.arguments(&std::mem::take(&mut memory.json));
    }
}
