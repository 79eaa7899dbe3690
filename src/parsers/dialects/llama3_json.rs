//! Llama 3's tool calls.
//!
//! ```text
//! {"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "ping", "parameters": {}}
//! ```
//!
//! Emitted by Llama 3.1, 3.2, 3.3 and 4. A call is a bare JSON object, with `parameters` or `arguments`; `<|python_tag|>` may
//! stand before it, and something like `; ` between two. A list of calls is read, too, which is what `required` makes the
//! model write.

use super::super::engine::{Act, Body, By, Grammar, JsonCall, JsonList, Manners, Mode, on, whole};
use super::super::registry::Definition;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["llama3_json", "llama4_json"],
    reasoning_names: &[],
    families: "Llama 3.1 to 3.3, Llama 4",
    needs: &["<|python_tag|>"],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: None,
};

const TAG: &str = "<|python_tag|>";

static GRAMMAR: Grammar = Grammar {
    marks: &[(TAG, By::Text), ("{", By::Text), ("[", By::Text)],
    moves: &[
        on(Mode::Content, TAG, &[], Mode::Content),
        on(Mode::Content, "{", &[Act::BeginHere], Mode::Body),
        on(Mode::Content, "[", &[Act::BeginHere], Mode::Body),
        on(Mode::Between, "{", &[Act::BeginHere], Mode::Body),
    ],
    body: Body::JsonList(JsonList {
        call: JsonCall { arguments: &["parameters", "arguments"], ..JsonCall::MARKED },
        single: true,
    }),
    manners: Manners {
        closes: Some(Mode::Between),
        says_after: true,
        forces_json: false,
        says_empty: true,
        ..Manners::PLAIN
    },
    whole: whole::objects,
};
