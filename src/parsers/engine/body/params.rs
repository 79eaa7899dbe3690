//! Parameters between tags, `<parameter=city>Paris</parameter>`, made into JSON while they arrive.
//!
//! A value that the schema says is a string, and nothing else, goes out as it comes; the JSON stays open behind it until
//! the next parameter or the end of the call. Any other value waits for its end, since only then is it known what it is,
//! and its key waits with it: if the reply is cut before, the arguments can still be closed.

use serde::{Deserialize, Serialize};

use super::super::Output;
use super::super::memory::is_default;
use crate::parsers::python::{self, Json};
use crate::parsers::schema::{self, Types};

/// A tag longer than this is none.
const MAX_TAG: usize = 1024;

/// A value that waits and is longer than this goes out as a string.
const MAX_WAITING: usize = 256 * 1024;

/// The tags of a dialect.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct Params {
    /// What stands at the start of a text that begins with `<`.
    pub(in crate::parsers) tag: fn(&str) -> Tag<'_>,
    /// One line break after the opening tag and one before the closing tag belong to the tags.
    pub(in crate::parsers) trims_newlines: bool,
    /// A string goes out only up to a piece of text with this character, as in some of vLLM's parsers.
    pub(in crate::parsers) says_at: Option<char>,
    /// A single parameter of one of these names, that the function does not have, holds all arguments.
    pub(in crate::parsers) wrappers: &'static [&'static str],
    pub(in crate::parsers) typing: Typing,
    /// The arguments' brace goes out with the first text of the body that is no tag.
    pub(in crate::parsers) opens: bool,
}

/// What makes a value of a text.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) enum Typing {
    /// The schema, as vLLM's engine reads it.
    Schema,
    /// A dialect's own rules, given the parameter's schema.
    Own {
        /// The text is a string, whatever it says: it goes out as it comes.
        streams: fn(Option<&serde_json::Value>) -> bool,
        /// What any other text is.
        value: fn(&str, Option<&serde_json::Value>) -> Json,
    },
}

impl Params {
    /// Values as they stand between their tags.
    pub(in crate::parsers) const fn plain(tag: fn(&str) -> Tag<'_>) -> Self {
        Self { tag, trims_newlines: false, says_at: None, wrappers: &[], typing: Typing::Schema, opens: false }
    }
}

/// What stands at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Tag<'t> {
    /// Plain text.
    None,
    /// What may become a tag.
    Maybe,
    /// A parameter begins.
    Open { len: usize, key: &'t str, value: Value },
    /// A parameter ends.
    Close { len: usize },
}

/// What a value is, before the schema has its say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::parsers) enum Value {
    /// Text.
    #[default]
    #[serde(rename = "t")]
    Text,
    /// JSON, or text where it is none.
    #[serde(rename = "j")]
    Json,
}

/// Where the parameters stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct ParamsMemory {
    /// The function.
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    /// Text that may still become a tag.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    held: String,
    /// The parameter being read.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: String,
    /// What its value is.
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    kind: Value,
    /// Its value so far, where it waits for its end.
    #[serde(rename = "v", skip_serializing_if = "is_default")]
    value: String,
    /// A line break that may belong to the closing tag.
    #[serde(rename = "l", skip_serializing_if = "is_default")]
    newline: bool,
    /// Text of the value was read.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    started: bool,
    /// What the JSON lacks behind the last value.
    #[serde(rename = "q", skip_serializing_if = "is_default")]
    pending: String,
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    count: usize,
    /// The brace went out.
    #[serde(rename = "o", skip_serializing_if = "is_default")]
    opened: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Between parameters.
    #[default]
    #[serde(rename = "o")]
    Outside,
    /// In a value that goes out as it comes.
    #[serde(rename = "s")]
    Streams,
    /// In a value that waits for its end.
    #[serde(rename = "w")]
    Waits,
    /// After a value that may hold all arguments, and waits for what follows.
    #[serde(rename = "a")]
    Wraps,
}

impl ParamsMemory {
    /// The brace that opens the arguments went out.
    fn begun(&self) -> bool {
        self.opened || self.count > 0
    }

    pub(super) fn named(&mut self, function: &str) {
        function.clone_into(&mut self.function);
    }
}

impl Params {
    pub(super) fn read(&self, memory: &mut ParamsMemory, text: &str, out: &mut Output<'_>) {
        if self.opens && !memory.opened && !text.starts_with('<') {
            memory.opened = true;
            out.arguments("{");
        }
        if memory.held.is_empty() {
            let kept = self.pieces(memory, text, out);
            memory.held.push_str(kept);
            return;
        }
        let mut held = std::mem::take(&mut memory.held);
        held.push_str(text);
        let kept = self.pieces(memory, &held, out).len();
        held.drain(..held.len() - kept);
        memory.held = held;
    }

    /// The call ends, by this mark or at the end of the reply.
    ///
    /// At the end of the reply a value was cut if it is still open. One that waited is dropped with its key; one that
    /// went out already stays open, and a whole answer drops it.
    pub(super) fn end(&self, mut memory: ParamsMemory, mark: &str, out: &mut Output<'_>) {
        let held = std::mem::take(&mut memory.held);
        self.value(&mut memory, &held, out);
        let cut = mark.is_empty();
        match memory.place {
            Place::Streams if cut => return out.quoted(&memory.value),
            Place::Waits if cut || memory.kind == Value::Json => {}
            _ => self.close(&mut memory, out),
        }
        if memory.place == Place::Wraps {
            if let Some(arguments) = unwrapped(&memory, out) {
                return out.arguments(&python::dumps(&arguments));
            }
            self.say_value(&mut memory, out);
        }
        out.note_uncut();
        out.arguments(if memory.begun() { &memory.pending } else { "{" });
        out.arguments("}");
    }

    fn pieces<'t>(&self, memory: &mut ParamsMemory, mut text: &'t str, out: &mut Output<'_>) -> &'t str {
        let mut from = 0;
        while let Some(offset) = text.get(from..).and_then(|rest| rest.find('<')) {
            let (before, rest) = text.split_at(from + offset);
            let tag = (self.tag)(rest);
            match tag {
                Tag::None => from = before.len() + 1,
                Tag::Maybe if rest.len() > MAX_TAG => from = before.len() + 1,
                Tag::Maybe => {
                    self.value(memory, before, out);
                    return rest;
                }
                Tag::Open { len, .. } | Tag::Close { len } => {
                    self.value(memory, before, out);
                    self.close(memory, out);
                    if let Tag::Open { key, value, .. } = tag {
                        self.open(memory, key, value, out);
                    }
                    text = rest.split_at(len).1;
                    from = 0;
                }
            }
        }
        self.value(memory, text, out);
        ""
    }

    fn open(&self, memory: &mut ParamsMemory, key: &str, kind: Value, out: &mut Output<'_>) {
        if memory.place == Place::Wraps {
            self.say_value(memory, out);
        }
        memory.kind = kind;
        key.clone_into(&mut memory.key);
        (memory.started, memory.newline) = (false, false);
        memory.place = Place::Waits;
        let streams = match self.typing {
            Typing::Schema => memory.kind == Value::Text && only_string(memory, out),
            Typing::Own { streams, .. } => streams(schema_of(memory, key, out)),
        };
        if streams {
            self.stream(memory, out);
        }
    }

    /// From here on the value goes out as it comes.
    fn stream(&self, memory: &mut ParamsMemory, out: &mut Output<'_>) {
        memory.place = Place::Streams;
        let end = if memory.begun() { "}" } else { "{}" };
        out.note_cut(&(memory.pending.clone() + end));
        say_key(memory, out);
        out.arguments("\"");
        out.quoted(&std::mem::take(&mut memory.value));
    }

    fn value(&self, memory: &mut ParamsMemory, text: &str, out: &mut Output<'_>) {
        if matches!(memory.place, Place::Outside | Place::Wraps) || text.is_empty() {
            return;
        }
        let mut text = text;
        if self.trims_newlines {
            if !memory.started {
                text = text.strip_prefix('\n').unwrap_or(text);
            } else if memory.newline {
                self.say(memory, "\n", out);
            }
            let line = text.strip_suffix('\n');
            memory.newline = line.is_some();
            text = line.unwrap_or(text);
        }
        memory.started = true;
        self.say(memory, text, out);
    }

    fn say(&self, memory: &mut ParamsMemory, text: &str, out: &mut Output<'_>) {
        let waits = self.says_at.is_some_and(|at| !text.contains(at));
        if memory.place == Place::Streams && !waits {
            out.quoted(&std::mem::take(&mut memory.value));
            return out.quoted(text);
        }
        memory.value.push_str(text);
        if memory.value.len() > MAX_WAITING {
            match memory.place {
                Place::Streams => out.quoted(&std::mem::take(&mut memory.value)),
                _ => self.stream(memory, out),
            }
        }
    }

    /// The value ends, if one is open. What closes a string in the JSON waits for what follows.
    fn close(&self, memory: &mut ParamsMemory, out: &mut Output<'_>) {
        match memory.place {
            Place::Outside | Place::Wraps => return,
            Place::Streams => {
                out.quoted(&std::mem::take(&mut memory.value));
                match self.typing {
                    Typing::Schema => memory.pending.push('"'),
                    Typing::Own { .. } => out.arguments("\""),
                }
            }
            Place::Waits if self.may_wrap(memory, out) => {
                memory.place = Place::Wraps;
                return;
            }
            Place::Waits => self.say_value(memory, out),
        }
        memory.newline = false;
        memory.place = Place::Outside;
    }

    fn may_wrap(&self, memory: &ParamsMemory, out: &Output<'_>) -> bool {
        let strange = || {
            let known = schema::properties(&out.context.tools, &memory.function);
            known.is_some_and(|known| !known.contains_key(&memory.key))
        };
        memory.count == 0 && self.wrappers.contains(&memory.key.as_str()) && strange()
    }

    /// Says a value that waited. Beside strings that go out late, what its end depends on goes out later still.
    fn say_value(&self, memory: &mut ParamsMemory, out: &mut Output<'_>) {
        let text = std::mem::take(&mut memory.value);
        let schema = schema_of(memory, &memory.key, out);
        let typed = match (self.typing, schema, memory.kind) {
            (Typing::Own { value, .. }, schema, _) => value(&text, schema),
            (Typing::Schema, Some(schema), Value::Text) => schema::coerce(&text, Types::of(schema)),
            (Typing::Schema, None, Value::Text) => Json::Str(text),
            (Typing::Schema, schema, Value::Json) => {
                let value = python::loads(&text).unwrap_or(Json::Str(text));
                match schema {
                    Some(schema) => schema::fit(value, schema),
                    None => value,
                }
            }
        };
        say_key(memory, out);
        let typed = python::dumps(&typed);
        if self.says_at.is_none() {
            return out.arguments(&typed);
        }
        let now = typed.strip_suffix('"').filter(|_| only_string(memory, out)).unwrap_or_default();
        out.arguments(now);
        memory.pending = typed.split_at(now.len()).1.to_owned();
    }
}

/// The arguments inside a value that holds them all.
fn unwrapped(memory: &ParamsMemory, out: &Output<'_>) -> Option<Json> {
    let known = schema::properties(&out.context.tools, &memory.function)?;
    let Json::Dict(members) = python::loads(&memory.value)? else { return None };
    let all_known = members.iter().all(|(key, _)| known.contains_key(key));
    all_known.then(|| schema::fit_members(members, known))
}

fn say_key(memory: &mut ParamsMemory, out: &mut Output<'_>) {
    out.arguments(&std::mem::take(&mut memory.pending));
    out.arguments(match memory.count {
        0 if memory.opened => "\"",
        0 => "{\"",
        _ => ", \"",
    });
    out.quoted(&memory.key);
    out.arguments("\": ");
    memory.count = memory.count.saturating_add(1);
}

/// The parameter can only be a string: its schema says so, or the function has no schema at all.
fn only_string(memory: &ParamsMemory, out: &Output<'_>) -> bool {
    let Some(properties) = schema::properties(&out.context.tools, &memory.function) else { return true };
    let schema = properties.get(&memory.key).filter(|schema| schema.is_object());
    schema.map_or(Types::UNKNOWN, Types::of).only_string
}

/// The schema of a parameter, where it has one.
fn schema_of<'o>(memory: &ParamsMemory, key: &str, out: &'o Output<'_>) -> Option<&'o serde_json::Value> {
    let properties = schema::properties(&out.context.tools, &memory.function)?;
    properties.get(key).filter(|schema| schema.is_object())
}
