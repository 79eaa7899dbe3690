//! Granite 4.2's reasoning.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! It is sunny.
//! ```
//!
//! Emitted by IBM's Granite 4.2. As Nemotron 3's ([`nemotron_v3`]), but line breaks at the start of the content are dropped.

use super::super::engine::Thinking;
use super::super::registry::Definition;
use super::nemotron_v3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["granite_thinking_parser"],
    families: "Granite 4.2",
    needs: &[],
    tools: None,
    reasoning: Some(|setup| THINKING.compile(setup)),
};

static THINKING: Thinking = Thinking { strips: true, ..nemotron_v3::THINKING };
