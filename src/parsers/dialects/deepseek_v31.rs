//! DeepSeek V3.1's tool calls.
//!
//! ```text
//! I will check that now.
//! <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//! ```
//!
//! Emitted by DeepSeek V3.1, with [`deepseek_v3`] for the reasoning. The arguments go out as they come.

use super::super::engine::Act::{Announce, Begin, End};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Manners, Raw, on};
use super::super::registry::Definition;
use super::deepseek_v3::{self, CALL, CALLS, END_CALL, END_CALLS, SEPARATOR};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["deepseek_v31"],
    reasoning_names: &[],
    families: "DeepSeek V3.1",
    needs: &[CALLS, END_CALLS],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Token),
        (END_CALLS, By::Token),
        (CALL, By::Token),
        (END_CALL, By::Token),
        (SEPARATOR, By::Token),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Preamble, CALL, &[Begin], Name),
        on(Name, SEPARATOR, &[Announce], Args),
        on(Name, END_CALL, &[End], Between),
        on(Args, END_CALL, &[End], Between),
        on(Between, CALL, &[Begin], Name),
        on(Between, END_CALLS, &[], Content),
    ],
    body: Body::Raw(Raw::PLAIN),
    manners: Manners { forces_json: false, says_empty: true, ..Manners::PLAIN },
    whole: deepseek_v3::whole,
};
