//! Beam: its own `response_template`, read as [`hf`](super::hf) reads any.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! <tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </tool_call>
//! ```
//!
//! Emitted by Beam's checkpoints, with the marks that their template says.

use super::super::engine::regions::Regions;
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["beam"],
    reasoning_names: &["beam"],
    families: "Beam",
    needs: &[],
    tools: Some(|setup| Regions::compile(setup)),
    reasoning: None,
};
