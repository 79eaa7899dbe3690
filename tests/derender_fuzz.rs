//! Whatever a client sends to the stateless endpoints, also as `stream_state`, is answered with 200 or a 4xx.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod kit;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use couplet::endpoints::{Context, derender};
use kit::{Servers, cases, post, stream_bodies};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Requests that are answered with 200, among them states in the middle of a stream, and the server for each.
static BODIES: LazyLock<Vec<(Arc<Context>, Value, Value)>> = LazyLock::new(|| {
    let mut servers = Servers::default();
    let mut bodies = Vec::new();
    for case in cases(|file| matches!(file, "plain-qwen" | "plain-spm" | "hermes+qwen3")) {
        let (context, line) = (servers.of(&case), case.line);
        let endpoint = json!({"endpoint": line["endpoint"]});
        if let Some(body) = line.get("body") {
            bodies.push((context, endpoint, body.clone()));
        } else if line.get("outputs").is_some() {
            let mut state = Value::Null;
            for mut body in stream_bodies(&line, &vec![1; line["outputs"][0]["token_ids"].as_array().unwrap().len()]) {
                body["stream_state"] = state;
                state = post(&context, &line, &body).1["stream_state"].take();
                bodies.push((Arc::clone(&context), endpoint.clone(), body));
            }
        }
    }
    bodies
});

/// Values that break readers.
fn strange() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| serde_json::to_value(number).unwrap_or_default()),
        ".{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[{"a": [null]}]]])),
        proptest::collection::vec(0_u32..200_000, 0..20).prop_map(Value::from),
        proptest::collection::vec(".{0,4}", 0..8).prop_map(Value::from),
    ]
}

/// Replaces, removes or doubles one part of a value; `at` chooses which.
fn mutate(value: &mut Value, mut at: usize, with: &Value, how: u8) {
    let mut place = value;
    loop {
        let size = match &*place {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if size == 0 || at % 4 == 3 {
            *place = with.clone();
            return;
        }
        let (child, rest) = (at % size, at / size);
        if rest == 0 && how > 0 {
            return change(place, child, with, how);
        }
        at = rest;
        place = match place {
            Value::Array(items) => &mut items[child],
            Value::Object(map) => map.values_mut().nth(child).unwrap(),
            _ => return,
        };
    }
}

fn change(place: &mut Value, child: usize, with: &Value, how: u8) {
    match place {
        Value::Array(items) if how == 1 => drop(items.remove(child)),
        Value::Array(items) => items.insert(child, with.clone()),
        Value::Object(map) => {
            let key = map.keys().nth(child).unwrap().clone();
            if how == 1 {
                map.shift_remove(&key);
            } else {
                map.insert(format!("{key}x"), with.clone());
            }
        }
        _ => {}
    }
}

fn is_answer(status: u16) -> bool {
    status == 200 || (400..500).contains(&status)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn mutated_requests_and_states_are_answered(
        which: prop::sample::Index, at in proptest::collection::vec(0_usize..1_000_000, 1..4), with in strange(), how in 0_u8..3,
    ) {
        let (context, endpoint, body) = &BODIES[which.index(BODIES.len())];
        let mut body = body.clone();
        for at in at {
            mutate(&mut body, at, &with, how);
        }
        let (status, answer) = post(context, endpoint, &body);
        prop_assert!(is_answer(status), "{status} {answer} for {body}");
    }

    #[test]
    fn cut_and_broken_bytes_are_answered(which: prop::sample::Index, at: prop::sample::Index, byte: u8, cut: bool) {
        let (context, endpoint, body) = &BODIES[which.index(BODIES.len())];
        let mut bytes = body.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        let answer = match endpoint["endpoint"].as_str().unwrap() {
            "/v1/chat/completions/derender" => derender::chat(context, &Bytes::from(bytes)),
            _ => derender::completions(context, &Bytes::from(bytes)),
        };
        prop_assert!(answer.map_or_else(|error| is_answer(error.status), |_| true));
    }
}

/// A `stop` state that no text can lead to: the held text does not end as the automata say. Its cut fell inside a
/// character.
#[test]
fn a_stop_state_that_contradicts_its_text_is_refused() {
    let (context, endpoint, body) = BODIES.iter().find(|(_, endpoint, body)| is_started_chat(endpoint, body)).unwrap();
    let mut body = body.clone();
    body["compact_state"] = json!(true);
    body["chat_request"]["stop"] = json!(["aab"]);
    // The 64th token is `a` in the fixture's byte-level vocabulary.
    body["generate_chunk"]["choices"][0]["token_ids"] = json!([64]);
    body["stream_state"]["couplet"]["stop"] =
        json!({"matched": [2], "held": [{"id": 0, "text": "é", "marker": false}]});
    let (status, answer) = post(context, endpoint, &body);
    assert_eq!(status, 400, "{answer}");
}

/// Our own state does not vouch for vLLM's lists: what was changed in them is looked at.
#[test]
fn lists_that_contradict_each_other_are_refused() {
    let (context, endpoint, body) = BODIES.iter().rfind(|(_, endpoint, body)| is_started_chat(endpoint, body)).unwrap();
    let changes = [
        ("output_chunk_lens", json!([1, 2]), "output_chunk_lens must sum to len(output_token_ids) (got sum=3"),
        ("output_chunk_lens", json!([0]), "output_chunk_lens entries should be greater than 0"),
        ("output_chunk_lens", json!(["1"]), "invalid type"),
        ("output_token_ids", json!([1, 2]), "output_chunk_lens must sum to len(output_token_ids)"),
        ("output_token_ids", json!([-1]), "output_token_ids"),
        ("output_token_ids", json!([1.5]), "floating point"),
    ];
    for (key, value, said) in changes {
        let mut body = body.clone();
        body["stream_state"][key] = value;
        let (status, answer) = post(context, endpoint, &body);
        assert_eq!(status, 400, "{key}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(said), "{key}: {answer}");
    }
    let respaced = serde_json::to_string_pretty(body).unwrap();
    assert!(derender::chat(context, &Bytes::from(respaced)).is_ok());
}

fn is_started_chat(endpoint: &Value, body: &Value) -> bool {
    endpoint["endpoint"] == "/v1/chat/completions/derender"
        && body["stream"] == true
        && body["stream_state"]["couplet"].is_object()
        && body["chat_request"].is_object()
}
