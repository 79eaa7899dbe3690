//! Structural tags → Lark. Format: xgrammar's, in the forms that render writes and those that clients may send.

use serde_json::Value;

use super::GrammarError;
use super::lark::{Lark, Specials, regex};
use super::xml;

/// The grammar of a structural tag: `{"type": "structural_tag", "format": …}`, or the older form with `structures` and
/// `triggers`.
pub(super) fn lark(tag: &Value, specials: &Specials) -> Result<String, GrammarError> {
    let mut lark = Lark::new(specials);
    let start = match (tag.get("format"), tag.get("structures"), tag.get("triggers")) {
        (Some(format), ..) => read(&mut lark, format)?,
        (None, Some(structures), Some(triggers)) => older(&mut lark, structures, triggers)?,
        _ => return Err(GrammarError::invalid("a structural tag needs `format`")),
    };
    Ok(lark.finish(&start))
}

/// `structures`: begin, schema, end each.
fn older(lark: &mut Lark<'_>, structures: &Value, triggers: &Value) -> Result<String, GrammarError> {
    let tags: Vec<Tag<'_>> = list(structures)
        .iter()
        .map(|structure| {
            let content = Lark::json(structure.get("schema").unwrap_or(&Value::Bool(true)));
            Tag {
                begin: text(structure, "begin"),
                content: Content::Grammar { name: lark.rule(&content), is_spaced: false },
                ends: vec![text(structure, "end")],
            }
        })
        .collect();
    Ok(triggered(lark, &texts(triggers), &tags, &[], false, false))
}

/// A format → an expression.
fn read(lark: &mut Lark<'_>, format: &Value) -> Result<String, GrammarError> {
    let content = || format.get("content").unwrap_or(&Value::Null);
    let flag = |key: &str| format.get(key) == Some(&Value::Bool(true));
    Ok(match text(format, "type") {
        "const_string" => lark.literal(text(format, "value")),
        "regex" => regex(text(format, "pattern")),
        "grammar" => return Err(GrammarError::invalid("a grammar inside a structural tag is not supported")),
        "any_text" => {
            let body = lark.text_without(&texts(&format["excludes"]));
            lark.rule(&body)
        }
        "json_schema" | "qwen_xml_parameter" => schema(lark, format)?,
        "sequence" => {
            let parts = all(lark, &format["elements"])?;
            lark.rule(&parts.join(" "))
        }
        "or" => {
            let parts = all(lark, &format["elements"])?;
            lark.rule(&parts.join(" | "))
        }
        "optional" => format!("({})?", read(lark, content())?),
        "star" => format!("({})*", read(lark, content())?),
        "plus" => format!("({})+", read(lark, content())?),
        "tag" => {
            let tag = Tag::read(lark, format)?;
            tag.write(lark, tag.begin)
        }
        "tags_with_separator" => {
            let tags = Tag::all(lark, &format["tags"])?;
            let tags: Vec<String> = tags.iter().map(|tag| tag.write(lark, tag.begin)).collect();
            let one = lark.rule(&tags.join(" | "));
            let separator = lark.literal(text(format, "separator"));
            let some = match (flag("stop_after_first"), text(format, "separator")) {
                (true, _) => one,
                (false, "") => format!("{one}+"),
                (false, _) => format!("{one} ({separator} {one})*"),
            };
            if flag("at_least_one") { lark.rule(&some) } else { format!("({some})?") }
        }
        "triggered_tags" => {
            let tags = Tag::all(lark, &format["tags"])?;
            let (triggers, excludes) = (texts(&format["triggers"]), texts(&format["excludes"]));
            triggered(lark, &triggers, &tags, &excludes, flag("at_least_one"), flag("stop_after_first"))
        }
        other => return Err(GrammarError::invalid(format!("structural tags have no format {other:?}"))),
    })
}

fn all(lark: &mut Lark<'_>, formats: &Value) -> Result<Vec<String>, GrammarError> {
    list(formats).iter().map(|format| read(lark, format)).collect()
}

fn schema(lark: &mut Lark<'_>, format: &Value) -> Result<String, GrammarError> {
    let schema = format.get("json_schema").unwrap_or(&Value::Bool(true));
    match format.get("style").and_then(Value::as_str) {
        None if text(format, "type") == "qwen_xml_parameter" => xml::parameters(lark, schema, "qwen_xml"),
        None | Some("json") => Ok(lark.rule(&Lark::json(schema))),
        Some(style) => xml::parameters(lark, schema, style),
    }
}

/// What stands between a begin and an end.
enum Content {
    /// This rule; white space may stand between it and the end.
    Grammar { name: String, is_spaced: bool },
    /// Any text without these, up to the end.
    Text(String),
}

struct Tag<'a> {
    begin: &'a str,
    content: Content,
    /// Any of these.
    ends: Vec<&'a str>,
}

impl<'a> Tag<'a> {
    fn read(lark: &mut Lark<'_>, format: &'a Value) -> Result<Self, GrammarError> {
        let content = format.get("content").unwrap_or(&Value::Null);
        let content = match text(content, "type") {
            "any_text" => Content::Text(lark.text_without(&texts(&content["excludes"]))),
            _ => {
                let is_spaced =
                    text(content, "style").ends_with("_xml") || text(content, "type") == "qwen_xml_parameter";
                let name = read(lark, content)?;
                Content::Grammar { name: lark.rule(&name), is_spaced }
            }
        };
        let ends = match &format["end"] {
            Value::Array(_) => texts(&format["end"]),
            _ => vec![text(format, "end")],
        };
        Ok(Self { begin: text(format, "begin"), content, ends })
    }

    fn all(lark: &mut Lark<'_>, tags: &'a Value) -> Result<Vec<Self>, GrammarError> {
        list(tags).iter().map(|tag| Self::read(lark, tag)).collect()
    }

    /// Writes the tag from the rest of its begin on.
    fn write(&self, lark: &mut Lark<'_>, begin: &str) -> String {
        let begin = if begin.is_empty() { String::new() } else { lark.literal(begin) };
        let ends: Vec<String> = self
            .ends
            .iter()
            .map(|end| match &self.content {
                Content::Grammar { name, is_spaced: false } => format!("{name} {}", lark.literal(end)),
                Content::Grammar { name, .. } => format!("{name} {} {}", xml::GAP, lark.literal(end.trim_start())),
                Content::Text(text) if end.is_empty() || lark.specials().begins(end) => {
                    let text = lark.rule(text);
                    format!("{text} {}", lark.literal(end))
                }
                // Plain text ends with the first end that comes.
                Content::Text(text) => lark.shortest(&format!("{text} {}", lark.literal(end))),
            })
            .collect();
        lark.rule(&format!("{begin} ({})", ends.join(" | ")))
    }
}

/// Text in which a trigger leads to one of the tags that begin with it.
fn triggered(
    lark: &mut Lark<'_>,
    triggers: &[&str],
    tags: &[Tag<'_>],
    excludes: &[&str],
    at_least_one: bool,
    stop_after_first: bool,
) -> String {
    let mut groups = Vec::new();
    let words: Vec<&str> =
        triggers.iter().chain(excludes).copied().filter(|word| !lark.specials().begins(word)).collect();
    let plain = lark.text_without(&words);
    for trigger in triggers {
        let led: Vec<(&Tag<'_>, &str)> =
            tags.iter().filter_map(|tag| Some((tag, tag.begin.strip_prefix(trigger)?))).collect();
        let led: Vec<String> = led.into_iter().map(|(tag, rest)| tag.write(lark, rest)).collect();
        if led.is_empty() {
            continue;
        }
        let led = lark.rule(&led.join(" | "));
        let lead = if lark.specials().begins(trigger) {
            let text = lark.rule(&plain);
            format!("{text} {}", lark.literal(trigger))
        } else {
            let before = lark.text_without(excludes);
            lark.shortest(&format!("{before} {}", lark.literal(trigger)))
        };
        groups.push(lark.rule(&format!("{lead} {led}")));
    }
    let tail = lark.rule(&plain);
    if groups.is_empty() {
        return tail;
    }
    let group = lark.rule(&groups.join(" | "));
    let first: Vec<String> = tags.iter().map(|tag| tag.write(lark, tag.begin)).collect();
    let first = lark.rule(&first.join(" | "));
    match (at_least_one, stop_after_first) {
        (true, true) => first,
        (true, false) => lark.rule(&format!("{first} {group}* {tail}")),
        (false, true) => lark.rule(&format!("{group} | {tail}")),
        (false, false) => lark.rule(&format!("{group}* {tail}")),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}
