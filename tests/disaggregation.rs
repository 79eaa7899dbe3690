//! Prompts that one engine computes and another goes on with. The simulated engines check the protocol.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use couplet::sim::{Faults, Options};
use serde_json::json;
use support::couplet::Couplet;
use support::pool::{answer, assert_complete, metric_of, serve_entries, stream};
use support::sim::Engine;
use support::tiny;

async fn engine(faults: Faults) -> Engine {
    Engine::start(Options { kv_connector: true, faults, ..tiny::engine_options() }).await
}

fn serve(prefill: &[&Engine], decode: &[&Engine], pool: &[&str]) -> Couplet {
    let entry = |role: &str, engine: &Engine| format!("{{url: \"{}\", role: {role}}}", engine.url);
    let prefill = prefill.iter().map(|engine| entry("prefill", engine));
    let entries: Vec<String> = prefill.chain(decode.iter().map(|engine| entry("decode", engine))).collect();
    serve_entries(&entries, pool)
}

async fn computed(engine: &Engine) -> f64 {
    engine.metric("vllm:prompt_tokens_total").await
}

async fn prefills(couplet: &Couplet, outcome: &str) -> f64 {
    metric_of(couplet, "couplet_pool_prefills_total", &format!("outcome=\"{outcome}\"")).await
}

fn failing() -> Faults {
    Faults { fail_status: Some(500), ..Faults::default() }
}

#[tokio::test]
async fn one_engine_computes_the_prompt_and_another_answers() {
    let (prefill, decode) = (engine(Faults::default()).await, engine(Faults::default()).await);
    let couplet = serve(&[&prefill], &[&decode], &[]);
    let reply = stream(&couplet, json!({"min_tokens": 3, "logprobs": true})).await;
    assert_complete(&reply);
    let prompt = reply.usage.unwrap()["prompt_tokens"].as_f64().unwrap();
    assert_eq!((computed(&prefill).await, computed(&decode).await), (prompt, 1.0));
    assert_eq!(prefill.metric("vllm:generation_tokens_total").await, 1.0);
    assert_eq!(prefills(&couplet, "ok").await, 1.0);
    let mut whole = support::pool::scripted(&couplet, json!({})).await;
    whole["n"] = json!(2);
    let answer = support::http::post(&format!("{}/v1/chat/completions", couplet.url), &whole).await;
    assert_eq!(answer.json()["choices"].as_array().unwrap().len(), 2, "{}", answer.text);
    assert_eq!(computed(&decode).await, 2.0);
    assert!(answer.json()["kv_transfer_params"].is_null());
}

#[tokio::test]
async fn another_prefill_engine_is_asked_where_one_fails() {
    let without_connector = Engine::start(tiny::engine_options()).await;
    let [failing, well, decode] =
        [engine(failing()).await, engine(Faults::default()).await, engine(Faults::default()).await];
    let couplet = serve(&[&failing, &without_connector, &well], &[&decode], &[]);
    for _ in 0..3 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    assert_eq!(prefills(&couplet, "ok").await, 3.0);
    assert_eq!(computed(&decode).await, 3.0);
}

#[tokio::test]
async fn without_any_the_decode_engine_does_it_all_or_the_request_fails() {
    let (prefill, decode) = (engine(failing()).await, engine(Faults::default()).await);
    let couplet = serve(&[&prefill], &[&decode], &[]);
    let reply = stream(&couplet, json!({})).await;
    assert_complete(&reply);
    assert_eq!(computed(&decode).await, reply.usage.unwrap()["prompt_tokens"].as_f64().unwrap());
    assert_eq!(prefills(&couplet, "fallback").await, 1.0);
    let strict = serve(&[&prefill], &[&decode], &["prefill_fallback: false"]);
    assert_eq!(answer(&strict, json!({})).await.status, 500);
    assert_eq!(prefills(&strict, "failed").await, 1.0);
}

#[tokio::test]
async fn a_prefill_engine_that_hangs_is_given_up() {
    let silent = engine(Faults { stall_after_tokens: Some(0), ..Faults::default() }).await;
    let (well, decode) = (engine(Faults::default()).await, engine(Faults::default()).await);
    let couplet = serve(&[&silent, &well], &[&decode], &["first_token_timeout: 0.3"]);
    for _ in 0..2 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    assert_eq!(prefills(&couplet, "ok").await, 2.0);
    assert_eq!(metric_of(&couplet, "couplet_engine_failures_total", "kind=\"timeout\"").await, 1.0);
    silent.running_becomes(0).await;
}

#[tokio::test]
async fn a_reply_goes_on_at_another_decode_engine_which_computes_what_is_missing() {
    let prefill = engine(Faults::default()).await;
    let dying = engine(Faults { die_after_tokens: Some(4), ..Faults::default() }).await;
    let decode = engine(Faults::default()).await;
    let couplet = serve(&[&prefill], &[&dying, &decode], &[]);
    for _ in 0..2 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    assert_eq!(metric_of(&couplet, "couplet_engine_resumes_total", &decode.url).await, 1.0);
}
