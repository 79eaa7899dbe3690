//! Qwen3's reasoning.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//!
//! It is sunny.
//! ```
//!
//! Emitted by Qwen3 and its successors. The template may already have opened the reasoning, so a reply begins inside it
//! unless `enable_thinking` is false; a tool call ends it as well.

use super::super::Context;
use super::super::engine::{By, Counting, Empty, Reopens, Start, Stray, Thinking};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["qwen3"],
    families: "Qwen3 and later",
    needs: &[],
    tools: None,
    reasoning: Some(|setup| THINKING.compile(setup)),
};

pub(super) const THINKING: Thinking = Thinking {
    open: "<think>",
    close: "</think>",
    by: By::Token,
    around: &[],
    passes_close: false,
    calls: &["<tool_call>"],
    start,
    stray: Stray::Dropped,
    reopens: Reopens::Never,
    follows_prompt: true,
    counting: Counting::Read,
    words: Some(&["</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"]),
    turns: &["<|im_start|>", "<|im_end|>"],
    says_empty: false,
    trims: false,
    spellings: &[],
    drops: &[],
    recovers_newlines: false,
    title: "",
    strips: false,
    drops_cut: "",
    promotes: |_| false,
    empty_whole: Empty::Never,
};

fn start(context: &Context) -> Start {
    match context.chat_template_kwargs.get("enable_thinking") {
        Some(value) if !super::super::python::truthy(value) => Start::Never,
        _ => Start::Inside,
    }
}
