//! ERNIE 4.5: reasoning and tool calls.
//!
//! ```text
//! The user wants the weather.
//! </think>
//!
//! <tool_call>
//! {"name": "get_weather", "arguments": {"city": "Paris"}}
//! </tool_call>
//! ```
//!
//! Emitted by Baidu's ERNIE 4.5 and 5 Thinking. Content may stand between `<response>` and `</response>`. Text after a call
//! is dropped; a call goes out when it is complete. In a whole answer one malformed call makes the whole text content.

use super::super::engine::{Act, Block, Body, By, Grammar, Ids, Manners, Mode, Record, Thinking, block, on};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::super::{Context, python};
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["ernie45"],
    reasoning_names: &["ernie45"],
    families: "ERNIE 4.5, 5",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const RESPONSE: [&str; 2] = ["<response>", "</response>"];

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[
        on(Mode::Content, OPEN, &[Act::Begin], Mode::Body),
        on(Mode::Body, CLOSE, &[Act::End], Mode::Between),
        on(Mode::Between, OPEN, &[Act::Begin], Mode::Body),
    ],
    body: Body::Block(Block { calls: block::object, ids: Ids::Random, drops_cut: true }),
    manners: Manners { joined: true, ..Manners::PLAIN },
    whole,
};

static THINKING: Thinking = Thinking { around: &RESPONSE, ..deepseek_r1::THINKING };

/// Either every complete call is well formed, or the text is content.
fn whole(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    if !record.text().contains(OPEN) {
        return said;
    }
    let arguments = |body: &str| {
        let call = python::loads(body.trim())?;
        call.get("name")?.as_str()?;
        Some(call.get("arguments").map_or_else(|| "{}".to_owned(), python::dumps))
    };
    let Some(arguments) = record.closed_bodies().map(arguments).collect::<Option<Vec<_>>>() else {
        return Answer::text(record.text());
    };
    said.calls.truncate(arguments.len());
    said.content = said.content.trim_end_matches('\n').to_owned();
    Answer { settled: true, ..said.with_arguments(arguments) }
}
