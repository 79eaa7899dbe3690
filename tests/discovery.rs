//! Engines that DNS tells of: they come, they go, and nothing is lost.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use couplet::sim::Options;
use serde_json::{Value, json};
use support::chat::{chat, collect};
use support::couplet::Couplet;
use support::dns::{Dns, Records};
use support::http::{self, Events};
use support::sim::Engine;
use support::tiny;

const TEXT: &str = "</think>\n\nOne café, two naïve façades – 日本語 and more.";

/// couplet that asks this server; `question` is a line of its `discovery:`.
fn serve(dns: &Dns, question: &str) -> Couplet {
    Couplet::with_config(&format!(
        "models:\n  - model: {}\n    served_model_name: [tiny]\n    tool_call_parser: hermes\n    reasoning_parser: qwen3\n    \
         enable_auto_tool_choice: true\n    pool: {{policy: round_robin, health_interval: 0.1}}\n    discovery:\n      \
         {question}\n      interval: 0.05\n      server: {}\n",
        tiny::DIR,
        dns.address
    ))
}

/// An engine at an address of its own; port 0 takes a free one.
async fn engine(address: [u8; 4], port: u16, itl: u64) -> Engine {
    let host = Ipv4Addr::from(address).into();
    Engine::start_at(Options { host, port, itl: Duration::from_millis(itl), ..tiny::engine_options() }).await
}

fn port(engine: &Engine) -> u16 {
    engine.url.rsplit(':').next().unwrap().parse().unwrap()
}

fn addresses(last: &[u8]) -> Records {
    Records::Addresses(last.iter().map(|last| Ipv4Addr::new(127, 0, 0, *last)).collect())
}

async fn ask(couplet: &Couplet) {
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &chat(TEXT, json!({}))).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], TEXT.trim_start_matches("</think>"));
}

async fn served(engine: &Engine) -> f64 {
    engine.metric("vllm:request_success_total").await
}

/// Whether `/ready` lists exactly these engines, all of them well.
fn lists(told: &Value, engines: &[&Engine]) -> bool {
    let listed = told["models"][0]["engines"].as_array().unwrap();
    let mut urls: Vec<_> = engines.iter().map(|engine| engine.url.as_str()).collect();
    urls.sort_unstable();
    let mut found: Vec<_> = listed.iter().map(|engine| engine["engine"].as_str().unwrap()).collect();
    found.sort_unstable();
    found == urls && listed.iter().all(|engine| engine["ready"] == true)
}

#[tokio::test]
async fn engines_come_and_go_with_the_addresses_of_a_name() {
    let dns = Dns::start().await;
    let first = engine([127, 0, 0, 2], 0, 20).await;
    let port = port(&first);
    let second = engine([127, 0, 0, 3], port, 0).await;
    dns.set("engines.test", addresses(&[2]));
    let couplet = serve(&dns, &format!("dns: engines.test:{port}"));
    couplet.ready_when(|_, told| lists(told, &[&first])).await;
    assert_eq!(couplet.metric("couplet_discovered_engines", "tiny").await, 1.0);

    // A stream goes on at an engine that left meanwhile.
    let body = chat(TEXT, json!({"stream": true}));
    let mut events = Events::open(&format!("{}/v1/chat/completions", couplet.url), &body).await;
    let mut seen = vec![events.next().await.unwrap().unwrap()];
    dns.set("engines.test", addresses(&[2, 3]));
    couplet.ready_when(|_, told| lists(told, &[&first, &second])).await;
    dns.set("engines.test", addresses(&[3]));
    couplet.ready_when(|_, told| lists(told, &[&second])).await;
    for _ in 0..4 {
        ask(&couplet).await;
    }
    assert_eq!(served(&second).await, 4.0);
    while let Some(event) = events.next().await.unwrap() {
        seen.push(event);
    }
    assert_eq!(collect(&seen).content, TEXT.trim_start_matches("</think>"));
    assert_eq!(couplet.metric("couplet_engine_resumes_total", "").await, 0.0);
}

#[tokio::test]
async fn a_server_that_does_not_answer_changes_nothing_and_no_records_mean_no_engines() {
    let dns = Dns::start().await;
    let engine = engine([127, 0, 0, 2], 0, 0).await;
    dns.set("engines.test", addresses(&[2]));
    let couplet = serve(&dns, &format!("dns: engines.test:{}", port(&engine)));
    couplet.ready_when(|_, told| lists(told, &[&engine])).await;
    dns.set("engines.test", Records::Broken);
    while couplet.metric("couplet_discovery_failures_total", "tiny").await == 0.0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ask(&couplet).await;
    dns.set("engines.test", addresses(&[]));
    couplet.ready_when(|status, told| status == 503 && lists(told, &[])).await;
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &chat(TEXT, json!({}))).await;
    assert_eq!(answer.status, 503);
    dns.set("engines.test", addresses(&[2]));
    couplet.ready_when(|_, told| lists(told, &[&engine])).await;
    ask(&couplet).await;
}

#[tokio::test]
async fn services_have_ports_and_weights() {
    let dns = Dns::start().await;
    let (first, second) = (engine([127, 0, 0, 2], 0, 0).await, engine([127, 0, 0, 3], 0, 0).await);
    dns.set("a.engines.test", addresses(&[2]));
    dns.set("b.engines.test", addresses(&[3]));
    let services =
        vec![(3, port(&first), "a.engines.test".to_owned()), (1, port(&second), "b.engines.test".to_owned())];
    dns.set("_http._tcp.engines.test", Records::Services(services));
    let couplet = serve(&dns, "srv: _http._tcp.engines.test");
    couplet.ready_when(|_, told| lists(told, &[&first, &second])).await;
    for _ in 0..8 {
        ask(&couplet).await;
    }
    assert_eq!((served(&first).await, served(&second).await), (6.0, 2.0));
}
