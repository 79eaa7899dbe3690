//! Calls as Python writes them, `[get_weather(city='Paris', days=3), ping()]`, made into JSON while they arrive.
//!
//! Arguments go out at the end of a chunk that ends inside a string, behind an opening bracket, or behind a call: in
//! between it is not certain what a value is. Until then everything is kept, so that what is no call can be given back.

use serde::{Deserialize, Serialize};

use super::super::memory::is_default;
use super::super::{Ids, Output};
use crate::parsers::python::{self, Json};

/// Arguments that wait longer than this go out, a call without arguments longer than this is none.
const MAX_WAITING: usize = 64 * 1024;

/// Nesting that is read at most.
const MAX_DEPTH: usize = 64;

/// A name or a number longer than this is none.
const MAX_WORD: usize = 1024;

/// How the calls are listed and how strictly they are read.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) struct PyCalls {
    /// Brackets stand around the calls; otherwise each has its line.
    pub(in crate::parsers) listed: bool,
    /// Names may have dots, strings may have raw line breaks, numbers may begin with zeros.
    pub(in crate::parsers) lenient: bool,
}

/// Where the calls stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct PyCallsMemory {
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    place: Place,
    /// Open brackets inside the value being read, outermost first.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    stack: String,
    /// A key of a dict is expected or being read.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    key: bool,
    /// The quote that ends the string.
    #[serde(rename = "q", skip_serializing_if = "is_default")]
    quote: Option<char>,
    /// An escape that is not complete, or a word.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    word: String,
    /// Another value precedes at this level.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    comma: bool,
    /// The function, until the call is begun.
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    function: String,
    /// JSON that waits.
    #[serde(rename = "j", skip_serializing_if = "is_default")]
    json: String,
    /// How much of that is certain.
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    ripe: usize,
    /// The call being read is one.
    #[serde(rename = "i", skip_serializing_if = "is_default")]
    certain: bool,
    /// Everything since the last call, until the next is certain.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    raw: String,
    /// A call was begun.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    begun: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// Before the list.
    #[default]
    #[serde(rename = "o")]
    Open,
    /// Between calls.
    #[serde(rename = "b")]
    Between,
    /// In a function's name.
    #[serde(rename = "n")]
    Name,
    /// Before a parameter.
    #[serde(rename = "a")]
    Before,
    /// In a parameter's name.
    #[serde(rename = "k")]
    Key,
    /// Before a value.
    #[serde(rename = "v")]
    Value,
    /// In a string.
    #[serde(rename = "s")]
    Str,
    /// In a number, or a word like `True`.
    #[serde(rename = "w")]
    Word,
    /// After a value.
    #[serde(rename = "t")]
    After,
    /// After the list.
    #[serde(rename = "e")]
    End,
    /// What was read are no such calls.
    #[serde(rename = "x")]
    Bad,
}

impl PyCallsMemory {
    /// Calls that this mark begins.
    pub(super) fn begin(mark: &str) -> Self {
        Self { raw: mark.to_owned(), ..Self::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.place, Place::End | Place::Bad)
    }

    pub(super) fn is_begun(&self) -> bool {
        self.begun || self.certain
    }

    /// How much of the waiting JSON vLLM would find complete enough to say here.
    fn ripe(&self) -> Option<usize> {
        let in_string = self.place == Place::Str && !self.key && self.word.is_empty();
        match self.place {
            Place::Str if in_string && !self.json.ends_with([':', '=']) => {
                Some(self.json.trim_end_matches([' ', ',']).len())
            }
            Place::Value if self.json.ends_with('[') => Some(self.json.len()),
            _ => None,
        }
    }
}

impl PyCalls {
    /// Reads more of the calls; returns what follows them, or what are none.
    pub(super) fn read<'t>(&self, memory: &mut PyCallsMemory, text: &'t str, out: &mut Output<'_>) -> &'t str {
        for (at, char) in text.char_indices() {
            if memory.is_over() {
                return text.split_at(at).1;
            }
            if !memory.certain {
                memory.raw.push(char);
            }
            self.char(memory, char, out);
            if let Some(ripe) = memory.ripe() {
                memory.ripe = ripe;
                memory.certain = true;
                memory.raw.clear();
            }
            if memory.raw.len().max(memory.json.len()) > MAX_WAITING {
                self.overflow(memory, out);
            }
        }
        ""
    }

    /// A chunk ends.
    pub(super) fn end_chunk(&self, memory: &mut PyCallsMemory, out: &mut Output<'_>) {
        if memory.ripe().is_some() {
            say_ripe(memory, out);
        }
    }

    /// Keeps text that follows what are no calls, to be given back.
    pub(super) fn keep(&self, memory: &mut PyCallsMemory, text: &str) {
        if memory.raw.len() < MAX_WAITING {
            memory.raw.push_str(text);
        }
    }

    /// The calls end. What was not said as a call is given back, if it was to be one.
    pub(super) fn end(&self, mut memory: PyCallsMemory, mark: &str, out: &mut Output<'_>) {
        if memory.certain {
            // What is certain of a call goes out, and stays open.
            say_ripe(&mut memory, out);
            return;
        }
        let closed = memory.place == Place::End || (!self.listed && memory.place == Place::Between && memory.begun);
        if !closed && !memory.raw.trim().is_empty() {
            // A list without any brace is hardly the start of calls.
            match memory.raw.starts_with('[') && !memory.raw.contains('(') {
                true => out.content(&memory.raw),
                false => out.give_back(&memory.raw),
            }
            out.content(mark);
        }
    }

    fn overflow(&self, memory: &mut PyCallsMemory, out: &mut Output<'_>) {
        if memory.certain {
            memory.ripe = memory.json.len();
            say_ripe(memory, out);
        } else {
            memory.place = Place::Bad;
        }
    }

    fn char(&self, memory: &mut PyCallsMemory, char: char, out: &mut Output<'_>) {
        let blank = char.is_ascii_whitespace();
        match (memory.place, char) {
            (Place::Str, _) => self.string(memory, char),
            (Place::Name, '(') => begin(memory),
            (Place::Key, '=') => say_key(memory),
            (Place::Name | Place::Key, _) if self.is_word(char) && memory.word.len() < MAX_WORD => {
                memory.word.push(char)
            }
            (Place::Word, _) if char.is_alphanumeric() || matches!(char, '.' | '_' | '+' | '-') => {
                memory.word.push(char)
            }
            (Place::Word, _) => {
                self.word(memory);
                if memory.place == Place::After {
                    self.char(memory, char, out);
                }
            }
            (Place::Open, '[') if self.listed => memory.place = Place::Between,
            (Place::Between, ']') if self.listed => memory.place = Place::End,
            (Place::Between, ',') if memory.begun => {}
            (Place::Before, ')') => self.close_call(memory, out),
            (Place::After, _) if !blank => self.after(memory, char, out),
            (Place::Value, _) if !blank => self.value(memory, char, out),
            (place, _) if blank && !matches!(place, Place::Word) => {}
            (Place::Open, _) if !self.listed => start(memory, Place::Name, char),
            (Place::Between, _) => start(memory, Place::Name, char),
            (Place::Before, _) => start(memory, Place::Key, char),
            _ => memory.place = Place::Bad,
        }
    }

    fn is_word(&self, char: char) -> bool {
        char.is_alphanumeric() || char == '_' || (self.lenient && char == '.')
    }

    /// A value begins, or its list ends.
    fn value(&self, memory: &mut PyCallsMemory, char: char, out: &mut Output<'_>) {
        if matches!(char, ']' | ')' | '}') && !memory.stack.is_empty() {
            return self.after(memory, char, out);
        }
        if std::mem::take(&mut memory.comma) {
            memory.json.push_str(", ");
        }
        match char {
            '\'' | '"' => {
                memory.json.push('"');
                memory.quote = Some(char);
                memory.place = Place::Str;
            }
            '[' | '(' | '{' if memory.stack.len() < MAX_DEPTH && !memory.key => {
                memory.json.push(if char == '{' { '{' } else { '[' });
                memory.stack.push(char);
                memory.key = char == '{';
            }
            _ if char.is_alphanumeric() || matches!(char, '-' | '+' | '.') => {
                memory.word = char.to_string();
                memory.place = Place::Word;
            }
            _ => memory.place = Place::Bad,
        }
    }

    /// A character after a value.
    fn after(&self, memory: &mut PyCallsMemory, char: char, out: &mut Output<'_>) {
        let top = memory.stack.chars().next_back();
        match (top, char) {
            (Some('{'), ':') if memory.key => {
                memory.json.push_str(": ");
                memory.key = false;
                memory.place = Place::Value;
            }
            (Some(_), ',') if !memory.key => {
                memory.comma = true;
                memory.key = top == Some('{');
                memory.place = Place::Value;
            }
            (None, ',') => {
                memory.comma = true;
                memory.place = Place::Before;
            }
            (None, ')') => self.close_call(memory, out),
            (Some('['), ']') | (Some('('), ')') | (Some('{'), '}') => {
                memory.stack.pop();
                memory.json.push(if char == '}' { '}' } else { ']' });
                (memory.comma, memory.key) = (false, false);
                memory.place = Place::After;
            }
            _ => memory.place = Place::Bad,
        }
    }

    fn close_call(&self, memory: &mut PyCallsMemory, out: &mut Output<'_>) {
        memory.json.push('}');
        memory.comma = false;
        memory.place = Place::Between;
        memory.ripe = memory.json.len();
        say_ripe(memory, out);
        memory.certain = false;
        memory.raw.clear();
    }

    /// A character in a string, which may complete an escape.
    fn string(&self, memory: &mut PyCallsMemory, char: char) {
        if !memory.word.is_empty() {
            memory.word.push(char);
            if let Some(text) = unescaped(&memory.word) {
                python::quote_into(&text, &mut memory.json);
                memory.word.clear();
            }
            return;
        }
        match char {
            '\\' => memory.word.push(char),
            _ if memory.quote == Some(char) => {
                memory.json.push('"');
                memory.quote = None;
                memory.place = Place::After;
            }
            '\n' | '\r' if !self.lenient => memory.place = Place::Bad,
            _ => python::quote_into(char.encode_utf8(&mut [0; 4]), &mut memory.json),
        }
    }

    fn word(&self, memory: &mut PyCallsMemory) {
        let word = std::mem::take(&mut memory.word);
        match self.literal(&word) {
            Some(value) if memory.key => {
                let text = python::dumps(&value);
                memory.json.push_str(&format!("\"{text}\""));
                memory.place = Place::After;
            }
            Some(value) => {
                memory.json.push_str(&python::dumps(&value));
                memory.place = Place::After;
            }
            None => memory.place = Place::Bad,
        }
    }

    fn literal(&self, word: &str) -> Option<Json> {
        match word {
            "True" | "true" => return Some(Json::Bool(true)),
            "False" | "false" => return Some(Json::Bool(false)),
            "None" | "null" => return Some(Json::Null),
            _ => {}
        }
        let word = word.strip_prefix('+').unwrap_or(word).replace('_', "");
        let (sign, digits) = word.strip_prefix('-').map_or(("", word.as_str()), |digits| ("-", digits));
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let bare = digits.trim_start_matches('0');
            let bare = if bare.is_empty() { "0" } else { bare };
            let fits = self.lenient || bare.len() == digits.len() || bare == "0";
            let sign = if bare == "0" { "" } else { sign };
            return fits.then(|| Json::Int(format!("{sign}{bare}")));
        }
        let plain = digits.starts_with(|char: char| char.is_ascii_digit() || char == '.');
        word.parse().ok().filter(|_| plain).map(Json::Float)
    }
}

/// A name begins.
fn start(memory: &mut PyCallsMemory, place: Place, char: char) {
    memory.place = if char.is_alphabetic() || char == '_' { place } else { Place::Bad };
    memory.word = char.to_string();
}

fn begin(memory: &mut PyCallsMemory) {
    memory.function = std::mem::take(&mut memory.word);
    memory.json = "{".to_owned();
    memory.comma = false;
    memory.place = Place::Before;
}

fn say_key(memory: &mut PyCallsMemory) {
    memory.json.push_str(if std::mem::take(&mut memory.comma) { ", \"" } else { "\"" });
    python::quote_into(&std::mem::take(&mut memory.word), &mut memory.json);
    memory.json.push_str("\": ");
    memory.place = Place::Value;
}

/// Says what is certain, and the call's head before it.
fn say_ripe(memory: &mut PyCallsMemory, out: &mut Output<'_>) {
    if !memory.function.is_empty() {
        out.call(&std::mem::take(&mut memory.function), Ids::Random);
        memory.begun = true;
    }
    let at = std::mem::take(&mut memory.ripe);
    if let Some((ripe, waits)) = memory.json.split_at_checked(at) {
        out.arguments(ripe);
        memory.json = waits.to_owned();
    }
}

/// The text of a complete escape; what Python does not know stays as it is.
fn unescaped(escape: &str) -> Option<String> {
    let mut chars = escape.chars().skip(1);
    let kind = chars.next()?;
    let code = |len: usize| {
        let digits = escape.get(2..).filter(|digits| digits.chars().count() >= len)?;
        let char = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        Some(char.map_or_else(|| escape.to_owned(), String::from))
    };
    let plain = match kind {
        'n' => "\n",
        't' => "\t",
        'r' => "\r",
        'a' => "\u{7}",
        'b' => "\u{8}",
        'f' => "\u{c}",
        'v' => "\u{b}",
        '0' => "\0",
        '\n' => "",
        '\\' | '\'' | '"' => return Some(kind.to_string()),
        'x' => return code(2),
        'u' => return code(4),
        'U' => return code(8),
        _ => return Some(escape.to_owned()),
    };
    Some(plain.to_owned())
}
