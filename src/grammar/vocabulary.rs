//! A model's tokens as llguidance wants them: the bytes of each, in a trie.

use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

use super::GrammarError;
use crate::model::Model;
use crate::model::vocabulary::{Decoding, Hidden, Vocabulary};

/// Makes matchers for a model that ends its replies with these tokens.
pub(super) fn factory(model: &Model, eos: &[u32]) -> Result<ParserFactory, GrammarError> {
    let vocabulary = model.vocabulary();
    let &first = eos.first().ok_or_else(|| GrammarError::Model("it has no end-of-text token".to_owned()))?;
    let ids = eos.iter().map(|id| id + 1).max().unwrap_or(0).max(u32::try_from(vocabulary.len()).unwrap_or(u32::MAX));
    let words: Vec<Vec<u8>> = (0..ids).map(|id| word(vocabulary, id)).collect();
    let trie = TokTrie::from(&TokRxInfo::new(ids, first), &words).with_eos_tokens(eos);
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    ParserFactory::new_simple(&env).map_err(|error| GrammarError::Model(error.to_string()))
}

/// Special tokens are no text: they stand where a grammar names them, and nowhere else.
fn word(vocabulary: &Vocabulary, id: u32) -> Vec<u8> {
    if is_special(vocabulary, id) {
        let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        word.extend_from_slice(vocabulary.token(id).as_bytes());
        return word;
    }
    match vocabulary.decoding() {
        Decoding::Other => vocabulary.decode_one(id).as_bytes().to_vec(),
        _ => vocabulary.bytes(id).to_vec(),
    }
}

pub(super) fn is_special(vocabulary: &Vocabulary, id: u32) -> bool {
    vocabulary.hides(Hidden::Flagged, id) || vocabulary.hides(Hidden::Named, id)
}
