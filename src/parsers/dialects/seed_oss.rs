//! Seed-OSS: reasoning and tool calls.
//!
//! ```text
//! <seed:think>The user wants the weather.</seed:think>
//! <seed:tool_call>
//! <function=get_weather>
//! <parameter=city>Paris</parameter>
//! </function>
//! </seed:tool_call>
//! ```
//!
//! Emitted by ByteDance's Seed-OSS. The calls are Qwen3-Coder's ([`qwen3_coder`]) between marks of their own.

use super::super::engine::{Body, By, Grammar, Manners, Params, Thinking, whole};
use super::super::registry::Definition;
use super::{qwen3, qwen3_coder};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["seed_oss"],
    reasoning_names: &["seed_oss"],
    families: "Seed-OSS",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const OPEN: &str = "<seed:tool_call>";
const CLOSE: &str = "</seed:tool_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (OPEN, By::Token),
        (CLOSE, By::Token),
        ("<seed:think>", By::Token),
        ("</seed:think>", By::Token),
        qwen3_coder::FUNCTION,
        qwen3_coder::END_FUNCTION,
        qwen3_coder::PARAMETER,
        qwen3_coder::END_PARAMETER,
        qwen3_coder::CLOSE,
    ],
    moves: &qwen3_coder::moves(OPEN, CLOSE),
    body: Body::Params(Params { trims_newlines: true, ..Params::plain(qwen3_coder::tag) }),
    manners: Manners { strays: &["</seed:think>"], ..Manners::ENGINE },
    whole: whole::trimmed,
};

static THINKING: Thinking = Thinking {
    open: "<seed:think>",
    close: "</seed:think>",
    calls: &[OPEN],
    words: Some(&[CLOSE, "<function=", "</function>", "<parameter=", "</parameter>"]),
    turns: &["<seed:bos>", "<seed:eos>"],
    ..qwen3::THINKING
};
