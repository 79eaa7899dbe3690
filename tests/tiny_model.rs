//! The tiny model in the repository: its ids, and that a couplet with it starts and knows its engine.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use support::couplet::Couplet;
use support::sim::Engine;
use support::{http, tiny};

#[test]
fn marks_are_one_id_each_and_end_where_the_configs_say() {
    assert_eq!(tiny::ids("<|endoftext|><|im_start|><|im_end|>"), [2600, 2601, 2602]);
    assert_eq!(tiny::ids("<tool_call></tool_call><think></think>"), [2603, 2604, 2607, 2608]);
    assert!(tiny::ids("Ordinary text, even 日本語.").iter().all(|id| *id < 2600));
}

#[tokio::test]
async fn couplet_serves_it_beside_a_simulated_engine() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let models = http::get(&format!("{}/v1/models", couplet.url)).await.json();
    assert_eq!(models["data"][0]["id"], "tiny");
    assert_eq!(http::get(&format!("{}/health", couplet.url)).await.status, 200);
}
