//! InternLM 2's tool calls.
//!
//! ```text
//! <|action_start|><|plugin|>
//! {"name": "get_weather", "parameters": {"city": "Paris"}}<|action_end|>
//! ```
//!
//! Emitted by InternLM 2 and 2.5. Arguments may be called `arguments`.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, Manners, Mode, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["internlm"],
    reasoning_names: &[],
    families: "InternLM 2, InternLM 2.5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<|action_start|><|plugin|>";
const CLOSE: &str = "<|action_end|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Between),
        on(Mode::Between, OPEN, &[Act::Begin], Mode::Body),
    ],
    body: Body::JsonCall(JsonCall { arguments: &["parameters", "arguments"], ..JsonCall::MARKED }),
    manners: Manners { says_after: true, says_empty: true, ..Manners::PLAIN },
    whole: |context, record, said| whole::open_or(whole::objects, context, record, said),
};
