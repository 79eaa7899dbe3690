//! Arguments that a model writes as tagged parameters instead of JSON.

use serde_json::{Map, Value};

use super::GrammarError;
use super::lark::Lark;
use super::structured::WHITE_SPACE;

/// How a style writes a parameter: what stands before and after its name, and after its value.
struct Style {
    before: &'static str,
    after: &'static str,
    /// DeepSeek tells whether the value is a string: these take the place of `after`.
    typed: Option<[&'static str; 2]>,
    end: &'static str,
}

/// White space that may stand between parameters, and around values that are no text.
pub(super) const GAP: &str = r"/[ \n\r\t]*/";

fn style(name: &str) -> Option<Style> {
    let plain = |before, after, end| Style { before, after, typed: None, end };
    let deepseek =
        |before, end| Style { before, after: "", typed: Some(["\" string=\"true\">", "\" string=\"false\">"]), end };
    Some(match name {
        "qwen_xml" => plain("<parameter=", ">", "</parameter>"),
        "minimax_xml" => plain("<parameter name=\"", "\">", "</parameter>"),
        "glm_xml" => plain("<arg_key>", "</arg_key><arg_value>", "</arg_value>"),
        "deepseek_xml" => deepseek("<｜DSML｜parameter name=\"", "</｜DSML｜parameter>"),
        "deepseek_v4_1_xml" => deepseek("<｜DSML｜ parameter name=\"", "</｜DSML｜ parameter>"),
        _ => return None,
    })
}

/// The parameters of one call, white space before each: those of an object's schema in its order, or any where the schema tells none.
pub(super) fn parameters(lark: &mut Lark<'_>, schema: &Value, name: &str) -> Result<String, GrammarError> {
    let style = style(name).ok_or_else(|| GrammarError::invalid(format!("schemas have no style {name:?}")))?;
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|map| !map.is_empty()) else {
        let any = style.any(lark);
        return Ok(lark.rule(&format!("({GAP} {any})*")));
    };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut parts = Vec::with_capacity(properties.len());
    for (key, property) in properties {
        let written = style.one(lark, key, &with_definitions(property, schema));
        let count = if required.contains(&key.as_str()) { "" } else { "?" };
        parts.push(format!("({GAP} {written}){count}"));
    }
    Ok(lark.rule(&parts.join(" ")))
}

/// A property may point to what its schema defines.
fn with_definitions(property: &Value, schema: &Value) -> Value {
    let mut property = property.clone();
    if let Value::Object(map) = &mut property {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = schema.get(key) {
                map.entry(key).or_insert_with(|| definitions.clone());
            }
        }
    }
    property
}

impl Style {
    fn one(&self, lark: &mut Lark<'_>, key: &str, property: &Value) -> String {
        let is_text = is_text(property);
        let after = self.typed.map_or(self.after, |[text, other]| if is_text { text } else { other });
        let head = lark.literal(&format!("{}{key}{after}", self.before));
        let value = match text_values(property) {
            Some(values) => {
                let values: Vec<String> = values.iter().map(|text| lark.literal(text)).collect();
                format!("{GAP} ({}) {GAP} {}", values.join(" | "), lark.literal(self.end))
            }
            None if is_text => self.text(lark),
            None => {
                let json = lark.rule(&Lark::json(property, WHITE_SPACE));
                format!("{GAP} {json} {GAP} {}", lark.literal(self.end))
            }
        };
        lark.rule(&format!("{head} {value}"))
    }

    /// Text up to the end of the value.
    fn text(&self, lark: &mut Lark<'_>) -> String {
        if lark.specials().begins(self.end) {
            let text = lark.text_without(&[]);
            return format!("{text} {}", lark.literal(self.end));
        }
        let text = lark.text_without(&[]);
        lark.shortest(&format!("{text} {}", lark.literal(self.end)))
    }

    /// A parameter of any name and value.
    fn any(&self, lark: &mut Lark<'_>) -> String {
        let afters: Vec<String> = self
            .typed
            .map_or(vec![self.after], |typed| typed.to_vec())
            .iter()
            .map(|after| lark.literal(after))
            .collect();
        let text = self.text(lark);
        lark.rule(&format!("{} /[^<>\"\\n]+/ ({}) {text}", lark.literal(self.before), afters.join(" | ")))
    }
}

/// Strings are written as they are; everything else as JSON.
fn is_text(property: &Value) -> bool {
    let is = |kind: &Value| kind.as_str() == Some("string");
    match property.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
        None => text_values(property).is_some() || property.as_object().is_none_or(Map::is_empty),
    }
}

/// The values of an enumeration of strings.
fn text_values(property: &Value) -> Option<Vec<&str>> {
    let values = match (property.get("enum"), property.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().collect(),
        (_, Some(value)) => vec![value],
        _ => return None,
    };
    values.into_iter().map(Value::as_str).collect()
}
