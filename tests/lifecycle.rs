//! From the first look at the engines to the last stream: which engines get requests, and how couplet comes to its end.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::Options;
use serde_json::{Value, json};
use support::chat::{chat, collect};
use support::couplet::Couplet;
use support::http::{self, Events};
use support::sim::Engine;
use support::tiny;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const TEXT: &str = "</think>\n\nOne café, two naïve façades – 日本語 and more.";

fn content() -> &'static str {
    TEXT.trim_start_matches("</think>")
}

/// A model of a configuration: its names, and further lines.
fn model(names: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    format!(
        "  - model: {}\n    served_model_name: [{names}]\n    tool_call_parser: hermes\n    reasoning_parser: qwen3\n    \
         enable_auto_tool_choice: true\n{lines}",
        tiny::DIR
    )
}

fn one_engine(url: &str) -> String {
    format!("models:\n{}", model("tiny", &[&format!("engines: [{{url: \"{url}\"}}]")]))
}

async fn ask(couplet: &Couplet, model: &str) -> http::Answer {
    http::post(&format!("{}/v1/chat/completions", couplet.url), &chat(TEXT, json!({"model": model}))).await
}

async fn served(engine: &Engine) -> f64 {
    engine.metric("vllm:request_success_total").await
}

#[tokio::test]
async fn several_models_have_engines_of_their_own() {
    let engine = |name: &str| Engine::start(Options { model_name: vec![name.to_owned()], ..tiny::engine_options() });
    let (first, second) = (engine("first").await, engine("second").await);
    let couplet = Couplet::with_config(&format!(
        "models:\n{}{}",
        model("first, alias", &[&format!("engines: [{{url: \"{}\"}}]", first.url)]),
        model("second", &[&format!("engines: [{{url: \"{}\"}}]", second.url)]),
    ));
    for (name, answers_as) in [("first", "first"), ("alias", "first"), ("second", "second"), ("second", "second")] {
        let answer = ask(&couplet, name).await.json();
        assert_eq!(answer["choices"][0]["message"]["content"], content());
        assert_eq!(answer["model"], answers_as);
    }
    assert_eq!((served(&first).await, served(&second).await), (2.0, 2.0));
    assert_eq!(ask(&couplet, "third").await.status, 404);
    let models = http::get(&format!("{}/v1/models", couplet.url)).await.json();
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["first", "alias", "second"]);
}

#[tokio::test]
async fn adapters_are_asked_for_where_they_are_loaded() {
    let with = Options { lora_name: vec!["sql".to_owned()], ..tiny::engine_options() };
    let (with, without) = (Engine::start(with).await, Engine::start(tiny::engine_options()).await);
    let couplet = Couplet::start(&[&without.url, &with.url]);
    for _ in 0..4 {
        let answer = ask(&couplet, "sql").await.json();
        assert_eq!(answer["choices"][0]["message"]["content"], content());
        assert_eq!(answer["model"], "sql");
    }
    assert_eq!((served(&with).await, served(&without).await), (4.0, 0.0));
    let models = http::get(&format!("{}/v1/models", couplet.url)).await.json();
    let entry = &models["data"][1];
    assert_eq!((&entry["id"], &entry["parent"], &entry["root"]), (&json!("sql"), &json!("tiny"), &json!("/loras/sql")));
    let unknown = ask(&couplet, "law").await;
    assert_eq!((unknown.status, &unknown.json()["error"]["type"]), (404, &json!("NotFoundError")));
}

/// An engine may call the model otherwise, if it loaded the same, or if the settings say so.
#[tokio::test]
async fn engines_of_another_model_are_refused_with_the_reason() {
    let named = |name: &str| Options { model_name: vec![name.to_owned()], ..tiny::engine_options() };
    let narrow = Options { vocab_size: 2623, ..tiny::engine_options() };
    let cases = [
        (named("/elsewhere/tiny"), "", None),
        (named("other"), ", model: other", None),
        (named("other"), "", Some("it serves other, not")),
        (named("tiny"), ", model: other", Some("it serves tiny, not other")),
        (narrow, "", Some("its vocabulary has 2623 tokens")),
    ];
    for (options, key, reason) in cases {
        let engine = Engine::start(options).await;
        let engines = format!("engines: [{{url: \"{}\"{key}}}]", engine.url);
        let couplet = Couplet::with_config(&format!("models:\n{}", model("tiny", &[&engines])));
        let told = couplet.ready_when(|status, _| status == if reason.is_none() { 200 } else { 503 }).await;
        let told = &told["models"][0]["engines"][0];
        let answer = ask(&couplet, "tiny").await;
        match reason {
            None => assert_eq!((&told["ready"], answer.status), (&json!(true), 200), "{told}"),
            Some(reason) => {
                assert!(told["reason"].as_str().unwrap().contains(reason), "{told} does not say {reason:?}");
                assert_eq!(answer.status, 503);
                assert_eq!(served(&engine).await, 0.0);
            }
        }
    }
}

/// What an engine was sent, request after request. It answers all with 404.
async fn listening_engine() -> (String, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 65536];
            let length = socket.read(&mut request).await.unwrap_or(0);
            let _ = tell.send(String::from_utf8_lossy(&request[..length]).to_lowercase());
            let _ = socket.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    });
    (url, heard)
}

#[tokio::test]
async fn engines_are_told_their_key_and_headers() {
    let (url, mut heard) = listening_engine().await;
    let engines = format!("engines: [{{url: \"{url}\", api_key: sesame, headers: {{x-tenant: blue}}}}]");
    let _couplet = Couplet::with_config(&format!("models:\n{}", model("tiny", &[&engines])));
    for _ in 0..2 {
        let request = heard.recv().await.unwrap();
        assert!(request.contains("authorization: bearer sesame\r\n"), "{request}");
        assert!(request.contains("x-tenant: blue\r\n"), "{request}");
    }
}

#[tokio::test]
async fn an_engine_that_never_answered_makes_nothing_ready() {
    let couplet = Couplet::start(&["http://127.0.0.1:9"]);
    let (status, told) = couplet.ready().await;
    assert_eq!((status, &told["models"][0]["engines"][0]["reason"]), (503, &json!("has not answered yet")));
    let raw = Couplet::start(&[]);
    assert_eq!(raw.ready().await.0, 200, "the raw steps need no engine");
}

#[tokio::test]
async fn readiness_tells_of_every_engine() {
    let engine = Engine::start(tiny::engine_options()).await;
    let engines = format!("engines: [{{url: \"http://127.0.0.1:9\"}}, {{url: \"{}\"}}]", engine.url);
    let couplet =
        Couplet::with_config(&format!("models:\n{}", model("tiny", &[&engines, "pool: {health_interval: 0.05}"])));
    let down = |told: &Value| told["models"][0]["engines"][0]["reason"].is_string();
    let told = couplet.ready_when(|_, told| down(told)).await;
    assert_eq!(told["ready"], true);
    assert_eq!(told["models"][0]["engines"][1], json!({"engine": engine.url, "ready": true, "reason": null}));
    engine.stop().await;
    let told = couplet.ready_when(|status, _| status == 503).await;
    assert_eq!((&told["ready"], &told["models"][0]["ready"]), (&json!(false), &json!(false)));
    assert_eq!(http::get(&format!("{}/health", couplet.url)).await.status, 200);
}

/// A stream that has begun, with its first event.
async fn begun(couplet: &Couplet) -> (Events, Vec<String>) {
    let body = chat(TEXT, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let mut events = Events::open(&format!("{}/v1/chat/completions", couplet.url), &body).await;
    let first = events.next().await.unwrap().unwrap();
    (events, vec![first])
}

async fn rest(mut events: Events, mut seen: Vec<String>) -> Vec<String> {
    while let Some(event) = events.next().await.unwrap() {
        seen.push(event);
    }
    seen
}

async fn slow_engine() -> Engine {
    Engine::start(Options { itl: Duration::from_millis(50), ..tiny::engine_options() }).await
}

#[tokio::test]
async fn a_stop_lets_streams_end_and_sends_others_away() {
    let engine = slow_engine().await;
    let mut couplet =
        Couplet::with_config(&format!("drain_grace: 0.3\ndrain_timeout: 20\n{}", one_engine(&engine.url)));
    couplet.ready_when(|status, _| status == 200).await;
    let (events, seen) = begun(&couplet).await;
    couplet.signal("TERM");
    let told = couplet.ready_when(|status, _| status == 503).await;
    assert_eq!(told["reason"], "couplet is stopping");
    let render = || {
        let body = chat(TEXT, json!({}));
        let url = format!("{}/v1/chat/completions/render", couplet.url);
        async move { http::post(&url, &body).await }
    };
    assert_eq!(render().await.status, 200, "load balancers have not seen it yet");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let refused = render().await;
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")));
    assert_eq!(refused.json()["error"]["type"], "ServiceUnavailableError");
    assert_eq!(http::get(&format!("{}/health", couplet.url)).await.status, 200);
    let reply = collect(&rest(events, seen).await);
    assert_eq!(reply.content, content());
    assert_eq!(reply.usage.unwrap()["completion_tokens"], tiny::ids(TEXT).len() + 1);
    assert_eq!(couplet.ended(Duration::from_secs(2)).await, Some(0));
}

#[tokio::test]
async fn what_still_goes_on_after_the_drain_time_is_cut_with_an_error() {
    let engine = slow_engine().await;
    let mut couplet = Couplet::with_config(&format!("drain_grace: 0\ndrain_timeout: 0.2\n{}", one_engine(&engine.url)));
    couplet.ready_when(|status, _| status == 200).await;
    let (events, seen) = begun(&couplet).await;
    let whole = ask(&couplet, "tiny");
    let stop = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        couplet.signal("TERM");
        rest(events, seen).await
    };
    let (whole, events) = tokio::join!(whole, stop);
    assert_eq!((whole.status, whole.header("retry-after")), (503, Some("1")));
    let [.., error, done] = events.as_slice() else { panic!("{events:?}") };
    let error: Value = serde_json::from_str(error).unwrap();
    assert_eq!(error["error"]["type"], "ServiceUnavailableError", "{error}");
    assert_eq!(done, "[DONE]");
    engine.running_becomes(0).await;
    assert_eq!(couplet.ended(Duration::from_secs(3)).await, Some(0));
}

#[tokio::test]
async fn who_says_it_twice_does_not_have_to_wait() {
    let engine = slow_engine().await;
    let mut couplet = Couplet::with_config(&one_engine(&engine.url));
    let (events, _) = begun(&couplet).await;
    couplet.signal("INT");
    couplet.ready_when(|status, _| status == 503).await;
    couplet.signal("INT");
    assert_eq!(couplet.ended(Duration::from_secs(2)).await, Some(0));
    drop(events);
}

/// The grace is for load balancers: where nobody ever asked `/ready`, nobody waits for them.
#[tokio::test]
async fn without_anybody_who_looks_a_stop_does_not_wait() {
    let engine = Engine::start(tiny::engine_options()).await;
    let mut couplet = Couplet::with_config(&format!("drain_grace: 60\n{}", one_engine(&engine.url)));
    assert_eq!(http::get(&format!("{}/health", couplet.url)).await.status, 200);
    couplet.signal("TERM");
    assert_eq!(couplet.ended(Duration::from_secs(5)).await, Some(0));
}
