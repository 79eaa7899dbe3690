//! JSON as template values: dictionaries that look up, iterate and print as Python's do.

use std::fmt;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectExt, ObjectRepr};
use serde_json::{Map, Value as Json};

use super::text;

/// What marks an attribute that Python would find as a method of `dict` before it looks for a key. The source rewrite
/// puts it there; no JSON key that a client sends can name one, since lookups with it never reach the keys.
pub(super) const METHOD_MARK: char = '\u{1}';

/// A dictionary with string keys, in order.
#[derive(Debug, Clone, Default)]
pub struct Dict {
    items: Vec<(Value, Value)>,
}

impl Dict {
    /// Room for so many keys.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { items: Vec::with_capacity(capacity) }
    }

    /// Adds a key at the end; the caller gives each key once.
    pub fn push(&mut self, key: &str, value: impl Into<Value>) {
        self.items.push((Value::from(key), value.into()));
    }

    /// Sets a key: in its place if it is there, else at the end.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        match self.items.iter_mut().find(|(name, _)| name.as_str() == Some(key)) {
            Some((_, slot)) => *slot = value.into(),
            None => self.push(key, value),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) {
        self.items.retain(|(name, _)| name.as_str() != Some(key));
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.items.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
    }

    /// As a template value.
    pub fn into_value(self) -> Value {
        Value::from_object(self)
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        match key.strip_prefix(METHOD_MARK) {
            Some(method) => Some(Value::from_object(BoundMethod { method: method.to_owned() })),
            None => self.get(key).cloned(),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| Box::new(this.items.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        !self.items.is_empty()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::repr(&Value::from_dyn_object(self.clone())).map_err(|_| fmt::Error)?)
    }
}

/// What Python gives for `x.items` without a call.
#[derive(Debug)]
struct BoundMethod {
    method: String,
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of dict object>", self.method)
    }
}

/// A number that the engine would print otherwise than Python: an integer beyond 128 bits, or a float that Python
/// prints with an exponent. Templates only print such numbers, so it is kept as what Python prints.
#[derive(Debug)]
struct PrintedNumber(String);

impl Object for PrintedNumber {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text of a number that is kept as such.
pub(super) fn printed_number(value: &Value) -> Option<&str> {
    value.downcast_object_ref::<PrintedNumber>().map(|number| number.0.as_str())
}

/// True for floats that are kept as text.
pub(super) fn is_printed_float(value: &Value) -> bool {
    printed_number(value).is_some_and(crate::api::python::is_float)
}

/// JSON as a template value.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => from_number(number.as_str()),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<_>>()),
        Json::Object(map) => from_map(map).into_value(),
    }
}

/// A JSON object as a dictionary.
pub fn from_map(map: &Map<String, Json>) -> Dict {
    Dict { items: map.iter().map(|(key, value)| (Value::from(key.as_str()), from_json(value))).collect() }
}

fn from_number(digits: &str) -> Value {
    if crate::api::python::is_float(digits) {
        let float = digits.parse::<f64>().unwrap_or(f64::NAN);
        let printed = crate::api::python::float_repr(float);
        return if printed.contains('e') { Value::from_object(PrintedNumber(printed)) } else { Value::from(float) };
    }
    if let Ok(integer) = digits.parse::<i64>() {
        return Value::from(integer);
    }
    match digits.parse::<i128>() {
        Ok(integer) => Value::from(integer),
        Err(_) => Value::from_object(PrintedNumber(digits.to_owned())),
    }
}
