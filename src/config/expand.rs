//! `${NAME}` in the file's values, and secrets that lie in files of their own.

use std::path::Path;

use super::problem::Problems;
use super::tree::{Node, Value};

/// A secret is a line; what is longer is another file.
const MOST_SECRET_BYTES: usize = 64 * 1024;
/// How a secret names the file that it lies in.
const FILE: &str = "file:";

/// Replaces variables in all values; `variable` looks one up.
pub(super) fn expand(tree: &mut Node, variable: &dyn Fn(&str) -> Option<String>, problems: &mut Problems) {
    tree.visit("", &mut |key, node| {
        let Value::Text(text) = &node.value else { return };
        if !text.contains("${") {
            return;
        }
        match replaced(text, variable) {
            Ok(text) => node.value = Value::Expanded(text),
            Err(said) => {
                problems.unreadable(key, node.line, said);
                node.value = Value::Refused;
            }
        }
    });
}

/// The text with `${NAME}` and `${NAME:-default}` replaced; `$${` stays as `${`.
fn replaced(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err("${ without a } behind it; write ${NAME}, or $${ for the characters themselves".to_owned());
        };
        let (name, default) = name.split_once(":-").map_or((name, None), |(name, default)| (name, Some(default)));
        match variable(name).filter(|value| !value.is_empty()).or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => {
                return Err(format!("the variable {name} is not set; set it, or give a default: ${{{name}:-default}}"));
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// A secret as written, or what the file holds that it names as `file:PATH`.
pub(super) fn secret(key: &str, written: String, problems: &mut Problems) -> String {
    let Some(path) = written.strip_prefix(FILE) else { return written };
    match std::fs::read(Path::new(path)) {
        Ok(bytes) if bytes.len() > MOST_SECRET_BYTES => {
            problems.add(key, format!("{path} is too long for a secret: {} bytes", bytes.len()));
        }
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) if !text.trim().is_empty() => return text.trim().to_owned(),
            Ok(_) => problems.add(key, format!("{path} is empty; a secret is expected in it")),
            Err(_) => problems.add(key, format!("{path} is not text; a secret is expected in it")),
        },
        Err(error) => problems.add(key, format!("{path} cannot be read: {error}")),
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn variables_are_replaced_where_they_are_set() {
        let variable = |name: &str| match name {
            "HOST" => Some("a$b".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        let cases = [
            ("http://${HOST}:1/${HOST}", Ok("http://a$b:1/a$b")),
            ("${NONE:-here}${EMPTY:-}", Ok("here")),
            ("$HOST $ {x} $${HOST}", Ok("$HOST $ {x} ${HOST}")),
            ("${NONE}", Err("NONE")),
            ("${EMPTY}", Err("EMPTY")),
            ("${HOST", Err("}")),
        ];
        for (text, expected) in cases {
            match (replaced(text, &variable), expected) {
                (Ok(text), Ok(expected)) => assert_eq!(text, expected),
                (Err(said), Err(word)) => assert!(said.contains(word), "{said}"),
                (found, expected) => panic!("{text}: {found:?}, not {expected:?}"),
            }
        }
    }
}
