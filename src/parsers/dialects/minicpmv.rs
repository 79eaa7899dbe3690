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
//! Emitted by OpenBMB's MiniCPM-V 4.5 and later, with [`qwen3_coder`](super::qwen3_coder)'s calls. As Qwen3's ([`qwen3`]), but
//! line breaks that the model spells out (`\n`) become real ones, in content, too, and reserved marks are dropped.

use super::super::engine::{By, Thinking};
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["minicpmv"],
    families: "MiniCPM-V",
    needs: &[],
    tools: None,
    reasoning: Some(|setup| THINKING.compile(setup)),
};

static THINKING: Thinking = Thinking {
    drops: &[
        ("<|im_end|>", By::Token),
        ("<reserved_12>", By::Text),
        ("<reserved_13>", By::Text),
        ("<reserved_14>", By::Text),
        ("<reserved_15>", By::Text),
        ("<|reserved_12|>", By::Token),
        ("<|reserved_13|>", By::Token),
        ("<|reserved_14|>", By::Token),
        ("<|reserved_15|>", By::Token),
    ],
    recovers_newlines: true,
    ..qwen3::THINKING
};
