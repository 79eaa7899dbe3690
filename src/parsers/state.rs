//! Where one reply stands.

use serde::{Deserialize, Serialize};

use super::engine::{ReasoningMemory, ToolMemory};

/// Where one reply stands between two chunks: small, bounded, plain data. It may come back from a client, so
/// [`Plan::step`](super::Plan::step) trusts nothing in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    pub(super) calls: usize,
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    pub(super) reasoning: ReasoningMemory,
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    pub(super) tools: ToolMemory,
}

impl State {
    /// Tool calls that have been announced so far.
    pub fn calls_streamed(&self) -> usize {
        self.calls
    }

    /// Whether the reply stands inside its reasoning.
    pub fn is_reasoning(&self) -> bool {
        self.reasoning.inside
    }

    /// Tokens of reasoning so far, for `usage.completion_tokens_details`.
    pub fn reasoning_tokens(&self) -> usize {
        self.reasoning.tokens
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
