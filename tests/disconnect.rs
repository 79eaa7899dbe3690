//! A client that goes away takes its request off the engine.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::Options;
use serde_json::{Value, json};
use support::couplet::Couplet;
use support::http::{self, Events};
use support::sim::Engine;
use support::tiny;

/// How long an engine may go on for a client that is gone.
const SOON: Duration = Duration::from_secs(1);

async fn slow_engine() -> Engine {
    Engine::start(Options { itl: Duration::from_millis(20), ..tiny::engine_options() }).await
}

/// A request that would take a minute and more.
fn endless(n: u32) -> Value {
    json!({
        "model": "tiny", "messages": [{"role": "user", "content": "Go on."}], "prompt": "Go on.",
        "n": n, "ignore_eos": true, "max_tokens": 5000, "stream": true,
    })
}

#[tokio::test]
async fn closing_a_stream_ends_the_engines_request() {
    let engine = slow_engine().await;
    let couplet = Couplet::start(&[&engine.url]);
    for (path, n) in [("/v1/chat/completions", 1), ("/v1/chat/completions", 3), ("/v1/completions", 2)] {
        let mut events = Events::open(&format!("{}{path}", couplet.url), &endless(n)).await;
        for _ in 0..5 {
            events.next().await.unwrap().unwrap();
        }
        engine.running_becomes(n).await;
        drop(events);
        let took = engine.running_becomes(0).await;
        assert!(took < SOON, "{path}, n = {n}: {took:?}");
    }
}

#[tokio::test]
async fn giving_up_on_a_whole_answer_ends_the_engines_request() {
    let engine = slow_engine().await;
    let couplet = Couplet::start(&[&engine.url]);
    let mut request = endless(1);
    request["stream"] = false.into();
    let url = format!("{}/v1/chat/completions", couplet.url);
    let client = tokio::spawn(async move { http::post(&url, &request).await });
    engine.running_becomes(1).await;
    client.abort();
    let took = engine.running_becomes(0).await;
    assert!(took < SOON, "{took:?}");
}

#[tokio::test]
async fn a_stop_string_ends_the_engines_request() {
    let engine = slow_engine().await;
    let couplet = Couplet::start(&[&engine.url]);
    let mut request = endless(1);
    request["vllm_xargs"] = tiny::says("<think>\n</think>\n\none two three four five six seven eight nine ten");
    request["stop"] = json!([" three"]);
    let events = http::post(&format!("{}/v1/chat/completions", couplet.url), &request).await.events();
    let said: String = events
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(said.trim(), "one two");
    let took = engine.running_becomes(0).await;
    assert!(took < SOON, "{took:?}");
}
