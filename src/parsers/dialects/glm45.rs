//! GLM 4.5 and 4.7: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>I will check that now.
//! <tool_call>get_weather
//! <arg_key>city</arg_key>
//! <arg_value>Paris</arg_value>
//! </tool_call>
//! ```
//!
//! Emitted by Z.ai's GLM 4.5, 4.6, 4.7 and 5; 4.7 leaves the line breaks out. Values are text that the tool's schema types.
//! A call of a function that the request does not have is dropped. Reasoning may begin again after content.

use super::super::Context;
use super::super::engine::Act::{Begin, End, First, Text};
use super::super::engine::Mode::{Body as Args, Content, Name};
use super::super::engine::{
    Body, By, Grammar, Manners, Params, Reopens, Start, Tag, Thinking, Unknown, Value, on, whole,
};
use super::super::registry::Definition;
use super::{deepseek_v3, qwen3};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["glm45", "glm47"],
    reasoning_names: &["glm45", "glm47"],
    families: "GLM 4.5, 4.6, 4.7, 5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

pub(super) const CALL: &str = "<tool_call>";
pub(super) const END_CALL: &str = "</tool_call>";
pub(super) const KEY: &str = "<arg_key>";
const END_KEY: &str = "</arg_key>";
const VALUE: &str = "<arg_value>";
const END_VALUE: &str = "</arg_value>";

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALL, By::Token),
        (END_CALL, By::Token),
        ("<think>", By::Token),
        ("</think>", By::Token),
        (KEY, By::Text),
        (END_KEY, By::Text),
        (VALUE, By::Text),
        (END_VALUE, By::Text),
    ],
    moves: &[
        on(Content, CALL, &[Begin], Name),
        on(Name, KEY, &[First], Args),
        on(Name, END_CALL, &[End], Content),
        on(Args, END_CALL, &[End], Content),
        on(Args, KEY, &[Text], Args),
        on(Args, END_KEY, &[Text], Args),
        on(Args, VALUE, &[Text], Args),
        on(Args, END_VALUE, &[Text], Args),
    ],
    body: Body::Params(Params::plain(tag)),
    manners: Manners { strays: &["</think>"], forces_json: false, unknown: Unknown::Dropped, ..Manners::ENGINE },
    whole: whole::trimmed,
};

pub(super) const THINKING: Thinking = Thinking {
    calls: &[CALL],
    words: Some(&[END_CALL, KEY, END_KEY, VALUE, END_VALUE]),
    turns: &["<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
    trims: true,
    reopens: Reopens::Always,
    start,
    ..qwen3::THINKING
};

fn start(context: &Context) -> Start {
    if deepseek_v3::thinks(context, true) { Start::Inside } else { Start::Never }
}

/// `<arg_key>KEY</arg_key>`, white space, `<arg_value>`; and `</arg_value>`.
pub(super) fn tag(text: &str) -> Tag<'_> {
    if text.starts_with(END_VALUE) {
        return Tag::Close { len: END_VALUE.len() };
    }
    let Some(rest) = text.strip_prefix(KEY) else {
        let begun = KEY.starts_with(text) || END_VALUE.starts_with(text);
        return if begun { Tag::Maybe } else { Tag::None };
    };
    let Some((key, after)) = rest.split_once(END_KEY) else { return Tag::Maybe };
    let after = after.trim_start();
    match after.strip_prefix(VALUE) {
        Some(after) => Tag::Open { len: text.len() - after.len(), key: key.trim(), value: Value::Text },
        None if VALUE.starts_with(after) => Tag::Maybe,
        None => Tag::None,
    }
}
