//! MiMo: reasoning and tool calls.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! <tool_call>
//! <function=get_weather>
//! <parameter=city>Paris</parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! Emitted by Xiaomi's MiMo. As Qwen3-Coder's ([`qwen3_coder`]), but line breaks around a value belong to it.

use super::super::engine::{Body, Grammar, Params};
use super::super::registry::Definition;
use super::{qwen3, qwen3_coder};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["mimo"],
    reasoning_names: &["mimo"],
    families: "MiMo",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| qwen3::THINKING.compile(setup)),
};

static GRAMMAR: Grammar = Grammar { body: Body::Params(Params::plain(qwen3_coder::tag)), ..qwen3_coder::GRAMMAR };
