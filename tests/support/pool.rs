//! couplet in front of several engines, and what is seen of it.

use std::time::Duration;

use couplet::sim::{Faults, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::chat::{Collected, chat, collect};
use super::couplet::Couplet;
use super::http;
use super::sim::Engine;
use super::tiny;

/// What the engines say.
pub const TEXT: &str = "</think>\n\nOne café, two naïve façades – 日本語 and more: seven, eight, nine, ten.";

/// couplet in front of `engines`, in turns unless `pool`, the lines of its `pool:`, says otherwise.
pub fn serve(engines: &[&str], pool: &[&str]) -> Couplet {
    let engines: Vec<String> = engines.iter().map(|url| format!("{{url: \"{url}\"}}")).collect();
    serve_entries(&engines, pool)
}

/// The same with engines as the configuration writes them, such as `{url: "http://…", role: prefill}`.
pub fn serve_entries(engines: &[String], pool: &[&str]) -> Couplet {
    let engines: String = engines.iter().map(|engine| format!("      - {engine}\n")).collect();
    let default = ["policy: round_robin"].into_iter().filter(|_| !pool.iter().any(|line| line.starts_with("policy")));
    let pool: String = default.chain(pool.iter().copied()).map(|line| format!("      {line}\n")).collect();
    Couplet::with_config(&format!(
        "models:\n  - model: {}\n    served_model_name: [tiny]\n    tool_call_parser: hermes\n    reasoning_parser: qwen3\n    \
         enable_auto_tool_choice: true\n    engines:\n{engines}    pool:\n{pool}",
        tiny::DIR
    ))
}

/// A quick engine with faults.
pub async fn engine(faults: Faults) -> Engine {
    Engine::start(Options { faults, itl: Duration::from_millis(1), ..tiny::engine_options() }).await
}

/// An engine that takes so long to its first token, and from one token to the next.
pub async fn slow_engine(ttft: u64, itl: u64) -> Engine {
    let [ttft, itl] = [ttft, itl].map(Duration::from_millis);
    Engine::start(Options { ttft, itl, ..tiny::engine_options() }).await
}

/// An engine that answers every request with these bytes, and then says nothing more or closes the connection.
pub async fn raw_engine(answer: String, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut request = [0; 65536];
                let _ = socket.read(&mut request).await; // it may go away at any time
                let _ = socket.write_all(answer.as_bytes()).await;
                if !closes {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
            });
        }
    });
    url
}

/// A request whose script goes on where it was when it is asked again with some of its tokens.
pub async fn scripted(couplet: &Couplet, more: Value) -> Value {
    let mut body = chat(TEXT, more);
    let rendered = http::post(&format!("{}/v1/chat/completions/render", couplet.url), &body).await.json();
    body["vllm_xargs"]["script_from"] = json!(rendered["token_ids"].as_array().unwrap().len());
    body
}

/// What comes of such a request, streamed.
pub async fn answer(couplet: &Couplet, more: Value) -> http::Answer {
    let mut body = scripted(couplet, more).await;
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await
}

/// The reply to such a request.
pub async fn stream(couplet: &Couplet, more: Value) -> Collected {
    collect(&answer(couplet, more).await.events())
}

/// The sum of a metric over the series whose labels contain `label`.
pub async fn metric_of(couplet: &Couplet, name: &str, label: &str) -> f64 {
    let text = http::get(&format!("{}/metrics", couplet.url)).await.text;
    let values = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// The sum of a metric over all its series.
pub async fn metric(couplet: &Couplet, name: &str) -> f64 {
    metric_of(couplet, name, "").await
}

/// Waits until a metric has a value, at most five seconds.
pub async fn metric_becomes(couplet: &Couplet, name: &str, label: &str, value: f64) {
    let start = std::time::Instant::now();
    while metric_of(couplet, name, label).await != value {
        assert!(start.elapsed() < Duration::from_secs(5), "{name} of {label} did not become {value}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// All of the text has come, once, and the usage is right.
pub fn assert_complete(reply: &Collected) {
    assert_eq!(reply.content, TEXT.trim_start_matches("</think>"));
    assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    // The EOS token counts.
    assert_eq!(reply.usage.as_ref().unwrap()["completion_tokens"], tiny::ids(TEXT).len() + 1);
}
