//! The fault matrix: for everything that an engine may do, what the client sees where another engine is there, what it sees
//! where none is, and which metrics move.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::{Faults, Options};
use serde_json::{Value, json};
use support::pool::{
    TEXT, answer, assert_complete, engine, metric, metric_becomes, metric_of, raw_engine, scripted, serve, slow_engine,
    stream,
};
use support::sim::Engine;
use support::{http, tiny};

/// What is wrong with an engine.
enum Fault {
    /// Nobody listens.
    Refuses,
    /// It answers everything with these bytes, and closes the connection or does not.
    Raw(String, bool),
    /// It generates, and then this happens.
    Sim(Faults),
}

/// What a client sees of an engine that is alone.
enum Alone {
    /// A status, and a word of the message.
    Status(u16, &'static str),
    /// A reply that has begun, then an error event of this type, and a word of its message.
    Event(&'static str, &'static str),
    /// A reply that ends for this reason.
    Ends(&'static str),
}

struct Row {
    name: &'static str,
    fault: Fault,
    /// The kind of failure that is counted.
    kind: &'static str,
    /// Whether the reply had begun, so that it goes on elsewhere.
    resumes: bool,
    alone: Alone,
}

const HEADERS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
/// Timeouts that a test can wait for, and answers that a simulator can exceed.
const POOL: [&str; 4] =
    ["first_token_timeout: 0.3", "token_timeout: 0.3", "whole_answer_timeout: 1", "max_answer_bytes: 100000"];

fn matrix() -> Vec<Row> {
    let raw = |answer: &str, closes| Fault::Raw(answer.to_owned(), closes);
    let events = |answer: &str, closes| raw(&format!("{HEADERS}\r\n{answer}"), closes);
    let sim = Fault::Sim;
    let faults = Faults::default;
    let row = |name, fault, kind, resumes, alone| Row { name, fault, kind, resumes, alone };
    let (gateway, late) = ("BadGatewayError", "GatewayTimeoutError");
    vec![
        row("refuses the connection", Fault::Refuses, "connect", false, Alone::Status(503, "cannot be reached")),
        row("accepts and hangs", raw("", false), "timeout", false, Alone::Status(504, "first_token_timeout")),
        row("accepts and closes", raw("", true), "broken", false, Alone::Status(502, "broke off")),
        row("is no HTTP server", raw("hello\r\n\r\n", true), "broken", false, Alone::Status(502, "broke off")),
        row(
            "500",
            sim(Faults { fail_status: Some(500), ..faults() }),
            "status",
            false,
            Alone::Status(500, "simulated"),
        ),
        row(
            "503",
            sim(Faults { fail_status: Some(503), ..faults() }),
            "status",
            false,
            Alone::Status(503, "simulated"),
        ),
        row(
            "429 with Retry-After",
            sim(Faults { fail_status: Some(429), retry_after: Some(30), ..faults() }),
            "busy",
            false,
            Alone::Status(429, "simulated"),
        ),
        row("headers and no more", events("", false), "timeout", false, Alone::Event(late, "first_token_timeout")),
        row(
            "half an event and the end",
            events("data: {\"cho", true),
            "broken",
            false,
            Alone::Event(gateway, "[DONE]"),
        ),
        row(
            "half an event and silence",
            events("data: {\"cho", false),
            "timeout",
            false,
            Alone::Event(late, "first token"),
        ),
        row("no events", events("\u{1}\u{2}\u{3}\n\n", true), "broken", false, Alone::Event(gateway, "broke off")),
        row(
            "a chunk that is cut",
            raw(&format!("{HEADERS}transfer-encoding: chunked\r\n\r\n40\r\ndata: "), true),
            "broken",
            false,
            Alone::Event(gateway, "broke off"),
        ),
        row(
            "another content type",
            sim(Faults { wrong_type: true, ..faults() }),
            "garbage",
            false,
            Alone::Status(502, "content type"),
        ),
        row(
            "dies",
            sim(Faults { die_after_tokens: Some(4), ..faults() }),
            "broken",
            true,
            Alone::Event(gateway, "broke off"),
        ),
        row(
            "stalls",
            sim(Faults { stall_after_tokens: Some(5), ..faults() }),
            "timeout",
            true,
            Alone::Event(late, "token_timeout"),
        ),
        row(
            "garbage",
            sim(Faults { garbage_after_tokens: Some(6), ..faults() }),
            "garbage",
            true,
            Alone::Event(gateway, "not a generate answer"),
        ),
        row(
            "a truncated stream",
            sim(Faults { truncate_after_tokens: Some(7), ..faults() }),
            "broken",
            true,
            Alone::Event(gateway, "[DONE]"),
        ),
        row(
            "an event that is too large",
            sim(Faults { oversize_after_tokens: Some(8), ..faults() }),
            "too_large",
            true,
            Alone::Event(gateway, "max_answer_bytes"),
        ),
        row(
            "shuts down",
            sim(Faults { abort_after_tokens: Some(9), ..faults() }),
            "gave_up",
            true,
            Alone::Ends("abort"),
        ),
    ]
}

/// An engine with a fault, and what keeps it running.
async fn start(fault: &Fault) -> (String, Option<Engine>) {
    match fault {
        Fault::Refuses => ("http://127.0.0.1:9".to_owned(), None),
        Fault::Raw(bytes, closes) => (raw_engine(bytes.clone(), *closes).await, None),
        Fault::Sim(faults) => {
            let engine = engine(faults.clone()).await;
            (engine.url.clone(), Some(engine))
        }
    }
}

#[tokio::test]
async fn with_another_engine_the_client_sees_nothing_of_a_fault() {
    for row in matrix() {
        let ((faulty, _running), healthy) = (start(&row.fault).await, engine(Faults::default()).await);
        let couplet = serve(&[&faulty, &healthy.url], &POOL);
        println!("{}", row.name);
        for _ in 0..2 {
            assert_complete(&stream(&couplet, json!({"logprobs": true})).await);
        }
        let failures = metric(&couplet, "couplet_engine_failures_total").await;
        let of_kind = metric_of(&couplet, "couplet_engine_failures_total", &format!("kind=\"{}\"", row.kind)).await;
        assert!(of_kind >= 1.0 && of_kind == failures, "{}: {of_kind} of {failures}", row.name);
        let resumes = metric(&couplet, "couplet_engine_resumes_total").await;
        assert!((resumes > 0.0) || !row.resumes, "{}: {resumes}", row.name);
        assert_eq!(metric(&couplet, "couplet_engine_outstanding_tokens").await, 0.0, "{}", row.name);
        assert_eq!(metric(&couplet, "couplet_pool_running_requests").await, 0.0, "{}", row.name);
    }
}

#[tokio::test]
async fn without_another_engine_the_client_sees_what_was_wrong() {
    for row in matrix() {
        let (faulty, _running) = start(&row.fault).await;
        let couplet = serve(&[&faulty], &POOL);
        let answer = answer(&couplet, json!({})).await;
        println!("{}: {} {}", row.name, answer.status, answer.text);
        match row.alone {
            Alone::Status(status, word) => {
                assert_eq!(answer.status, status, "{}", row.name);
                let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(message.contains(word), "{}: {message}", row.name);
                let retry_after = answer.header("retry-after");
                assert_eq!(retry_after, (status == 429).then_some("30"), "{}", row.name);
            }
            Alone::Event(kind, word) => {
                let events = answer.events();
                let [.., error, done] = events.as_slice() else { panic!("{}: {events:?}", row.name) };
                let error: Value = serde_json::from_str(error).unwrap();
                assert_eq!(error["error"]["type"], kind, "{}", row.name);
                assert!(error["error"]["message"].as_str().unwrap().contains(word), "{}: {error}", row.name);
                assert_eq!(done, "[DONE]", "{}", row.name);
            }
            Alone::Ends(reason) => {
                let reply = support::chat::collect(&answer.events());
                assert_eq!(reply.finish_reason.as_deref(), Some(reason), "{}", row.name);
                assert!(TEXT.contains(reply.content.trim()), "{}", row.name);
            }
        }
        assert_eq!(metric(&couplet, "couplet_engine_outstanding_tokens").await, 0.0, "{}", row.name);
        assert_eq!(metric(&couplet, "couplet_pool_running_requests").await, 0.0, "{}", row.name);
    }
}

#[tokio::test]
async fn whole_answers_survive_too() {
    for row in matrix().into_iter().filter(|row| row.resumes) {
        let ((faulty, _running), healthy) = (start(&row.fault).await, engine(Faults::default()).await);
        let couplet = serve(&[&faulty, &healthy.url], &POOL);
        println!("{}", row.name);
        for stop in [Value::Null, json!(["nowhere"])] {
            let body = scripted(&couplet, json!({"stop": stop})).await;
            let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await;
            assert_eq!(
                answer.json()["choices"][0]["message"]["content"],
                TEXT.trim_start_matches("</think>"),
                "{}",
                row.name
            );
            assert_eq!(answer.json()["usage"]["completion_tokens"], tiny::ids(TEXT).len() + 1, "{}", row.name);
        }
    }
}

#[tokio::test]
async fn a_slow_drip_is_no_fault_until_the_whole_answer_takes_too_long() {
    let dripping = slow_engine(100, 60).await;
    let patient = serve(&[&dripping.url], &POOL);
    assert_complete(&stream(&patient, json!({})).await);
    assert_eq!(metric(&patient, "couplet_engine_failures_total").await, 0.0);
    let hasty = serve(&[&dripping.url], &["request_timeout: 0.4"]);
    let events = answer(&hasty, json!({})).await.events();
    let [_, .., error, done] = events.as_slice() else { panic!("{events:?}") };
    assert!(error.contains("GatewayTimeoutError") && error.contains("request_timeout"), "{error}");
    assert_eq!(done, "[DONE]");
    dripping.running_becomes(0).await;
}

#[tokio::test]
async fn an_engine_that_keeps_failing_is_left_alone() {
    let (faulty, healthy) =
        (engine(Faults { fail_status: Some(500), ..Faults::default() }).await, engine(Faults::default()).await);
    let couplet = serve(&[&faulty.url, &healthy.url], &["eject_pause: 60"]);
    for _ in 0..12 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    assert_eq!(metric(&couplet, "couplet_engine_failures_total").await, 3.0, "as many as max_failures says");
    assert_eq!(metric(&couplet, "couplet_engine_ejections_total").await, 1.0);
}

#[tokio::test]
async fn who_asks_to_be_left_alone_is_left_alone_and_the_client_hears_for_how_long() {
    let busy = engine(Faults { fail_status: Some(503), retry_after: Some(30), ..Faults::default() }).await;
    let couplet = serve(&[&busy.url], &[]);
    for expected in ["simulated", "no engine is left"] {
        let answer = answer(&couplet, json!({})).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("30")));
        assert!(answer.text.contains(expected), "{}", answer.text);
    }
    assert_eq!(metric(&couplet, "couplet_engine_failures_total").await, 1.0, "it was asked once");
}

#[tokio::test]
async fn an_engine_that_says_it_is_unwell_gets_nothing() {
    let draining = engine(Faults { health_status: Some(503), ..Faults::default() }).await;
    let healthy = engine(Faults::default()).await;
    let couplet = serve(&[&draining.url, &healthy.url], &["health_interval: 0.05"]);
    metric_becomes(&couplet, "couplet_engine_up", &draining.url, 0.0).await;
    for _ in 0..4 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    assert_eq!(healthy.metric("vllm:request_success_total").await, 4.0);
}

#[tokio::test]
async fn an_engine_that_restarts_gets_requests_again() {
    let options = Options { itl: Duration::from_millis(10), ..tiny::engine_options() };
    let (restarting, healthy) = (Engine::start(options.clone()).await, Engine::start(options.clone()).await);
    let pool = ["health_interval: 0.05", "eject_pause: 0.05", "max_eject_pause: 0.1", "slow_start: 0.05"];
    let couplet = serve(&[&restarting.url, &healthy.url], &pool);
    let url = restarting.url.clone();
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    let streams = (0..6).map(|_| stream(&couplet, json!({})));
    let death = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        drop(restarting);
    };
    let (replies, ()) = tokio::join!(futures_util::future::join_all(streams), death);
    replies.iter().for_each(assert_complete);
    assert!(metric(&couplet, "couplet_engine_resumes_total").await >= 1.0);
    metric_becomes(&couplet, "couplet_engine_up", &url, 0.0).await;
    let back = Engine::start_at(Options { port, ..options }).await;
    metric_becomes(&couplet, "couplet_engine_up", &url, 1.0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..4 {
        assert_complete(&stream(&couplet, json!({})).await);
    }
    assert!(back.metric("vllm:request_success_total").await >= 2.0);
}
