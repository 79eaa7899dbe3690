//! DeepSeek V4.1: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>
//! <｜DSML｜ calls>
//! <｜DSML｜ invoke name="get_weather">
//! <｜DSML｜ parameter name="city" string="true">Paris</｜DSML｜ parameter>
//! </｜DSML｜ invoke>
//! </｜DSML｜ calls>
//! ```
//!
//! Emitted by DeepSeek V4.1. As V4's ([`deepseek_v4`]), with a space in every mark.

use super::super::engine::{Body, By, Grammar, Params, Thinking};
use super::super::registry::Definition;
use super::deepseek_v4;
use super::deepseek_v32::{self, Inner, NAME_END};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["deepseek_v41"],
    reasoning_names: &["deepseek_v41"],
    families: "DeepSeek V4.1",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const OUTER: (&str, &str) = ("<｜DSML｜ calls>", "</｜DSML｜ calls>");

const INNER: Inner = Inner {
    invoke: "<｜DSML｜ invoke name=\"",
    end_invoke: "</｜DSML｜ invoke>",
    parameter: "<｜DSML｜ parameter",
    end_parameter: "</｜DSML｜ parameter>",
};

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (OUTER.0, By::Token),
        (OUTER.1, By::Token),
        (INNER.invoke, By::Text),
        (INNER.end_invoke, By::Text),
        (INNER.parameter, By::Text),
        (INNER.end_parameter, By::Text),
        NAME_END,
        ("<think>", By::Token),
        ("</think>", By::Token),
    ],
    moves: &deepseek_v32::moves(OUTER, &INNER),
    body: Body::Params(Params { tag: |text| deepseek_v32::tag(text, &INNER), ..deepseek_v32::PARAMS }),
    manners: deepseek_v4::MANNERS,
    ..deepseek_v32::GRAMMAR
};

static THINKING: Thinking = Thinking { calls: &[OUTER.0], words: Some(WORDS), ..deepseek_v4::REASONING };

const WORDS: &[&str] = &[OUTER.1, INNER.invoke, INNER.end_invoke, INNER.parameter, INNER.end_parameter, "\">"];
