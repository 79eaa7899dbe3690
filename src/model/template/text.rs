//! Template values as text: Python's `str` and `repr`, and `json.dumps`.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::value::printed_number;
use crate::api::python;

/// Deepest nesting that is printed.
const MAX_DEPTH: usize = 200;
/// Longest text that one value is printed as, in bytes. Values can share parts, so a small one can print without end.
const MAX_TEXT: usize = 32 << 20;

/// Adds to a text that a template makes.
pub(super) fn push(out: &mut String, part: &str) -> Result<(), Error> {
    if out.len().saturating_add(part.len()) > MAX_TEXT {
        return Err(Error::from(ErrorKind::OutOfFuel));
    }
    out.push_str(part);
    Ok(())
}

/// `str(value)`.
pub(super) fn str(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_undefined() => Ok(String::new()),
        None => repr(value),
    }
}

/// `repr(value)`.
pub(super) fn repr(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_repr(value, 0, &mut out)?;
    Ok(out)
}

fn write_repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if let Some(digits) = printed_number(value) {
        return push(out, digits);
    }
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::String => push(out, &python::str_repr(value.as_str().unwrap_or_default()))?,
        ValueKind::Number => push(out, &number(value))?,
        ValueKind::Undefined => push(out, "Undefined")?,
        ValueKind::Seq => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            write_items(value, depth, out)?;
            if value.is_tuple() && value.len() == Some(1) {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (i, (key, item)) in pairs(value).into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(&key, depth + 1, out)?;
                out.push_str(": ");
                write_repr(&item, depth + 1, out)?;
            }
            out.push('}');
        }
        ValueKind::Iterable if value.len().is_some() => {
            out.push('[');
            write_items(value, depth, out)?;
            out.push(']');
        }
        ValueKind::Iterable => push(out, "<generator object>")?,
        _ => push(out, &value.to_string())?,
    }
    Ok(())
}

fn write_items(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_repr(&item, depth + 1, out)?;
    }
    Ok(())
}

fn pairs(value: &Value) -> Vec<(Value, Value)> {
    value.as_object().and_then(|object| object.try_iter_pairs()).into_iter().flatten().collect()
}

/// A number as Python prints it.
pub(super) fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    f64::try_from(value.clone()).map_or_else(|_| value.to_string(), python::float_repr)
}

/// How `json.dumps` writes.
#[derive(Debug, Clone)]
pub(super) struct Json {
    /// `ensure_ascii`: characters beyond ASCII as `\u` escapes.
    pub(super) ascii: bool,
    /// Text per level of nesting; `None` writes on one line.
    pub(super) indent: Option<String>,
    /// Between items.
    pub(super) item_separator: String,
    /// Between key and value.
    pub(super) key_separator: String,
    /// Keys in order.
    pub(super) sort_keys: bool,
}

impl Json {
    /// `json.dumps(value)` with these options.
    pub(super) fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if let Some(digits) = printed_number(value) {
            return push(out, digits);
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => push(out, &json_number(value))?,
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), out)?,
            ValueKind::Seq => self.write_list(value, depth, out)?,
            // `a + b` of lists, which the engine keeps lazy.
            ValueKind::Iterable if value.len().is_some() => self.write_list(value, depth, out)?,
            ValueKind::Map => self.write_map(value, depth, out)?,
            ValueKind::Undefined => return Err(not_serializable("Undefined")),
            ValueKind::Iterable => return Err(not_serializable("generator")),
            _ => return Err(not_serializable("object")),
        }
        Ok(())
    }

    fn write_list(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        out.push('[');
        let mut any = false;
        for item in value.try_iter()? {
            if any {
                push(out, &self.item_separator)?;
            }
            any = true;
            self.newline(depth + 1, out)?;
            self.write(&item, depth + 1, out)?;
        }
        if any {
            self.newline(depth, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn write_map(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        let mut pairs = pairs(value);
        if self.sort_keys {
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        out.push('{');
        for (i, (key, item)) in pairs.iter().enumerate() {
            if i > 0 {
                push(out, &self.item_separator)?;
            }
            self.newline(depth + 1, out)?;
            self.write_key(key, out)?;
            push(out, &self.key_separator)?;
            self.write(item, depth + 1, out)?;
        }
        if !pairs.is_empty() {
            self.newline(depth, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn write_key(&self, key: &Value, out: &mut String) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.write_string(key.as_str().unwrap_or_default(), out)?,
            ValueKind::None => out.push_str("\"null\""),
            ValueKind::Bool => out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
            ValueKind::Number => {
                out.push('"');
                out.push_str(&json_number(key));
                out.push('"');
            }
            _ => return Err(Error::new(ErrorKind::InvalidOperation, "keys must be str, int, float, bool or None")),
        }
        Ok(())
    }

    fn newline(&self, depth: usize, out: &mut String) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                push(out, indent)?;
            }
        }
        Ok(())
    }

    fn write_string(&self, text: &str, out: &mut String) -> Result<(), Error> {
        out.push('"');
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| self.must_escape(*c)) {
            let (plain, tail) = rest.split_at(at);
            push(out, plain)?;
            self.write_escape(c, out);
            rest = tail.get(c.len_utf8()..).unwrap_or_default();
        }
        push(out, rest)?;
        out.push('"');
        Ok(())
    }

    fn must_escape(&self, c: char) -> bool {
        matches!(c, '"' | '\\' | '\0'..='\u{1f}') || (self.ascii && !(' '..='~').contains(&c))
    }

    fn write_escape(&self, c: char, out: &mut String) {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
}

fn json_number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(float) if float.is_nan() => "NaN".to_owned(),
        Ok(float) if float.is_infinite() => (if float > 0.0 { "Infinity" } else { "-Infinity" }).to_owned(),
        Ok(float) => python::float_repr(float),
        Err(_) => value.to_string(),
    }
}

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, "maximum recursion depth exceeded")
}

fn not_serializable(kind: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("Object of type {kind} is not JSON serializable"))
}
