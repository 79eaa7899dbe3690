//! A call that is one JSON object, `{"name": "f", "arguments": {…}}`, read as it arrives.
//!
//! Only the two keys of the top level matter. The arguments go out as the model wrote them; white space at their end
//! waits for what follows. Until the name is known everything is kept, so that a call that turns out to have no name
//! can be given back as content.

use serde::{Deserialize, Serialize};

use super::super::memory::is_default;
use super::super::{Ids, Output};
use super::certain::CertainMemory;
use super::firm::FirmMemory;
use super::nesting::{Nesting, Spot};
use crate::parsers::python;

/// A call longer than this without a name is none: it becomes content.
const MAX_UNNAMED: usize = 64 * 1024;

/// White space inside arguments that is kept back at most.
const MAX_BLANK: usize = 1024;

/// Which keys hold the name and the arguments.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct JsonCall {
    /// Empty where the only key is the name itself, and its value the arguments.
    pub(in crate::parsers) name: &'static str,
    pub(in crate::parsers) arguments: &'static [&'static str],
    pub(in crate::parsers) ids: Ids,
    /// The call begins with its arguments, not already with its name.
    pub(in crate::parsers) waits_for_arguments: bool,
    pub(in crate::parsers) flow: Flow,
    /// A call without a name is given back as content.
    pub(in crate::parsers) gives_back: bool,
}

/// How arguments go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Flow {
    /// As they come.
    Plain,
    /// As they come, but white space waits for what follows.
    Solid,
    /// As they come, but a backslash waits for what follows.
    Escapes,
    /// As far as they are certain, as in vLLM's engine.
    Certain,
    /// At the end of a chunk, as far as a lenient reader would get; the head has empty arguments.
    Firm,
}

impl JsonCall {
    /// Inside markup: begun by its name, given back if it has none.
    pub(in crate::parsers) const MARKED: Self = Self {
        name: "name",
        arguments: &["arguments"],
        ids: Ids::Random,
        waits_for_arguments: false,
        flow: Flow::Solid,
        gives_back: true,
    };

    /// Under a grammar: begun by its arguments.
    pub(in crate::parsers) const STRICT: Self =
        Self { waits_for_arguments: true, flow: Flow::Plain, gives_back: false, ..Self::MARKED };
}

/// Where the object stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct JsonCallMemory {
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    /// The value being read.
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: Nesting,
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
    /// The end of the arguments so far, which waits for what follows.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    blank: String,
    /// Arguments that go out as far as they are certain.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    certain: CertainMemory,
    /// Arguments that go out at the end of a chunk.
    #[serde(rename = "m", skip_serializing_if = "is_default")]
    firm: FirmMemory,
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

    /// Text that begins a call and is none.
    pub(in crate::parsers) fn spoilt(text: String) -> Self {
        Self { raw: text, place: Place::Bad, ..Self::default() }
    }

    /// In a list, the next call or its end follows: what is not certain yet will not change.
    pub(in crate::parsers) fn settle(&mut self, out: &mut Output<'_>) {
        if self.is_closed() {
            self.certain.end(out);
        }
    }

    /// The object is complete.
    pub(in crate::parsers) fn is_closed(&self) -> bool {
        self.place == Place::End
    }

    /// Nothing more is read.
    pub(in crate::parsers) fn is_over(&self) -> bool {
        matches!(self.place, Place::End | Place::Bad)
    }

    /// The call was begun.
    pub(in crate::parsers) fn is_begun(&self) -> bool {
        self.begun
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
        let mut rest = text;
        while !rest.is_empty() && !matches!(memory.place, Place::End | Place::Bad) {
            rest = match memory.place {
                Place::InKey | Place::Name => self.word(memory, rest, out),
                Place::Arguments => self.read_arguments(memory, rest, out),
                Place::Skip => rest.split_at(value_end(memory, rest)).1,
                _ => self.structure(memory, rest, out),
            };
        }
        let (consumed, rest) = text.split_at(text.len() - rest.len());
        self.keep(memory, consumed, out);
        rest
    }

    /// Keeps text of a call that has no name yet, to be given back.
    pub(in crate::parsers) fn keep(&self, memory: &mut JsonCallMemory, text: &str, out: &mut Output<'_>) {
        if !memory.begun && self.gives_back {
            memory.raw.push_str(text);
        }
        if memory.raw.len().max(memory.early.len()) > MAX_UNNAMED {
            self.give_back(memory, out);
            *memory = JsonCallMemory { place: Place::Bad, ..JsonCallMemory::default() };
        }
    }

    /// The call ends. Without a name it was none.
    pub(in crate::parsers) fn end(&self, memory: &mut JsonCallMemory, mark: &str, out: &mut Output<'_>) {
        self.finish(memory, out);
        if !memory.begun && !memory.raw.is_empty() {
            self.give_back(memory, out);
            out.content(mark);
        }
    }

    /// Says what waits: nothing follows.
    pub(in crate::parsers) fn finish(&self, memory: &mut JsonCallMemory, out: &mut Output<'_>) {
        memory.certain.end(out);
        memory.firm.end(out);
    }

    /// A chunk ends.
    pub(in crate::parsers) fn end_chunk(&self, memory: &mut JsonCallMemory, out: &mut Output<'_>) {
        memory.firm.end_chunk(out);
    }

    fn give_back(&self, memory: &JsonCallMemory, out: &mut Output<'_>) {
        // JSON without a mark before it that names nothing is hardly a call.
        match memory.raw.trim_start().starts_with(['{', '[']) && !memory.raw.contains(self.name) {
            true => out.content(&memory.raw),
            false => out.give_back(&memory.raw),
        }
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
        memory.json = Nesting::default();
        if self.name.is_empty() && !memory.begun {
            memory.function = key;
            memory.place = Place::Arguments;
            self.begin(memory, out);
            return text;
        }
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
        let function = std::mem::take(&mut memory.function);
        out.call(&function, self.ids);
        match self.flow {
            Flow::Certain => memory.certain = CertainMemory::of(&function),
            Flow::Firm => {
                out.even_empty_arguments("");
                out.events.set_apart();
            }
            Flow::Plain | Flow::Solid | Flow::Escapes => {}
        }
        let early = std::mem::take(&mut memory.early);
        self.say(memory, &early, out);
    }

    /// Reads arguments and passes them on.
    fn read_arguments<'t>(&self, memory: &mut JsonCallMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let (value, rest) = text.split_at(value_end(memory, text));
        let solid = match self.flow {
            Flow::Plain | Flow::Certain | Flow::Firm => value,
            Flow::Solid => value.trim_end(),
            Flow::Escapes if memory.json.in_string => value.trim_end_matches('\\'),
            Flow::Escapes => value,
        };
        if !solid.is_empty() {
            let blank = std::mem::take(&mut memory.blank);
            self.say(memory, &blank, out);
            self.say(memory, solid, out);
        }
        let (_, blank) = value.split_at(solid.len());
        memory.blank.push_str(blank);
        if memory.place != Place::Arguments {
            memory.blank.clear();
        } else if memory.blank.len() > MAX_BLANK {
            let blank = std::mem::take(&mut memory.blank);
            self.say(memory, &blank, out);
        }
        rest
    }

    fn say(&self, memory: &mut JsonCallMemory, text: &str, out: &mut Output<'_>) {
        match self.flow {
            _ if !memory.begun => memory.early.push_str(text),
            Flow::Certain => memory.certain.read(text, out),
            Flow::Firm => memory.firm.read(text, out),
            _ => out.arguments(text),
        }
    }

    /// Reads a key or the name up to its closing quote.
    fn word<'t>(&self, memory: &mut JsonCallMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        let mut escaped = memory.json.escaped;
        let end = text.bytes().position(|byte| {
            let quote = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            quote
        });
        let Some(end) = end else {
            memory.json.escaped = escaped;
            memory.word.push_str(text);
            return "";
        };
        memory.json.escaped = false;
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

/// Reads a value; returns how much of the text belongs to it, and moves on where it ends.
fn value_end(memory: &mut JsonCallMemory, text: &str) -> usize {
    for (at, byte) in text.bytes().enumerate() {
        let outer = memory.json.depth == 0;
        let end = match memory.json.follow(byte) {
            // The end of what is around the value.
            Spot::Close if outer => at,
            Spot::Other if outer && byte == b',' => at,
            Spot::Close | Spot::Unquote if memory.json.depth == 0 => at + 1,
            _ => continue,
        };
        memory.place = Place::After;
        return end;
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
