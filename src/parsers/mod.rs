//! Splits a model's output into reasoning, content and tool calls, token by token.
//!
//! In: tokens with the text that each added ([`Token`]), and the facts of the request ([`Context`]).
//! Out: [`Events`]. Deliberately absent: detokenization, stop strings, JSON of the wire, clocks, randomness, I/O.

mod events;

pub use events::{Event, Events};

use serde_json::{Map, Value};

/// A token and the text by which it lengthened the output.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    /// The id, or `None` for the rest of a token's text that was held back while it could still have been part of a
    /// stop string.
    pub id: Option<u32>,
    /// May be empty: the first bytes of a character that a later token completes.
    pub text: &'a str,
}

/// What a dialect has to know of the model's vocabulary.
pub trait Vocabulary {
    /// The id of a token by its exact text, added tokens included.
    fn id_of(&self, text: &str) -> Option<u32>;
    /// The tokens flagged as special (vLLM's `all_special_ids`).
    fn special_ids(&self) -> &[u32];
    /// The text of an added or special token.
    fn text_of(&self, id: u32) -> Option<&str>;
}

/// `tool_choice` of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// No call may come; markup is content.
    #[default]
    None,
    /// The model decides.
    Auto,
    /// At least one call.
    Required,
    /// Exactly this function.
    Named(String),
}

/// A function that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// JSON schema of its arguments; `Null` where the request gave none.
    pub parameters: Value,
}

/// The facts of one request that decide how its output is read.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The request's tools, in order.
    pub tools: Vec<Tool>,
    /// Resolved `tool_choice`: `None` where the request has no tools.
    pub tool_choice: ToolChoice,
    /// `parallel_tool_calls`, true unless the request says false.
    pub parallel_tool_calls: bool,
    /// Effective template arguments (`enable_thinking`, `thinking`, …): server defaults, then the request's own.
    pub chat_template_kwargs: Map<String, Value>,
    /// `reasoning_effort` as the request gave it.
    pub reasoning_effort: Option<String>,
    /// The rendered prompt: some dialects look whether it left reasoning open.
    pub prompt_token_ids: Vec<u32>,
    /// Tool calls in the conversation so far, for sequential ids.
    pub history_tool_calls: usize,
    /// Seed for ids of tool calls; different for every choice of every request.
    pub id_seed: u64,
}
