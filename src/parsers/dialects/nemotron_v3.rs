//! Nemotron 3's reasoning.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! It is sunny.
//! ```
//!
//! Emitted by NVIDIA's Nemotron 3. As Qwen3's ([`qwen3`]), but white space at the end of the reasoning is dropped, and with
//! thinking switched off, or `force_nonempty_content`, a reply that has only reasoning has it as content.

use serde_json::Value;

use super::super::Context;
use super::super::engine::Thinking;
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["nemotron_v3"],
    families: "Nemotron 3",
    needs: &[],
    tools: None,
    reasoning: Some(|setup| THINKING.compile(setup)),
};

pub(super) const THINKING: Thinking = Thinking { trims: true, promotes, ..qwen3::THINKING };

pub(super) fn promotes(context: &Context) -> bool {
    let is = |key: &str, value: bool| context.chat_template_kwargs.get(key) == Some(&Value::Bool(value));
    is("enable_thinking", false) || is("force_nonempty_content", true)
}
