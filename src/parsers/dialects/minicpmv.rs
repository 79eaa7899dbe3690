//! MiniCPM-V's reasoning.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! It is sunny.
//! ```
//!
//! Emitted by OpenBMB's MiniCPM-V 4.5 and later, with [`qwen3_coder`](super::qwen3_coder)'s calls. As Qwen3's ([`qwen3`]).

use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["minicpmv"],
    families: "MiniCPM-V",
    needs: &[],
    tools: None,
    reasoning: Some(|setup| qwen3::THINKING.compile(setup)),
};
