//! Streams that begin at vLLM's derenderer and go on at couplet, and the other way, at every token: recorded states of
//! vLLM 0.33 in `tests/conformance/handover.jsonl` (the cuts fall inside characters, reasoning, content and calls).

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod kit;

use kit::{Case, Servers, compact_chunk, compact_state, merge, post, stream_bodies};
use serde_json::Value;

struct Recorded {
    line: Value,
    chunks: Vec<Value>,
    states: Vec<Value>,
}

fn recorded() -> Vec<Recorded> {
    let text = std::fs::read_to_string(kit::root().join("handover.jsonl")).unwrap();
    let read = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let mut take = |key: &str| line[key].as_array_mut().unwrap().drain(..).collect::<Vec<Value>>();
        let (chunks, states) = (take("chunks"), take("states"));
        Recorded { line, chunks: chunks.into_iter().map(compact_chunk).collect(), states }
    };
    text.lines().map(read).collect()
}

fn bodies(line: &Value) -> Vec<Value> {
    stream_bodies(line, &vec![1; line["outputs"][0]["token_ids"].as_array().unwrap().len()])
}

#[test]
fn couplet_goes_on_where_vllm_left_off() {
    let mut servers = Servers::default();
    let mut cuts = 0;
    for Recorded { line, chunks, states } in recorded() {
        let context = servers.of(&Case { file: String::new(), line: line.clone() });
        let want = merge(&chunks);
        for cut in 1..chunks.len() {
            let mut told = chunks[..cut].to_vec();
            let mut state = states[cut - 1].clone();
            for mut body in bodies(&line).into_iter().skip(cut) {
                body["stream_state"] = state;
                let (status, mut answer) = post(&context, &line, &body);
                assert_eq!(status, 200, "{} at {cut}: {answer}", line["id"]);
                state = answer["stream_state"].take();
                told.push(compact_chunk(answer["chunk"].take()));
            }
            assert!(kit::close(&merge(&told), &want), "{} at {cut}:\n want {want}\n  got {}", line["id"], merge(&told));
            cuts += 1;
        }
    }
    assert!(cuts > 150, "only {cuts} cuts were tried");
}

/// vLLM reads nothing but its documented fields: where they are its own after every token, it goes on as it would have.
#[test]
fn vllm_finds_its_own_state_after_every_token() {
    let mut servers = Servers::default();
    for Recorded { line, states, .. } in recorded() {
        let context = servers.of(&Case { file: String::new(), line: line.clone() });
        let mut state = Value::Null;
        for (at, (mut body, want)) in bodies(&line).into_iter().zip(&states).enumerate() {
            body["stream_state"] = state;
            let (_, mut answer) = post(&context, &line, &body);
            state = answer["stream_state"].take();
            let (got, want) = (compact_state(&state), compact_state(want));
            assert_eq!(got, want, "{} after token {at}", line["id"]);
            assert_eq!(state["output_token_ids"], states[at]["output_token_ids"]);
            assert_eq!(state["output_chunk_lens"], states[at]["output_chunk_lens"]);
        }
    }
}
