//! GRAMMAR: what a reply may be, checked token by token, for engines that refuse grammars.
//!
//! In: `structured_outputs` of the sampling parameters as vLLM's render writes them (format: vLLM 0.33's
//! StructuredOutputsParams; structural tags are xgrammar's), and the tokens of a reply as they come. Out: whether a token
//! may come, which tokens may, and the text that must. The matching itself is llguidance's. Pure: no engine is asked here.

mod gbnf;
mod lark;
mod matcher;
mod structured;
mod tag;
mod vocabulary;
mod xml;

use llguidance::ParserFactory;
use serde_json::Value;

use crate::model::Model;
use lark::Specials;
pub use matcher::Matcher;

/// Longest grammar, in bytes of its JSON.
const MAX_SIZE: usize = 256 << 10;
/// Deepest nesting of its JSON.
const MAX_DEPTH: usize = 64;

/// Why there is no matcher, or why it gave up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GrammarError {
    /// The request's grammar is wrong, or asks for what is not there.
    #[error("{0}")]
    Invalid(String),
    /// The model cannot be bound to grammars.
    #[error("structured outputs are not possible with this model: {0}")]
    Model(String),
    /// The reply left what can be followed within bounds.
    #[error("the grammar could not be followed: {0}")]
    Lost(String),
}

impl GrammarError {
    fn invalid(reason: impl std::fmt::Display) -> Self {
        Self::Invalid(format!("Invalid grammar specification: {reason}"))
    }
}

/// A model's tokens, ready for grammars. Takes a moment to make and some megabytes to keep: once per model.
pub struct Grammars {
    factory: ParserFactory,
    specials: Specials,
    eos: Vec<u32>,
}

impl Grammars {
    /// Reads the vocabulary.
    pub fn new(model: &Model) -> Result<Self, GrammarError> {
        let eos = model.eos_token_ids();
        let mut factory = vocabulary::factory(model, &eos)?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self { factory, specials: Specials::of(model.vocabulary()), eos })
    }

    /// A matcher at the start of a reply that `structured_outputs` binds.
    pub fn matcher(&self, structured_outputs: &Value) -> Result<Matcher, GrammarError> {
        check_size(structured_outputs)?;
        let grammar = structured::grammar(structured_outputs, &self.specials)?;
        let parser = self.factory.create_parser(grammar).map_err(GrammarError::invalid)?;
        Matcher::new(parser, self.eos.clone())
    }
}

fn check_size(value: &Value) -> Result<(), GrammarError> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    let size = value.to_string().len();
    if size > MAX_SIZE {
        return Err(GrammarError::invalid(format!("it has {size} bytes, more than {MAX_SIZE}")));
    }
    let depth = depth(value);
    if depth > MAX_DEPTH {
        return Err(GrammarError::invalid(format!("it nests {depth} levels deep, more than {MAX_DEPTH}")));
    }
    Ok(())
}
