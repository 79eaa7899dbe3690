//! From the tree to the structs of [`super::file`], past everything that is wrong.
//!
//! serde stops at the first error. Every key is optional, so what is wrong is told, taken out of the tree, and the tree is
//! read again: each round tells one problem.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::problem::{Problems, nearest};
use super::tree::{Entry, Node, Step, Value};

/// Keys whose values are not shown.
const SECRET: [&str; 2] = ["api_key", "headers"];

/// Reads everything that can be read, and notes the rest.
pub(super) fn read<T: DeserializeOwned + Default>(tree: &mut Node, problems: &mut Problems) -> T {
    loop {
        let fault = match T::deserialize(Cursor(tree)) {
            Ok(read) => return read,
            Err(fault) => fault,
        };
        let steps: Vec<Step> = fault.steps.iter().rev().cloned().collect();
        problems.unreadable(&path(&steps), fault.line.unwrap_or(tree.line), fault.said(&steps));
        if steps.is_empty() {
            return T::default();
        }
        tree.refuse(&steps);
    }
}

fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::At(at) => path.push_str(&format!("[{at}]")),
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => path.push_str(&format!(".{key}")),
        }
    }
    path
}

/// Why a value cannot be read, and where it stands.
#[derive(Debug)]
struct Fault {
    kind: Kind,
    /// From the inside out.
    steps: Vec<Step>,
    line: Option<u64>,
    found: String,
}

#[derive(Debug)]
enum Kind {
    /// The value is of another kind.
    Expected(String),
    /// The value is none of these.
    NoVariant(&'static [&'static str]),
    /// No such key.
    NoField(&'static [&'static str]),
    /// Anything else.
    Other(String),
}

impl Fault {
    fn new(kind: Kind) -> Self {
        Self { kind, steps: Vec::new(), line: None, found: String::new() }
    }

    /// Names the value that is wrong, if it is not named yet.
    fn found(mut self, node: &Node) -> Self {
        if self.line.is_none() {
            self.line = Some(node.line);
            self.found = node.value.to_string();
        }
        self
    }

    fn within(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn said(&self, steps: &[Step]) -> String {
        let secret = |step: &Step| matches!(step, Step::Key(key) if SECRET.contains(&key.as_str()));
        let found = if steps.iter().any(secret) { "a value that is not shown" } else { &self.found };
        let meant = |known| nearest(self.found.trim_matches('"'), known).map(|name| format!("; did you mean {name}?"));
        match &self.kind {
            Kind::Expected(expected) => format!("expected {}, found {found}", plain(expected)),
            Kind::NoVariant(known) => {
                format!("{found} is not one of {}{}", known.join(", "), meant(known).unwrap_or_default())
            }
            Kind::NoField(known) => {
                format!("unknown key{}", meant(known).unwrap_or_else(|| format!("; known are {}", known.join(", "))))
            }
            Kind::Other(said) => said.clone(),
        }
    }
}

/// What Rust calls a type, for people.
fn plain(expected: &str) -> &str {
    match expected {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text (in quotes, if it looks like something else)",
        "a sequence" => "a list",
        "a map" => "a mapping",
        other if other.starts_with("struct ") => "a mapping",
        other => other,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(said: T) -> Self {
        Self::new(Kind::Other(said.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(Kind::Expected(expected.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(Kind::Expected(expected.to_string()))
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(Kind::NoVariant(known))
    }

    fn unknown_field(_: &str, known: &'static [&'static str]) -> Self {
        Self::new(Kind::NoField(known))
    }
}

/// A place in the tree that is read.
struct Cursor<'de>(&'de Node);

impl<'de> Cursor<'de> {
    fn any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null | Value::Refused => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (Ok(value), _) => visitor.visit_u64(value),
                (_, Ok(value)) => visitor.visit_i64(value),
                _ => visitor.visit_i128(*value),
            },
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) | Value::Expanded(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Value::Map(entries) => visitor.visit_map(Entries { left: entries.iter(), current: None }),
        }
    }

    /// A number or boolean, which the text of a variable may spell.
    fn scalar<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::Expanded(text) = &self.0.value else { return self.any(visitor) };
        match text.trim() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            text => match (text.parse::<u64>(), text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(value), ..) => visitor.visit_u64(value),
                (_, Ok(value), _) => visitor.visit_i64(value),
                (.., Ok(value)) => visitor.visit_f64(value),
                _ => visitor.visit_str(text),
            },
        }
    }
}

macro_rules! read_as {
    ($how:ident: $($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let node = self.0;
            self.$how(visitor).map_err(|fault| fault.found(node))
        }
    )*};
}

impl<'de> Deserializer<'de> for Cursor<'de> {
    type Error = Fault;

    read_as! { any: deserialize_any deserialize_char deserialize_str deserialize_string deserialize_bytes
    deserialize_byte_buf deserialize_unit deserialize_identifier }
    read_as! { scalar: deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
    deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.value {
            Value::Null | Value::Refused => visitor.visit_none(),
            Value::Expanded(ref text) if text.is_empty() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// A key without a value is as good as none.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.value {
            Value::Null => visitor.visit_seq(Items([].iter().enumerate())),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.value {
            Value::Null => visitor.visit_map(Entries { left: [].iter(), current: None }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0.value {
            // serde would take a list for the fields in their order.
            Value::List(_) => Err(Fault::invalid_type(Unexpected::Seq, &visitor).found(self.0)),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let node = self.0;
        let read = match &node.value {
            Value::Text(text) | Value::Expanded(text) => visitor.visit_enum(Name(text)),
            _ => Err(Fault::new(Kind::NoVariant(known))),
        };
        read.map_err(|fault| fault.found(node))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }
}

/// The name of a choice.
struct Name<'de>(&'de str);

impl<'de> EnumAccess<'de> for Name<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let name: StrDeserializer<'_, Fault> = self.0.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

/// Choices hold nothing.
impl<'de> VariantAccess<'de> for Name<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Fault> {
        Err(Fault::custom("is a name alone"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Fault> {
        Err(Fault::custom("is a name alone"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Fault> {
        Err(Fault::custom("is a name alone"))
    }
}

struct Items<'de>(std::iter::Enumerate<std::slice::Iter<'de, Node>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some((at, node)) = self.0.by_ref().find(|(_, node)| !matches!(node.value, Value::Refused)) else {
            return Ok(None);
        };
        seed.deserialize(Cursor(node)).map(Some).map_err(|fault| fault.found(node).within(Step::At(at)))
    }
}

struct Entries<'de> {
    left: std::slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.left.by_ref().find(|entry| !matches!(entry.node.value, Value::Refused)) else {
            return Ok(None);
        };
        self.current = Some(entry);
        let name: StrDeserializer<'_, Fault> = entry.key.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|fault| {
            Fault { line: Some(entry.line), found: entry.key.clone(), ..fault }.within(Step::Key(entry.key.clone()))
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(entry) = self.current.take() else { return Err(Fault::custom("a value without a key")) };
        seed.deserialize(Cursor(&entry.node))
            .map_err(|fault| fault.found(&entry.node).within(Step::Key(entry.key.clone())))
    }
}
