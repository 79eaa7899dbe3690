//! Gemma 4: reasoning and tool calls.
//!
//! ```text
//! <|channel>thought
//! The user wants the weather.<channel|><|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>
//! ```
//!
//! Emitted by Google's Gemma 4. Strings have quotes of their own, which are one token; other values stand bare.

use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, Braces, By, Grammar, Manners, Reopens, Start, Thinking, on, whole};
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["gemma4"],
    reasoning_names: &["gemma4"],
    families: "Gemma 4",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const CALL: &str = "<|tool_call>";
const END_CALL: &str = "<tool_call|>";
const QUOTE: &str = "<|\"|>";
const CHANNEL: &str = "<|channel>";
const END_CHANNEL: &str = "<channel|>";

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[(CALL, By::Token), (END_CALL, By::Token), ("call:", By::Text), ("{", By::Text), (END_CHANNEL, By::Token)],
    moves: &[
        on(Content, CALL, &[Begin], Preamble),
        on(Preamble, "call:", &[], Name),
        on(Preamble, END_CALL, &[], Content),
        on(Name, "{", &[], Args),
        on(Name, END_CALL, &[End], Content),
        on(Args, END_CALL, &[End], Content),
    ],
    body: Body::Braces(Braces { quote: QUOTE, typed: false, opened: true }),
    manners: Manners { engine: Some(&[QUOTE, CHANNEL]), strays: &[END_CHANNEL], forces_json: false, ..Manners::ENGINE },
    whole: whole::trimmed,
};

static THINKING: Thinking = Thinking {
    open: CHANNEL,
    close: END_CHANNEL,
    title: "thought\n",
    calls: &[CALL],
    words: Some(&[END_CALL]),
    turns: &[],
    start: |_| Start::Outside,
    reopens: Reopens::Always,
    trims: true,
    ..qwen3::THINKING
};
