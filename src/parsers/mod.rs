//! Splits a model's output into reasoning, content and tool calls, token by token.
//!
//! ```text
//! Dialect   what a model speaks: a tool dialect and a reasoning dialect, checked against its vocabulary; immutable
//!   └─ Plan     one request's facts applied to it: tools, tool_choice, prompt; immutable
//!        └─ State   where one reply stands: small plain data that may be stored, sent away and come back
//! ```
//!
//! In: tokens with the text that each added ([`Token`]), and the facts of the request ([`Context`]).
//! Out: [`Events`] of a chunk, or the [`Message`] of a whole reply. A parser never fails: what is malformed is content.
//!
//! Deliberately absent: detokenization, stop strings, JSON of the wire, clocks, randomness, I/O.

pub mod auto;
mod dialect;
mod dialects;
mod engine;
mod events;
mod fallback;
mod ids;
mod message;
mod plan;
mod python;
mod registry;
mod schema;
mod state;

pub use dialect::{Dialect, DialectError};
pub use events::{CallDelta, Event, Events};
pub use fallback::{Fallback, Fallbacks};
pub use message::{Message, ToolCall};
pub use plan::Plan;
pub(crate) use python::truthy;
pub use registry::{Entry, Kind, registry};
pub use state::State;

use std::collections::HashMap;
use std::sync::Arc;

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

/// What a dialect has to know of the model's vocabulary. Read while the dialect is built, not kept.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// Every token by its text, added tokens included.
    pub ids: HashMap<String, u32>,
    /// The tokens flagged as special (vLLM's `all_special_ids`), with their text.
    pub special: Vec<(u32, String)>,
    /// `response_template` of `tokenizer_config.json`: how the model divides its replies.
    pub response_template: Option<Value>,
}

/// `tool_choice` of the request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// No call may come; markup is content.
    #[default]
    None,
    /// The request set it to null: read like `Auto`, but the calls are dropped.
    Null,
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

/// The facts of one request that decide how its output is read. The large ones are shared: a stateless stream needs them
/// for every chunk.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// The request's tools, in order.
    pub tools: Arc<[Tool]>,
    /// `tool_choice`, where absent resolved to `None` without and `Auto` with tools.
    pub tool_choice: ToolChoice,
    /// `parallel_tool_calls`, true unless the request says false.
    pub parallel_tool_calls: bool,
    /// Effective template arguments (`enable_thinking`, `thinking`, …): server defaults, then the request's own.
    pub chat_template_kwargs: Arc<Map<String, Value>>,
    /// `reasoning_effort` as the request gave it.
    pub reasoning_effort: Option<String>,
    /// The rendered prompt: some dialects look whether it left reasoning open.
    pub prompt_token_ids: Vec<u32>,
    /// The text of the prompt's end, for a dialect that [wants](Dialect::wants_prompt_text) it.
    pub prompt_text: String,
    /// Tool calls in the conversation so far, for sequential ids.
    pub history_tool_calls: usize,
    /// Seed for ids of tool calls; different for every choice of every request.
    pub id_seed: u64,
}

/// A template argument whose value the dialect does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    /// Its name in `chat_template_kwargs`.
    pub argument: &'static str,
    /// What it may be.
    pub supported: &'static [&'static str],
}

impl Context {
    /// True where the request has a function of this name, or no functions at all.
    fn knows(&self, name: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|tool| tool.name == name)
    }
}
