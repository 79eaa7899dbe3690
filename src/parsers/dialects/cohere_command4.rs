//! Cohere Command 4: reasoning and tool calls.
//!
//! ```text
//! <|START_THINKING|>The user wants the weather.<|END_THINKING|><|START_TEXT|>I will check that now.<|END_TEXT|>
//! <|START_ACTION|>[
//!     {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris"}}
//! ]<|END_ACTION|>
//! ```
//!
//! Emitted by Cohere's Command A successors. As Command 3's ([`cohere_command3`]), with other marks around content, and a reply
//! begins inside the reasoning.

use super::super::engine::{Grammar, Manners, Mode};
use super::super::registry::Definition;
use super::cohere_command3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["cohere_command4"],
    reasoning_names: &["cohere_command4"],
    families: "Command A successors",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

static GRAMMAR: Grammar =
    Grammar { manners: Manners { start: Mode::Think, ..cohere_command3::GRAMMAR.manners }, ..cohere_command3::GRAMMAR };
