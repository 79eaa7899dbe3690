//! Tags as models write them: fixed words with optional white space between.

use super::{Tag, Value};

/// A part of a tag.
#[derive(Debug, Clone, Copy)]
pub(in crate::parsers) enum Part {
    /// Exactly this text.
    Text(&'static str),
    /// Any white space, or none.
    Blank,
}

/// How far a text follows a tag.
enum Match<'t> {
    No,
    /// The text ends within the tag.
    Begun,
    /// The tag, and what follows.
    Whole(&'t str),
}

/// A tag that ends a parameter.
pub(in crate::parsers) fn closing<'t>(text: &'t str, parts: &[Part]) -> Tag<'t> {
    match follow(text, parts) {
        Match::No => Tag::None,
        Match::Begun => Tag::Maybe,
        Match::Whole(rest) => Tag::Close { len: text.len() - rest.len() },
    }
}

/// A tag that begins a parameter: fixed parts, the key, and `end`.
pub(in crate::parsers) fn opening<'t>(text: &'t str, parts: &[Part], end: &str) -> Tag<'t> {
    match follow(text, parts) {
        Match::No => Tag::None,
        Match::Begun => Tag::Maybe,
        Match::Whole(rest) => match rest.split_once(end) {
            Some((key, after)) => Tag::Open { len: text.len() - after.len(), key, value: Value::Text },
            None => Tag::Maybe,
        },
    }
}

fn follow<'t>(text: &'t str, parts: &[Part]) -> Match<'t> {
    let mut rest = text;
    for part in parts {
        match part {
            Part::Blank => rest = rest.trim_start(),
            Part::Text(word) => match rest.strip_prefix(word) {
                Some(after) => rest = after,
                None if word.starts_with(rest) => return Match::Begun,
                None => return Match::No,
            },
        }
    }
    Match::Whole(rest)
}

impl<'t> Tag<'t> {
    /// The other tag, where it is not this one.
    pub(in crate::parsers) fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Tag::None => other(),
            Tag::Maybe => match other() {
                Tag::None => Tag::Maybe,
                found => found,
            },
            found => found,
        }
    }
}
