//! How Python prints JSON values. vLLM's error texts quote values so, and so do chat templates.
//!
//! In: JSON values and numbers. Out: what `str()`, `repr()` and `json.dumps` write for them in Python.

use std::fmt::Write;

use serde_json::{Number, Value};

/// How one of Python's printers spells what is no list or dictionary.
struct Spelling {
    null: &'static str,
    flags: [&'static str; 2],
    text: fn(&str, &mut String),
}

const REPR: Spelling = Spelling { null: "None", flags: ["False", "True"], text: write_str_repr };
const JSON: Spelling = Spelling { null: "null", flags: ["false", "true"], text: write_json_string };

/// `repr(value)`: `{'a': [1, None, True]}`.
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write(value, &REPR, &mut out);
    out
}

/// `str(value)`: as `repr`, but a string stands without quotes.
pub fn str(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

/// `json.dumps(value)`: `{"a": [1, null]}`, with a space after each separator and characters beyond ASCII escaped.
pub fn dumps(value: &Value) -> String {
    let mut out = String::new();
    write(value, &JSON, &mut out);
    out
}

fn write(value: &Value, spelling: &Spelling, out: &mut String) {
    match value {
        Value::Null => out.push_str(spelling.null),
        Value::Bool(flag) => out.push_str(spelling.flags[usize::from(*flag)]),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => (spelling.text)(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write(item, spelling, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                (spelling.text)(key, out);
                out.push_str(": ");
                write(item, spelling, out);
            }
            out.push('}');
        }
    }
}

fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// The digits of a JSON number as Python prints them: integers exactly, anything with a point or exponent as a float.
pub fn number_text(number: &Number) -> String {
    let text = number.as_str();
    if is_float(text) { float_repr(text.parse().unwrap_or(f64::NAN)) } else { integer_text(text) }
}

/// True where Python reads the JSON number as a float.
pub fn is_float(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'))
}

fn integer_text(text: &str) -> String {
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `repr` of a float: the shortest digits that read back, with Python's switch to exponents.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `repr` of a string: single quotes unless it holds only single ones.
pub fn str_repr(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_str_repr(text, &mut out);
    out
}

fn write_str_repr(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if is_printable(c) => out.push(c),
            c => write_escape(c, out),
        }
    }
    out.push(quote);
}

fn write_escape(c: char, out: &mut String) {
    let code = c as u32;
    // Writing to a String cannot fail.
    let _ = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// `str.isprintable` for one character, as far as text of the world needs it: separators, controls, formats and
/// unassigned planes are not.
fn is_printable(c: char) -> bool {
    match c {
        ' ' => true,
        c if c.is_control() || c.is_whitespace() => false,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' => false,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' => false,
        '\u{e0000}'..='\u{10ffff}' => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_python_does() {
        let value: Value = serde_json::from_str(
            r#"{"a": [null, true, 1.0, 1e-7, 1e22, 123456789012345678901234567890, "it's", "q\"'", "é\n\u200b"]}"#,
        )
        .unwrap();
        assert_eq!(
            repr(&value),
            "{'a': [None, True, 1.0, 1e-07, 1e+22, 123456789012345678901234567890, \"it's\", 'q\"\\'', 'é\\n\\u200b']}"
        );
        for (float, text) in
            [(0.1, "0.1"), (1e16, "1e+16"), (1e15, "1000000000000000.0"), (-0.0, "-0.0"), (1.5e300, "1.5e+300")]
        {
            assert_eq!(float_repr(float), text);
        }
    }
}
