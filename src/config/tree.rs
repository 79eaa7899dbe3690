//! A YAML document as a tree in which every value knows its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::problem::Problems;

/// Long values are told by their beginning.
const MOST_TOLD: usize = 60;

/// A value and its line.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    /// Text in which variables were replaced: it may be meant as a number.
    Expanded(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Was told to be wrong, and is passed over from then on.
    Refused,
}

/// A key with its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: u64,
    pub(super) node: Node,
}

/// A step from a value to one that it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    At(usize),
}

impl Node {
    /// Parses a document. An error is told with its line (0: unknown).
    pub(super) fn parse(yaml: &str) -> Result<Self, (u64, String)> {
        if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self { line: 1, value: Value::Map(Vec::new()) });
        }
        let options = serde_saphyr::options! {
            with_snippet: false,
            non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
        };
        serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
            let line = error.location().map_or(0, |location| location.line());
            let text = error.render_with_formatter(&serde_saphyr::DefaultMessageFormatter);
            // The line is told apart, and the parser's options are ours.
            let end = [" at line ", ", set "].iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
            (line, text.get(..end).unwrap_or_default().to_owned())
        })
    }

    /// Visits every value with its key path.
    pub(super) fn visit(&mut self, path: &str, visit: &mut impl FnMut(&str, &mut Self)) {
        visit(path, self);
        match &mut self.value {
            Value::List(items) => {
                for (at, item) in items.iter_mut().enumerate() {
                    item.visit(&format!("{path}[{at}]"), visit);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                    entry.node.visit(&path, visit);
                }
            }
            _ => {}
        }
    }

    /// Notes the line of every key and item.
    pub(super) fn note_lines(&self, path: &str, problems: &mut Problems) {
        match &self.value {
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    let path = format!("{path}[{at}]");
                    problems.written(path.clone(), item.line);
                    item.note_lines(&path, problems);
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                    problems.written(path.clone(), entry.line);
                    entry.node.note_lines(&path, problems);
                }
            }
            _ => {}
        }
    }

    /// Takes a wrong value out of the way of the others. An item of a list becomes an empty one first, so that the items
    /// behind it keep their places.
    pub(super) fn refuse(&mut self, path: &[Step]) {
        let Some((step, rest)) = path.split_first() else {
            self.value = Value::Refused;
            return;
        };
        match (step, &mut self.value) {
            (Step::At(at), Value::List(items)) if rest.is_empty() => {
                let Some(item) = items.get_mut(*at) else { return };
                let was_map = matches!(item.value, Value::Map(_));
                item.value = if was_map { Value::Refused } else { Value::Map(Vec::new()) };
            }
            (Step::At(at), Value::List(items)) => {
                if let Some(item) = items.get_mut(*at) {
                    item.refuse(rest);
                }
            }
            (Step::Key(key), Value::Map(entries)) => {
                if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
                    entry.node.refuse(rest);
                }
            }
            _ => {}
        }
    }
}

/// As it is told in a problem.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null | Self::Refused => f.write_str("nothing"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) | Self::Expanded(text) => {
                let beginning: String = text.chars().take(MOST_TOLD).collect();
                let dots = if beginning.len() < text.len() { "…" } else { "" };
                write!(f, "{beginning:?}{dots}")
            }
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a mapping"),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push(Entry { key: key.value, line: key.referenced.line(), node });
        }
        Ok(Value::Map(map))
    }
}
