//! Holo 2's reasoning.
//!
//! ```text
//! <think>The button is at the top.</think>click(120, 40)
//! ```
//!
//! Emitted by H Company's Holo 2. DeepSeek R1's ([`deepseek_r1`]), unless the request switches `thinking` off.

use super::super::engine::{Start, Thinking};
use super::super::registry::Definition;
use super::{deepseek_r1, deepseek_v3};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["holo2"],
    families: "Holo 2",
    needs: &[],
    tools: None,
    reasoning: Some(|setup| THINKING.compile(setup)),
};

static THINKING: Thinking = Thinking {
    start: |context| if deepseek_v3::thinks(context, true) { Start::Inside } else { Start::Never },
    ..deepseek_r1::THINKING
};
