//! Line breaks that a model spelled out, `\n`, made into real ones, as vLLM does for some models.
//!
//! Not in code, in formulas, or behind more than one backslash. What may become any of these waits.

use serde::{Deserialize, Serialize};

use super::memory::is_default;

/// Text that waits and is longer than this goes out.
const MAX_PENDING: usize = 1024;

/// Where one text stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct Newlines {
    /// What ends the code or the formula being read.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    closing: String,
    /// What waits for more.
    #[serde(rename = "p", skip_serializing_if = "is_default")]
    pending: String,
}

/// What the start of a text is.
struct Step {
    len: usize,
    is_newline: bool,
    opens: &'static str,
}

const fn text(len: usize) -> Step {
    Step { len, is_newline: false, opens: "" }
}

const fn open(len: usize, closing: &'static str) -> Step {
    Step { len, is_newline: false, opens: closing }
}

impl Newlines {
    /// Reads more; with `last` nothing follows.
    pub(in crate::parsers) fn read(&mut self, more: &str, last: bool) -> String {
        let mut all = std::mem::take(&mut self.pending);
        all.push_str(more);
        let last = last || all.len() > more.len() + MAX_PENDING;
        let (mut rest, mut out) = (all.as_str(), String::with_capacity(all.len()));
        while !rest.is_empty() {
            let step = if self.closing.is_empty() { outside(rest, last) } else { self.inside(rest, last) };
            let Some(step) = step else {
                rest.clone_into(&mut self.pending);
                break;
            };
            let (same, after) = rest.split_at(step.len);
            out.push_str(if step.is_newline { "\n" } else { same });
            if !step.opens.is_empty() {
                step.opens.clone_into(&mut self.closing);
            }
            rest = after;
        }
        out
    }

    /// In code or a formula, which may end here.
    fn inside(&mut self, rest: &str, last: bool) -> Option<Step> {
        if rest.starts_with(&self.closing) {
            return Some(text(std::mem::take(&mut self.closing).len()));
        }
        let waits = !last && self.closing.starts_with(rest);
        (!waits).then(|| text(rest.chars().next().map_or(0, char::len_utf8)))
    }
}

/// `None` where it takes more to tell.
fn outside(rest: &str, last: bool) -> Option<Step> {
    let waits = |starts: &[&str]| !last && starts.contains(&rest);
    match rest.as_bytes() {
        [b'`', ..] if waits(&["`", "``"]) => None,
        [b'`', b'`', b'`', ..] => Some(open(3, "```")),
        [b'`', ..] => Some(open(1, "`")),
        [b'$', ..] if waits(&["$"]) => None,
        [b'$', b'$', ..] => Some(open(2, "$$")),
        [b'$', ..] => Some(open(1, "$")),
        [b'\\', ..] => escape(rest, last),
        _ => Some(text(rest.find(['`', '$', '\\']).unwrap_or(rest.len()))),
    }
}

fn escape(rest: &str, last: bool) -> Option<Step> {
    let run = rest.len() - rest.trim_start_matches('\\').len();
    if !last && (run == rest.len() || matches!(rest, "\\r" | "\\r\\")) {
        return None;
    }
    let newline = |len: usize| Step { len, is_newline: true, opens: "" };
    Some(match rest.as_bytes() {
        _ if run > 1 => text(run),
        [_, b'r', b'\\', b'n', ..] => newline(4),
        [_, b'n' | b'r', ..] => newline(2),
        [_, b'(', ..] => open(2, "\\)"),
        [_, b'[', ..] => open(2, "\\]"),
        _ => text(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_spelled_out_alike_however_it_is_divided() {
        for (spelled, read) in [
            (r"a\nb\r\nc\rd", "a\nb\nc\nd"),
            (
                r"`a\nb` ```c\nd``` $e\nu$ $$\nu$$ \(\nu\) \[\nu\]\n",
                "`a\\nb` ```c\\nd``` $e\\nu$ $$\\nu$$ \\(\\nu\\) \\[\\nu\\]\n",
            ),
            (r"\\n \\\n \t \", r"\\n \\\n \t \"),
            ("🎉\\", "🎉\\"),
        ] {
            assert_eq!(Newlines::default().read(spelled, true), read);
            let mut newlines = Newlines::default();
            let mut out: String =
                spelled.chars().map(|char| newlines.read(char.encode_utf8(&mut [0; 4]), false)).collect();
            out += &newlines.read("", true);
            assert_eq!(out, read, "{spelled} by character");
        }
    }
}
