//! Qwen3-Coder's tool calls.
//!
//! ```text
//! <tool_call>
//! <function=get_weather>
//! <parameter=city>
//! Paris
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! Emitted by Qwen3-Coder and Qwen3.5, and with other marks around it by MiMo, Seed-OSS, Step 3.5 and Step 5. Values are
//! text that the tool's schema types; one line break at either side of a value belongs to the tags. A call may lack its
//! `<tool_call>`, and calls may follow each other without closing.

use super::super::engine::Act::{Begin, End, Text};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::tags::{self, Part};
use super::super::engine::{Body, By, Grammar, Manners, Move, Params, Tag, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["qwen3_coder", "qwen3_xml"],
    reasoning_names: &[],
    families: "Qwen3-Coder, Qwen3.5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

pub(super) const GRAMMAR: Grammar = Grammar {
    marks: &[
        ("<tool_call>", By::Token),
        ("</tool_call>", By::Token),
        ("<think>", By::Token),
        ("</think>", By::Token),
        FUNCTION,
        END_FUNCTION,
        PARAMETER,
        END_PARAMETER,
        CLOSE,
    ],
    moves: &moves("<tool_call>", "</tool_call>"),
    body: Body::Params(Params { trims_newlines: true, ..Params::plain(tag) }),
    manners: Manners { strays: &["</think>"], forces_json: false, ..Manners::ENGINE },
    whole: whole::trimmed,
};

pub(super) const FUNCTION: (&str, By) = ("<function=", By::Text);
pub(super) const END_FUNCTION: (&str, By) = ("</function>", By::Text);
pub(super) const PARAMETER: (&str, By) = ("<parameter=", By::Text);
pub(super) const END_PARAMETER: (&str, By) = ("</parameter>", By::Text);
pub(super) const CLOSE: (&str, By) = (">", By::Text);

/// The moves of all dialects that have these calls between marks of their own.
pub(super) const fn moves(open: &'static str, close: &'static str) -> [Move; 15] {
    [
        on(Content, open, &[Begin], Preamble),
        on(Content, FUNCTION.0, &[Begin], Name),
        on(Preamble, close, &[End], Content),
        on(Preamble, FUNCTION.0, &[], Name),
        on(Name, CLOSE.0, &[], Args),
        on(Name, END_FUNCTION.0, &[End], Between),
        on(Name, close, &[End], Content),
        on(Name, open, &[End, Begin], Preamble),
        on(Name, FUNCTION.0, &[End, Begin], Name),
        on(Args, END_FUNCTION.0, &[End], Between),
        on(Args, FUNCTION.0, &[End, Begin], Name),
        on(Args, PARAMETER.0, &[Text], Args),
        on(Args, END_PARAMETER.0, &[Text], Args),
        on(Between, close, &[], Content),
        on(Between, open, &[Begin], Preamble),
    ]
}

/// `<parameter=NAME>` and `</parameter>`, with white space wherever the model puts some.
pub(super) fn tag(text: &str) -> Tag<'_> {
    const OPEN: &[Part] =
        &[Part::Text("<"), Part::Blank, Part::Text("parameter"), Part::Blank, Part::Text("="), Part::Blank];
    const CLOSE: &[Part] = &[
        Part::Text("<"),
        Part::Blank,
        Part::Text("/"),
        Part::Blank,
        Part::Text("parameter"),
        Part::Blank,
        Part::Text(">"),
    ];
    tags::closing(text, CLOSE).or(|| tags::opening(text, OPEN, ">"))
}
