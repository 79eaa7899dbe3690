//! Mistral: tool calls and reasoning.
//!
//! ```text
//! [TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]
//! [THINK]The user wants the weather.[/THINK]I will check that now.[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}
//! ```
//!
//! Emitted by Mistral AI's models: lists of calls up to version 7 of their tokenizer, a mark for each call from version 11 on
//! (known by its token `[ARGS]`, which models may leave out before the brace), reasoning from version 13 on. Ids are nine
//! letters and digits. A forced list has no mark before it. Text after a marked call is content, text after a list is dropped.

use super::super::Context;
use super::super::engine::Act::{Begin, BeginHere, End, First};
use super::super::engine::Mode::{Between, Body as Args, Content, Name, Start as Preface};
use super::super::engine::{
    Body, By, Flow, Grammar, Ids, JsonCall, JsonList, Lexer, Manners, Raw, Record, Reopens, Start, Thinking, on, whole,
};
use super::super::message::Answer;
use super::super::registry::Definition;
use super::qwen3;

pub(in crate::parsers) static DIALECT: Definition = Definition {
    tool_names: &["mistral"],
    reasoning_names: &["mistral"],
    families: "Mistral",
    needs: &[],
    tools: Some(|setup| if has(setup.vocabulary, ARGS) { MARKED.compile(setup) } else { LISTED.compile(setup) }),
    reasoning: Some(|setup| if has(setup.vocabulary, THINK) { THINKING.compile(setup) } else { NONE.compile(setup) }),
};

const CALLS: &str = "[TOOL_CALLS]";
const ARGS: &str = "[ARGS]";
const THINK: &str = "[THINK]";
const END_THINK: &str = "[/THINK]";

fn has(vocabulary: &super::super::Vocabulary, token: &str) -> bool {
    vocabulary.ids.contains_key(token)
}

const MANNERS: Manners =
    Manners { strays: &[END_THINK], forces_json: false, ids: Ids::Nine, ends_apart: true, ..Manners::ENGINE };

static MARKED: Grammar = Grammar {
    marks: &[(CALLS, By::Token), (ARGS, By::Token), ("{", By::Text), (THINK, By::Token), (END_THINK, By::Token)],
    moves: &[
        on(Content, CALLS, &[Begin], Name),
        on(Name, ARGS, &[], Args),
        on(Name, "{", &[First], Args),
        on(Args, CALLS, &[End, Begin], Name),
    ],
    body: Body::Raw(Raw { closes: true, ..Raw::HELD }),
    manners: Manners { closes: Some(Content), ..MANNERS },
    whole: |_: &Context, _: &Record, said: Answer| whole::trim(said),
};

static LISTED: Grammar = Grammar {
    marks: &[(CALLS, By::Token), ("[", By::Text), ("{", By::Text), (" ", By::Text)],
    moves: &[
        on(Content, CALLS, &[], Preface),
        on(Between, CALLS, &[], Preface),
        on(Preface, " ", &[], Preface),
        on(Preface, "[", &[BeginHere], Args),
        on(Preface, "{", &[BeginHere], Args),
    ],
    body: Body::JsonList(JsonList {
        call: JsonCall {
            ids: Ids::Nine,
            flow: Flow::Plain,
            arguments: &["arguments", "parameters"],
            ..JsonCall::MARKED
        },
        single: true,
    }),
    manners: Manners {
        closes: Some(Between),
        start_forced: Some(Preface),
        says_empty: true,
        lexer: Lexer::None,
        types_entries: true,
        ..MANNERS
    },
    whole: listed,
};

/// What is no list of calls is given back without its mark and white space behind that.
fn listed(context: &Context, record: &Record, said: Answer) -> Answer {
    let answer = whole::objects(context, record, said);
    match answer.content.split_once(CALLS) {
        Some((before, after)) if answer.given_back => Answer::text(&(before.to_owned() + after.trim_start())),
        None if answer.given_back => Answer::text(answer.content.trim_start()),
        _ => answer,
    }
}

static THINKING: Thinking = Thinking {
    open: THINK,
    close: END_THINK,
    calls: &[CALLS],
    words: Some(&[ARGS]),
    turns: &[],
    start: |_| Start::Outside,
    reopens: Reopens::Always,
    follows_prompt: false,
    trims: true,
    ..qwen3::THINKING
};

/// A vocabulary without the marks: no reasoning.
static NONE: Thinking = Thinking { start: |_| Start::Never, ..THINKING };
