//! Structural tags → Lark. Format: xgrammar's, in the forms that render writes and those that clients may send.

use serde_json::Value;

use super::GrammarError;
use super::lark::{Lark, Specials, regex};
use super::structured::WHITE_SPACE;
use super::{gbnf, xml};

/// What bounds a format in a way that no grammar here can keep.
const UNKEPT: [&str; 3] = ["max_tokens", "max_chars", "any_order"];

/// The grammar of a structural tag: `{"type": "structural_tag", "format": …}`, or the older form with `structures` and
/// `triggers`.
pub(super) fn lark<'a>(tag: &'a Value, specials: &'a Specials) -> Result<String, GrammarError> {
    let mut lark = Lark::new(specials);
    let start = match (tag.get("format"), tag.get("structures"), tag.get("triggers")) {
        (Some(format), ..) => read(&mut lark, format)?,
        (None, Some(structures), Some(triggers)) => older(&mut lark, structures, triggers)?,
        _ => return Err(GrammarError::invalid("a structural tag needs `format`")),
    };
    Ok(lark.finish(&start))
}

/// `structures`: begin, schema, end each.
fn older<'a>(lark: &mut Lark<'a>, structures: &'a Value, triggers: &'a Value) -> Result<String, GrammarError> {
    let tags: Vec<Tag<'_>> = list(structures)
        .iter()
        .map(|structure| {
            let content = Lark::json(structure.get("schema").unwrap_or(&Value::Bool(true)), WHITE_SPACE);
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
fn read<'a>(lark: &mut Lark<'a>, format: &'a Value) -> Result<String, GrammarError> {
    refuse_unkept(format)?;
    let content = || format.get("content").unwrap_or(&Value::Null);
    Ok(match text(format, "type") {
        "const_string" => lark.literal(text(format, "value")),
        "regex" => regex(text(format, "pattern")),
        "grammar" => lark.nested(&gbnf::as_lark(text(format, "grammar"))?),
        "any_text" => {
            let body = lark.text_without(&texts(&format["excludes"]));
            lark.rule(&body)
        }
        "token" => lark.literal(token(lark, &format["token"])?),
        "exclude_token" => any_token(lark, &format["exclude_tokens"])?,
        "any_tokens" => format!("({})*", any_token(lark, &format["exclude_tokens"])?),
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
        "repeat" => format!("({}){}", read(lark, content())?, count(format)?),
        "tag" => {
            let tag = Tag::read(lark, format)?;
            tag.write(lark, tag.begin)
        }
        "tags_with_separator" => separated(lark, format)?,
        "triggered_tags" | "token_triggered_tags" => {
            let tags = Tag::all(lark, &format["tags"])?;
            let (triggers, excludes) = (marks(lark, format, "trigger")?, marks(lark, format, "exclude")?);
            triggered(lark, &triggers, &tags, &excludes, flag(format, "at_least_one"), flag(format, "stop_after_first"))
        }
        "dispatch" => dispatch(lark, format, mark)?,
        "token_dispatch" => dispatch(lark, format, token)?,
        other => return Err(GrammarError::invalid(format!("structural tags have no format {other:?}"))),
    })
}

/// Tags, and nothing but a separator between them.
fn separated<'a>(lark: &mut Lark<'a>, format: &'a Value) -> Result<String, GrammarError> {
    let tags = Tag::all(lark, &format["tags"])?;
    let tags: Vec<String> = tags.iter().map(|tag| tag.write(lark, tag.begin)).collect();
    let one = lark.rule(&tags.join(" | "));
    let separator = lark.literal(text(format, "separator"));
    let some = match (flag(format, "stop_after_first"), text(format, "separator")) {
        (true, _) => one,
        (false, "") => format!("{one}+"),
        (false, _) => format!("{one} ({separator} {one})*"),
    };
    Ok(if flag(format, "at_least_one") { lark.rule(&some) } else { format!("({some})?") })
}

/// Text in which what `reads` understands leads to a format of its own, once or again and again.
fn dispatch<'a>(lark: &mut Lark<'a>, format: &'a Value, reads: Reads<'a>) -> Result<String, GrammarError> {
    let tags = list(&format["rules"]).iter().map(|rule| Tag::dispatched(lark, reads, rule));
    let tags = tags.collect::<Result<Vec<_>, _>>()?;
    let triggers: Vec<&str> = tags.iter().map(|tag| tag.begin).collect();
    let excludes = marks(lark, format, "exclude")?;
    Ok(triggered(lark, &triggers, &tags, &excludes, false, format.get("loop") == Some(&Value::Bool(false))))
}

fn refuse_unkept(format: &Value) -> Result<(), GrammarError> {
    let is_set = |key: &&&str| !matches!(format.get(**key), None | Some(Value::Null | Value::Bool(false)));
    match UNKEPT.iter().find(is_set) {
        Some(key) => Err(GrammarError::invalid(format!("{key} inside a structural tag is not supported"))),
        None => Ok(()),
    }
}

fn all<'a>(lark: &mut Lark<'a>, formats: &'a Value) -> Result<Vec<String>, GrammarError> {
    list(formats).iter().map(|format| read(lark, format)).collect()
}

/// How often something comes: from `min` to `max` times, where -1 is no limit.
fn count(format: &Value) -> Result<String, GrammarError> {
    let (least, most) = (format.get("min").and_then(Value::as_u64), format.get("max").and_then(Value::as_i64));
    match (least, most) {
        (Some(least), Some(-1)) => Ok(format!("{{{least},}}")),
        (Some(least), Some(most)) if i64::try_from(least).is_ok_and(|least| least <= most) => {
            Ok(format!("{{{least},{most}}}"))
        }
        _ => Err(GrammarError::invalid("repeat needs `min` and `max`, which is not less, or -1")),
    }
}

/// One token of any kind but these.
fn any_token(lark: &Lark<'_>, excluded: &Value) -> Result<String, GrammarError> {
    let id = |token: &Value| token.as_u64().or_else(|| lark.specials().find(token).map(|(_, id)| id.into()));
    let ids = list(excluded).iter().map(|token| id(token).map(|id| id.to_string()).ok_or_else(|| unknown(token)));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    Ok(if ids.is_empty() { "<[*]>".to_owned() } else { format!("<[^{}]>", ids.join(",")) })
}

fn schema(lark: &mut Lark<'_>, format: &Value) -> Result<String, GrammarError> {
    if !list(&format["excludes"]).is_empty() {
        return Err(GrammarError::invalid("excludes of a schema inside a structural tag are not supported"));
    }
    let schema = format.get("json_schema").unwrap_or(&Value::Bool(true));
    match format.get("style").and_then(Value::as_str) {
        None if text(format, "type") == "qwen_xml_parameter" => xml::parameters(lark, schema, "qwen_xml"),
        None | Some("json") => {
            let most = format.get("max_whitespace_cnt").and_then(Value::as_u64);
            let white_space = most.map(|most| format!(r"[ \n\r\t]{{0,{most}}}"));
            Ok(lark.rule(&Lark::json(schema, white_space.as_deref().unwrap_or(WHITE_SPACE))))
        }
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

impl Content {
    fn read<'a>(lark: &mut Lark<'a>, format: &'a Value) -> Result<Self, GrammarError> {
        refuse_unkept(format)?;
        if text(format, "type") == "any_text" {
            return Ok(Self::Text(lark.text_without(&texts(&format["excludes"]))));
        }
        let is_spaced = text(format, "style").ends_with("_xml") || text(format, "type") == "qwen_xml_parameter";
        let name = read(lark, format)?;
        Ok(Self::Grammar { name: lark.rule(&name), is_spaced })
    }
}

struct Tag<'a> {
    begin: &'a str,
    content: Content,
    /// Any of these.
    ends: Vec<&'a str>,
}

impl<'a> Tag<'a> {
    fn read(lark: &mut Lark<'a>, format: &'a Value) -> Result<Self, GrammarError> {
        let content = Content::read(lark, format.get("content").unwrap_or(&Value::Null))?;
        let ends = match &format["end"] {
            Value::Array(_) => texts(&format["end"]),
            end => vec![mark(lark, end)?],
        };
        Ok(Self { begin: mark(lark, &format["begin"])?, content, ends })
    }

    /// What a rule of a dispatch leads to: `[begin, format]`.
    fn dispatched(lark: &mut Lark<'a>, reads: Reads<'a>, rule: &'a Value) -> Result<Self, GrammarError> {
        let begin = reads(lark, &rule[0])?;
        Ok(Self { begin, content: Content::read(lark, &rule[1])?, ends: vec![""] })
    }

    fn all(lark: &mut Lark<'a>, tags: &'a Value) -> Result<Vec<Self>, GrammarError> {
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

fn flag(value: &Value, key: &str) -> bool {
    value.get(key) == Some(&Value::Bool(true))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

/// Reads what stands for a text.
type Reads<'a> = fn(&Lark<'a>, &'a Value) -> Result<&'a str, GrammarError>;

/// What a tag begins or ends with: a text, or `{"type": "token", "token": …}`.
fn mark<'a>(lark: &Lark<'a>, value: &'a Value) -> Result<&'a str, GrammarError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Ok(""),
        other => token(lark, other.get("token").unwrap_or(other)),
    }
}

/// A special token by its id or text: its text, which stands for it.
fn token<'a>(lark: &Lark<'a>, token: &'a Value) -> Result<&'a str, GrammarError> {
    lark.specials().find(token).map(|(text, _)| text).ok_or_else(|| unknown(token))
}

/// The triggers of a format, or what it excludes: texts, or special tokens.
fn marks<'a>(lark: &Lark<'a>, format: &'a Value, what: &str) -> Result<Vec<&'a str>, GrammarError> {
    let plain = format.get(format!("{what}s")).map(texts).unwrap_or_default();
    let tokens = format.get(format!("{what}_tokens")).map(list).unwrap_or_default();
    plain.into_iter().map(Ok).chain(tokens.iter().map(|given| token(lark, given))).collect()
}

fn unknown(token: &Value) -> GrammarError {
    GrammarError::invalid(format!("the model has no special token {token}"))
}
