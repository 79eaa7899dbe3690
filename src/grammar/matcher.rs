//! Where a reply stands in its grammar.

use llguidance::{Matcher as Inner, TokenParser};

use super::GrammarError;

/// A reply's place in its grammar. Cheap to copy at its start.
#[derive(Clone)]
pub struct Matcher {
    inner: Inner,
    eos: Vec<u32>,
    /// Ids from here on are no tokens.
    tokens: u32,
    ended: bool,
}

impl Matcher {
    pub(super) fn new(parser: TokenParser, eos: Vec<u32>) -> Result<Self, GrammarError> {
        let tokens = u32::try_from(parser.token_env.tok_trie().vocab_size()).unwrap_or(u32::MAX);
        let inner = Inner::new(Ok(parser));
        match inner.get_error() {
            Some(error) => Err(GrammarError::invalid(error)),
            None => Ok(Self { inner, eos, tokens, ended: false }),
        }
    }

    /// Takes the next token, unless it may not come here.
    pub fn accept(&mut self, token: u32) -> Result<bool, GrammarError> {
        if self.eos.contains(&token) {
            self.ended = self.may_end()?;
            return Ok(self.ended);
        }
        // A model may have more outputs than its tokenizer has tokens.
        if self.must_end() || token >= self.tokens {
            return Ok(false);
        }
        self.inner.try_consume_tokens(&[token]).map(|taken| taken == 1).map_err(lost)
    }

    /// Whether the reply may end here.
    pub fn may_end(&mut self) -> Result<bool, GrammarError> {
        if self.must_end() {
            return Ok(true);
        }
        self.inner.is_accepting().map_err(lost)
    }

    /// Whether nothing can follow but the end.
    pub fn must_end(&self) -> bool {
        self.ended || self.inner.is_stopped() && !self.inner.is_error()
    }

    /// The token that ends a reply.
    pub fn end(&self) -> u32 {
        self.eos[0]
    }

    /// The text that must come next, as far as it is text and certain; empty where there is a choice.
    pub fn forced(&mut self) -> String {
        if self.must_end() {
            return String::new();
        }
        let bytes = self.inner.compute_ff_bytes();
        // Behind 0xFF stands a special token, and a character may be cut at the end.
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        text.to_owned()
    }

    /// The tokens that may come next, ascending.
    pub fn allowed(&mut self) -> Result<Vec<u32>, GrammarError> {
        if self.must_end() {
            return Ok(self.eos.clone());
        }
        let mask = self.inner.compute_mask().map_err(lost)?;
        let mut ids = Vec::new();
        mask.iter_set_entries(|id| ids.push(u32::try_from(id).unwrap_or(u32::MAX)));
        ids.retain(|id| !self.eos.contains(id));
        if self.may_end()? {
            ids.extend_from_slice(&self.eos);
            ids.sort_unstable();
            ids.dedup();
        }
        Ok(ids)
    }
}

fn lost(error: impl std::fmt::Display) -> GrammarError {
    GrammarError::Lost(error.to_string())
}
