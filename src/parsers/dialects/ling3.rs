//! Ling 3: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>I will check that now.
//! <tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>
//! ```
//!
//! Emitted by inclusionAI's Ling 3. As GLM's ([`glm45`]).

use super::super::registry::Definition;
use super::glm45::{GRAMMAR, THINKING};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["ling3"],
    reasoning_names: &["ling3"],
    families: "Ling 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};
