//! Kimi K2: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>I will check that now.
//! <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>
//! ```
//!
//! Emitted by Moonshot's Kimi K2 and K2.5. What stands before the arguments is the call's id, and the function's name in it.
//! Text after the calls is dropped.

use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Ids, Manners, Raw, Start, Thinking, on, whole};
use super::super::registry::Definition;
use super::{deepseek_v3, qwen3};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["kimi_k2"],
    reasoning_names: &["kimi_k2"],
    families: "Kimi K2, K2.5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const SECTION: &str = "<|tool_calls_section_begin|>";
const END_SECTION: &str = "<|tool_calls_section_end|>";
const CALL: &str = "<|tool_call_begin|>";
const END_CALL: &str = "<|tool_call_end|>";
const ARGUMENTS: &str = "<|tool_call_argument_begin|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (SECTION, By::Token),
        (END_SECTION, By::Token),
        (CALL, By::Token),
        (END_CALL, By::Token),
        (ARGUMENTS, By::Token),
        ("<think>", By::Token),
        ("</think>", By::Token),
    ],
    moves: &[
        on(Content, SECTION, &[], Preamble),
        on(Preamble, CALL, &[Begin], Name),
        on(Preamble, END_SECTION, &[], Preamble),
        on(Name, ARGUMENTS, &[], Args),
        on(Args, END_CALL, &[End], Between),
        on(Args, END_SECTION, &[End], Preamble),
        on(Between, CALL, &[Begin], Name),
        on(Between, END_SECTION, &[], Preamble),
    ],
    body: Body::Raw(Raw::HELD),
    manners: Manners { strays: &["</think>"], forces_json: false, ids: Ids::Spelled(id_and_name), ..Manners::ENGINE },
    whole: whole::as_said,
};

static THINKING: Thinking = Thinking {
    calls: &[SECTION],
    words: Some(&[END_SECTION, CALL, END_CALL, ARGUMENTS]),
    trims: true,
    turns: &[],
    start: |context| if deepseek_v3::thinks(context, true) { Start::Inside } else { Start::Never },
    ..qwen3::THINKING
};

/// `functions.get_weather:0` is the id of a call of `get_weather`. Anything else is no call.
fn id_and_name(head: &str) -> Option<(&str, &str)> {
    let (before, after) = head.rsplit_once(':')?;
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let id = head.get(..before.len() + 1 + digits).filter(|_| digits > 0)?;
    let name = before.split(':').next().unwrap_or(before);
    let name = name.strip_prefix("functions.").unwrap_or(name);
    (!name.is_empty()).then_some((id, name))
}
