//! LFM2's tool calls.
//!
//! ```text
//! <|tool_call_start|>[get_weather(city='Paris', days=3), ping()]<|tool_call_end|>
//! ```
//!
//! Emitted by Liquid AI's LFM2. Calls as Python writes them ([`pythonic`]), read leniently, with text before and after.

use super::super::Context;
use super::super::engine::{Act, Body, By, Grammar, Manners, Mode, PyCalls, Record, on, whole};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::pythonic;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["lfm2"],
    reasoning_names: &[],
    families: "LFM2",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const OPEN: &str = "<|tool_call_start|>";
const CLOSE: &str = "<|tool_call_end|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Content),
        on(Mode::Between, CLOSE, &[], Mode::Content),
    ],
    body: Body::PyCalls(PyCalls { listed: true, lenient: true }),
    manners: Manners { start: Mode::Content, closes: Some(Mode::Between), ..pythonic::GRAMMAR.manners },
    whole: |context: &Context, record: &Record, said: Answer| whole::trim(whole::strict(context, record, said)),
};
