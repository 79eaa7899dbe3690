//! Text to token ids, exactly as vLLM's tokenizer does it, by the fastest way that proves equal.
//!
//! In: text. Out: ids. The `tokenizers` library is the truth. `fastokens` is used where, at load, it gives the same ids
//! on a probe set; else the truth is used and the reason is kept for the log. Deliberately absent: decoding.

mod classes;
mod exact;
pub(crate) mod files;
mod probe;

use std::collections::HashMap;

use crate::model::LoadOptions;
use crate::model::template::ChatTemplates;
use exact::Exact;
use files::{TokenizerParts, TokenizerSource};

/// The tokenizer library refused a text; it never should.
#[derive(Debug, thiserror::Error)]
#[error("the tokenizer refused the text: {0}")]
pub struct EncodeError(String);

impl EncodeError {
    /// With any text.
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Token ids with, for each, its span in the text in characters.
pub type Spans = (Vec<u32>, Vec<(usize, usize)>);

/// Which way texts are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// `fastokens`, proved equal on so many probes.
    Fast {
        /// Texts that were compared.
        probes: usize,
    },
    /// `tokenizers`, for this reason.
    Exact {
        /// Why the fast way is not taken.
        reason: String,
    },
}

/// Encodes texts.
pub struct Encoder {
    exact: Exact,
    fast: Option<fastokens::Tokenizer>,
    /// One more than the highest id.
    ids: u32,
    path: Path,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    specials: Vec<(String, String)>,
    special_ids: Vec<u32>,
    eos_token_id: Option<u32>,
    max_chars_per_token: usize,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("path", &self.path).field("specials", &self.specials).finish_non_exhaustive()
    }
}

impl Encoder {
    /// `exact` is the tokenizer that `parts` make. It is kept only where it is used for every text; where it is wanted
    /// once in a while, `source` gives it again.
    pub(crate) fn new(
        mut parts: TokenizerParts,
        exact: tokenizers::Tokenizer,
        source: TokenizerSource,
        options: &LoadOptions,
        templates: &ChatTemplates,
    ) -> Self {
        let special_ids = parts.special_ids(&exact);
        let (prefix, suffix) = added_by_post_processor(&exact);
        let (fast, path) = if options.fast_tokenizer {
            parts.renumber(&exact);
            probe::fast_if_equal(
                parts.json,
                &exact,
                options.segment_cache_bytes,
                &templates.probe_texts(&parts.specials),
            )
        } else {
            (None, Path::Exact { reason: "turned off by the settings".to_owned() })
        };
        let eos = parts.specials.iter().find(|(name, _)| name == "eos_token");
        let vocabulary = exact.get_vocab(true);
        Self {
            eos_token_id: eos.and_then(|(_, text)| exact.token_to_id(text)),
            max_chars_per_token: vocabulary.keys().map(|token| token.chars().count()).max().unwrap_or(1),
            ids: vocabulary.values().max().map_or(0, |id| id + 1),
            exact: if fast.is_some() { Exact::later(source) } else { Exact::now(exact, source) },
            fast,
            path,
            prefix,
            suffix,
            specials: parts.specials,
            special_ids,
        }
    }

    /// The ids of a text. `add_special` adds what the tokenizer puts around every text (BOS, …).
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, EncodeError> {
        let ids = match &self.fast {
            Some(fast) => fast.encode(text).map_err(|error| EncodeError(error.to_string()))?,
            None => ids_of(self.exact.get()?, text)?,
        };
        Ok(if add_special { self.surround(ids) } else { ids })
    }

    /// As [`encode`](Self::encode), with spans in characters.
    pub fn encode_with_spans(&self, text: &str, add_special: bool) -> Result<Spans, EncodeError> {
        let exact = self.exact.get()?;
        let encoding = exact.encode_char_offsets(text, add_special).map_err(|error| EncodeError(error.to_string()))?;
        Ok((encoding.get_ids().to_vec(), encoding.get_offsets().to_vec()))
    }

    /// The ids of a text in which special tokens are ordinary text.
    pub fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        match &self.fast {
            Some(fast) => fast.encode_ordinary(text).map_err(|error| EncodeError(error.to_string())),
            None => ids_of(self.exact.ordinary()?, text),
        }
    }

    /// Puts around ids what the tokenizer puts around every text.
    pub fn surround(&self, ids: Vec<u32>) -> Vec<u32> {
        if self.prefix.is_empty() && self.suffix.is_empty() {
            return ids;
        }
        let mut out = Vec::with_capacity(self.prefix.len() + ids.len() + self.suffix.len());
        out.extend_from_slice(&self.prefix);
        out.extend(ids);
        out.extend_from_slice(&self.suffix);
        out
    }

    /// How many ids [`surround`](Self::surround) adds.
    pub fn surround_len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Which way texts are encoded, and why.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The id of a token, by its text in the vocabulary.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        match &self.fast {
            Some(fast) => fast.token_to_id(token),
            None => self.exact.get().ok()?.token_to_id(token),
        }
    }

    /// The text of a token, as the vocabulary spells it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        match &self.fast {
            Some(fast) => fast.id_to_token(id).map(str::to_owned),
            None => self.exact.get().ok()?.id_to_token(id),
        }
    }

    /// Every token by its text, added tokens included.
    pub fn tokens(&self) -> HashMap<String, u32> {
        let of_id = |id: u32| self.id_to_token(id).and_then(|text| self.token_to_id(&text).map(|id| (text, id)));
        (0..self.ids).filter_map(of_id).collect()
    }

    /// Name and text of the special tokens that are set (`bos_token`, …).
    pub fn specials(&self) -> &[(String, String)] {
        &self.specials
    }

    /// Ids of all special tokens that the configuration names, ascending (transformers' `all_special_ids`). Tokens that
    /// only tokenizer.json flags as special are not among them.
    pub fn special_ids(&self) -> &[u32] {
        &self.special_ids
    }

    /// The id of `eos_token`.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.eos_token_id
    }

    /// Characters of the longest token: no text of more than this times n characters fits into n tokens.
    pub fn max_chars_per_token(&self) -> usize {
        self.max_chars_per_token
    }
}

fn ids_of(tokenizer: &tokenizers::Tokenizer, text: &str) -> Result<Vec<u32>, EncodeError> {
    let encoding = tokenizer.encode_fast(text, false).map_err(|error| EncodeError(error.to_string()))?;
    Ok(encoding.get_ids().to_vec())
}

/// The ids before and after every text, found by encoding one with and without them.
fn added_by_post_processor(tokenizer: &tokenizers::Tokenizer) -> (Vec<u32>, Vec<u32>) {
    let ids = |add: bool| tokenizer.encode_fast("a", add).map(|encoding| encoding.get_ids().to_vec());
    let (Ok(with), Ok(without)) = (ids(true), ids(false)) else { return (Vec::new(), Vec::new()) };
    let Some(at) = with.windows(without.len().max(1)).position(|window| window == without) else {
        return (Vec::new(), Vec::new());
    };
    (with.get(..at).unwrap_or_default().to_vec(), with.get(at + without.len()..).unwrap_or_default().to_vec())
}
