//! What the two halves remember between tokens. Plain data: it may be stored, sent away, and come back changed.

use serde::{Deserialize, Serialize};

use super::{JsonCallMemory, Mode};

/// What a reasoning half remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct ReasoningMemory {
    /// Reasoning goes on.
    #[serde(rename = "i", skip_serializing_if = "is_default")]
    pub(in crate::parsers) inside: bool,
    /// An opening mark was read.
    #[serde(rename = "o", skip_serializing_if = "is_default")]
    pub(in crate::parsers) opened: bool,
    /// Text that may still become a mark.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    pub(in crate::parsers) held: String,
    /// Opening marks that wait for a closing one, where tokens are counted between them.
    #[serde(rename = "d", skip_serializing_if = "is_default")]
    pub(in crate::parsers) depth: u32,
    /// Tokens of reasoning.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    pub(in crate::parsers) tokens: usize,
}

/// What a tool half remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(in crate::parsers) struct ToolMemory {
    /// What the text now being read is.
    #[serde(rename = "m", skip_serializing_if = "is_default")]
    pub(in crate::parsers) mode: Mode,
    /// Text that may still become a mark.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    pub(in crate::parsers) held: String,
    /// Where the body of the open call stands.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    pub(in crate::parsers) body: BodyMemory,
}

/// Where the body of a call stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::parsers) enum BodyMemory {
    /// No call is open.
    #[default]
    #[serde(rename = "n")]
    None,
    /// In a call that is one JSON object.
    #[serde(rename = "j")]
    JsonCall(JsonCallMemory),
}

/// Leaves defaults out of the stored form.
pub(in crate::parsers) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
