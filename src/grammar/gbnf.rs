//! EBNF as xgrammar takes it (GBNF: `root ::= …`) → Lark.

use super::GrammarError;
use super::lark::regex;

/// A grammar of either kind as Lark; rules of GBNF are told by their `::=`.
pub(super) fn as_lark(text: &str) -> Result<String, GrammarError> {
    if text.contains("::=") { to_lark(text) } else { Ok(text.to_owned()) }
}

/// Rewrites rule names, strings and character classes; groups, `|`, `?`, `*`, `+` and counts are the same in both.
fn to_lark(text: &str) -> Result<String, GrammarError> {
    let mut out = String::from("start: root\n");
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        rest = match char {
            '#' => rest.get(rest.find('\n').unwrap_or(rest.len())..).unwrap_or_default(),
            '"' => copy_quoted(rest, &mut out)?,
            '[' => copy_class(rest, &mut out)?,
            ':' if rest.starts_with("::=") => {
                out.push(':');
                rest.get(3..).unwrap_or_default()
            }
            char if char.is_alphanumeric() || char == '_' => copy_name(rest, &mut out),
            char => {
                out.push(char);
                rest.get(char.len_utf8()..).unwrap_or_default()
            }
        };
    }
    Ok(out)
}

/// Past the character that ends what a first character opens; a backslash hides the next one.
fn end_of(text: &str, closing: char) -> Result<usize, GrammarError> {
    let mut hidden = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if hidden => hidden = false,
            '\\' => hidden = true,
            char if char == closing => return Ok(at + char.len_utf8()),
            _ => {}
        }
    }
    Err(GrammarError::invalid(format!("no {closing} ends what begins with {:.20}", text)))
}

fn copy_quoted<'a>(text: &'a str, out: &mut String) -> Result<&'a str, GrammarError> {
    let (string, rest) = text.split_at(end_of(text, '"')?);
    out.push_str(string);
    Ok(rest)
}

fn copy_class<'a>(text: &'a str, out: &mut String) -> Result<&'a str, GrammarError> {
    let (class, rest) = text.split_at(end_of(text, ']')?);
    out.push_str(&regex(class));
    Ok(rest)
}

/// Names may have hyphens and capitals; rules of Lark have neither. A number is the count of a repetition.
fn copy_name<'a>(text: &'a str, out: &mut String) -> &'a str {
    let end =
        text.find(|char: char| !(char.is_alphanumeric() || matches!(char, '_' | '-' | '.'))).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.starts_with(|char: char| char.is_ascii_digit()) || name == "root" {
        out.push_str(name);
        return rest;
    }
    out.push_str("g_");
    for char in name.chars() {
        match char {
            '-' => out.push_str("_h_"),
            '.' => out.push_str("_d_"),
            upper if upper.is_uppercase() => {
                out.push_str("_u_");
                out.extend(upper.to_lowercase());
            }
            other => out.push(other),
        }
    }
    rest
}
