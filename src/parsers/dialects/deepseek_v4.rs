//! DeepSeek V4: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>
//! <｜DSML｜tool_calls>
//! <｜DSML｜invoke name="get_weather">
//! <｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>
//! </｜DSML｜invoke>
//! </｜DSML｜tool_calls>
//! ```
//!
//! Emitted by DeepSeek V4. The calls are V3.2's ([`deepseek_v32`]) between other marks, which the model misspells at times.
//! It thinks unless the request switches `thinking` off or the effort is `none`; reasoning may begin again after content.

use serde_json::Value;

use super::super::Context;
use super::super::engine::Mode::{Between, Content, Preamble};
use super::super::engine::{By, Grammar, Manners, Move, Reopens, Start, Thinking, on};
use super::super::registry::Definition;
use super::deepseek_v32::{self, BODY, INNER, NAME_END};
use super::{deepseek_v3, qwen3};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["deepseek_v4"],
    reasoning_names: &["deepseek_v4"],
    families: "DeepSeek V4",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const OUTER: (&str, &str) = ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>");

/// Misspellings of the opening mark.
const MISSPELLED: [&str; 2] = ["<｜DSML｜toolcalls>", "<｜DSML｜tool>"];

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
        (MISSPELLED[0], By::Text),
        (MISSPELLED[1], By::Text),
    ],
    moves: &MOVES,
    body: BODY,
    manners: MANNERS,
    ..deepseek_v32::GRAMMAR
};

const MOVES: [Move; 15] = {
    let [a, b, c, d, e, f, g, h, i, j, k] = deepseek_v32::moves(OUTER, &INNER);
    [
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        k,
        on(Content, MISSPELLED[0], &[], Preamble),
        on(Content, MISSPELLED[1], &[], Preamble),
        on(Between, MISSPELLED[0], &[], Preamble),
        on(Between, MISSPELLED[1], &[], Preamble),
    ]
};

pub(super) const MANNERS: Manners = Manners { strays: &["</think>"], forces_json: false, ..Manners::ENGINE };

static THINKING: Thinking =
    Thinking { calls: &[OUTER.0, MISSPELLED[0], MISSPELLED[1]], words: Some(WORDS), ..REASONING };

const WORDS: &[&str] = &[OUTER.1, INNER.invoke, INNER.end_invoke, INNER.parameter, INNER.end_parameter, "\">"];

/// Of V4 and V4.1, but for the marks of their calls.
pub(super) const REASONING: Thinking =
    Thinking { start, reopens: Reopens::Always, trims: true, turns: &[], ..qwen3::THINKING };

fn start(context: &Context) -> Start {
    let effort = context.chat_template_kwargs.get("reasoning_effort");
    let thinks = deepseek_v3::thinks(context, true) && effort != Some(&Value::from("none"));
    if thinks { Start::Inside } else { Start::Outside }
}
