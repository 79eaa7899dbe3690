//! Whatever the model's own `response_template` says, for instance:
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! I will check that now.<tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </tool_call>
//! ```
//!
//! For models whose `tokenizer_config.json` has such a template, as transformers defines it. Calls must be JSON between literal
//! marks.

use super::super::engine::regions::Regions;
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["hf"],
    reasoning_names: &["hf"],
    families: "Models with a response_template in tokenizer_config.json",
    needs: &[],
    tools: Some(|setup| Regions::compile(setup)),
    reasoning: None,
};
