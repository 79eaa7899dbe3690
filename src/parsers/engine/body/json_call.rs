//! A call that is one JSON object, `{"name": "f", "arguments": {…}}`, read as it arrives.
//!
//! Only the two keys of the top level matter. The arguments go out as the model wrote them; white space at their end
//! waits for what follows. Until the name is known everything is kept, so that a call that turns out to have no name
//! can be given back as content.

use serde::{Deserialize, Serialize};

use super::super::memory::is_default;
use super::super::{Ids, Output};
use super::TypedJsonMemory;
use crate::parsers::python;

/// A call longer than this without a name is none: it becomes content.
const MAX_UNNAMED: usize = 64 * 1024;

/// A call that waits for its end and is longer than this is none, either.
const MAX_WAITING: usize = 1024 * 1024;

/// White space inside arguments that is kept back at most.
const MAX_BLANK: usize = 1024;

/// Which keys hold the name and the arguments.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct JsonCall {
    pub(in crate::parsers) name: &'static str,
    pub(in crate::parsers) arguments: &'static [&'static str],
    pub(in crate::parsers) ids: Ids,
    /// The call begins with its arguments, not already with its name.
    pub(in crate::parsers) waits_for_arguments: bool,
    /// White space at the end of the arguments so far waits for what follows.
    pub(in crate::parsers) holds_blank: bool,
    /// A call without a name is given back as content.
    pub(in crate::parsers) gives_back: bool,
    /// Nothing is said before the call is complete; one that was cut is none.
    pub(in crate::parsers) waits_for_end: bool,
    /// The tool's schema corrects the arguments; without any they are an empty object.
    pub(in crate::parsers) typed: bool,
}

impl JsonCall {
    /// Inside markup: begun by its name, given back if it has none.
    pub(in crate::parsers) const MARKED: Self = Self {
        name: "name",
        arguments: &["arguments"],
        ids: Ids::Random,
        waits_for_arguments: false,
        holds_blank: true,
        gives_back: true,
        waits_for_end: false,
        typed: false,
    };

    /// Under a grammar: begun by its arguments.
    pub(in crate::parsers) const STRICT: Self =
        Self { waits_for_arguments: true, holds_blank: false, gives_back: false, ..Self::MARKED };
}

/// Where the object stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct JsonCallMemory {
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    /// Nesting inside the value being read.
    #[serde(rename = "d", skip_serializing_if = "is_default")]
    depth: u32,
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    in_string: bool,
    #[serde(rename = "e", skip_serializing_if = "is_default")]
    escaped: bool,
    /// The key or the name being read, as it is spelled.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    word: String,
    /// The name, until the call is begun.
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    /// The call was begun.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    begun: bool,
    /// Everything since the call began, until it has a name.
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    raw: String,
    /// Arguments that came before the name.
    #[serde(rename = "a", skip_serializing_if = "is_default")]
    early: String,
    /// White space at the end of the arguments so far.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    blank: String,
    /// Arguments that the schema corrects.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    typed: Option<TypedJsonMemory>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Before the object.
    #[default]
    #[serde(rename = "o")]
    Open,
    /// Before a key, or the end of the object.
    #[serde(rename = "k")]
    Key,
    /// In a key.
    #[serde(rename = "i")]
    InKey,
    /// Before the colon.
    #[serde(rename = "c")]
    Colon,
    /// Before a value.
    #[serde(rename = "v")]
    Value,
    /// In the name.
    #[serde(rename = "n")]
    Name,
    /// In the arguments.
    #[serde(rename = "a")]
    Arguments,
    /// In a value that does not matter.
    #[serde(rename = "s")]
    Skip,
    /// After a value.
    #[serde(rename = "t")]
    After,
    /// After the object.
    #[serde(rename = "e")]
    End,
    /// What was read is no such object: nothing more is read.
    #[serde(rename = "x")]
    Bad,
}

impl JsonCallMemory {
    /// A call that this mark begins.
    pub(in crate::parsers) fn begin(mark: &str) -> Self {
        Self { raw: mark.to_owned(), ..Self::default() }
    }

    /// The object is complete.
    pub(in crate::parsers) fn is_closed(&self) -> bool {
        self.place == Place::End
    }
}

impl JsonCall {
    /// Reads more of the object; returns what it did not read, because it follows the object or what is no object.
    pub(in crate::parsers) fn read<'t>(
        &self,
        memory: &mut JsonCallMemory,
        text: &'t str,
        out: &mut Output<'_>,
    ) -> &'t str {
        if !memory.begun && self.gives_back {
            memory.raw.push_str(text);
        }
        if self.waits_for_end && memory.place != Place::Bad {
            memory.early.push_str(text);
            if memory.early.len() > MAX_WAITING {
                self.give_back(memory, out);
                *memory = JsonCallMemory { place: Place::Bad, ..JsonCallMemory::default() };
            }
            return "";
        }
        let mut rest = text;
        while !rest.is_empty() && !matches!(memory.place, Place::End | Place::Bad) {
            rest = match memory.place {
                Place::InKey | Place::Name => self.word(memory, rest, out),
                Place::Arguments => self.read_arguments(memory, rest, out),
                Place::Skip => rest.split_at(value_end(memory, rest)).1,
                _ => self.structure(memory, rest, out),
            };
        }
        if memory.raw.len().max(memory.early.len()) > MAX_UNNAMED {
            self.give_back(memory, out);
            *memory = JsonCallMemory { place: Place::Bad, ..JsonCallMemory::default() };
        }
        rest
    }

    /// The call ends. Without a name it was none.
    pub(in crate::parsers) fn end(&self, mut memory: JsonCallMemory, mark: &str, out: &mut Output<'_>) {
        if let Some(typed) = &mut memory.typed {
            typed.end(out);
        }
        if self.waits_for_end && (mark.is_empty() || self.say_all(&memory.early, out)) {
            return;
        }
        if !memory.begun && !memory.raw.is_empty() {
            self.give_back(&memory, out);
            out.content(mark);
        }
    }

    /// Says a complete call, if it is one.
    fn say_all(&self, text: &str, out: &mut Output<'_>) -> bool {
        let Some(call) = python::loads(text.trim()) else { return false };
        let Some(name) = call.get(self.name).and_then(python::Json::as_str) else { return false };
        out.call(name, self.ids);
        let arguments = self.arguments.iter().find_map(|key| call.get(key));
        out.arguments(&arguments.map_or_else(|| "{}".to_owned(), python::dumps));
        true
    }

    fn give_back(&self, memory: &JsonCallMemory, out: &mut Output<'_>) {
        out.events.push_given_back();
        out.content(&memory.raw);
    }

    /// Reads one character between keys and values.
    fn structure<'t>(&self, memory: &mut JsonCallMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let mut chars = text.chars();
        let Some(char) = chars.next() else { return text };
        if matches!(char, ' ' | '\t' | '\n' | '\r') {
            return chars.as_str();
        }
        memory.place = match (memory.place, char) {
            (Place::Open, '{') => Place::Key,
            (Place::Key, '"') => Place::InKey,
            (Place::Key | Place::After, '}') => Place::End,
            (Place::After, ',') => Place::Key,
            (Place::Colon, ':') => Place::Value,
            (Place::Value, _) => return self.value(memory, char, text, out),
            _ => Place::Bad,
        };
        chars.as_str()
    }

    fn value<'t>(&self, memory: &mut JsonCallMemory, first: char, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let key = std::mem::take(&mut memory.word);
        (memory.depth, memory.in_string, memory.escaped) = (0, false, false);
        let unnamed = !memory.begun && memory.function.is_empty();
        if key == self.name && unnamed && first == '"' {
            memory.place = Place::Name;
            return text.strip_prefix('"').unwrap_or(text);
        }
        memory.place = Place::Skip;
        if self.arguments.contains(&key.as_str()) {
            memory.place = Place::Arguments;
            self.begin(memory, out);
        }
        text
    }

    /// The call begins, if its name is known.
    fn begin(&self, memory: &mut JsonCallMemory, out: &mut Output<'_>) {
        if memory.begun || memory.function.is_empty() {
            return;
        }
        memory.begun = true;
        memory.raw = String::new();
        memory.typed = self.typed.then(|| TypedJsonMemory::of(&memory.function));
        out.call(&std::mem::take(&mut memory.function), self.ids);
        let early = std::mem::take(&mut memory.early);
        say(memory, &early, out);
    }

    /// Reads arguments and passes them on.
    fn read_arguments<'t>(&self, memory: &mut JsonCallMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let (value, rest) = text.split_at(value_end(memory, text));
        let solid = if self.holds_blank { value.trim_end() } else { value };
        if !solid.is_empty() {
            let blank = std::mem::take(&mut memory.blank);
            say(memory, &blank, out);
            say(memory, solid, out);
        }
        let (_, blank) = value.split_at(solid.len());
        memory.blank.push_str(blank);
        if memory.place != Place::Arguments {
            memory.blank.clear();
        } else if memory.blank.len() > MAX_BLANK {
            let blank = std::mem::take(&mut memory.blank);
            say(memory, &blank, out);
        }
        rest
    }

    /// Reads a key or the name up to its closing quote.
    fn word<'t>(&self, memory: &mut JsonCallMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let mut escaped = memory.escaped;
        let end = text.bytes().position(|byte| {
            let quote = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            quote
        });
        let Some(end) = end else {
            memory.escaped = escaped;
            memory.word.push_str(text);
            return "";
        };
        memory.escaped = false;
        let (word, rest) = text.split_at(end);
        memory.word.push_str(word);
        if memory.place == Place::InKey {
            memory.word = unquoted(&memory.word);
            memory.place = Place::Colon;
        } else {
            memory.place = Place::After;
            memory.function = unquoted(&std::mem::take(&mut memory.word));
            if !self.waits_for_arguments || !memory.early.is_empty() {
                self.begin(memory, out);
            }
        }
        rest.strip_prefix('"').unwrap_or(rest)
    }
}

fn say(memory: &mut JsonCallMemory, text: &str, out: &mut Output<'_>) {
    match &mut memory.typed {
        _ if !memory.begun => memory.early.push_str(text),
        Some(typed) => typed.read(text, out),
        None => out.arguments(text),
    }
}

/// Reads a value; returns how much of the text belongs to it, and moves on where it ends.
fn value_end(memory: &mut JsonCallMemory, text: &str) -> usize {
    for (at, byte) in text.bytes().enumerate() {
        if memory.in_string {
            let quote = byte == b'"' && !memory.escaped;
            memory.escaped = byte == b'\\' && !memory.escaped;
            if quote {
                memory.in_string = false;
                if memory.depth == 0 {
                    memory.place = Place::After;
                    return at + 1;
                }
            }
            continue;
        }
        match byte {
            b'"' => memory.in_string = true,
            b'{' | b'[' => memory.depth = memory.depth.saturating_add(1),
            b'}' | b']' if memory.depth > 1 => memory.depth -= 1,
            b'}' | b']' if memory.depth == 1 => {
                memory.depth = 0;
                memory.place = Place::After;
                return at + 1;
            }
            b'}' | b']' | b',' if memory.depth == 0 => {
                memory.place = Place::After;
                return at;
            }
            _ => {}
        }
    }
    text.len()
}

/// The text of a JSON string, given what stands between its quotes.
fn unquoted(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    match python::loads(&format!("\"{raw}\"")) {
        Some(python::Json::Str(text)) => text,
        _ => raw.to_owned(),
    }
}
