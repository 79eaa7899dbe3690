//! DeepSeek V3: tool calls, and reasoning that is off by default.
//!
//! ````text
//! <think>The user wants the weather.</think>I will check that now.
//! <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
//! ```json
//! {"city": "Paris"}
//! ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//! ````
//!
//! Emitted by DeepSeek V3 (0324) and R1 (0528). The reasoning is DeepSeek R1's ([`deepseek_r1`]) where the request says
//! `thinking` or `enable_thinking`, as it is for Holo 2, which thinks unless it is told not to.

use super::super::Context;
use super::super::engine::Act::{Announce, Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Manners, Raw, Record, Start, Thinking, on};
use super::super::message::Answer;
use super::super::python::truthy;
use super::super::registry::Definition;
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["deepseek_v3"],
    reasoning_names: &["deepseek_v3"],
    families: "DeepSeek V3, R1-0528",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

pub(super) const CALLS: &str = "<｜tool▁calls▁begin｜>";
pub(super) const END_CALLS: &str = "<｜tool▁calls▁end｜>";
pub(super) const CALL: &str = "<｜tool▁call▁begin｜>";
pub(super) const END_CALL: &str = "<｜tool▁call▁end｜>";
pub(super) const SEPARATOR: &str = "<｜tool▁sep｜>";
const LINE: &str = "\n";
const FENCE: &str = "```json\n";
const END_FENCE: &str = "\n```";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Token),
        (END_CALLS, By::Token),
        (CALL, By::Token),
        (END_CALL, By::Token),
        (SEPARATOR, By::Token),
        (LINE, By::Text),
        (FENCE, By::Text),
        (END_FENCE, By::Text),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Preamble, CALL, &[Begin], Preamble),
        on(Preamble, SEPARATOR, &[], Name),
        on(Name, LINE, &[Announce], Preamble),
        on(Preamble, FENCE, &[], Args),
        on(Args, END_FENCE, &[End], Between),
        on(Args, END_CALL, &[End], Between),
        on(Preamble, END_CALL, &[End], Between),
        on(Between, CALL, &[Begin], Preamble),
        on(Between, END_CALLS, &[], Content),
    ],
    body: Body::Raw(Raw::PLAIN),
    manners: Manners { forces_json: false, says_empty: true, ..Manners::PLAIN },
    whole,
};

static THINKING: Thinking = Thinking {
    start: |context| if thinks(context, false) { Start::Inside } else { Start::Never },
    ..deepseek_r1::THINKING
};

/// Whether the request switches thinking on, by either of its names; `default` where it has neither.
pub(super) fn thinks(context: &Context, default: bool) -> bool {
    let said = |key: &str| context.chat_template_kwargs.get(key).filter(|value| !value.is_null());
    match (said("thinking"), said("enable_thinking")) {
        (None, None) => default,
        (one, other) => one.is_some_and(truthy) || other.is_some_and(truthy),
    }
}

/// Once calls were announced, malformed ones are dropped.
pub(super) fn whole(_context: &Context, record: &Record, said: Answer) -> Answer {
    Answer { settled: record.text().contains(CALLS), ..said }
}
