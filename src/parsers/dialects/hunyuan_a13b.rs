//! Hunyuan A13B: reasoning and tool calls.
//!
//! ```text
//! <think>
//! The user wants the weather.
//! </think>
//! <answer>
//! I will check that now.<tool_calls>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_calls>
//! </answer>
//! ```
//!
//! Emitted by Tencent's Hunyuan A13B. All marks are text. A list of calls that is no JSON is content in a whole answer.

use super::super::Context;
use super::super::engine::Act::{Begin, End};
use super::super::engine::Mode::{Body as Args, Content};
use super::super::engine::{
    Body, By, Empty, Grammar, Ids, JsonCall, JsonList, Manners, Record, Reopens, Start, Stray, Thinking, on,
};
use super::super::message::Answer;
use super::super::python::{self, Json};
use super::super::registry::Definition;
use super::deepseek_r1;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["hunyuan_a13b"],
    reasoning_names: &["hunyuan_a13b"],
    families: "Hunyuan A13B",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const OPEN: &str = "<tool_calls>";
const CLOSE: &str = "</tool_calls>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(OPEN, By::Text), (CLOSE, By::Text)],
    moves: &[on(Content, OPEN, &[Begin], Args), on(Args, CLOSE, &[End], Content)],
    body: Body::JsonList(JsonList {
        call: JsonCall { ids: Ids::Call, gives_back: false, ..JsonCall::MARKED },
        single: false,
    }),
    manners: Manners { says_empty: true, ..Manners::PLAIN },
    whole,
};

static THINKING: Thinking = Thinking {
    open: "<think>\n",
    close: "\n</think>\n<answer>\n",
    by: By::Text,
    around: &["\n</answer>"],
    stray: Stray::Text,
    reopens: Reopens::Once,
    follows_prompt: false,
    start: |_| Start::Outside,
    says_empty: false,
    empty_whole: Empty::Never,
    ..deepseek_r1::THINKING
};

/// Every list is JSON, or the text is content. The template's word for the assistant is none.
fn whole(_context: &Context, record: &Record, mut said: Answer) -> Answer {
    let arguments = |body: &str| match python::loads(body.trim())? {
        Json::List(calls) => {
            calls.iter().map(|call| call.get("arguments").map(python::dumps)).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    let lists: Option<Vec<_>> = record.closed_bodies().map(arguments).collect();
    match lists.filter(|lists| !lists.is_empty()) {
        Some(lists) => {
            said.content = record.without_blank_after_calls(said.content);
            said.with_arguments(lists.concat())
        }
        None => Answer { settled: true, ..Answer::text(&record.text().replacen("助手：", "", 1)) },
    }
}
