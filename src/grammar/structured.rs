//! `structured_outputs` of the sampling parameters → a grammar.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

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
        return Ok(single(lark(if gbnf::is_gbnf(text) { gbnf::to_lark(text)? } else { text.to_owned() })));
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

/// A schema with vLLM's options for it where llguidance looks for them.
fn json_schema(mut schema: Value, given: &Value) -> GrammarWithLexer {
    let is = |key: &str| given.get(key) == Some(&Value::Bool(true));
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if let Value::Object(map) = &mut schema {
        let mut options = json!({"whitespace_flexible": !is("disable_any_whitespace")});
        if let Some(pattern) = given.get("whitespace_pattern").and_then(Value::as_str) {
            options["whitespace_pattern"] = Value::from(pattern);
        }
        map.entry("x-guidance").or_insert(options);
    }
    GrammarWithLexer { json_schema: Some(schema), ..GrammarWithLexer::default() }
}

fn read_if_text(value: &Value, key: &str) -> Result<Value, GrammarError> {
    match value {
        Value::String(text) => {
            serde_json::from_str(text).map_err(|error| GrammarError::invalid(format!("{key} is not JSON: {error}")))
        }
        other => Ok(other.clone()),
    }
}
