//! What a tool's JSON schema makes of a value that the model wrote as text.

use serde_json::Value;

use super::Tool;
use super::python::{self, Json};

/// The types that a schema allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types {
    bits: u8,
    /// The schema says `string` and nothing else.
    pub(super) only_string: bool,
}

const NULL: u8 = 1;
const INTEGER: u8 = 1 << 1;
const NUMBER: u8 = 1 << 2;
const BOOLEAN: u8 = 1 << 3;
const OBJECT: u8 = 1 << 4;
const ARRAY: u8 = 1 << 5;
const STRING: u8 = 1 << 6;

impl Types {
    /// Of a parameter that the schema does not have: text, in the end.
    pub(super) const UNKNOWN: Self = Self { bits: STRING, only_string: false };

    /// Of a parameter that is a string where the schema does not have it.
    pub(super) const STRING: Self = Self { bits: STRING, only_string: true };

    /// The types of a schema, its alternatives included; `string` where it says nothing.
    pub(super) fn of(schema: &Value) -> Self {
        let mut names = Vec::new();
        collect(schema, &mut names);
        Self {
            bits: names.iter().fold(0, |bits, name| bits | bit(name)),
            only_string: names.iter().all(|name| *name == "string"),
        }
    }

    /// This type is among several.
    pub(super) fn has_choice_of(self, name: &str) -> bool {
        self.allows(bit(name)) && self.bits.count_ones() > 1
    }

    /// A string may be among them.
    pub(super) fn allows_string(self) -> bool {
        self.allows(STRING)
    }

    fn allows(self, bit: u8) -> bool {
        self.bits & bit != 0
    }
}

/// The schema of a function's parameters, by name: `properties` of the first tool called so.
pub(super) fn properties<'t>(tools: &'t [Tool], function: &str) -> Option<&'t serde_json::Map<String, Value>> {
    let tool = tools.iter().find(|tool| tool.name == function)?;
    tool.parameters.get("properties")?.as_object().filter(|members| !members.is_empty())
}

/// The schema of a parameter, where it has one.
pub(super) fn of_parameter<'t>(tools: &'t [Tool], function: &str, key: &str) -> Option<&'t Value> {
    properties(tools, function)?.get(key).filter(|schema| schema.is_object())
}

/// A parameter can only be a string: its schema says so, or the function has no schema at all.
pub(super) fn is_string(tools: &[Tool], function: &str, key: &str) -> bool {
    if properties(tools, function).is_none() {
        return true;
    }
    of_parameter(tools, function, key).map_or(Types::UNKNOWN, Types::of).only_string
}

fn collect<'s>(schema: &'s Value, names: &mut Vec<&'s str>) {
    let before = names.len();
    match schema.get("type") {
        Some(Value::String(name)) => names.push(name),
        Some(Value::Array(list)) => names.extend(list.iter().filter_map(Value::as_str)),
        _ => {}
    }
    let values = schema.get("enum").and_then(Value::as_array);
    names.extend(values.into_iter().flatten().map(|value| -> &str { type_of(value) }));
    for choices in ["anyOf", "oneOf", "allOf"] {
        schema.get(choices).and_then(Value::as_array).into_iter().flatten().for_each(|choice| collect(choice, names));
    }
    if names.len() == before {
        names.push("string");
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn bit(name: &str) -> u8 {
    match name.trim().to_lowercase().as_str() {
        "null" => NULL,
        "integer" | "int" | "int32" | "int64" | "uint" | "uint32" | "uint64" | "long" | "short" | "unsigned" => INTEGER,
        "number" | "float" | "float32" | "float64" | "double" => NUMBER,
        "boolean" | "bool" => BOOLEAN,
        "object" | "dict" => OBJECT,
        "array" | "arr" | "list" | "sequence" => ARRAY,
        "string" | "str" | "text" | "varchar" | "char" | "enum" => STRING,
        _ => 0,
    }
}

/// The value that the schema makes of another: texts and numbers where they stand, lists and objects inside.
pub(super) fn fit(value: Json, schema: &Value) -> Json {
    match value {
        Json::Str(text) => coerce(&text, Types::of(schema)),
        Json::Dict(members) => match schema.get("properties").and_then(Value::as_object) {
            Some(known) => fit_members(members, known),
            None => Json::Dict(members),
        },
        Json::List(items) => match schema.get("items").filter(|items| items.is_object()) {
            Some(schema) => Json::List(items.into_iter().map(|item| fit(item, schema)).collect()),
            None => Json::List(items),
        },
        other => coerce(&python::dumps(&other), Types::of(schema)),
    }
}

/// The same for the members of an object, by their schemas.
pub(super) fn fit_members(members: Vec<(String, Json)>, known: &serde_json::Map<String, Value>) -> Json {
    let fitted = members.into_iter().map(|(key, member)| match known.get(&key).filter(|schema| schema.is_object()) {
        Some(schema) => (key, fit(member, schema)),
        None => (key, member),
    });
    Json::Dict(fitted.collect())
}

/// The value that a text stands for: the first allowed type that fits, in a fixed order; else the text.
pub(super) fn coerce(text: &str, types: Types) -> Json {
    type Read = fn(&str) -> Option<Json>;
    let tries: [(u8, Read); 7] = [
        (NULL, null),
        (INTEGER, integer),
        (NUMBER, number),
        (BOOLEAN, boolean),
        (OBJECT, finite),
        (ARRAY, finite),
        (STRING, |text| Some(Json::Str(text.to_owned()))),
    ];
    let fits = tries.iter().find_map(|(bit, read)| if types.allows(*bit) { read(text) } else { None });
    fits.or_else(|| finite(text)).unwrap_or_else(|| Json::Str(text.to_owned()))
}

fn null(text: &str) -> Option<Json> {
    (text.to_lowercase() == "null").then_some(Json::Null)
}

/// `int(text)`: surrounding white space, a sign, and `_` between digits.
pub(super) fn integer(text: &str) -> Option<Json> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits_of(digits)?;
    let digits = match digits.trim_start_matches('0') {
        "" => return Some(Json::Int("0".to_owned())),
        digits => digits,
    };
    (digits.len() <= 4300).then(|| Json::Int(format!("{sign}{digits}")))
}

/// Digits without the single `_` that may stand between two of them.
fn digits_of(text: &str) -> Option<String> {
    let single = text.split('_').all(|run| !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_digit()));
    single.then(|| text.replace('_', ""))
}

/// An integer, or `float(text)` where that is finite; a whole float becomes an integer.
fn number(text: &str) -> Option<Json> {
    if let Some(int) = integer(text) {
        return Some(int);
    }
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    let value: f64 = text.parse().ok().filter(|value: &f64| plain && value.is_finite())?;
    Some(if value.fract() == 0.0 { Json::Int(format!("{:.0}", value + 0.0)) } else { Json::Float(value) })
}

fn boolean(text: &str) -> Option<Json> {
    match text.to_lowercase().trim() {
        "true" | "1" => Some(Json::Bool(true)),
        "false" | "0" => Some(Json::Bool(false)),
        _ => None,
    }
}

fn finite(text: &str) -> Option<Json> {
    python::loads(text).filter(is_finite)
}

fn is_finite(value: &Json) -> bool {
    match value {
        Json::Float(float) => float.is_finite(),
        Json::List(items) => items.iter().all(is_finite),
        Json::Dict(members) => members.iter().all(|(_, member)| is_finite(member)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn coerced(text: &str, schema: &Value) -> String {
        python::dumps(&coerce(text, Types::of(schema)))
    }

    #[test]
    fn takes_the_first_type_that_fits() {
        for (text, schema, value) in [
            ("12", json!({"type": "integer"}), "12"),
            (" 1_000 ", json!({"type": "int"}), "1000"),
            ("12", json!({"type": "string"}), "\"12\""),
            ("12", json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "12"),
            ("null", json!({"type": ["string", "null"]}), "null"),
            ("3.0", json!({"type": "number"}), "3"),
            ("2.5", json!({"type": "number"}), "2.5"),
            ("inf", json!({"type": "number"}), "\"inf\""),
            ("TRUE", json!({"type": "boolean"}), "true"),
            ("[1, 2]", json!({"type": "array"}), "[1, 2]"),
            ("[1, 2", json!({"type": "array"}), "\"[1, 2\""),
            ("x", json!({"type": "integer"}), "\"x\""),
            ("x", json!({}), "\"x\""),
        ] {
            assert_eq!(coerced(text, &schema), value, "{text} as {schema}");
        }
    }

    #[test]
    fn knows_what_can_only_be_a_string() {
        assert!(Types::of(&json!({"type": "string", "enum": ["a"]})).only_string);
        assert!(!Types::of(&json!({"anyOf": [{"type": "string"}, {"type": "null"}]})).only_string);
    }
}
