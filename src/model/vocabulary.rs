//! The decode side of a tokenizer: what each token id adds to the text.
//!
//! Built once from a `tokenizers` decoder. For the two decoders that nearly every model has (ByteLevel, and
//! SentencePiece's Metaspace with byte fallback) a flat table id → bytes replaces the chain of string transformations;
//! any other decoder is asked itself. Deliberately absent: state between tokens, which is `derender`'s.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use tokenizers::{AddedToken, Decoder as _, DecoderWrapper, Tokenizer};

/// What stands for bytes that are no UTF-8.
pub const REPLACEMENT: char = '\u{FFFD}';

/// SentencePiece's mark for a space.
const SPACE_MARK: char = '▁';

/// How token strings become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoding {
    /// GPT-2's alphabet: a token is a sequence of bytes.
    ByteLevel,
    /// `▁` is a space, `<0xE4>` a byte.
    SentencePiece {
        /// What happens to spaces at the very start of a decoded sequence.
        leading: Leading,
        /// Whether `<0xE4>` is a byte or plain text.
        byte_fallback: bool,
    },
    /// Anything else: `tokenizers` decodes whole windows.
    Other,
}

/// What happens to spaces at the very start of a decoded sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leading {
    /// They stay.
    Keep,
    /// One is cut from the text (Llama's `Strip`).
    CutOne,
    /// All marks of the first token are dropped (the `Metaspace` decoder).
    DropMarks,
}

/// Which tokens are left out of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden {
    /// None: a parser has to see its markers, or the request wants them.
    Nothing,
    /// Those that tokenizer.json flags as special: what an engine's own detokenizer hides.
    Flagged,
    /// Those that the tokenizer's configuration names: what transformers, and so vLLM's derenderer, hides.
    Named,
}

/// One entry of a window that is decoded as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A token id.
    Id(u32),
    /// A token string of unknown id, as a client's `stream_state` carries it.
    Text(Box<str>),
}

/// Token id → bytes, and what else decoding needs. Immutable.
pub struct Vocabulary {
    decoding: Decoding,
    /// Bytes of all tokens, one after the other; token `i` is `bytes[ends[i - 1]..ends[i]]`.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Ids that stand for one raw byte (`<0xE4>`), sorted. SentencePiece only.
    byte_ids: Vec<u32>,
    added: HashMap<u32, AddedToken>,
    added_by_text: HashMap<String, u32>,
    flagged_ids: Vec<u32>,
    named_ids: Vec<u32>,
    /// True where single tokens lose their leading space in `decode` and it has to be put back (a Metaspace
    /// pre-tokenizer).
    restores_leading_space: bool,
    other: Option<Other>,
    len: usize,
}

/// For decoders without a table.
struct Other {
    decoder: Option<DecoderWrapper>,
    tokens: Vec<String>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary").field("decoding", &self.decoding).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Vocabulary {
    /// Reads the decoder, the added tokens and every token string of `tokenizer`. `named_ids` are the special tokens that
    /// its configuration names.
    pub fn new(tokenizer: &Tokenizer, named_ids: &[u32]) -> Self {
        let decoding = decoding_of(tokenizer.get_decoder());
        let added: HashMap<u32, AddedToken> = tokenizer.get_added_tokens_decoder().into_iter().collect();
        let vocab = tokenizer.get_vocab(true);
        let ids = vocab.values().chain(added.keys()).max().map_or(0, |max| *max as usize + 1);
        let mut tokens = vec![String::new(); ids];
        for (token, id) in vocab {
            tokens[id as usize] = token;
        }
        for (id, token) in &added {
            tokens[*id as usize].clone_from(&token.content);
        }
        let mut flagged_ids: Vec<u32> = added.iter().filter(|(_, token)| token.special).map(|(id, _)| *id).collect();
        flagged_ids.sort_unstable();
        let mut named_ids = named_ids.to_vec();
        named_ids.sort_unstable();
        let mut vocabulary = Self {
            decoding,
            bytes: Vec::new(),
            ends: Vec::with_capacity(ids),
            byte_ids: Vec::new(),
            added_by_text: added.iter().map(|(id, token)| (token.content.clone(), *id)).collect(),
            added,
            flagged_ids,
            named_ids,
            restores_leading_space: has_metaspace(tokenizer),
            other: None,
            len: tokenizer.get_vocab_size(true),
        };
        vocabulary.fill(&tokens);
        if decoding == Decoding::Other {
            vocabulary.other = Some(Other { decoder: tokenizer.get_decoder().cloned(), tokens });
        }
        vocabulary
    }

    fn fill(&mut self, tokens: &[String]) {
        for (id, token) in tokens.iter().enumerate() {
            if let Decoding::SentencePiece { byte_fallback: true, .. } = self.decoding
                && let Some(byte) = fallback_byte(token)
            {
                self.byte_ids.push(id as u32);
                self.bytes.push(byte);
            } else {
                token_bytes(self.decoding, token, &mut self.bytes);
            }
            self.ends.push(self.bytes.len() as u32);
        }
        self.bytes.shrink_to_fit();
    }

    /// Number of tokens, added ones included (`len(tokenizer)`). Ids from here on decode to nothing.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How token strings become text.
    pub fn decoding(&self) -> Decoding {
        self.decoding
    }

    /// True for a token that is left out of the text.
    pub fn hides(&self, hidden: Hidden, id: u32) -> bool {
        match hidden {
            Hidden::Nothing => false,
            Hidden::Flagged => self.flagged_ids.binary_search(&id).is_ok(),
            Hidden::Named => self.named_ids.binary_search(&id).is_ok(),
        }
    }

    /// True for an added token (special or not): its text is never part of another token.
    pub fn is_added(&self, id: u32) -> bool {
        self.added.contains_key(&id)
    }

    /// The text of an added token.
    pub fn added_text(&self, id: u32) -> Option<&str> {
        self.added.get(&id).map(|token| token.content.as_str())
    }

    /// The id of an added token by its text.
    pub fn added_id(&self, text: &str) -> Option<u32> {
        self.added_by_text.get(text).copied()
    }

    /// True for ids that have an entry; false for holes and for ids outside.
    pub fn contains(&self, id: u32) -> bool {
        match &self.other {
            Some(other) => other.tokens.get(id as usize).is_some_and(|token| !token.is_empty()),
            None => !self.bytes(id).is_empty(),
        }
    }

    /// The bytes of a token; empty for an id outside the vocabulary. For SentencePiece `▁` is already a space. Without
    /// meaning where [`decoding`](Self::decoding) is `Other`.
    pub fn bytes(&self, id: u32) -> &[u8] {
        let index = id as usize;
        if index >= self.ends.len() {
            return &[];
        }
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// The bytes that a token string stands for, whatever its id.
    pub fn token_bytes(&self, token: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        token_bytes(self.decoding, token, &mut bytes);
        bytes
    }

    /// True for `<0xE4>` and its kin.
    pub fn is_byte(&self, id: u32) -> bool {
        self.byte_ids.binary_search(&id).is_ok()
    }

    /// The token string (`Ġthe`, `▁the`, `<|im_end|>`), empty for ids outside the vocabulary: what transformers'
    /// `convert_ids_to_tokens` gives.
    pub fn token(&self, id: u32) -> String {
        if let Some(text) = self.added_text(id) {
            return text.to_owned();
        }
        if let Some(other) = &self.other {
            return other.tokens.get(id as usize).cloned().unwrap_or_default();
        }
        let bytes = self.bytes(id);
        match self.decoding {
            Decoding::ByteLevel => bytes.iter().map(|byte| byte_to_char(*byte)).collect(),
            _ if self.is_byte(id) => format!("<0x{:02X}>", bytes[0]),
            _ => String::from_utf8_lossy(bytes).replace(' ', &SPACE_MARK.to_string()),
        }
    }

    /// The text of a window of tokens, as transformers' `convert_tokens_to_string` gives it.
    pub fn decode<'a>(&self, window: impl IntoIterator<Item = &'a Piece>) -> String {
        if let Some(other) = &self.other {
            let tokens = window.into_iter().map(|piece| match piece {
                Piece::Id(id) => other.tokens.get(*id as usize).cloned().unwrap_or_default(),
                Piece::Text(text) => text.to_string(),
            });
            return other.decode(tokens.collect());
        }
        let mut run = Run::new(self.decoding);
        for piece in window {
            match piece {
                Piece::Id(id) => run.push(self.bytes(*id), self.is_byte(*id)),
                Piece::Text(text) => {
                    let byte = matches!(self.decoding, Decoding::SentencePiece { byte_fallback: true, .. })
                        .then(|| fallback_byte(text))
                        .flatten();
                    let mut bytes = Vec::new();
                    match byte {
                        Some(byte) => bytes.push(byte),
                        None => token_bytes(self.decoding, text, &mut bytes),
                    }
                    run.push(&bytes, byte.is_some());
                }
            }
        }
        run.finish()
    }

    /// The text of some ids decoded by themselves, special tokens included: `tokenizer.decode(ids)`.
    pub fn decode_ids(&self, ids: &[u32]) -> String {
        match (self.decoding, ids) {
            (Decoding::ByteLevel, [id]) => String::from_utf8_lossy(self.bytes(*id)).into_owned(),
            _ => self.decode(&ids.iter().copied().map(Piece::Id).collect::<Vec<_>>()),
        }
    }

    /// The text of one token for logprobs: decoded alone, with the leading spaces that decoding cuts put back.
    pub fn decode_one(&self, id: u32) -> Cow<'_, str> {
        if self.decoding == Decoding::ByteLevel {
            return String::from_utf8_lossy(self.bytes(id));
        }
        let text = self.decode_ids(&[id]);
        if !self.restores_leading_space {
            return text.into();
        }
        let marks = self.token(id).chars().take_while(|c| *c == SPACE_MARK).count();
        let spaces = text.chars().take_while(|c| *c == ' ').count();
        format!("{}{text}", " ".repeat(marks.saturating_sub(spaces))).into()
    }
}

impl Other {
    fn decode(&self, tokens: Vec<String>) -> String {
        match &self.decoder {
            // A decoder that refuses its input leaves the tokens as they are: text is never lost.
            Some(decoder) => decoder.decode(tokens.clone()).unwrap_or_else(|_| tokens.concat()),
            None => tokens.join(" "),
        }
    }
}

/// A window being decoded by table.
struct Run {
    decoding: Decoding,
    text: String,
    /// Bytes not yet turned into text: all of them for ByteLevel, the current run of byte tokens for SentencePiece.
    bytes: Vec<u8>,
    first: bool,
}

impl Run {
    fn new(decoding: Decoding) -> Self {
        Self { decoding, text: String::new(), bytes: Vec::new(), first: true }
    }

    fn push(&mut self, bytes: &[u8], is_byte: bool) {
        if self.decoding == Decoding::ByteLevel || is_byte {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.close_bytes();
            let text = String::from_utf8_lossy(bytes);
            match self.decoding {
                Decoding::SentencePiece { leading: Leading::DropMarks, .. } if self.first => {
                    self.text.extend(text.chars().filter(|c| *c != ' '));
                }
                _ => self.text.push_str(&text),
            }
        }
        self.first = false;
    }

    /// SentencePiece's byte fallback: a run of byte tokens is UTF-8 as a whole, or each byte is a replacement character.
    fn close_bytes(&mut self) {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => self.text.push_str(text),
            Err(_) => self.text.extend(std::iter::repeat_n(REPLACEMENT, self.bytes.len())),
        }
        self.bytes.clear();
    }

    fn finish(mut self) -> String {
        if self.decoding == Decoding::ByteLevel {
            return String::from_utf8_lossy(&self.bytes).into_owned();
        }
        self.close_bytes();
        if let Decoding::SentencePiece { leading: Leading::CutOne, .. } = self.decoding
            && self.text.starts_with(' ')
        {
            self.text.remove(0);
        }
        self.text
    }
}

/// The bytes that a token string stands for, without regard to byte fallback.
fn token_bytes(decoding: Decoding, token: &str, bytes: &mut Vec<u8>) {
    match decoding {
        Decoding::ByteLevel => {
            let start = bytes.len();
            for c in token.chars() {
                match char_to_byte(c) {
                    Some(byte) => bytes.push(byte),
                    None => {
                        // One foreign character, and the whole token is plain text (an added token).
                        bytes.truncate(start);
                        bytes.extend_from_slice(token.as_bytes());
                        return;
                    }
                }
            }
        }
        Decoding::SentencePiece { .. } => {
            bytes.extend_from_slice(token.replace(SPACE_MARK, " ").as_bytes());
        }
        Decoding::Other => {}
    }
}

/// `<0xE4>` → 0xE4.
fn fallback_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() == 2 { u8::from_str_radix(hex, 16).ok() } else { None }
}

/// GPT-2's alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and on.
fn byte_to_char(byte: u8) -> char {
    if is_printable(byte) {
        return byte as char;
    }
    let rank = (0..byte).filter(|other| !is_printable(*other)).count() as u32;
    char::from_u32(0x100 + rank).unwrap_or(REPLACEMENT)
}

fn char_to_byte(c: char) -> Option<u8> {
    match c as u32 {
        code @ 0..=0xFF => is_printable(code as u8).then_some(code as u8),
        code @ 0x100..=0x143 => (0..=u8::MAX).filter(|byte| !is_printable(*byte)).nth(code as usize - 0x100),
        _ => None,
    }
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

fn decoding_of(decoder: Option<&DecoderWrapper>) -> Decoding {
    let Some(Ok(decoder)) = decoder.map(serde_json::to_value) else { return Decoding::Other };
    let mut steps = Vec::new();
    flatten(&decoder, &mut steps);
    let kinds: Vec<&str> = steps.iter().map(|step| step["type"].as_str().unwrap_or_default()).collect();
    match kinds.as_slice() {
        ["ByteLevel"] | ["ByteLevel", "Fuse"] => Decoding::ByteLevel,
        ["Metaspace"] if steps[0]["replacement"] == "▁" => {
            let never = steps[0]["prepend_scheme"] == "never";
            let leading = if never { Leading::Keep } else { Leading::DropMarks };
            Decoding::SentencePiece { leading, byte_fallback: false }
        }
        ["Replace", "ByteFallback", "Fuse", rest @ ..] if is_space_replace(steps[0]) => match rest {
            [] => Decoding::SentencePiece { leading: Leading::Keep, byte_fallback: true },
            ["Strip"] if steps[3]["content"] == " " && steps[3]["start"] == 1 && steps[3]["stop"] == 0 => {
                Decoding::SentencePiece { leading: Leading::CutOne, byte_fallback: true }
            }
            _ => Decoding::Other,
        },
        _ => Decoding::Other,
    }
}

fn flatten<'a>(step: &'a Value, into: &mut Vec<&'a Value>) {
    match step["decoders"].as_array() {
        Some(steps) => steps.iter().for_each(|step| flatten(step, into)),
        None => into.push(step),
    }
}

fn is_space_replace(step: &Value) -> bool {
    step["pattern"]["String"] == "▁" && step["content"] == " "
}

fn has_metaspace(tokenizer: &Tokenizer) -> bool {
    let Some(Ok(pre)) = tokenizer.get_pre_tokenizer().map(serde_json::to_value) else { return false };
    let is = |step: &Value| step["type"] == "Metaspace";
    is(&pre) || pre["pretokenizers"].as_array().is_some_and(|steps| steps.iter().any(is))
}
