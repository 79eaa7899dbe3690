//! Step 3.5: reasoning and tool calls.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//! <tool_call>
//! <function=get_weather>
//! <parameter=city>
//! Paris
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! Emitted by StepFun's Step 3.5. The calls are Qwen3-Coder's ([`qwen3_coder`]); the reasoning cannot be switched off and
//! loses the white space at its end.

use super::super::engine::{Start, Thinking};
use super::super::registry::Definition;
use super::{qwen3, qwen3_coder};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["step3p5"],
    reasoning_names: &["step3p5"],
    families: "Step 3.5",
    needs: &[],
    tools: Some(|setup| qwen3_coder::GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

static THINKING: Thinking = Thinking { start: |_| Start::Inside, trims: true, ..qwen3::THINKING };
