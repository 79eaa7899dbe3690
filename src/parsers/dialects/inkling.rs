//! Inkling: messages of reasoning, text and tool calls.
//!
//! ```text
//! <|message_model|><|content_thinking|>The user wants the weather.<|end_message|>
//! <|message_model|><|content_text|>I will check that now.<|end_message|>
//! <|message_model|><|content_invoke_tool_json|>{"name": "get_weather", "args": {"city": "Paris"}}<|end_message|>
//! ```
//!
//! Emitted by Inkling (without the line breaks). The prompt has already opened the first message. Text between the marks that
//! open a message is dropped. Content is divided even where no tool parser was configured.

use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Body as Args, Content, Preamble};
use super::super::engine::{
    Body, By, Flow, Grammar, Ids, JsonCall, Manners, Reopens, Start, Stray, Thinking, on, whole,
};
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["inkling"],
    reasoning_names: &["inkling"],
    families: "Inkling",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const MESSAGE: &str = "<|message_model|>";
const THINK: &str = "<|content_thinking|>";
const TEXT: &str = "<|content_text|>";
const CALL: &str = "<|content_invoke_tool_json|>";
const RAW_CALL: &str = "<|content_invoke_tool_text|>";
const ERROR: &str = "<|content_tool_error|>";
const END_MESSAGE: &str = "<|end_message|>";
const END_SAMPLING: &str = "<|content_model_end_sampling|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (MESSAGE, By::Text),
        (THINK, By::Text),
        (TEXT, By::Text),
        (CALL, By::Text),
        (RAW_CALL, By::Text),
        (ERROR, By::Text),
        (END_MESSAGE, By::Text),
        (END_SAMPLING, By::Text),
    ],
    moves: &[
        on(Content, MESSAGE, &[], Preamble),
        on(Content, TEXT, &[], Content),
        on(Content, RAW_CALL, &[], Content),
        on(Content, ERROR, &[], Content),
        on(Content, CALL, &[Begin], Args),
        on(Content, END_MESSAGE, &[], Content),
        on(Content, END_SAMPLING, &[], Content),
        on(Preamble, MESSAGE, &[], Preamble),
        on(Preamble, TEXT, &[], Content),
        on(Preamble, RAW_CALL, &[], Content),
        on(Preamble, ERROR, &[], Content),
        on(Preamble, CALL, &[Begin], Args),
        on(Preamble, END_MESSAGE, &[], Content),
        on(Preamble, END_SAMPLING, &[], Content),
        on(Args, END_MESSAGE, &[End], Content),
        on(Args, END_SAMPLING, &[End], Content),
    ],
    body: Body::JsonCall(JsonCall { arguments: &["args"], ids: Ids::OfModel, flow: Flow::Certain, ..JsonCall::MARKED }),
    manners: Manners { forces_json: false, always: true, ..Manners::ENGINE },
    whole: whole::as_said,
};

static THINKING: Thinking = Thinking {
    open: THINK,
    close: END_MESSAGE,
    by: By::Text,
    calls: &[CALL, END_SAMPLING],
    passes_close: true,
    stray: Stray::Text,
    reopens: Reopens::Always,
    trims: true,
    words: Some(&[MESSAGE, TEXT, RAW_CALL, ERROR]),
    turns: &[],
    start: |_| Start::Outside,
    ..qwen3::THINKING
};
