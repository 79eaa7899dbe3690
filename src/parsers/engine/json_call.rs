//! A call that is one JSON object, `{"name": "f", "arguments": {…}}`, read as it arrives.
//!
//! Only the two keys of the top level matter. The arguments go out as the model wrote them; white space at their end
//! waits for what follows. Until the name is known everything is kept, so that a call that turns out to have no name
//! can be given back as content.

use serde::{Deserialize, Serialize};

use super::Output;
use super::memory::is_default;
use crate::parsers::python;

/// A call longer than this without a name is none: it becomes content.
const MAX_UNNAMED: usize = 64 * 1024;

/// White space inside arguments that is kept back at most.
const MAX_BLANK: usize = 1024;

/// Which keys hold the name and the arguments.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct JsonCall {
    pub(in crate::parsers) name: &'static str,
    pub(in crate::parsers) arguments: &'static [&'static str],
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
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    named: bool,
    /// Everything since the call began, until it has a name.
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    raw: String,
    /// Arguments that came before the name.
    #[serde(rename = "a", skip_serializing_if = "is_default")]
    early: String,
    /// White space at the end of the arguments so far.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    blank: String,
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
    /// After the object, or after what is no object: nothing more is read.
    #[serde(rename = "e")]
    End,
}

impl JsonCallMemory {
    /// A call that this mark begins.
    pub(in crate::parsers) fn begin(mark: &str) -> Self {
        Self { raw: mark.to_owned(), ..Self::default() }
    }
}

impl JsonCall {
    /// Reads more of the object.
    pub(in crate::parsers) fn read(&self, memory: &mut JsonCallMemory, text: &str, out: &mut Output<'_>) {
        if !memory.named {
            memory.raw.push_str(text);
        }
        let mut rest = text;
        while !rest.is_empty() && memory.place != Place::End {
            rest = match memory.place {
                Place::InKey => self.word(memory, rest, out),
                Place::Name => self.word(memory, rest, out),
                Place::Arguments => arguments(memory, rest, out),
                Place::Skip => rest.split_at(value_end(memory, rest)).1,
                _ => self.structure(memory, rest),
            };
        }
        if memory.raw.len() > MAX_UNNAMED {
            out.content(&memory.raw);
            memory.raw.clear();
            memory.early.clear();
            memory.place = Place::End;
        }
    }

    /// The call ends. Without a name it was none, and its text is content.
    pub(in crate::parsers) fn end(&self, memory: &JsonCallMemory, mark: &str, out: &mut Output<'_>) {
        if !memory.named {
            out.content(&memory.raw);
            out.content(mark);
        }
    }

    /// Reads one character between keys and values.
    fn structure<'t>(&self, memory: &mut JsonCallMemory, text: &'t str) -> &'t str {
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
            (Place::Value, _) => return self.value(memory, char, text),
            _ => Place::End,
        };
        chars.as_str()
    }

    fn value<'t>(&self, memory: &mut JsonCallMemory, first: char, text: &'t str) -> &'t str {
        let key = std::mem::take(&mut memory.word);
        (memory.depth, memory.in_string, memory.escaped) = (0, false, false);
        if key == self.name && !memory.named && first == '"' {
            memory.place = Place::Name;
            return text.strip_prefix('"').unwrap_or(text);
        }
        let arguments = self.arguments.contains(&key.as_str());
        memory.place = if arguments { Place::Arguments } else { Place::Skip };
        text
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
            named(memory, out);
        }
        rest.strip_prefix('"').unwrap_or(rest)
    }
}

/// The name is complete: the call begins.
fn named(memory: &mut JsonCallMemory, out: &mut Output<'_>) {
    let name = unquoted(&std::mem::take(&mut memory.word));
    if name.is_empty() {
        return;
    }
    memory.named = true;
    memory.raw = String::new();
    out.call(&name);
    out.arguments(&std::mem::take(&mut memory.early));
}

/// Reads arguments and passes them on.
fn arguments<'t>(memory: &mut JsonCallMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
    let (value, rest) = text.split_at(value_end(memory, text));
    let solid = value.trim_end();
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

fn say(memory: &mut JsonCallMemory, text: &str, out: &mut Output<'_>) {
    if memory.named {
        out.arguments(text);
    } else {
        memory.early.push_str(text);
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
