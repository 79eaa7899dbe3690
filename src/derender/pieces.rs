//! The text of one chunk, cut into the pieces that its tokens added. A buffer to be used again.

use smallvec::SmallVec;

use crate::parsers::Token;

/// Pieces over one text.
#[derive(Debug, Default)]
pub struct Pieces {
    text: String,
    /// A token (or `None` for the rest of one) and where its text ends.
    ends: Vec<(Option<u32>, usize)>,
}

impl Pieces {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Adds a piece.
    pub fn push(&mut self, id: Option<u32>, text: &str) {
        self.text.push_str(text);
        self.ends.push((id, self.text.len()));
    }

    /// Lets `write` append the text of a token, and adds it as a piece.
    pub fn push_with(&mut self, id: u32, write: impl FnOnce(&mut String)) {
        write(&mut self.text);
        self.ends.push((Some(id), self.text.len()));
    }

    /// All pieces as one text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The pieces as the parsers take them.
    #[expect(clippy::string_slice, reason = "the borders are ends of whole pushed strings")]
    pub fn tokens(&self) -> SmallVec<[Token<'_>; 8]> {
        let mut start = 0;
        self.ends
            .iter()
            .map(|(id, end)| Token { id: *id, text: &self.text[std::mem::replace(&mut start, *end)..*end] })
            .collect()
    }
}
