//! What is told of a request: its line in the log, its id, its place in a trace, and its figures.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use couplet::sim::Faults;
use serde_json::{Value, json};
use support::chat::chat;
use support::couplet::Couplet;
use support::http::{self, Events};
use support::sim::Engine;
use support::{pool, tiny};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

const TEXT: &str = "</think>\n\nOne, two, three, four, five.";
const CHAT: &str = "/v1/chat/completions";

async fn ask(couplet: &Couplet, id: &str, more: Value) -> http::Answer {
    let body = chat(TEXT, more).to_string();
    http::send("POST", &format!("{}{CHAT}", couplet.url), &[("x-request-id", id)], Some(body.into_bytes())).await
}

/// The fields of a line.
fn keys(line: &Value) -> Vec<&str> {
    line.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn a_request_has_a_line_that_tells_all_but_what_was_said() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::with_flags(&[&engine.url], &["--api-key", "the-key"]);
    let body = chat(TEXT, json!({"stream": true, "stream_options": {"include_usage": true}})).to_string();
    let headers = [("x-request-id", "mine-1"), ("authorization", "Bearer the-key")];
    let answer = http::send("POST", &format!("{}{CHAT}", couplet.url), &headers, Some(body.into_bytes())).await;
    let usage: Value = serde_json::from_str(&answer.events()[answer.events().len() - 2]).unwrap();
    let line = couplet.line_of("mine-1").await;
    assert_eq!(line["model"], "tiny");
    assert_eq!(line["engine"], engine.url);
    assert_eq!((&line["route"], &line["code"]), (&json!(CHAT), &json!(200)));
    assert_eq!(line["prompt_tokens"], usage["usage"]["prompt_tokens"]);
    assert_eq!(line["completion_tokens"], usage["usage"]["completion_tokens"]);
    assert_eq!((&line["finish_reason"], &line["resumed"]), (&json!("stop"), &json!(0)));
    let (ttft, duration) = (line["ttft"].as_f64().unwrap(), line["duration"].as_f64().unwrap());
    assert!(0.0 < ttft && ttft <= duration && duration < 60.0, "{line}");
    assert!(!keys(&line).contains(&"aborted"));
    let log = couplet.log();
    for secret in ["the-key", "weather in Paris", "three, four"] {
        assert!(!log.contains(secret), "{secret} is in the log:\n{log}");
    }
}

#[tokio::test]
async fn whole_answers_and_refusals_have_lines_too_and_probes_have_none() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    ask(&couplet, "whole", json!({})).await;
    let line = couplet.line_of("whole").await;
    assert_eq!((&line["code"], &line["finish_reason"]), (&json!(200), &json!("stop")));
    assert!(!keys(&line).contains(&"ttft"), "nobody saw a first token");
    ask(&couplet, "wrong", json!({"temperature": -1})).await;
    let line = couplet.line_of("wrong").await;
    assert_eq!(line["code"], 400);
    assert!(!keys(&line).contains(&"engine"));
    http::get(&format!("{}/health", couplet.url)).await;
    ask(&couplet, "last", json!({})).await;
    couplet.line_of("last").await;
    assert!(!couplet.log().contains("\"/health\""));
}

#[tokio::test]
async fn an_id_comes_back_and_one_is_made_up_where_there_is_none() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let answer = ask(&couplet, "mine-2", json!({})).await;
    assert_eq!(answer.headers["x-request-id"], "mine-2");
    assert_eq!(answer.json()["id"], "chatcmpl-mine-2");
    let answer = http::post(&format!("{}{CHAT}", couplet.url), &chat(TEXT, json!({"request_id": "of the body"}))).await;
    assert_eq!(answer.headers["x-request-id"], "of the body");
    assert_eq!(answer.json()["id"], "chatcmpl-of the body");
    let answer =
        http::post(&format!("{}{CHAT}", couplet.url), &chat(TEXT, json!({"request_id": "x".repeat(2000)}))).await;
    assert!(!answer.headers.contains_key("x-request-id"), "too long to be sent back");
    let answer = http::post(&format!("{}{CHAT}", couplet.url), &chat(TEXT, json!({}))).await;
    let id = answer.headers["x-request-id"].to_str().unwrap();
    assert_eq!(answer.json()["id"], format!("chatcmpl-{id}"));
    assert_eq!(couplet.line_of(id).await["code"], 200);
}

/// An engine that refuses everything, and tells what it was sent.
async fn listener() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = vec![0; 65536];
            let length = socket.read(&mut request).await.unwrap_or(0);
            let _ = tell.send(String::from_utf8_lossy(&request[..length]).into_owned());
            let refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = socket.write_all(refusal.as_bytes()).await; // it may be gone
        }
    });
    (url, told)
}

#[tokio::test]
async fn an_engine_learns_the_id_and_the_place_in_the_trace_and_nothing_else() {
    let (url, mut told) = listener().await;
    let couplet = Couplet::start(&[&url]);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [
        ("x-request-id", "mine-3"),
        ("traceparent", parent),
        ("tracestate", "a=1"),
        ("authorization", "Bearer secret"),
        ("x-other", "kept"),
    ];
    let body = chat(TEXT, json!({})).to_string();
    http::send("POST", &format!("{}{CHAT}", couplet.url), &headers, Some(body.into_bytes())).await;
    let request = loop {
        let request = told.recv().await.unwrap();
        if request.starts_with("POST /inference") {
            break request.to_lowercase();
        }
    };
    for line in ["x-request-id: chatcmpl-mine-3", &format!("traceparent: {parent}"), "tracestate: a=1"] {
        assert!(request.contains(&format!("{line}\r\n")), "no {line} in {request}");
    }
    assert!(!request.contains("secret") && !request.contains("x-other"));
}

#[tokio::test]
async fn tokens_and_times_are_those_that_the_client_sees() {
    let engine = pool::slow_engine(50, 20).await;
    let couplet = Couplet::start(&[&engine.url]);
    let labels = "route=\"/v1/chat/completions\"";
    let body = chat(TEXT, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let answer = http::post(&format!("{}{CHAT}", couplet.url), &body).await;
    let events: Vec<Value> = answer
        .events()
        .iter()
        .filter(|event| *event != "[DONE]")
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    // Behind the one that tells the role, before the one that tells the usage.
    let pieces = events.iter().filter(|event| event["choices"].get(0).is_some()).count() - 1;
    let usage = &events.last().unwrap()["usage"];
    let metric = |name: &'static str| couplet.metric(name, labels);
    assert_eq!(metric("couplet_prompt_tokens_total").await, usage["prompt_tokens"].as_f64().unwrap());
    assert_eq!(metric("couplet_generated_tokens_total").await, usage["completion_tokens"].as_f64().unwrap());
    assert_eq!(metric("couplet_time_to_first_token_seconds_count").await, 1.0);
    assert!(metric("couplet_time_to_first_token_seconds_sum").await >= 0.05);
    assert_eq!(metric("couplet_inter_token_latency_seconds_count").await, (pieces - 1) as f64);
    assert_eq!(couplet.metric("couplet_engine_first_token_seconds_count", &engine.url).await, 1.0);
    for stage in ["parse", "template", "tokenize", "queue", "engine", "derender"] {
        assert_eq!(
            couplet.metric("couplet_stage_duration_seconds_count", &format!("\"{stage}\"")).await,
            1.0,
            "{stage}"
        );
    }
    // Whole answers have tokens, but no first one.
    http::post(&format!("{}{CHAT}", couplet.url), &chat(TEXT, json!({}))).await;
    assert_eq!(metric("couplet_generated_tokens_total").await, 2.0 * usage["completion_tokens"].as_f64().unwrap());
    assert_eq!(metric("couplet_time_to_first_token_seconds_count").await, 1.0);
}

#[tokio::test]
async fn answers_that_end_too_early_are_counted_by_whose_doing_it_was() {
    let engine = pool::slow_engine(1, 50).await;
    let couplet = Couplet::start(&[&engine.url]);
    let body = chat(TEXT, json!({"stream": true, "request_id": "leaves"}));
    let mut events = Events::open(&format!("{}{CHAT}", couplet.url), &body).await;
    events.next().await.unwrap();
    drop(events);
    pool::metric_becomes(&couplet, "couplet_aborts_total", "cause=\"client\"", 1.0).await;
    let line = couplet.line_of("leaves").await;
    assert_eq!((&line["aborted"], &line["code"]), (&json!("client"), &json!(200)));
    assert!(line["completion_tokens"].as_u64().unwrap() > 0, "{line}");

    let dying = pool::engine(Faults { die_after_tokens: Some(3), ..Faults::default() }).await;
    let couplet = pool::serve(&[&dying.url], &["max_resumes: 0"]);
    ask(&couplet, "dies", json!({"stream": true})).await;
    pool::metric_becomes(&couplet, "couplet_aborts_total", "cause=\"engine\"", 1.0).await;
    assert_eq!(couplet.line_of("dies").await["aborted"], "engine");
}

#[tokio::test]
async fn models_in_labels_are_those_of_the_settings() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    for index in 0..20 {
        let more = json!({"model": format!("made-up-{index}"), "user": format!("somebody-{index}")});
        http::post(&format!("{}{CHAT}", couplet.url), &chat(TEXT, more)).await;
        http::get(&format!("{}/made-up-{index}", couplet.url)).await;
    }
    let text = http::get(&format!("{}/metrics", couplet.url)).await.text;
    assert!(!text.contains("made-up") && !text.contains("somebody"), "{text}");
    assert_eq!(couplet.metric("couplet_requests_total", "code=\"404\"").await, 40.0);
}

#[tokio::test]
async fn who_has_a_key_may_see_the_engines() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    assert_eq!(http::get(&format!("{}/debug/engines", couplet.url)).await.status, 404, "there is no key");
    let couplet = Couplet::with_flags(&[&engine.url, "http://127.0.0.1:1"], &["--api-key", "the-key"]);
    let url = format!("{}/debug/engines", couplet.url);
    assert_eq!(http::get(&url).await.status, 401);
    let told = http::send("GET", &url, &[("authorization", "Bearer the-key")], None).await.json();
    let model = &told["models"][0];
    assert_eq!((&model["model"], &model["pool"]["running"]), (&json!("tiny"), &json!(0)));
    let [up, _] = &model["engines"].as_array().unwrap()[..] else { panic!("{told}") };
    assert_eq!((&up["engine"], &up["available"], &up["reason"]), (&json!(engine.url), &json!(true), &Value::Null));
    assert_eq!((&up["breaker"]["failures_in_a_row"], &up["outstanding_tokens"]), (&json!(0), &json!(0)));
}

/// What is asked and answered in the tests of what is logged of it.
async fn talk(couplet: &Couplet) {
    let stream = json!({"stream": true});
    for (id, more) in [("streamed", stream), ("whole", json!({}))] {
        let body = chat(TEXT, more).to_string();
        let headers = [("x-request-id", id), ("authorization", "Bearer the-key")];
        let answer = http::send("POST", &format!("{}{CHAT}", couplet.url), &headers, Some(body.into_bytes())).await;
        assert_eq!(answer.status, 200);
        couplet.line_of(id).await;
    }
    let mut body = json!({"model": "tiny", "prompt": ["Long ago", "Once upon"], "request_id": "completed"});
    body["vllm_xargs"] = tiny::says("there was a fox.");
    let url = format!("{}/v1/completions", couplet.url);
    let headers = [("authorization", "Bearer the-key")];
    assert_eq!(http::send("POST", &url, &headers, Some(body.to_string().into_bytes())).await.status, 200);
    couplet.line_of("completed").await;
}

#[tokio::test]
async fn nothing_that_was_said_is_logged_at_any_level() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::logging(&[&engine.url], &["--api-key", "the-key"], "trace");
    talk(&couplet).await;
    let log = couplet.log();
    assert!(log.contains("\"TRACE\""), "the log has all levels");
    for said in ["the-key", "weather in Paris", "three, four", "Long ago", "a fox"] {
        assert!(!log.contains(said), "{said} is in the log:\n{log}");
    }
}

#[tokio::test]
async fn prompts_and_replies_are_logged_where_the_flag_says_so() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::with_flags(&[&engine.url], &["--api-key", "the-key", "--log-prompts"]);
    talk(&couplet).await;
    let log = couplet.log();
    assert!(!log.contains("the-key"), "{log}");
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let warnings = lines.iter().filter(|line| line["level"] == "WARN");
    assert_eq!(warnings.filter(|line| line["message"].as_str().unwrap().contains("PROMPTS AND REPLIES")).count(), 1);
    let said = |what: &str, id: &str| -> Vec<(u64, String)> {
        let is_meant =
            |line: &&Value| line["target"] == "couplet::prompts" && line["message"] == what && line["id"] == id;
        let text = |line: &Value| line["text"].as_str().unwrap().to_owned();
        lines.iter().filter(is_meant).map(|line| (line["choice"].as_u64().unwrap_or(0), text(line))).collect()
    };
    for id in ["streamed", "whole"] {
        let [(_, prompt)] = &said("prompt", id)[..] else { panic!("{log}") };
        assert!(prompt.contains("<|im_start|>user\nWhat is the weather in Paris?<|im_end|>"), "{prompt}");
        assert_eq!(said("reply", id), [(0, format!("{TEXT}<|im_end|>"))]);
    }
    let prompts: Vec<String> = said("prompt", "completed").into_iter().map(|(_, text)| text).collect();
    assert_eq!(prompts, ["Long ago", "Once upon"]);
    let reply = "there was a fox.<|im_end|>".to_owned();
    assert_eq!(said("reply", "completed"), [(0, reply.clone()), (1, reply)]);
}

#[tokio::test]
async fn a_reload_begins_and_ends_the_logging_of_prompts() {
    let engine = Engine::start(tiny::engine_options()).await;
    let config = |logs: bool| {
        format!(
            "reload_interval: 0\nlog_prompts: {logs}\nmodels:\n  - model: {}\n    served_model_name: [tiny]\n    \
             engines: [{{url: \"{}\"}}]\n",
            tiny::DIR,
            engine.url
        )
    };
    let couplet = Couplet::with_config(&config(false));
    for (logs, id, applied) in [(true, "on", 1.0), (false, "off", 2.0)] {
        couplet.configure(&config(logs));
        couplet.signal("HUP");
        pool::metric_becomes(&couplet, "couplet_config_reloads_total", "applied", applied).await;
        ask(&couplet, id, json!({})).await;
        couplet.line_of(id).await;
    }
    let log = couplet.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told: Vec<&str> = lines
        .iter()
        .filter(|line| line["target"] == "couplet::prompts")
        .filter_map(|line| line["id"].as_str())
        .collect();
    assert_eq!(told, ["on", "on"], "a prompt and a reply:\n{log}");
    assert_eq!(log.matches("PROMPTS AND REPLIES").count(), 1, "{log}");
}
