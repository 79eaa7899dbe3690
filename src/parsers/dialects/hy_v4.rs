//! Hunyuan 4: reasoning and tool calls.
//!
//! ```text
//! <think>The user wants the weather.</think>I will check that now.<tool_calls><tool_call>get_weather
//! <arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call></tool_calls>
//! ```
//!
//! Emitted by Tencent's Hunyuan 4 (without the line break). As Hunyuan 3's ([`hy_v3`]), but nothing separates the name
//! from the parameters, and it thinks unless the effort is `no_think`. In a whole answer, calls that were cut are content.

use super::super::Context;
use super::super::engine::Act::{Announce, Begin, End, First, GiveBack, Keep};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::{Body, By, Grammar, Manners, Params, Record, Start, Thinking, Typing, on};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::hy_v3::{self, CALL, CALLS, END_CALL, END_CALLS};

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["hy_v4"],
    reasoning_names: &["hy_v4"],
    families: "Hunyuan 4",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const KEY: &str = "<arg_key>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Suffixed),
        (END_CALLS, By::Suffixed),
        (CALL, By::Suffixed),
        (END_CALL, By::Suffixed),
        (KEY, By::Suffixed),
    ],
    moves: &[
        on(Content, CALLS, &[Keep], Preamble),
        on(Preamble, CALL, &[Begin], Name),
        on(Preamble, END_CALLS, &[GiveBack], Between),
        on(Name, KEY, &[Announce, First], Args),
        on(Name, END_CALL, &[Announce, End], Preamble),
        on(Args, END_CALL, &[End], Preamble),
        on(Args, END_CALLS, &[End, GiveBack], Between),
    ],
    body: Body::Params(Params {
        typing: Typing::Own { streams: hy_v3::streams, value: hy_v3::value },
        waits: true,
        ..Params::plain(hy_v3::tag)
    }),
    manners: Manners { forces_json: false, joined: true, says_empty: true, ..Manners::PLAIN },
    whole,
};

static THINKING: Thinking = Thinking {
    start: |context| if hy_v3::effort(context) == Some("no_think") { Start::Never } else { Start::Inside },
    ..hy_v3::THINKING
};

/// Either the calls were closed, or the text is content.
fn whole(context: &Context, record: &Record, said: Answer) -> Answer {
    if said.calls.is_empty() || !record.text().contains("</tool_calls") {
        return Answer::text(record.text());
    }
    hy_v3::whole(context, record, said)
}
