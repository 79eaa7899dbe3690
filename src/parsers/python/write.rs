//! `json.dumps(…, ensure_ascii=False)`.

use std::fmt::Write;

use super::{Json, float};

/// Writes a value with `", "` and `": "` between its parts.
pub(in crate::parsers) fn dumps(value: &Json) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Int(digits) => out.push_str(digits),
        Json::Float(float) => out.push_str(&float::repr(*float)),
        Json::Str(text) => {
            out.push('"');
            quote_into(text, out);
            out.push('"');
        }
        Json::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write(item, out);
            }
            out.push(']');
        }
        Json::Dict(members) => {
            out.push('{');
            for (i, (key, item)) in members.iter().enumerate() {
                out.push_str(if i == 0 { "\"" } else { ", \"" });
                quote_into(key, out);
                out.push_str("\": ");
                write(item, out);
            }
            out.push('}');
        }
    }
}

/// Appends `text` as it stands between the quotes of a JSON string.
pub(in crate::parsers) fn quote_into(text: &str, out: &mut String) {
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            plain => out.push(plain),
        }
    }
}
