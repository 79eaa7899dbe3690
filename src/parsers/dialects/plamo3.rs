//! PLaMo 3: reasoning and tool calls.
//!
//! ```text
//! <|plamo:begin_think:plamo|>The user wants the weather.<|plamo:end_think:plamo|>I will check that now.
//! <|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>
//! <|plamo:begin_tool_name:plamo|>get_weather<|plamo:end_tool_name:plamo|>
//! <|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{"city": "Paris"}<|plamo:end_tool_arguments:plamo|>
//! <|plamo:end_tool_request:plamo|><|plamo:end_tool_requests:plamo|>
//! ```
//!
//! Emitted by Preferred Networks' PLaMo 3 (without the line breaks). Most marks are several tokens. A mark that was cut at
//! the end of the reply is dropped.

use super::super::Context;
use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Manners, Raw, Reopens, Start, Thinking, on, whole};
use super::super::python::truthy;
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["plamo3"],
    reasoning_names: &["plamo3"],
    families: "PLaMo 3",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const CALLS: &str = "<|plamo:begin_tool_requests:plamo|>";
const END_CALLS: &str = "<|plamo:end_tool_requests:plamo|>";
const CALL: &str = "<|plamo:begin_tool_request:plamo|>";
const END_CALL: &str = "<|plamo:end_tool_request:plamo|>";
const NAME: &str = "<|plamo:begin_tool_name:plamo|>";
const END_NAME: &str = "<|plamo:end_tool_name:plamo|>";
const ARGUMENTS: &str = "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>";
const END_ARGUMENTS: &str = "<|plamo:end_tool_arguments:plamo|>";
const THINK: &str = "<|plamo:begin_think:plamo|>";
const END_THINK: &str = "<|plamo:end_think:plamo|>";
const END: &str = "<|plamo:tag|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Text),
        (END_CALLS, By::Text),
        (CALL, By::Text),
        (END_CALL, By::Text),
        (NAME, By::Text),
        (END_NAME, By::Text),
        (ARGUMENTS, By::Text),
        (END_ARGUMENTS, By::Text),
        (THINK, By::Token),
        (END_THINK, By::Token),
        (END, By::Token),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Content, END, &[], Content),
        on(Preamble, CALL, &[], Preamble),
        on(Preamble, NAME, &[Begin], Name),
        on(Preamble, ARGUMENTS, &[], Args),
        on(Preamble, END_CALLS, &[], Content),
        on(Preamble, END, &[], Content),
        on(Name, END_NAME, &[], Preamble),
        on(Name, END, &[], Content),
        on(Args, END_ARGUMENTS, &[End], Between),
        on(Args, END, &[End], Content),
        on(Between, END_CALL, &[], Preamble),
        on(Between, END, &[], Content),
    ],
    body: Body::Raw(Raw::HELD),
    manners: Manners {
        engine: Some(&["<|plamo:begin_", "<|plamo:end_", ":plamo|>"]),
        strays: &[END_THINK],
        forces_json: false,
        drops_cut: "<|plamo:",
        ..Manners::ENGINE
    },
    whole: whole::as_said,
};

static THINKING: Thinking = Thinking {
    open: THINK,
    close: END_THINK,
    calls: &[CALLS],
    words: Some(&[END_CALLS, CALL, END_CALL, NAME, END_NAME, ARGUMENTS, END_ARGUMENTS, END]),
    turns: &[END],
    reopens: Reopens::Always,
    drops_cut: "<|plamo:",
    start,
    ..qwen3::THINKING
};

fn start(context: &Context) -> Start {
    match context.chat_template_kwargs.get("enable_thinking") {
        Some(value) if !truthy(value) => Start::Never,
        _ => Start::Inside,
    }
}
