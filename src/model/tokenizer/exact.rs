//! The tokenizer of the `tokenizers` library: in memory where it encodes every text, made when it is asked for where
//! the fast one does.

use std::sync::OnceLock;

use tokenizers::Tokenizer;

use super::EncodeError;
use super::files::TokenizerSource;

/// The tokenizer, once it is there.
pub(super) struct Exact {
    source: TokenizerSource,
    made: OnceLock<Tokenizer>,
    ordinary: OnceLock<Tokenizer>,
}

impl Exact {
    /// In memory.
    pub(super) fn now(made: Tokenizer, source: TokenizerSource) -> Self {
        Self { source, made: OnceLock::from(made), ordinary: OnceLock::new() }
    }

    /// Made when it is asked for.
    pub(super) fn later(source: TokenizerSource) -> Self {
        Self { source, made: OnceLock::new(), ordinary: OnceLock::new() }
    }

    /// The tokenizer as vLLM has it.
    pub(super) fn get(&self) -> Result<&Tokenizer, EncodeError> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        // Two requests may make it at the same time; one of the two stays.
        let read = self.source.read().and_then(|parts| parts.tokenizer());
        let made = read.map_err(|error| EncodeError::new(error.to_string()))?;
        Ok(self.made.get_or_init(|| made))
    }

    /// The same, to which special tokens are ordinary text.
    pub(super) fn ordinary(&self) -> Result<&Tokenizer, EncodeError> {
        let exact = self.get()?;
        Ok(self.ordinary.get_or_init(|| {
            let mut ordinary = exact.clone();
            ordinary.set_encode_special_tokens(true);
            ordinary
        }))
    }
}
