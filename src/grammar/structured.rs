//! `structured_outputs` of the sampling parameters → a grammar.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value, json};

use super::lark::{Lark, Specials, regex};
use super::{GrammarError, gbnf, tag};

/// Reads the one kind of grammar that is set: `json`, `json_object`, `regex`, `choice`, `grammar` or `structural_tag`.
pub(super) fn grammar(given: &Value, specials: &Specials) -> Result<TopLevelGrammar, GrammarError> {
    let set = |key: &str| given.get(key).filter(|value| !value.is_null());
    if let Some(schema) = set("json") {
        return Ok(single(json_schema(read_if_text(schema, "json")?, given)));
    }
    if set("json_object") == Some(&Value::Bool(true)) {
        return Ok(single(json_schema(json!({"type": "object"}), given)));
    }
    if let Some(tag) = set("structural_tag") {
        return Ok(single(lark(tag::lark(&read_if_text(tag, "structural_tag")?, specials)?)));
    }
    if let Some(pattern) = set("regex").and_then(Value::as_str) {
        return Ok(single(lark(format!("start: {}\n", regex(pattern)))));
    }
    if let Some(choices) = set("choice").and_then(Value::as_array) {
        let writer = Lark::new(specials);
        let choices: Vec<String> = choices.iter().filter_map(Value::as_str).map(|text| writer.literal(text)).collect();
        return Ok(single(lark(writer.finish(&choices.join(" | ")))));
    }
    if let Some(text) = set("grammar").and_then(Value::as_str) {
        return Ok(single(lark(gbnf::as_lark(text)?)));
    }
    Err(GrammarError::invalid(
        "structured_outputs sets none of json, regex, choice, grammar, json_object, structural_tag",
    ))
}

fn single(grammar: GrammarWithLexer) -> TopLevelGrammar {
    TopLevelGrammar { grammars: vec![grammar], max_tokens: None }
}

fn lark(text: String) -> GrammarWithLexer {
    GrammarWithLexer { lark_grammar: Some(text), ..GrammarWithLexer::default() }
}

/// White space between parts of JSON. vLLM's grammars let any amount of it come, with which some models fill a reply; here it
/// is some, or a new line and as much indentation as deep JSON is printed with.
pub(super) const WHITE_SPACE: &str = r"([ \n\r\t]{0,20}|\r?\n[ \t]{0,128})";

/// A schema with vLLM's options for it where llguidance looks for them.
fn json_schema(schema: Value, given: &Value) -> GrammarWithLexer {
    let schema = match given.get("whitespace_pattern").and_then(Value::as_str) {
        Some(pattern) => spaced(schema, pattern),
        None if given.get("disable_any_whitespace") == Some(&Value::Bool(true)) => spaced(schema, ""),
        None => spaced(schema, WHITE_SPACE),
    };
    GrammarWithLexer { json_schema: Some(schema), ..GrammarWithLexer::default() }
}

/// A schema with the white space that may stand in its JSON.
pub(super) fn spaced(schema: Value, pattern: &str) -> Value {
    let mut map = match schema {
        Value::Object(map) => map,
        Value::Bool(true) => Map::new(),
        other => return other,
    };
    let options = if pattern.is_empty() {
        json!({"whitespace_flexible": false})
    } else {
        json!({"whitespace_flexible": true, "whitespace_pattern": pattern})
    };
    map.entry("x-guidance").or_insert(options);
    Value::Object(map)
}

fn read_if_text(value: &Value, key: &str) -> Result<Value, GrammarError> {
    match value {
        Value::String(text) => {
            serde_json::from_str(text).map_err(|error| GrammarError::invalid(format!("{key} is not JSON: {error}")))
        }
        other => Ok(other.clone()),
    }
}
