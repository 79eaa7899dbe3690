//! What a region of calls says: JSON, rearranged by the template, its arguments typed by the tools' schemas.

use serde_json::Value;

use super::template::Field;
use crate::parsers::python::{self, Json};
use crate::parsers::{Tool, schema};

/// Schemas that nest deeper are not looked into.
const MAX_DEPTH: usize = 32;

/// The calls of a region, each a name and its arguments; `None` where anything is missing.
pub(super) fn read(field: &Field, body: &str, tools: &[Tool]) -> Option<Vec<(String, String)>> {
    let value = python::loads(body)?;
    let calls = match (&field.transform, field.each) {
        (None, _) => value,
        (Some(transform), false) => transformed(transform, &Json::Dict(vec![("content".to_owned(), value)]))?,
        (Some(transform), true) => {
            let Json::List(items) = value else { return None };
            Json::List(items.iter().map(|item| transformed(transform, item)).collect::<Option<_>>()?)
        }
    };
    let calls = if let Json::List(calls) = calls { calls } else { vec![calls] };
    calls.into_iter().map(|call| named(call, tools)).collect()
}

/// A template with its placeholders, `{content.name}`, filled in.
fn transformed(transform: &Value, scope: &Json) -> Option<Json> {
    match transform {
        Value::Object(members) => {
            let filled = members.iter().map(|(key, value)| Some((key.clone(), transformed(value, scope)?)));
            filled.collect::<Option<_>>().map(Json::Dict)
        }
        Value::Array(items) => items.iter().map(|item| transformed(item, scope)).collect::<Option<_>>().map(Json::List),
        Value::String(text) => match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(path) => path.split('.').try_fold(scope, |value, key| value.get(key)).cloned(),
            None => Some(Json::Str(text.clone())),
        },
        constant => python::loads(&constant.to_string()),
    }
}

fn named(call: Json, tools: &[Tool]) -> Option<(String, String)> {
    let function = call.get("function")?;
    let name = function.get("name").and_then(Json::as_str).filter(|name| !name.is_empty())?;
    let arguments = match function.get("arguments")? {
        Json::Null => return None,
        Json::Str(text) => text.clone(),
        Json::Dict(members) => python::dumps(&Json::Dict(typed(members.clone(), name, tools))),
        other => python::dumps(other),
    };
    Some((name.to_owned(), arguments))
}

fn typed(members: Vec<(String, Json)>, function: &str, tools: &[Tool]) -> Vec<(String, Json)> {
    let coerced = |(key, value): (String, Json)| {
        let mut types = Vec::new();
        if let Some(schema) = schema::of_parameter(tools, function, &key) {
            collect(schema, &mut types, MAX_DEPTH);
        }
        let value = match value {
            Json::Str(text) => coerce(text, &types),
            Json::List(items) if !types.is_empty() && !types.contains(&"array") => {
                let item = |item| if let Json::Str(text) = item { coerce(text, &types) } else { item };
                Json::List(items.into_iter().map(item).collect())
            }
            other => other,
        };
        (key, value)
    };
    members.into_iter().map(coerced).collect()
}

/// The types of a schema in its own order.
fn collect<'s>(schema: &'s Value, types: &mut Vec<&'s str>, depth: usize) {
    match schema.get("type") {
        Some(Value::String(name)) => types.push(name),
        Some(Value::Array(names)) => types.extend(names.iter().filter_map(Value::as_str)),
        _ => {}
    }
    if depth > 0 {
        let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array()).flatten();
        choices.for_each(|choice| collect(choice, types, depth - 1));
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) && !types.contains(&"null") {
        types.push("null");
    }
}

/// The first type that a text is, or the text.
fn coerce(text: String, types: &[&str]) -> Json {
    let word = text.trim().to_lowercase();
    let read = |name: &&str| match *name {
        "integer" => schema::integer(&text).or_else(|| whole(&text)),
        "number" => number(&text),
        "boolean" if matches!(word.as_str(), "true" | "1") => Some(Json::Bool(true)),
        "boolean" if matches!(word.as_str(), "false" | "0") => Some(Json::Bool(false)),
        "null" if matches!(text.trim(), "null" | "None") => Some(Json::Null),
        "object" => python::loads(&text).filter(|value| matches!(value, Json::Dict(_))),
        "array" => python::loads(&text).filter(|value| matches!(value, Json::List(_))),
        _ => None,
    };
    types.iter().find_map(read).unwrap_or(Json::Str(text))
}

fn float(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    text.parse().ok().filter(|value: &f64| plain && value.is_finite())
}

/// A whole number that is written as a float.
fn whole(text: &str) -> Option<Json> {
    float(text).filter(|value| value.fract() == 0.0).map(|value| Json::Int(format!("{:.0}", value + 0.0)))
}

/// A number, as integer where it is written without a point.
fn number(text: &str) -> Option<Json> {
    let as_int = if text.contains('.') { None } else { whole(text) };
    as_int.or_else(|| float(text).map(Json::Float))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_the_schemas_first_type_that_fits() {
        for (text, schema, value) in [
            ("42", json!({"type": ["string", "integer"]}), "42"),
            ("3.0", json!({"type": "integer"}), "3"),
            ("3.5", json!({"type": "integer"}), "\"3.5\""),
            ("3.0", json!({"type": "number"}), "3.0"),
            ("3", json!({"type": "number"}), "3"),
            ("None", json!({"type": "string", "nullable": true}), "null"),
            ("[1]", json!({"anyOf": [{"type": "object"}, {"type": "array"}]}), "[1]"),
            ("x", json!({}), "\"x\""),
        ] {
            let mut types = Vec::new();
            collect(&schema, &mut types, MAX_DEPTH);
            assert_eq!(python::dumps(&coerce(text.to_owned(), &types)), value, "{text} as {schema}");
        }
    }
}
