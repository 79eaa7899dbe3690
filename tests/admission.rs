//! Who is let in, who waits and what it hears meanwhile, and who is refused.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::Faults;
use serde_json::{Value, json};
use support::chat::{chat, collect};
use support::couplet::Couplet;
use support::http;
use support::pool::{TEXT, answer, assert_complete, engine, metric, metric_becomes, serve, slow_engine, stream};

const COMMENT: &str = ": keep-alive\n\n";

fn url(couplet: &Couplet) -> String {
    format!("{}/v1/chat/completions", couplet.url)
}

/// The comments of an answer, and its events.
fn apart(answer: &http::Answer) -> (usize, Vec<String>) {
    let (comments, events): (Vec<&str>, Vec<&str>) =
        answer.text.split_inclusive("\n\n").partition(|piece| *piece == COMMENT);
    let data = |event: &str| event.strip_prefix("data: ").unwrap().trim_end().to_owned();
    (comments.len(), events.into_iter().map(data).collect())
}

/// A request that goes on for a while.
fn long() -> Value {
    json!({"model": "tiny", "messages": [{"role": "user", "content": "Go on."}], "ignore_eos": true, "max_tokens": 2000, "stream": true})
}

#[tokio::test]
async fn a_stream_is_kept_alive_while_the_engine_reads_the_prompt() {
    let engine = slow_engine(700, 1).await;
    let couplet = serve(&[&engine.url], &["keep_alive_interval: 0.2"]);
    let answer = answer(&couplet, json!({})).await;
    let (comments, events) = apart(&answer);
    assert_eq!(comments, 3);
    assert_complete(&collect(&events));
    let quick = support::pool::engine(Faults::default()).await;
    let couplet = serve(&[&quick.url], &["keep_alive_interval: 0.2"]);
    assert_eq!(apart(&support::pool::answer(&couplet, json!({})).await).0, 0);
}

#[tokio::test]
async fn what_goes_wrong_before_the_first_comment_has_a_status_and_later_is_an_event() {
    let hanging = support::pool::raw_engine(String::new(), false).await;
    for (interval, begun) in [("keep_alive_interval: 5", false), ("keep_alive_interval: 0.1", true)] {
        let couplet = serve(&[&hanging], &["first_token_timeout: 0.4", interval]);
        for path in ["/v1/chat/completions", "/v1/completions"] {
            let mut body = chat(TEXT, json!({"stream": true, "prompt": "Go on."}));
            body["stream"] = json!(true);
            let answer = http::post(&format!("{}{path}", couplet.url), &body).await;
            if !begun {
                assert_eq!(answer.status, 504, "{}", answer.text);
                continue;
            }
            let (comments, events) = apart(&answer);
            assert_eq!(answer.status, 200);
            assert!((2..=4).contains(&comments), "{comments}");
            let [error, done] = events.as_slice() else { panic!("{events:?}") };
            assert!(error.contains("GatewayTimeoutError") && error.contains("first_token_timeout"), "{error}");
            assert_eq!(done, "[DONE]");
        }
        // Only an answer that has begun can end too early.
        let aborted = if begun { 2.0 } else { 0.0 };
        metric_becomes(&couplet, "couplet_aborts_total", "cause=\"timeout\"", aborted).await;
    }
}

#[tokio::test]
async fn beyond_what_runs_requests_wait_and_beyond_what_waits_they_are_refused() {
    let engine = slow_engine(0, 20).await;
    let couplet = serve(&[&engine.url], &["max_running: 1", "max_queued: 1", "queue_timeout: 0.6"]);
    let mut first = http::Events::open(&url(&couplet), &long()).await;
    first.next().await.unwrap();
    let waiting = async { http::post(&url(&couplet), &chat(TEXT, json!({}))).await };
    let third = async {
        metric_becomes(&couplet, "couplet_pool_queued_requests", "", 1.0).await;
        http::post(&url(&couplet), &chat(TEXT, json!({}))).await
    };
    let (waited, refused) = tokio::join!(waiting, third);
    for (answer, key, reason) in [(refused, "max_queued", "queue_full"), (waited, "queue_timeout", "queue_timeout")] {
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert_eq!(answer.json()["error"]["type"], "ServiceUnavailableError");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(key), "{}", answer.text);
        assert_eq!(support::pool::metric_of(&couplet, "couplet_pool_refused_total", reason).await, 1.0);
    }
    assert_eq!(metric(&couplet, "couplet_pool_running_requests").await, 1.0);
    drop(first);
    metric_becomes(&couplet, "couplet_pool_running_requests", "", 0.0).await;
    assert_complete(&stream(&couplet, json!({})).await);
}

#[tokio::test]
async fn who_waits_is_kept_alive_and_let_in_when_a_body_ends() {
    let engine = slow_engine(0, 10).await;
    let couplet = serve(&[&engine.url], &["max_running: 1", "keep_alive_interval: 0.1"]);
    let mut first = http::Events::open(&url(&couplet), &long()).await;
    first.next().await.unwrap();
    let leaving = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(first);
    };
    let (waited, ()) = tokio::join!(answer(&couplet, json!({})), leaving);
    let (comments, events) = apart(&waited);
    assert!(comments >= 3, "{comments}");
    assert_complete(&collect(&events));
}

#[tokio::test]
async fn who_leaves_the_queue_frees_its_place() {
    let engine = slow_engine(0, 20).await;
    // Before the answer has begun, and after.
    for interval in ["keep_alive_interval: 15", "keep_alive_interval: 0.05"] {
        let couplet = serve(&[&engine.url], &["max_running: 1", "max_queued: 1", interval]);
        let mut first = http::Events::open(&url(&couplet), &long()).await;
        first.next().await.unwrap();
        for _ in 0..3 {
            let (url, mut body) = (url(&couplet), chat(TEXT, json!({})));
            body["stream"] = json!(true);
            let waiting = tokio::spawn(async move { http::post(&url, &body).await });
            metric_becomes(&couplet, "couplet_pool_queued_requests", "", 1.0).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            waiting.abort();
            metric_becomes(&couplet, "couplet_pool_queued_requests", "", 0.0).await;
        }
        assert_eq!(metric(&couplet, "couplet_pool_refused_total").await, 0.0);
    }
}

#[tokio::test]
async fn several_prompts_of_one_request_take_one_place() {
    let engine = engine(Faults::default()).await;
    let couplet = serve(&[&engine.url], &["max_running: 1", "queue_timeout: 1"]);
    let body = json!({"model": "tiny", "prompt": ["One", "Two", "Three"], "max_tokens": 4});
    let answer = http::post(&format!("{}/v1/completions", couplet.url), &body).await;
    assert_eq!(answer.json()["choices"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_refused_and_others_are_not() {
    let engine = engine(Faults::default()).await;
    let couplet = serve(&[&engine.url], &["requests_per_minute: 2"]);
    let post = async |key: &str| {
        let body = chat(TEXT, json!({})).to_string().into_bytes();
        http::send("POST", &url(&couplet), &[("authorization", key), ("content-type", "application/json")], Some(body))
            .await
    };
    for _ in 0..2 {
        assert_eq!(post("Bearer one").await.status, 200);
    }
    let refused = post("Bearer one").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("30")));
    assert_eq!(refused.json()["error"]["type"], "RateLimitError");
    assert_eq!(refused.json()["error"]["code"], 429);
    assert_eq!(post("Bearer two").await.status, 200);
}

#[tokio::test]
async fn tokens_of_replies_are_charged_to_the_key() {
    let engine = engine(Faults::default()).await;
    let couplet = serve(&[&engine.url], &["tokens_per_minute: 500"]);
    let body = json!({"model": "tiny", "messages": [{"role": "user", "content": "Go on."}], "ignore_eos": true, "max_tokens": 1000});
    assert_eq!(http::post(&url(&couplet), &body).await.status, 200);
    let refused = http::post(&url(&couplet), &body).await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((60..90).contains(&seconds), "a debt of more than 500 tokens: {seconds}");
}

#[tokio::test]
async fn the_priority_is_passed_on() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let couplet = serve(&[&format!("http://{}", listener.local_addr().unwrap())], &["max_retries: 0"]);
    let asked = tokio::spawn({
        let url = url(&couplet);
        async move { http::post(&url, &chat(TEXT, json!({"priority": -7}))).await }
    });
    let request = loop {
        let (socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 65536];
        let count = tokio::io::AsyncReadExt::read(&mut { socket }, &mut request).await.unwrap();
        request.truncate(count);
        let request = String::from_utf8(request).unwrap();
        if request.starts_with("POST /inference/v1/generate") && request.contains("token_ids") {
            break request;
        }
    };
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["priority"], -7);
    asked.abort();
}
