//! The laws of derendering, as properties of the stateless endpoints: how a reply is cut into chunks changes nothing, a
//! state that travels as JSON changes nothing, a replay changes nothing, and no text is lost.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod kit;

use std::sync::{Arc, LazyLock};

use couplet::endpoints::Context;
use kit::{Case, Servers, cases, compact_chunk, merge, post, stream_bodies};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::{Value, json};

/// A server and the recorded cases for it.
struct Fixture {
    context: Arc<Context>,
    lines: Vec<Value>,
}

fn fixture(file: &str) -> Fixture {
    let cases: Vec<Case> = cases(|name| name == file);
    let context = Servers::default().of(&cases[0]);
    let mut lines: Vec<Value> = cases.into_iter().map(|case| case.line).collect();
    lines.retain(|line| line.get("outputs").is_some_and(|outputs| outputs.as_array().unwrap().len() == 1));
    if lines.is_empty() {
        // The plain goldens are whole requests; these need only a prompt to follow.
        lines.push(json!({
            "endpoint": "/v1/chat/completions/derender", "prompt_token_ids": [51, 771, 374, 25],
            "outputs": [{}], "chat_request": {"messages": [{"role": "user", "content": "x"}]},
        }));
    }
    Fixture { context, lines }
}

static QWEN: LazyLock<Fixture> = LazyLock::new(|| fixture("plain-qwen"));
static SPM: LazyLock<Fixture> = LazyLock::new(|| fixture("plain-spm"));
static HERMES: LazyLock<Fixture> = LazyLock::new(|| fixture("hermes+qwen3"));

/// How the state travels between the chunks of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Carry {
    /// All of it.
    Full,
    /// Without what grows (`compact_state`).
    Compact,
    /// vLLM's documented fields only, as after a detour through vLLM: each chunk replays.
    Documented,
}

/// What a client has put together at the end of a stream.
fn streamed(fixture: &Fixture, line: &Value, lens: &[usize], carry: Carry) -> Value {
    let mut chunks = Vec::new();
    let mut state = Value::Null;
    for mut body in stream_bodies(line, lens) {
        body["stream_state"] = state;
        body["compact_state"] = json!(carry == Carry::Compact);
        let (status, mut answer) = post(&fixture.context, line, &body);
        assert_eq!(status, 200, "{answer}");
        state = answer["stream_state"].take();
        if carry == Carry::Documented {
            state.as_object_mut().unwrap().shift_remove("couplet");
        }
        chunks.push(compact_chunk(answer["chunk"].take()));
    }
    forget_ids(merge(&chunks))
}

/// Ids of calls are random in each request.
fn forget_ids(mut merged: Value) -> Value {
    if let Some(calls) = merged["0"]["tool_calls"].as_object_mut() {
        calls.values_mut().for_each(|call| call["id"] = Value::Null);
    }
    merged
}

/// Lengths of chunks from cut points.
fn lens(total: usize, cuts: &[prop::sample::Index]) -> Vec<usize> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(total)).filter(|cut| *cut > 0).collect();
    at.extend([0, total]);
    at.sort_unstable();
    at.dedup();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// A case with other output tokens.
fn saying(fixture: &Fixture, case: usize, ids: &[u32]) -> Value {
    let mut line = fixture.lines[case].clone();
    line["outputs"][0]["token_ids"] = json!(ids);
    line["outputs"][0]["finish_reason"] = json!("length");
    line["outputs"][0]["stop_reason"] = Value::Null;
    line
}

fn any_cut_tells_the_same(fixture: &Fixture, line: &Value, cuts: &[prop::sample::Index]) -> TestCaseResult {
    let total = line["outputs"][0]["token_ids"].as_array().unwrap().len();
    let reference = streamed(fixture, line, &vec![1; total], Carry::Full);
    let lens = lens(total, cuts);
    for carry in [Carry::Full, Carry::Compact, Carry::Documented] {
        prop_assert_eq!(&streamed(fixture, line, &lens, carry), &reference, "{:?} {:?}", carry, lens);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_tokens_read_the_same_however_they_are_cut(
        ids in vec(0_u32..2700, 1..50), at: prop::sample::Index, cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for fixture in [&*QWEN, &*SPM, &*HERMES] {
            any_cut_tells_the_same(fixture, &saying(fixture, at.index(fixture.lines.len()), &ids), &cuts)?;
        }
    }

    #[test]
    fn recorded_outputs_read_the_same_however_they_are_cut(
        at: prop::sample::Index, cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        any_cut_tells_the_same(&HERMES, &HERMES.lines[at.index(HERMES.lines.len())], &cuts)?;
    }

    /// Byte-level text is what the bytes of all tokens decode to, but for an unfinished character at the end.
    #[test]
    fn no_character_is_lost_or_doubled(ids in vec(0_u32..2600, 1..80), cuts in vec(any::<prop::sample::Index>(), 0..6)) {
        let mut line = saying(&QWEN, 0, &ids);
        line["chat_request"] = Value::Null;
        let told = streamed(&QWEN, &line, &lens(ids.len(), &cuts), Carry::Full);
        let whole = QWEN.context.models[0].model.vocabulary().decode_ids(&ids);
        let told = told["0"]["content"].as_str().unwrap_or_default();
        let held = whole.strip_prefix(told);
        prop_assert!(held.is_some(), "{told:?} is not the start of {whole:?}");
        prop_assert!(held.is_some_and(|held| held.is_empty() || held.ends_with('\u{FFFD}')), "{told:?} of {whole:?}");
    }

    /// A stop string over any number of tokens and chunks cuts the text where it is first complete.
    #[test]
    fn stop_strings_cut_where_they_are_first_complete(
        ids in vec(0_u32..300, 1..60), stops in vec("[ae t\"]{1,3}", 1..4), include: bool,
        cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut line = saying(&QWEN, 0, &ids);
        line["chat_request"] = json!({
            "messages": [{"role": "user", "content": "x"}], "stop": stops, "include_stop_str_in_output": include,
        });
        let told = streamed(&QWEN, &line, &lens(ids.len(), &cuts), Carry::Compact);
        let mut plain = line.clone();
        plain["chat_request"]["stop"] = Value::Null;
        let all = streamed(&QWEN, &plain, &[ids.len()], Carry::Full);
        let all = all["0"]["content"].as_str().unwrap_or_default();
        let first = stops.iter().filter_map(|stop| Some((all.find(stop.as_str())? + stop.len(), stop)));
        let expected = match first.min_by_key(|(end, _)| *end) {
            Some((end, stop)) => all.get(..if include { end } else { end - stop.len() }).unwrap(),
            None => all,
        };
        prop_assert_eq!(told["0"]["content"].as_str().unwrap_or_default(), expected);
    }
}
