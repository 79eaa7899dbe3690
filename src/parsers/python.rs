//! JSON as Python's `json` module reads and writes it, because the arguments of a whole answer went through it.

mod float;
mod read;
mod write;

pub(super) use read::loads;
pub(super) use write::{dumps, quote_into};

/// A JSON value as Python holds it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// An integer of any size, as its canonical digits.
    Int(String),
    Float(f64),
    Str(String),
    List(Vec<Json>),
    /// In order of first appearance; a repeated key keeps its place and takes the last value.
    Dict(Vec<(String, Json)>),
}

impl Json {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Dict(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(text) => Some(text),
            _ => None,
        }
    }
}

/// `bool(value)`: what a template argument means as a condition.
pub(crate) fn truthy(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => false,
        serde_json::Value::Bool(bool) => *bool,
        serde_json::Value::Number(number) => number.as_f64() != Some(0.0),
        serde_json::Value::String(text) => !text.is_empty(),
        serde_json::Value::Array(items) => !items.is_empty(),
        serde_json::Value::Object(members) => !members.is_empty(),
    }
}
