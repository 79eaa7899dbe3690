//! Incremental detokenization: token ids in, text out as soon as it is whole.
//!
//! The rule is the engine's own: decode a window of recent tokens with and without the new one; what the text grew by is
//! new, and it is held while it ends in a replacement character, which may be the start of an unfinished one. The window's
//! token strings and offsets are exactly vLLM's `prev_tokens`, `prefix_offset` and `read_offset`, so a stream may move
//! between servers at any token. Whole characters of table-driven vocabularies, nearly all tokens, skip the decoding.

use serde::{Deserialize, Serialize};

use crate::model::vocabulary::{Decoding, Hidden, Piece, REPLACEMENT, Vocabulary};

/// Prompt tokens that seed the window, and how many of them are decoded again (vLLM's constants).
const SEED_TOKENS: usize = 7;
const SEED_PREFIX: usize = 5;

/// Tokens after which held text is let go as it is: no character is that long, and vLLM refuses a longer `prev_tokens`.
const MAX_WINDOW: usize = 512;

/// Where decoding stands: the tokens that a later one may still change, and how far they have been read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    window: Vec<Piece>,
    prefix: usize,
    read: usize,
    /// The text up to `read` ends with a whole character, so what follows decodes by itself.
    clean: bool,
    pending: Pending,
}

/// Bytes after `read`, decoded as far as they go. ByteLevel only; derived from the window.
#[derive(Debug, Clone, Default, PartialEq)]
struct Pending {
    text: String,
    /// The start of a character: at most three bytes.
    tail: Vec<u8>,
}

/// [`State`] as vLLM carries it in `stream_state`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WireState {
    /// Token strings from `prefix_offset` on.
    #[serde(default)]
    pub prev_tokens: Vec<String>,
    /// Start of what is decoded again with every token.
    #[serde(default)]
    pub prefix_offset: usize,
    /// Start of what has not become text yet.
    #[serde(default)]
    pub read_offset: usize,
}

impl State {
    /// The state after a prompt: its last tokens are the context of the first output token, so that SentencePiece
    /// models keep a leading space. An empty prompt decodes as a new sequence.
    pub fn after_prompt(vocabulary: &Vocabulary, prompt: &[u32], hidden: Hidden) -> Self {
        let tail = &prompt[prompt.len().saturating_sub(SEED_TOKENS)..];
        let window: Vec<Piece> =
            tail.iter().filter(|id| !vocabulary.hides(hidden, **id)).map(|id| Piece::Id(*id)).collect();
        let read = window.len();
        let mut state =
            Self { window, prefix: read.saturating_sub(SEED_PREFIX), read, clean: false, pending: Pending::default() };
        state.refresh(vocabulary);
        state
    }

    /// Takes vLLM's fields over. Offsets outside the window mean what they mean in vLLM: Python's slices, which end where
    /// the list ends.
    pub fn from_wire(vocabulary: &Vocabulary, wire: WireState) -> Self {
        let mut state = Self {
            window: wire.prev_tokens.into_iter().map(|token| Piece::Text(token.into_boxed_str())).collect(),
            prefix: wire.prefix_offset,
            read: wire.read_offset,
            clean: false,
            pending: Pending::default(),
        };
        state.refresh(vocabulary);
        state
    }

    /// vLLM's fields.
    pub fn to_wire(&self, vocabulary: &Vocabulary) -> WireState {
        let token = |piece: &Piece| match piece {
            Piece::Id(id) => vocabulary.token(*id),
            Piece::Text(text) => text.to_string(),
        };
        WireState {
            prev_tokens: self.window.iter().map(token).collect(),
            prefix_offset: self.prefix,
            read_offset: self.read,
        }
    }

    /// Adds one token; appends to `text` what became whole.
    pub fn push(&mut self, vocabulary: &Vocabulary, id: u32, hidden: Hidden, text: &mut String) {
        if vocabulary.hides(hidden, id) {
            self.trim();
            return;
        }
        match vocabulary.decoding() {
            Decoding::ByteLevel if self.clean => self.push_bytes(vocabulary.bytes(id), id, text),
            Decoding::SentencePiece { .. } if self.clean && self.read == self.window.len() => {
                match whole_text(vocabulary, id) {
                    Some(whole) => {
                        text.push_str(whole);
                        self.window.push(Piece::Id(id));
                        self.advance();
                    }
                    None => self.push_decoded(vocabulary, id, text),
                }
            }
            _ => self.push_decoded(vocabulary, id, text),
        }
    }

    /// The fast way for ByteLevel: only the bytes since the last whole character are looked at.
    fn push_bytes(&mut self, bytes: &[u8], id: u32, text: &mut String) {
        self.window.push(Piece::Id(id));
        if self.pending.is_empty()
            && let Ok(whole) = std::str::from_utf8(bytes)
            && !whole.is_empty()
            && !whole.ends_with(REPLACEMENT)
        {
            text.push_str(whole);
            self.advance();
            return;
        }
        self.pending.push(bytes);
        if self.pending.is_whole() || self.window.len() > MAX_WINDOW {
            self.clean = self.pending.tail.is_empty();
            self.pending.take(text);
            self.advance();
        } else {
            self.trim();
        }
    }

    /// The general way: decode the window with and without the new token.
    fn push_decoded(&mut self, vocabulary: &Vocabulary, id: u32, text: &mut String) {
        self.window.push(Piece::Id(id));
        let before = vocabulary.decode(self.context());
        let after = vocabulary.decode(&self.window[self.prefix.min(self.window.len())..]);
        let known = before.chars().count();
        let grew = after.chars().nth(known).is_some();
        if (grew && !after.ends_with(REPLACEMENT)) || self.window.len() > MAX_WINDOW {
            text.extend(after.chars().skip(known));
            self.advance();
            self.refresh(vocabulary);
        } else {
            self.trim();
        }
    }

    /// All of the window has been read; what was pending becomes the context of what follows.
    fn advance(&mut self) {
        self.prefix = self.read;
        self.read = self.window.len();
        self.trim();
    }

    /// Forgets the tokens before `prefix`, which nothing reads again.
    fn trim(&mut self) {
        if self.prefix > 0 {
            self.window.drain(..self.prefix.min(self.window.len()));
            self.read = self.read.saturating_sub(self.prefix);
            self.prefix = 0;
        }
    }

    /// The tokens that have become text and are decoded again with every new one.
    fn context(&self) -> &[Piece] {
        let end = self.read.min(self.window.len());
        &self.window[self.prefix.min(end)..end]
    }

    /// Computes what is derived from the window.
    fn refresh(&mut self, vocabulary: &Vocabulary) {
        self.pending = Pending::default();
        if self.prefix > self.read || self.read > self.window.len() {
            self.clean = false;
            return;
        }
        let context = vocabulary.decode(self.context());
        self.clean = match vocabulary.decoding() {
            Decoding::ByteLevel => !context.ends_with(REPLACEMENT),
            Decoding::SentencePiece { .. } => !context.is_empty() && !context.ends_with(REPLACEMENT),
            Decoding::Other => false,
        };
        if self.clean && vocabulary.decoding() == Decoding::ByteLevel {
            for piece in &self.window[self.read..] {
                self.pending.push(&piece_bytes(vocabulary, piece));
            }
        }
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.tail.is_empty()
    }

    /// True where the text is not empty and no later byte can change it.
    fn is_whole(&self) -> bool {
        self.tail.is_empty() && !self.text.is_empty() && !self.text.ends_with(REPLACEMENT)
    }

    /// Decodes as `String::from_utf8_lossy` would decode all bytes at once.
    fn push(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
        let mut rest = self.tail.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(valid));
                    match error.error_len() {
                        Some(len) => {
                            self.text.push(REPLACEMENT);
                            rest = &broken[len..];
                        }
                        None => {
                            rest = broken;
                            break;
                        }
                    }
                }
            }
        }
        self.tail = rest.to_vec();
    }

    fn take(&mut self, text: &mut String) {
        text.push_str(&self.text);
        text.push_str(&String::from_utf8_lossy(&self.tail));
        self.text.clear();
        self.tail.clear();
    }
}

/// A SentencePiece token that is whole characters by itself.
fn whole_text(vocabulary: &Vocabulary, id: u32) -> Option<&str> {
    if vocabulary.is_byte(id) {
        return None;
    }
    let text = std::str::from_utf8(vocabulary.bytes(id)).ok()?;
    (!text.is_empty() && !text.ends_with(REPLACEMENT)).then_some(text)
}

fn piece_bytes(vocabulary: &Vocabulary, piece: &Piece) -> Vec<u8> {
    match piece {
        Piece::Id(id) => vocabulary.bytes(*id).to_vec(),
        Piece::Text(text) => vocabulary.token_bytes(text),
    }
}
