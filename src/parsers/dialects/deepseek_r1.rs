//! DeepSeek R1's reasoning.
//!
//! ```text
//! <think>The user wants the weather.</think>It is sunny.
//! ```
//!
//! Emitted by DeepSeek R1 and its distillations, and by Step 5. Newer templates open the reasoning themselves, so a reply
//! begins inside it; what follows the first closing mark is content, marks included.

use super::super::engine::{By, Counting, Empty, Reopens, Start, Stray, Thinking};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &[],
    reasoning_names: &["deepseek_r1", "step5"],
    families: "DeepSeek R1 and distillations, Step 5",
    needs: &["<think>", "</think>"],
    tools: None,
    reasoning: Some(|setup| THINKING.compile(setup)),
};

pub(super) static THINKING: Thinking = Thinking {
    open: "<think>",
    close: "</think>",
    by: By::Token,
    around: &[],
    passes_close: false,
    calls: &[],
    start: |_| Start::Inside,
    stray: Stray::Text,
    reopens: Reopens::Never,
    follows_prompt: true,
    counting: Counting::Marked,
    words: None,
    turns: &[],
    says_empty: true,
    trims: false,
    spellings: &[],
    drops: &[],
    recovers_newlines: false,
    title: "",
    strips: false,
    drops_cut: "",
    promotes: |_| false,
    empty_whole: Empty::Always,
};
