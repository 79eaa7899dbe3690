//! Text to token ids, exactly as vLLM's tokenizer does it, by the fastest way that proves equal.
//!
//! In: text. Out: ids. The `tokenizers` library is the truth. `fastokens` is used where, at load, it gives the same ids
//! on a probe set; else the truth is used and the reason is kept for the log. Deliberately absent: decoding.

mod classes;
pub(crate) mod files;
mod probe;

use crate::model::template::ChatTemplates;
use crate::model::{LoadError, LoadOptions};
use files::TokenizerParts;

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
    exact: tokenizers::Tokenizer,
    fast: Option<fastokens::Tokenizer>,
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
    pub(crate) fn new(
        parts: TokenizerParts,
        options: &LoadOptions,
        templates: &ChatTemplates,
    ) -> Result<Self, LoadError> {
        let fast_json = options.fast_tokenizer.then(|| parts.json.clone());
        let exact: tokenizers::Tokenizer =
            serde_json::from_value(parts.json).map_err(|error| LoadError::broken(&parts.path, error))?;
        let (prefix, suffix) = added_by_post_processor(&exact);
        let (fast, path) = match fast_json {
            Some(json) => probe::fast_if_equal(json, &exact, options.segment_cache_bytes, templates),
            None => (None, Path::Exact { reason: "turned off by the settings".to_owned() }),
        };
        let texts = parts.specials.iter().map(|(_, text)| text).chain(&parts.extra);
        let mut special_ids: Vec<u32> = texts.filter_map(|text| exact.token_to_id(text)).collect();
        special_ids.sort_unstable();
        special_ids.dedup();
        let eos = parts.specials.iter().find(|(name, _)| name == "eos_token");
        let eos_token_id = eos.and_then(|(_, text)| exact.token_to_id(text));
        let max_chars_per_token = exact.get_vocab(true).keys().map(|token| token.chars().count()).max().unwrap_or(1);
        Ok(Self {
            exact,
            fast,
            path,
            prefix,
            suffix,
            specials: parts.specials,
            special_ids,
            eos_token_id,
            max_chars_per_token,
        })
    }

    /// The ids of a text. `add_special` adds what the tokenizer puts around every text (BOS, …).
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, EncodeError> {
        let ids = match &self.fast {
            Some(fast) => fast.encode(text).map_err(|error| EncodeError(error.to_string()))?,
            None => ids_of(&self.exact, text)?,
        };
        Ok(if add_special { self.surround(ids) } else { ids })
    }

    /// As [`encode`](Self::encode), with spans in characters.
    pub fn encode_with_spans(&self, text: &str, add_special: bool) -> Result<Spans, EncodeError> {
        let encoding =
            self.exact.encode_char_offsets(text, add_special).map_err(|error| EncodeError(error.to_string()))?;
        Ok((encoding.get_ids().to_vec(), encoding.get_offsets().to_vec()))
    }

    /// The ids of a text in which special tokens are ordinary text.
    pub fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, EncodeError> {
        match &self.fast {
            Some(fast) => fast.encode_ordinary(text).map_err(|error| EncodeError(error.to_string())),
            None => {
                let mut exact = self.exact.clone();
                exact.set_encode_special_tokens(true);
                ids_of(&exact, text)
            }
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

    /// The tokenizer as vLLM has it.
    pub fn tokenizer(&self) -> &tokenizers::Tokenizer {
        &self.exact
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
