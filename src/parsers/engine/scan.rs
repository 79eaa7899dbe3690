//! Finds marks in text that arrives in pieces, and keeps back what may still become one.

/// A mark, by its place in the grammar's list.
pub(in crate::parsers) type MarkId = u8;

/// Literals to look for, longest first.
#[derive(Debug, Clone)]
pub(in crate::parsers) struct Literals {
    list: Vec<(String, MarkId)>,
    first: [bool; 256],
}

/// The next thing in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parsers) enum Found {
    /// Plain text to the end.
    Nothing,
    /// Plain text up to `at`, then a mark of `len` bytes.
    Mark { at: usize, len: usize, mark: MarkId },
    /// Plain text up to `at`, then what may become a mark.
    Maybe { at: usize },
}

impl Literals {
    pub(in crate::parsers) fn new(literals: impl IntoIterator<Item = (String, MarkId)>) -> Self {
        let mut list: Vec<_> = literals.into_iter().filter(|(text, _)| !text.is_empty()).collect();
        list.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let mut first = [false; 256];
        for byte in list.iter().filter_map(|(text, _)| text.bytes().next()) {
            first[usize::from(byte)] = true;
        }
        Self { list, first }
    }

    /// The leftmost mark in `text`, the longest of several at one place. With `last` no more text will follow, so that
    /// the start of a mark is plain text.
    pub(in crate::parsers) fn find(&self, text: &str, last: bool) -> Found {
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(offset) = bytes.iter().skip(from).position(|byte| self.first[usize::from(*byte)]) {
            let at = from + offset;
            if let Some(found) = self.at(bytes, at, last) {
                return found;
            }
            from = at + 1;
        }
        Found::Nothing
    }

    fn at(&self, bytes: &[u8], at: usize, last: bool) -> Option<Found> {
        let rest = bytes.get(at..)?;
        for (literal, mark) in &self.list {
            let literal = literal.as_bytes();
            if rest.starts_with(literal) {
                return Some(Found::Mark { at, len: literal.len(), mark: *mark });
            }
            if !last && literal.starts_with(rest) {
                return Some(Found::Maybe { at });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(texts: &[&str]) -> Literals {
        Literals::new(texts.iter().enumerate().map(|(mark, text)| ((*text).to_owned(), mark as MarkId)))
    }

    #[test]
    fn finds_the_longest_of_the_leftmost() {
        let literals = literals(&["<a", "<a>", "b"]);
        assert_eq!(literals.find("x<a>b", false), Found::Mark { at: 1, len: 3, mark: 1 });
        assert_eq!(literals.find("x<ab", false), Found::Mark { at: 1, len: 2, mark: 0 });
        assert_eq!(literals.find("xyz", false), Found::Nothing);
    }

    #[test]
    fn waits_only_where_a_mark_may_follow() {
        let literals = literals(&["<a", "<a>"]);
        assert_eq!(literals.find("x<a", false), Found::Maybe { at: 1 });
        assert_eq!(literals.find("x<a", true), Found::Mark { at: 1, len: 2, mark: 0 });
        assert_eq!(literals.find("<<", false), Found::Maybe { at: 1 });
        assert_eq!(literals.find("<<", true), Found::Nothing);
    }
}
