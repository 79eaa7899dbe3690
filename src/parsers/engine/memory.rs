//! What the two halves remember between tokens. Plain data: it may be stored, sent away, and come back changed.

use serde::{Deserialize, Serialize};

use super::Mode;
use super::body::BodyMemory;
use super::newlines::Newlines;

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
    /// Text was read that is no mark.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    pub(in crate::parsers) spoken: bool,
    /// Text that may still become a mark.
    #[serde(rename = "h", skip_serializing_if = "is_default")]
    pub(in crate::parsers) held: String,
    /// White space at the end of the reasoning so far, where that is trimmed; around content, where that is marked.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    pub(in crate::parsers) blank: String,
    /// A title may follow.
    #[serde(rename = "q", skip_serializing_if = "is_default")]
    pub(in crate::parsers) titled: bool,
    /// What may become the title.
    #[serde(rename = "t", skip_serializing_if = "is_default")]
    pub(in crate::parsers) title: String,
    /// Content other than line breaks was read.
    #[serde(rename = "f", skip_serializing_if = "is_default")]
    pub(in crate::parsers) stripped: bool,
    /// Where a reply made of messages stands.
    #[serde(rename = "m", skip_serializing_if = "is_default")]
    pub(in crate::parsers) mode: Mode,
    /// Content stood between marks of its own.
    #[serde(rename = "a", skip_serializing_if = "is_default")]
    pub(in crate::parsers) wrapped: bool,
    /// Which of several pairs of marks is in use.
    #[serde(rename = "l", skip_serializing_if = "is_default")]
    pub(in crate::parsers) level: u8,
    /// Reasoning is kept, because it may have to become content.
    #[serde(rename = "k", skip_serializing_if = "is_default")]
    pub(in crate::parsers) keeps: bool,
    /// Reasoning that was kept.
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    pub(in crate::parsers) kept: String,
    /// Where line breaks that are spelled out are read: in reasoning and in content.
    #[serde(rename = "e", skip_serializing_if = "is_default")]
    pub(in crate::parsers) newlines: [Newlines; 2],
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
    /// White space at the start of content, which a call would make nothing.
    #[serde(rename = "w", skip_serializing_if = "is_default")]
    pub(in crate::parsers) blank: String,
    /// Content other than white space was said.
    #[serde(rename = "s", skip_serializing_if = "is_default")]
    pub(in crate::parsers) spoken: bool,
    /// A call was begun.
    #[serde(rename = "c", skip_serializing_if = "is_default")]
    pub(in crate::parsers) called: bool,
    /// A call is open.
    #[serde(rename = "o", skip_serializing_if = "is_default")]
    pub(in crate::parsers) open: bool,
    /// The open call was announced, or found to be none.
    #[serde(rename = "a", skip_serializing_if = "is_default")]
    pub(in crate::parsers) announced: bool,
    /// The name being read.
    #[serde(rename = "n", skip_serializing_if = "is_default")]
    pub(in crate::parsers) name: String,
    /// The text of the open call or group, while it may have to be given back.
    #[serde(rename = "r", skip_serializing_if = "is_default")]
    pub(in crate::parsers) raw: String,
    /// Where the body of the open call stands.
    #[serde(rename = "b", skip_serializing_if = "is_default")]
    pub(in crate::parsers) body: BodyMemory,
}

/// Leaves defaults out of the stored form.
pub(in crate::parsers) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
