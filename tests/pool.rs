//! Several engines behind one address: who gets a request, and what a client sees when an engine fails.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::{Faults, Options};
use serde_json::{Value, json};
use support::chat::{Collected, chat, collect};
use support::couplet::Couplet;
use support::http;
use support::sim::Engine;
use support::tiny;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TEXT: &str = "</think>\n\nOne café, two naïve façades – 日本語 and more: seven, eight, nine, ten.";

/// couplet in front of `engines`, in turns; `pool` are further lines of its `pool:`.
fn serve(engines: &[&str], pool: &[&str]) -> Couplet {
    let engines: String = engines.iter().map(|url| format!("      - url: {url}\n")).collect();
    let pool: String = pool.iter().map(|line| format!("      {line}\n")).collect();
    Couplet::with_config(&format!(
        "models:\n  - model: {}\n    served_model_name: [tiny]\n    tool_call_parser: hermes\n    reasoning_parser: qwen3\n    \
         enable_auto_tool_choice: true\n    engines:\n{engines}    pool:\n      policy: round_robin\n{pool}",
        tiny::DIR
    ))
}

async fn engine(faults: Faults) -> Engine {
    Engine::start(Options { faults, itl: Duration::from_millis(1), ..tiny::engine_options() }).await
}

/// A request whose script goes on where it was when it is asked again with some of its tokens.
async fn scripted(couplet: &Couplet, more: Value) -> Value {
    let mut body = chat(TEXT, more);
    let rendered = http::post(&format!("{}/v1/chat/completions/render", couplet.url), &body).await.json();
    body["vllm_xargs"]["script_from"] = json!(rendered["token_ids"].as_array().unwrap().len());
    body
}

async fn stream(couplet: &Couplet, more: Value) -> Collected {
    let mut body = scripted(couplet, more).await;
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    collect(&http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await.events())
}

/// The sum of a metric over its engines.
async fn metric(couplet: &Couplet, name: &str) -> f64 {
    let text = http::get(&format!("{}/metrics", couplet.url)).await.text;
    let values = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

fn assert_complete(reply: &Collected) {
    assert_eq!(reply.content, TEXT.trim_start_matches("</think>"));
    assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    // The EOS token counts.
    assert_eq!(reply.usage.as_ref().unwrap()["completion_tokens"], tiny::ids(TEXT).len() + 1);
}

#[tokio::test]
async fn requests_are_shared_out_in_turns() {
    let engines = [engine(Faults::default()).await, engine(Faults::default()).await, engine(Faults::default()).await];
    let couplet = serve(&engines.each_ref().map(|engine| engine.url.as_str()), &[]);
    for _ in 0..6 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    for engine in &engines {
        assert_eq!(engine.metric("vllm:request_success_total").await, 2.0);
    }
}

#[tokio::test]
async fn an_engine_that_refuses_is_passed_over_and_then_left_alone() {
    let refusals = [
        Faults { fail_status: Some(500), ..Faults::default() },
        Faults { fail_status: Some(503), ..Faults::default() },
        Faults { fail_status: Some(429), retry_after: Some(30), ..Faults::default() },
    ];
    for faults in refusals {
        let (refusing, healthy) = (engine(faults).await, engine(Faults::default()).await);
        // Nobody listens on the first port.
        let couplet = serve(&["http://127.0.0.1:9", &refusing.url, &healthy.url], &[]);
        for _ in 0..9 {
            assert_complete(&stream(&couplet, json!({})).await);
        }
        let failures = metric(&couplet, "couplet_engine_failures_total").await;
        assert!((2.0..=6.0).contains(&failures), "{failures} requests went to engines that do not answer");
    }
}

#[tokio::test]
async fn what_the_engine_says_of_the_request_is_not_tried_elsewhere() {
    let refusing = engine(Faults { fail_status: Some(400), ..Faults::default() }).await;
    let healthy = engine(Faults::default()).await;
    let couplet = serve(&[&refusing.url, &healthy.url], &[]);
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &chat(TEXT, json!({}))).await;
    assert_eq!(answer.status, 400);
    assert_eq!(healthy.metric("vllm:request_success_total").await, 0.0);
}

#[tokio::test]
async fn a_reply_goes_on_when_its_engine_fails_in_the_middle() {
    let kinds = [
        Faults { die_after_tokens: Some(4), ..Faults::default() },
        Faults { stall_after_tokens: Some(5), ..Faults::default() },
        Faults { garbage_after_tokens: Some(6), ..Faults::default() },
    ];
    for faults in kinds {
        let (failing, healthy) = (engine(faults.clone()).await, engine(Faults::default()).await);
        let couplet = serve(&[&failing.url, &healthy.url], &["token_timeout: 0.3"]);
        for _ in 0..2 {
            let reply = stream(&couplet, json!({"logprobs": true})).await;
            assert_complete(&reply);
        }
        assert_eq!(metric(&couplet, "couplet_engine_resumes_total").await, 1.0, "{faults:?}");
        assert_eq!(metric(&couplet, "couplet_engine_outstanding_tokens").await, 0.0);
    }
}

#[tokio::test]
async fn whole_answers_survive_too() {
    let faults = Faults { die_after_tokens: Some(4), ..Faults::default() };
    let (failing, healthy) = (engine(faults).await, engine(Faults::default()).await);
    let couplet = serve(&[&failing.url, &healthy.url], &[]);
    for stop in [Value::Null, json!(["nowhere"])] {
        let body = scripted(&couplet, json!({"stop": stop})).await;
        let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await;
        assert_eq!(answer.json()["choices"][0]["message"]["content"], TEXT.trim_start_matches("</think>"));
        assert_eq!(answer.json()["usage"]["completion_tokens"], tiny::ids(TEXT).len() + 1);
    }
}

#[tokio::test]
async fn max_tokens_counts_over_all_engines() {
    let faults = Faults { die_after_tokens: Some(4), ..Faults::default() };
    let (failing, healthy) = (engine(faults).await, engine(Faults::default()).await);
    let couplet = serve(&[&failing.url, &healthy.url], &[]);
    // The engine dies behind the last token that was allowed, and before it.
    for most in [4, 7] {
        for _ in 0..2 {
            let reply = stream(&couplet, json!({"max_tokens": most})).await;
            assert_eq!(reply.finish_reason.as_deref(), Some("length"));
            assert_eq!(reply.usage.unwrap()["completion_tokens"], most);
        }
    }
}

#[tokio::test]
async fn a_silent_engine_is_given_up_before_its_first_token() {
    let slow = Options { ttft: Duration::from_secs(20), ..tiny::engine_options() };
    let (silent, healthy) = (Engine::start(slow).await, engine(Faults::default()).await);
    let couplet = serve(&[&silent.url, &healthy.url], &["first_token_timeout: 0.3"]);
    assert_complete(&stream(&couplet, json!({})).await);
    silent.running_becomes(0).await;
}

/// An engine that answers every request with these bytes, and then says nothing more or closes the connection.
async fn broken_engine(answer: &'static str, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 65536];
                let _ = socket.read(&mut request).await;
                let _ = socket.write_all(answer.as_bytes()).await;
                if !closes {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn an_engine_that_does_not_speak_the_protocol_is_given_up() {
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let text = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello";
    let no_tokens = format!("{events}\r\ndata: {{\"choices\": []}}\n\ndata: {{\"cho").leak();
    let cases = [
        ("accepts and hangs", "", false),
        ("accepts and closes", "", true),
        ("headers and no more", format!("{events}\r\n").leak(), false),
        ("half an event, then the end", no_tokens, true),
        ("half an event, then silence", no_tokens, false),
        ("a chunk that is cut", format!("{events}transfer-encoding: chunked\r\n\r\n40\r\ndata: ").leak(), true),
        ("another content type", text, true),
        ("not HTTP", "hello\r\n\r\n", true),
        ("no events", format!("{events}\r\n\u{1}\u{2}\u{3}\n\n").leak(), true),
    ];
    for (name, answer, closes) in cases {
        let (broken, healthy) = (broken_engine(answer, closes).await, engine(Faults::default()).await);
        let couplet = serve(&[&broken, &healthy.url], &["first_token_timeout: 0.3"]);
        println!("{name}");
        for _ in 0..2 {
            assert_complete(&stream(&couplet, json!({})).await);
        }
        assert!(metric(&couplet, "couplet_engine_failures_total").await >= 1.0, "{name}");
    }
}

#[tokio::test]
async fn where_no_engine_can_go_on_the_stream_ends_with_an_error() {
    let dying = || engine(Faults { die_after_tokens: Some(4), ..Faults::default() });
    let one = dying().await;
    let two = [dying().await, engine(Faults::default()).await];
    let alone = (serve(&[&one.url], &[]), json!({}));
    // Of two choices that have begun neither can go on as it would have.
    let several = (serve(&[&two[0].url, &two[1].url], &[]), json!({"n": 2, "seed": 1}));
    for (couplet, more) in [alone, several] {
        let mut body = scripted(&couplet, more).await;
        body["stream"] = json!(true);
        let events = http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await.events();
        let [.., error, done] = events.as_slice() else { panic!("{events:?}") };
        let error: Value = serde_json::from_str(error).unwrap();
        assert_eq!(error["error"]["type"], "BadGatewayError", "{error}");
        assert_eq!(done, "[DONE]");
    }
}

#[tokio::test]
async fn twenty_streams_survive_the_sudden_death_of_one_of_two_engines() {
    let paced = || Engine::start(Options { itl: Duration::from_millis(20), ..tiny::engine_options() });
    let (dying, healthy) = (paced().await, paced().await);
    let couplet = serve(&[&dying.url, &healthy.url], &[]);
    let streams = (0..20).map(|_| stream(&couplet, json!({})));
    let death = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        drop(dying);
    };
    let (replies, ()) = tokio::join!(futures_util::future::join_all(streams), death);
    replies.iter().for_each(assert_complete);
    assert_eq!(metric(&couplet, "couplet_engine_resumes_total").await, 10.0);
}
