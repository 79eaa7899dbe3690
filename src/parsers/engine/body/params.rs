//! Parameters between tags, `<parameter=city>Paris</parameter>`, made into JSON while they arrive.
//!
//! A value that the schema says is a string, and nothing else, goes out as it comes; the JSON stays open behind it until
//! the next parameter or the end of the call. Any other value waits for its end, since only then is it known what it is;
//! its key goes out before it where vLLM's does.

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
    /// What follows the head waits for the next chunk, which has the arguments' brace at least.
    pub(in crate::parsers) waits: bool,
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
        Self { tag, trims_newlines: false, says_at: None, wrappers: &[], typing: Typing::Schema, waits: false }
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
    /// The chunk of the head is over.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    next_chunk: bool,
    /// What followed the head in its chunk.
    #[serde(rename = "e", skip_serializing_if = "is_default")]
    early: String,
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
    /// In a value that waits for its end, after its key went out.
    #[serde(rename = "k")]
    Keyed,
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
        if self.waits && !memory.next_chunk {
            memory.early.push_str(text);
            memory.next_chunk = memory.early.len() > MAX_WAITING;
            if memory.next_chunk {
                self.read(memory, "", out);
            }
            return;
        }
        if !memory.early.is_empty() {
            let early = std::mem::take(&mut memory.early);
            self.read(memory, &early, out);
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

    /// An engine chunk ends within the call.
    pub(super) fn end_chunk(&self, memory: &mut ParamsMemory, out: &mut Output<'_>) {
        if !self.waits {
            return;
        }
        if memory.next_chunk {
            self.read(memory, "", out);
            if !memory.begun() {
                memory.opened = true;
                out.arguments("{");
            }
        }
        memory.next_chunk = true;
    }

    /// The call ends, by this mark or at the end of the reply.
    ///
    /// At the end of the reply a value was cut if it is still open. One that waited is dropped, with its key if that waited,
    /// too; what went out already stays open, so that nobody takes the call for a complete one.
    pub(super) fn end(&self, mut memory: ParamsMemory, mark: &str, out: &mut Output<'_>) {
        memory.next_chunk = true;
        self.read(&mut memory, "", out);
        let cut = mark.is_empty();
        if cut && memory.place == Place::Keyed {
            return out.arguments(memory.value.trim());
        }
        let held = std::mem::take(&mut memory.held);
        self.value(&mut memory, &held, out);
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
        } else if matches!(self.typing, Typing::Schema) && kind == Value::Text && !self.may_wrap(memory, out) {
            say_key(memory, out);
            memory.place = Place::Keyed;
        }
    }

    /// From here on the value goes out as it comes.
    fn stream(&self, memory: &mut ParamsMemory, out: &mut Output<'_>) {
        if memory.place != Place::Keyed {
            say_key(memory, out);
        }
        memory.place = Place::Streams;
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
            Place::Waits | Place::Keyed => self.say_value(memory, out),
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

    /// Says a value that waited. Where vLLM's engine does, what can still change waits for what follows.
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
        if memory.place != Place::Keyed {
            say_key(memory, out);
        }
        let typed = python::dumps(&typed);
        if matches!(self.typing, Typing::Own { .. }) {
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

/// The schema of a parameter, where it has one.
fn schema_of<'o>(memory: &ParamsMemory, key: &str, out: &'o Output<'_>) -> Option<&'o serde_json::Value> {
    schema::of_parameter(&out.context.tools, &memory.function, key)
}

fn only_string(memory: &ParamsMemory, out: &Output<'_>) -> bool {
    schema::is_string(&out.context.tools, &memory.function, &memory.key)
}
