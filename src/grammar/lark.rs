//! A grammar as llguidance's Lark text, written rule by rule.

use serde_json::Value;

use super::structured::spaced;
use crate::model::vocabulary::Vocabulary;

/// The special tokens of a vocabulary: what a grammar spells with them is these tokens, not their letters.
#[derive(Debug, Clone, Default)]
pub(super) struct Specials(Vec<(String, u32)>);

impl Specials {
    pub(super) fn of(vocabulary: &Vocabulary) -> Self {
        let ids = 0..u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
        let special = ids.filter(|id| super::vocabulary::is_special(vocabulary, *id));
        Self(special.map(|id| (vocabulary.token(id), id)).filter(|(text, _)| !text.is_empty()).collect())
    }

    /// The first special token that a text spells: where it begins, and which it is. Of several the longest.
    fn first<'a>(&'a self, text: &str) -> Option<(usize, &'a str, u32)> {
        let found =
            self.0.iter().filter_map(|(special, id)| Some((text.find(special.as_str())?, special.as_str(), *id)));
        found.min_by_key(|(at, special, _)| (*at, std::cmp::Reverse(special.len())))
    }

    /// The special token with this id or text.
    pub(super) fn find(&self, token: &Value) -> Option<(&str, u32)> {
        let (id, named) = (token.as_u64(), token.as_str());
        let found = self.0.iter().find(|(text, special)| id == Some(u64::from(*special)) || named == Some(text));
        found.map(|(text, id)| (text.as_str(), *id))
    }

    /// Whether a text begins with a special token.
    pub(super) fn begins(&self, text: &str) -> bool {
        self.first(text).is_some_and(|(at, ..)| at == 0)
    }
}

/// Rules so far.
pub(super) struct Lark<'a> {
    text: String,
    rules: usize,
    specials: &'a Specials,
}

impl<'a> Lark<'a> {
    pub(super) fn new(specials: &'a Specials) -> Self {
        Self { text: String::new(), rules: 0, specials }
    }

    pub(super) fn specials(&self) -> &'a Specials {
        self.specials
    }

    /// Adds a rule and returns its name.
    pub(super) fn rule(&mut self, body: &str) -> String {
        self.named("", body)
    }

    /// Adds a rule that ends with the shortest text that matches, and returns its name. Its body is plain text only.
    pub(super) fn shortest(&mut self, body: &str) -> String {
        self.named("[lazy]", body)
    }

    /// Adds a rule that matches what a grammar of its own matches, and returns its name.
    pub(super) fn nested(&mut self, grammar: &str) -> String {
        self.named("", &format!("%lark {{\n{grammar}\n}}"))
    }

    /// Adds a terminal, which may join expressions with `&` and `~`, and returns its name.
    pub(super) fn terminal(&mut self, body: &str) -> String {
        let name = format!("T{}", self.rules);
        self.rules += 1;
        self.text.push_str(&format!("{name}: {body}\n"));
        name
    }

    /// Any text, perhaps empty, in which none of these occurs.
    pub(super) fn text_without(&mut self, words: &[&str]) -> String {
        if words.is_empty() {
            return "/(?s:.*)/".to_owned();
        }
        let words: Vec<String> = words.iter().map(|word| escaped(word)).collect();
        let without = regex(&format!("(?s:.*)({})(?s:.*)", words.join("|")));
        self.terminal(&format!("/(?s:.*)/ & ~{without}"))
    }

    fn named(&mut self, attributes: &str, body: &str) -> String {
        let name = format!("r{}", self.rules);
        self.rules += 1;
        self.text.push_str(&format!("{name}{attributes}: {body}\n"));
        name
    }

    /// The whole grammar.
    pub(super) fn finish(self, start: &str) -> String {
        format!("start: {start}\n{}", self.text)
    }

    /// This text, special tokens as such.
    pub(super) fn literal(&self, mut text: &str) -> String {
        let mut parts = Vec::new();
        while let Some((at, special, id)) = self.specials.first(text) {
            let (before, after) = text.split_at(at);
            parts.extend((!before.is_empty()).then(|| quoted(before)));
            parts.push(format!("<[{id}]>"));
            text = after.strip_prefix(special).unwrap_or_default();
        }
        if !text.is_empty() || parts.is_empty() {
            parts.push(quoted(text));
        }
        if parts.len() == 1 { parts.swap_remove(0) } else { format!("({})", parts.join(" ")) }
    }

    /// JSON that a schema describes, with white space of this pattern.
    pub(super) fn json(schema: &Value, white_space: &str) -> String {
        format!("%json {}", spaced(schema.clone(), white_space))
    }
}

/// A string of Lark.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// An expression of Lark, which ends at a slash.
pub(super) fn regex(pattern: &str) -> String {
    format!("/{}/", pattern.replace('/', "\\/").replace('\n', "\\n"))
}

/// The expression that matches this text only.
fn escaped(text: &str) -> String {
    let special = |char: char| r"\.+*?()|[]{}^$#&-~/".contains(char);
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if special(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out.replace("\\/", "/")
}
