//! Follows JSON byte by byte: how deep it is nested, and whether it is inside a string.

use serde::{Deserialize, Serialize};

/// Where JSON stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::parsers) struct Nesting {
    #[serde(rename = "d")]
    pub(super) depth: u32,
    #[serde(rename = "s")]
    pub(super) in_string: bool,
    /// Behind a backslash, in a string.
    #[serde(rename = "e")]
    pub(super) escaped: bool,
}

/// What a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// Part of a string.
    Inside,
    /// The quote that begins a string.
    Quote,
    /// The quote that ends one.
    Unquote,
    /// A brace or a bracket.
    Open,
    Close,
    Other,
}

impl Nesting {
    pub(super) fn follow(&mut self, byte: u8) -> Spot {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            return if self.in_string { Spot::Inside } else { Spot::Unquote };
        }
        match byte {
            b'"' => {
                self.in_string = true;
                Spot::Quote
            }
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                Spot::Open
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                Spot::Close
            }
            _ => Spot::Other,
        }
    }

    /// The same for a character.
    pub(super) fn follow_char(&mut self, char: char) -> Spot {
        // Whatever is not ASCII is a letter like any other.
        self.follow(if char.is_ascii() { char as u8 } else { b'x' })
    }
}
