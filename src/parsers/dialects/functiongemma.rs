//! FunctionGemma's tool calls.
//!
//! ```text
//! <start_function_call>call:get_weather{city:<escape>Paris<escape>,days:<escape>3<escape>}<end_function_call>
//! ```
//!
//! Emitted by Google's FunctionGemma. As Gemma 4's ([`gemma4`]), but every value is quoted, and the tool's schema types it. Text
//! after a call is content.

use super::super::engine::Act::{Begin, End, First};
use super::super::engine::Mode::{Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, Braces, By, Grammar, Manners, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["functiongemma"],
    reasoning_names: &[],
    families: "FunctionGemma",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const CALL: &str = "<start_function_call>";
const END_CALL: &str = "<end_function_call>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(CALL, By::Text), (END_CALL, By::Text), ("call:", By::Text), ("{", By::Text)],
    moves: &[
        on(Content, CALL, &[Begin], Preamble),
        on(Preamble, "call:", &[], Name),
        on(Preamble, END_CALL, &[], Content),
        on(Name, "{", &[First], Args),
        on(Args, END_CALL, &[End], Content),
    ],
    body: Body::Braces(Braces { quote: "<escape>", typed: true, opened: false }),
    manners: Manners { joined: true, ..Manners::PLAIN },
    whole: whole::trimmed,
};
