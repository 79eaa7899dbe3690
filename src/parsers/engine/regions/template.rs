//! A `response_template` of `tokenizer_config.json`: between which marks a reply has its regions, and what they are.
//!
//! Marks are literals here. A template whose marks or values are regular expressions is refused.

use serde_json::{Map, Value};

/// What a region holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Thinking,
    Content,
    Calls,
}

/// A region and the marks around it.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) what: What,
    /// Empty for the region that everything outside of the others belongs to.
    pub(super) open: Vec<String>,
    pub(super) close: Vec<String>,
    /// What is made of a region of calls; its own value where there is none.
    pub(super) transform: Option<Value>,
    /// The transform is of each element of a list.
    pub(super) each: bool,
}

/// The template of a model.
#[derive(Debug, Clone, Default)]
pub(super) struct Template {
    /// After the last of these in the prompt the reply begins.
    pub(super) anchors: Vec<String>,
    pub(super) fields: Vec<Field>,
}

impl Template {
    /// Checks what a model's file says. The error says what is wrong with it.
    pub(super) fn load(spec: &Value) -> Result<Self, String> {
        let spec = spec.as_object().ok_or("it is not an object")?;
        only(spec, &["version", "defaults", "fields", "start_anchor", "start_anchor_pattern"], "it")?;
        if spec.get("version").is_some_and(|version| *version != 1) {
            return Err("its version is not 1".to_owned());
        }
        let anchors = marks(spec, "start_anchor", "it")?;
        if anchors.is_empty() {
            return Err("it has no start_anchor".to_owned());
        }
        let members = spec.get("fields").and_then(Value::as_object).filter(|fields| !fields.is_empty());
        let members = members.ok_or("it has no fields")?;
        let mut fields = members.iter().map(|(name, field)| self::field(name, field)).collect::<Result<Vec<_>, _>>()?;
        if fields.iter().filter(|field| field.open.is_empty()).count() > 1 {
            return Err("more than one field lacks an opening mark".to_owned());
        }
        // What no field claims is content.
        if fields.iter().all(|field| field.what != What::Content && !field.open.is_empty()) {
            fields.push(Field { what: What::Content, open: vec![], close: vec![], transform: None, each: false });
        }
        Ok(Self { anchors, fields })
    }

    pub(super) fn has(&self, what: What) -> bool {
        self.field(what).is_some()
    }

    pub(super) fn field(&self, what: What) -> Option<&Field> {
        self.fields.iter().find(|field| field.what == what)
    }

    /// The region that everything outside of the others belongs to.
    pub(super) fn implicit(&self) -> Option<&Field> {
        self.fields.iter().find(|field| field.open.is_empty())
    }

    /// A prompt's end: what belongs to the reply.
    pub(super) fn after_anchor<'t>(&self, prompt: &'t str) -> &'t str {
        let end = |anchor: &String| Some(prompt.rfind(anchor.as_str())? + anchor.len());
        self.anchors.iter().filter_map(end).max().map_or(prompt, |end| prompt.split_at(end).1)
    }

    /// Whether a reply that stops in this start of a closing mark has ended the region: only the next message's start is
    /// missing.
    pub(super) fn is_closed_by(&self, field: &Field, start: &str) -> bool {
        let only_anchor_missing = |close: &String| {
            let ends = self.anchors.iter().filter_map(|anchor| close.strip_suffix(anchor.as_str()));
            close.starts_with(start) && ends.into_iter().any(|own| !own.is_empty() && start.starts_with(own))
        };
        !start.is_empty() && field.close.iter().any(only_anchor_missing)
    }
}

fn field(name: &str, spec: &Value) -> Result<Field, String> {
    const KEYS: [&str; 11] = [
        "open",
        "open_pattern",
        "close",
        "close_pattern",
        "content",
        "content_args",
        "repeats",
        "join",
        "optional",
        "transform",
        "transform_each",
    ];
    let scope = format!("field {name:?}");
    let what = match name {
        "thinking" => What::Thinking,
        "content" => What::Content,
        "tool_calls" => What::Calls,
        _ => return Err(format!("{scope} is none of thinking, content and tool_calls")),
    };
    let spec = spec.as_object().ok_or_else(|| format!("{scope} is not an object"))?;
    only(spec, &KEYS, &scope)?;
    let transform = spec.get("transform").filter(|transform| !transform.is_null()).cloned();
    let reader = spec.get("content").map_or(Some("text"), Value::as_str);
    let plain = spec.get("content_args").and_then(Value::as_object).is_none_or(Map::is_empty);
    match (what, reader) {
        (What::Calls, Some("json")) if plain => {}
        (What::Calls, _) => return Err(format!("{scope} is not plain JSON, which is all that couplet reads")),
        (_, Some("text")) if transform.is_none() => {}
        _ => return Err(format!("{scope} is not plain text")),
    }
    let each = spec.get("transform_each") == Some(&Value::Bool(true));
    Ok(Field { what, open: marks(spec, "open", &scope)?, close: marks(spec, "close", &scope)?, transform, each })
}

fn only(spec: &Map<String, Value>, known: &[&str], scope: &str) -> Result<(), String> {
    match spec.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{scope} has an unknown key {key:?}")),
        None => Ok(()),
    }
}

/// A mark, or several of which any counts.
fn marks(spec: &Map<String, Value>, key: &str, scope: &str) -> Result<Vec<String>, String> {
    if spec.contains_key(&format!("{key}_pattern")) {
        return Err(format!("{scope} has a {key}_pattern, and couplet reads only literal marks"));
    }
    let marks: Option<Vec<String>> = match spec.get(key) {
        None => return Ok(Vec::new()),
        Some(Value::String(mark)) => Some(vec![mark.clone()]),
        Some(Value::Array(marks)) => marks.iter().map(|mark| mark.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    let marks = marks.filter(|marks| !marks.is_empty() && marks.iter().all(|mark| !mark.is_empty()));
    marks.ok_or_else(|| format!("{scope}: {key:?} is no text and no list of texts"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn says_what_is_wrong() {
        for (spec, reason) in [
            (json!([]), "not an object"),
            (json!({"start_anchor": "a", "fields": {}}), "no fields"),
            (json!({"fields": {"content": {}}}), "no start_anchor"),
            (json!({"start_anchor_pattern": "a+", "fields": {"content": {}}}), "only literal marks"),
            (json!({"start_anchor": "a", "fields": {"poem": {}}}), "none of thinking"),
            (json!({"start_anchor": "a", "fields": {"content": {}, "thinking": {}}}), "more than one field"),
            (json!({"start_anchor": "a", "fields": {"content": {"open": ""}}}), "no list of texts"),
            (
                json!({"start_anchor": "a", "fields": {"tool_calls": {"open": "x", "content": "xml-inline"}}}),
                "plain JSON",
            ),
        ] {
            let error = Template::load(&spec).unwrap_err();
            assert!(error.contains(reason), "{spec}: {error}");
        }
    }

    #[test]
    fn a_closing_mark_may_lack_the_next_messages_start() {
        let spec = json!({"start_anchor": "<s>", "fields": {"content": {"open": "<c>", "close": "</c><s>"}}});
        let template = Template::load(&spec).unwrap();
        let field = template.field(What::Content).unwrap();
        assert!(template.is_closed_by(field, "</c>"));
        assert!(template.is_closed_by(field, "</c><"));
        assert!(!template.is_closed_by(field, "</c"));
        assert!(!template.is_closed_by(field, ""));
    }
}
