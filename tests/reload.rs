//! Other settings while requests run: nothing is dropped, and what is wrong changes nothing.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::{Duration, Instant};

use couplet::sim::Options;
use futures_util::future::join_all;
use serde_json::json;
use support::chat::{chat, collect};
use support::couplet::Couplet;
use support::http::{self, Events};
use support::sim::Engine;
use support::tiny;

const TEXT: &str = "</think>\n\nOne café, two naïve façades – 日本語 and more: seven, eight, nine, ten.";
const STREAMS: usize = 200;
const RELOADS: u32 = 100;

/// A configuration with these engines; `more` are further lines of the model.
fn config(engines: &[&str], more: &str) -> String {
    let engines: String = engines.iter().map(|url| format!("      - url: {url}\n")).collect();
    format!(
        "reload_interval: 0\nmodels:\n  - model: {}\n    served_model_name: [tiny]\n    tool_call_parser: hermes\n    \
         reasoning_parser: qwen3\n    enable_auto_tool_choice: true\n    engines:\n{engines}{more}",
        tiny::DIR
    )
}

async fn engine(itl: u64) -> Engine {
    let options = Options { itl: Duration::from_millis(itl), max_num_seqs: 1000, ..tiny::engine_options() };
    Engine::start(options).await
}

async fn reloads(couplet: &Couplet, outcome: &str) -> f64 {
    couplet.metric("couplet_config_reloads_total", outcome).await
}

/// Asks for a reload and waits until it ended.
async fn reload(couplet: &Couplet, outcome: &str) {
    let (before, start) = (reloads(couplet, outcome).await, Instant::now());
    couplet.signal("HUP");
    while reloads(couplet, outcome).await == before {
        assert!(start.elapsed() < Duration::from_secs(20), "no reload {outcome}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads a stream to its end; its text must be exact.
async fn stream(couplet: &Couplet) {
    let body = chat(TEXT, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let mut events = Events::open(&format!("{}/v1/chat/completions", couplet.url), &body).await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        seen.push(event);
    }
    let reply = collect(&seen);
    assert_eq!(reply.content, TEXT.trim_start_matches("</think>"));
    assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    assert_eq!(reply.usage.unwrap()["completion_tokens"], tiny::ids(TEXT).len() + 1);
}

async fn served(engine: &Engine) -> f64 {
    engine.metric("vllm:request_success_total").await
}

#[tokio::test]
async fn two_hundred_streams_survive_a_hundred_reloads() {
    let (first, second, third) = (engine(40).await, engine(40).await, engine(40).await);
    let all = [first.url.as_str(), &second.url, &third.url];
    let couplet = Couplet::with_config(&config(&all[..2], ""));
    let done = std::sync::atomic::AtomicBool::new(false);
    let goes_on = || !done.load(std::sync::atomic::Ordering::Relaxed);
    let streams = join_all((0..STREAMS).map(|_| async {
        let mut count = 0;
        while goes_on() || count == 0 {
            stream(&couplet).await;
            count += 1;
        }
        count
    }));
    let reloading = async {
        for at in 0..RELOADS {
            // Engines come, go, weigh more; the pool behaves otherwise; a key is wrong.
            let new = match at % 5 {
                0 => config(&all, ""),
                1 => config(&all[1..], "    pool: {policy: least_loaded}\n"),
                2 => config(&all[..2], "        weight: 3\n"),
                3 => config(&all[..1], "    pool: {max_retries: many}\n"),
                _ => config(&[all[2], all[0]], "    pool: {policy: round_robin}\n"),
            };
            couplet.configure(&new);
            reload(&couplet, if at % 5 == 3 { "refused" } else { "applied" }).await;
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let (counts, ()) = tokio::join!(streams, reloading);
    let began = counts.iter().sum::<u32>();
    println!("{began} streams went through {RELOADS} reloads");
    let finished = served(&first).await + served(&second).await + served(&third).await;
    assert_eq!(finished, f64::from(began), "a stream was begun twice");
    assert_eq!(reloads(&couplet, "applied").await, f64::from(RELOADS / 5 * 4));
    assert_eq!(reloads(&couplet, "refused").await, f64::from(RELOADS / 5));
    assert_eq!(couplet.metric("couplet_engine_outstanding_tokens", "").await, 0.0);
    assert_eq!(couplet.metric("couplet_engine_failures_total", "").await, 0.0);
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing() {
    let engine = engine(0).await;
    let couplet = Couplet::with_config(&config(&[&engine.url], ""));
    let generation = couplet.metric("couplet_config_generation", "").await;
    for (wrong, outcome) in [
        ("models: [{modle: x}]".to_owned(), "refused"),
        ("}".to_owned(), "refused"),
        (config(&[&engine.url], "    chat_template: \"{% if %}\"\n"), "failed"),
        ("models: [{model: /no/such/model}]".to_owned(), "failed"),
    ] {
        couplet.configure(&wrong);
        reload(&couplet, outcome).await;
        stream(&couplet).await;
    }
    assert_eq!(couplet.metric("couplet_config_generation", "").await, generation);
    couplet.configure(&config(&[&engine.url], "    max_logprobs: 3\n"));
    reload(&couplet, "applied").await;
    let body = chat(TEXT, json!({"logprobs": true, "top_logprobs": 4}));
    assert_eq!(http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await.status, 400);
}

/// An engine that stays is still known to be down, and an engine that left gets nothing more.
#[tokio::test]
async fn what_is_known_of_an_engine_stays() {
    let (first, second) = (engine(0).await, engine(0).await);
    let down = "http://127.0.0.1:9";
    let pool = |more: &str| format!("    pool: {{health_interval: 0.3, {more}}}\n");
    let couplet = Couplet::with_config(&config(&[down, &first.url], &pool("policy: random")));
    let is_down = |told: &serde_json::Value| {
        let reason = told["models"][0]["engines"][0]["reason"].as_str();
        reason.is_some_and(|reason| reason.contains("health checks"))
    };
    couplet.ready_when(|_, told| is_down(told)).await;
    couplet.configure(&config(&[down, &second.url], &pool("policy: round_robin, max_failures: 5")));
    reload(&couplet, "applied").await;
    let (_, told) = couplet.ready().await;
    assert!(is_down(&told), "{told}");
    let before = served(&first).await;
    for _ in 0..10 {
        stream(&couplet).await;
    }
    assert_eq!((served(&first).await, served(&second).await), (before, 10.0));
    assert_eq!(couplet.metric("couplet_engine_failures_total", "").await, 0.0);
}

#[tokio::test]
async fn a_changed_file_is_noticed() {
    let (first, second) = (engine(0).await, engine(0).await);
    let soon = |engines: &[&str]| config(engines, "").replace("reload_interval: 0", "reload_interval: 0.05");
    let couplet = Couplet::with_config(&soon(&[&first.url]));
    couplet.configure(&soon(&[&second.url]));
    let is_second = |told: &serde_json::Value| told["models"][0]["engines"][0]["engine"] == second.url.as_str();
    couplet.ready_when(|_, told| is_second(told)).await;
    stream(&couplet).await;
    assert_eq!(served(&second).await, 1.0);
}

/// Two models of the same files, one of which gets another name: neither gets the other's engines.
#[tokio::test]
async fn models_of_the_same_files_keep_their_own_engines() {
    let (first, second) = (engine(0).await, engine(0).await);
    let model = |name: &str, url: &str| {
        format!("  - model: {}\n    served_model_name: [{name}]\n    engines: [{{url: \"{url}\"}}]\n", tiny::DIR)
    };
    let config = |names: [&str; 2]| {
        format!("reload_interval: 0\nmodels:\n{}{}", model(names[0], &first.url), model(names[1], &second.url))
    };
    let couplet = Couplet::with_config(&config(["a", "b"]));
    for (round, names) in [["a", "b"], ["a", "c"], ["d", "c"], ["c", "d"]].into_iter().enumerate() {
        if round > 0 {
            couplet.configure(&config(names));
            reload(&couplet, "applied").await;
        }
        for _ in 0..=round {
            let body = chat(TEXT, json!({"model": names[0]}));
            assert_eq!(http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await.status, 200);
        }
    }
    assert_eq!((served(&first).await, served(&second).await), (10.0, 0.0));
}
