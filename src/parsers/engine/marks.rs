//! The marks of a grammar, looked up in a vocabulary.

use super::scan::{Literals, MarkId};
use crate::parsers::Vocabulary;

/// Stands for text that only looks like a mark.
pub(in crate::parsers) const LOOKALIKE: MarkId = MarkId::MAX;

/// What makes a mark a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum By {
    /// Its token, where the vocabulary has one: the same characters spelled by other tokens are text. Without such a
    /// token, its characters.
    Token,
    /// As `Token`, but the model's tokens may have a suffix before the closing bracket, `<think:6124c78e>`.
    Suffixed,
    /// Its characters, however they are spelled.
    Text,
}

/// Marks by id and by text.
#[derive(Debug, Clone, Default)]
pub(in crate::parsers) struct Marks {
    names: Vec<&'static str>,
    ids: Vec<(u32, MarkId)>,
    /// Marks that only their characters show.
    spelled: Vec<bool>,
    /// Special tokens that are no marks: dropped.
    dropped: Vec<u32>,
    /// Text that is kept back while it is incomplete, though it is no mark in the end.
    lookalikes: Vec<String>,
}

impl Marks {
    pub(in crate::parsers) fn new(marks: &[(&'static str, By)], vocabulary: &Vocabulary) -> Self {
        let mut compiled = Self::default();
        for (mark, (text, by)) in marks.iter().enumerate() {
            let id = match by {
                By::Token => vocabulary.ids.get(*text).copied(),
                By::Suffixed => vocabulary.ids.get(*text).copied().or_else(|| suffixed(text, vocabulary)),
                By::Text => None,
            };
            compiled.ids.extend(id.map(|id| (id, mark as MarkId)));
            compiled.spelled.push(id.is_none());
            compiled.names.push(text);
        }
        compiled
    }

    /// Drops the special tokens that are not marks, but for `kept`.
    pub(in crate::parsers) fn dropping_specials(mut self, vocabulary: &Vocabulary, kept: &[&str]) -> Self {
        let is_mark = |text: &str| self.names.contains(&text) || kept.contains(&text);
        self.dropped = vocabulary.special.iter().filter(|(_, text)| !is_mark(text)).map(|(id, _)| *id).collect();
        self.dropped.sort_unstable();
        self
    }

    /// Keeps back text that begins like these, like the marks that are tokens, or like the dropped tokens: vLLM's lexer
    /// waits for the whole word before it decides that it is only text.
    pub(in crate::parsers) fn waiting_for(mut self, vocabulary: &Vocabulary, words: &[&str]) -> Self {
        let tokens = self.names.iter().zip(&self.spelled).filter(|(_, spelled)| !**spelled).map(|(name, _)| *name);
        let dropped = vocabulary.special.iter().filter(|(id, _)| self.drops(*id)).map(|(_, text)| text.as_str());
        self.lookalikes = tokens.chain(dropped).chain(words.iter().copied()).map(str::to_owned).collect();
        self
    }

    /// The mark with this text.
    pub(in crate::parsers) fn id_of(&self, text: &str) -> Option<MarkId> {
        self.names.iter().position(|name| *name == text).map(|at| at as MarkId)
    }

    /// A mark's text.
    pub(in crate::parsers) fn text(&self, mark: MarkId) -> &'static str {
        self.names.get(usize::from(mark)).copied().unwrap_or_default()
    }

    /// The mark that a token is.
    pub(in crate::parsers) fn of_token(&self, id: u32) -> Option<MarkId> {
        self.ids.iter().find(|(token, _)| *token == id).map(|(_, mark)| *mark)
    }

    /// True for a special token that nobody should see.
    pub(in crate::parsers) fn drops(&self, id: u32) -> bool {
        self.dropped.binary_search(&id).is_ok()
    }

    /// What to look for in text, among these marks.
    pub(in crate::parsers) fn literals(&self, marks: impl IntoIterator<Item = MarkId>) -> Literals {
        self.literals_and(marks, [])
    }

    /// The same, with other spellings of some.
    pub(in crate::parsers) fn literals_and(
        &self,
        marks: impl IntoIterator<Item = MarkId>,
        spellings: impl IntoIterator<Item = (&'static str, MarkId)>,
    ) -> Literals {
        let spelled = |mark: &MarkId| self.spelled.get(usize::from(*mark)).copied().unwrap_or(false);
        let marks = marks.into_iter().filter(spelled).map(|mark| (self.text(mark).to_owned(), mark));
        let spellings = spellings.into_iter().map(|(text, mark)| (text.to_owned(), mark));
        Literals::new(marks.chain(spellings).chain(self.lookalikes.iter().map(|text| (text.clone(), LOOKALIKE))))
    }
}

/// The token that is this text but for a suffix.
fn suffixed(text: &str, vocabulary: &Vocabulary) -> Option<u32> {
    let stem = text.strip_suffix('>')?;
    let is_it = |token: &str| token.strip_prefix(stem).is_some_and(|rest| rest.starts_with(':') && rest.ends_with('>'));
    vocabulary.ids.iter().find(|(token, _)| is_it(token)).map(|(_, id)| *id)
}
