//! MiniMax M2: reasoning and tool calls.
//!
//! ```text
//! The user wants the weather.</think>I will check that now.
//! <minimax:tool_call>
//! <invoke name="get_weather">
//! <parameter name="city">Paris</parameter>
//! </invoke>
//! </minimax:tool_call>
//! ```
//!
//! Emitted by MiniMax M2 and M2.1, which begin inside reasoning and do not open it. Names stand in double quotes, single
//! quotes, or none. Values are text that the tool's schema types. A call of a function that the request does not have is
//! dropped.

use super::super::engine::Act::{Begin, End, Text};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Preamble};
use super::super::engine::tags::{self, Part};
use super::super::engine::{Body, By, Grammar, Manners, Params, Start, Tag, Thinking, Unknown, Value, on, whole};
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["minimax_m2"],
    reasoning_names: &["minimax_m2"],
    families: "MiniMax M2, M2.1",
    needs: &[],
    tools: Some(|setup| GRAMMAR.compile(setup)),
    reasoning: Some(|setup| THINKING.compile(setup)),
};

const CALLS: &str = "<minimax:tool_call>";
const END_CALLS: &str = "</minimax:tool_call>";
const INVOKE: [&str; 3] = ["<invoke name=\"", "<invoke name='", "<invoke name="];
const END_NAME: [&str; 3] = ["\">", "'>", ">"];
const END_INVOKE: &str = "</invoke>";
const PARAMETER: &str = "<parameter name=";
const END_PARAMETER: &str = "</parameter>";

static GRAMMAR: Grammar = Grammar {
    marks: &[
        (CALLS, By::Token),
        (END_CALLS, By::Token),
        ("<think>", By::Token),
        ("</think>", By::Token),
        (INVOKE[0], By::Text),
        (INVOKE[1], By::Text),
        (INVOKE[2], By::Text),
        (END_NAME[0], By::Text),
        (END_NAME[1], By::Text),
        (END_NAME[2], By::Text),
        (END_INVOKE, By::Text),
        (PARAMETER, By::Text),
        (END_PARAMETER, By::Text),
    ],
    moves: &[
        on(Content, CALLS, &[], Preamble),
        on(Content, END_CALLS, &[], Content),
        on(Content, INVOKE[0], &[Begin], Name),
        on(Content, INVOKE[1], &[Begin], Name),
        on(Content, INVOKE[2], &[Begin], Name),
        on(Preamble, INVOKE[0], &[Begin], Name),
        on(Preamble, INVOKE[1], &[Begin], Name),
        on(Preamble, INVOKE[2], &[Begin], Name),
        on(Preamble, END_CALLS, &[], Content),
        on(Name, END_NAME[0], &[], Args),
        on(Name, END_NAME[1], &[], Args),
        on(Name, END_NAME[2], &[], Args),
        on(Args, PARAMETER, &[Text], Args),
        on(Args, END_PARAMETER, &[Text], Args),
        on(Args, END_INVOKE, &[End], Between),
        on(Between, INVOKE[0], &[Begin], Name),
        on(Between, INVOKE[1], &[Begin], Name),
        on(Between, INVOKE[2], &[Begin], Name),
        on(Between, END_CALLS, &[], Content),
    ],
    body: Body::Params(Params::plain(tag)),
    manners: Manners { strays: &["</think>"], forces_json: false, unknown: Unknown::Dropped, ..Manners::ENGINE },
    whole: whole::trimmed,
};

static THINKING: Thinking = Thinking {
    calls: &[CALLS],
    words: Some(&[END_CALLS, INVOKE[0], INVOKE[1], END_INVOKE, PARAMETER, END_PARAMETER, END_NAME[0], END_NAME[1]]),
    turns: &[],
    trims: true,
    start: |_| Start::Inside,
    ..qwen3::THINKING
};

/// `<parameter name="NAME">` with any quotes, and `</parameter>`, with white space wherever the model puts some.
pub(super) fn tag(text: &str) -> Tag<'_> {
    const OPEN: &[Part] = &[
        Part::Text("<"),
        Part::Blank,
        Part::Text("parameter"),
        Part::Blank,
        Part::Text("name"),
        Part::Blank,
        Part::Text("="),
        Part::Blank,
    ];
    const CLOSE: &[Part] = &[
        Part::Text("<"),
        Part::Blank,
        Part::Text("/"),
        Part::Blank,
        Part::Text("parameter"),
        Part::Blank,
        Part::Text(">"),
    ];
    match tags::closing(text, CLOSE).or(|| tags::opening(text, OPEN, ">")) {
        Tag::Open { len, key, .. } => Tag::Open { len, key: unquoted(key.trim()), value: Value::Text },
        tag => tag,
    }
}

pub(super) fn unquoted(name: &str) -> &str {
    let inside = |quote: char| name.strip_prefix(quote).and_then(|name| name.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(name).trim()
}
