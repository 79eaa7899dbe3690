//! Step 5: tool calls. Its reasoning is DeepSeek R1's ([`deepseek_r1`](super::deepseek_r1)).
//!
//! ```text
//! <think>The user wants the weather.</think>
//! <tool_call>
//! <function=get_weather>
//! <parameter=city>
//! Paris
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! Emitted by StepFun's Step 5. The calls are Qwen3-Coder's, and content keeps its white space.

use super::super::engine::{Blank, Grammar, Manners, whole};
use super::super::registry::Definition;
use super::qwen3_coder;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["step5"],
    reasoning_names: &[],
    families: "Step 5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

static GRAMMAR: Grammar = Grammar {
    manners: Manners { blank: Blank::Held, ..qwen3_coder::GRAMMAR.manners },
    whole: whole::untrimmed,
    ..qwen3_coder::GRAMMAR
};
