//! The metrics through the front door: what exists before anything happens, what clients cannot do to it, and what vLLM's
//! names say.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use couplet::metrics::vllm;
use couplet::sim::Options;
use serde_json::{Value, json};
use support::chat::chat;
use support::couplet::Couplet;
use support::http;
use support::scrape::{buckets, families, scrape, series, sum};
use support::sim::Engine;
use support::{pool, tiny};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "</think>\n\nOne, two, three, four, five.";

/// A configuration of these models, each with these engines.
fn config(models: &[&str], engines: &[&str]) -> String {
    let engines: String = engines.iter().map(|url| format!("      - {{url: \"{url}\"}}\n")).collect();
    let model = |name: &&str| {
        format!(
            "  - model: {}\n    served_model_name: [{name}]\n    tool_call_parser: hermes\n    reasoning_parser: qwen3\n    \
             enable_auto_tool_choice: true\n    engines:\n{engines}",
            tiny::DIR
        )
    };
    format!("models:\n{}", models.iter().map(model).collect::<String>())
}

async fn post(couplet: &Couplet, path: &str, body: &Value) -> http::Answer {
    http::post(&format!("{}{path}", couplet.url), body).await
}

#[tokio::test]
async fn what_may_happen_is_there_with_zero_before_it_does() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::with_config(&config(&["tiny"], &[&engine.url]));
    let text = scrape(&couplet).await;
    let values: BTreeMap<&str, f64> = series(&text).collect();
    let url = &engine.url;
    for wanted in [
        "couplet_requests_total{code=\"503\",route=\"/v1/chat/completions\"}",
        "couplet_requests_total{code=\"404\",route=\"other\"}",
        "couplet_aborts_total{cause=\"timeout\",route=\"/v1/completions\"}",
        "couplet_request_duration_seconds_count{route=\"/v1/chat/completions\"}",
        "couplet_time_to_first_token_seconds_count{model=\"tiny\",route=\"/v1/chat/completions\"}",
        "couplet_inter_token_latency_seconds_count{model=\"tiny\",route=\"/v1/completions\"}",
        "couplet_replies_total{finish_reason=\"tool_calls\",model=\"tiny\",route=\"/v1/chat/completions\"}",
        "couplet_generated_tokens_total{model=\"tiny\",route=\"/v1/completions\"}",
        "couplet_template_errors_total{model=\"tiny\"}",
        "couplet_parser_fallback_total{dialect=\"hermes\",reason=\"malformed_call\"}",
        "couplet_pool_refused_total{model=\"tiny\",reason=\"queue_full\"}",
        "couplet_pool_prefills_total{model=\"tiny\",outcome=\"fallback\"}",
        "couplet_discovery_failures_total{model=\"tiny\"}",
        "couplet_config_reloads_total{outcome=\"refused\"}",
        "couplet_grammar_violations_total{model=\"tiny\"}",
        &format!("couplet_engine_failures_total{{engine=\"{url}\",kind=\"connect\"}}"),
        &format!("couplet_engine_resumes_total{{engine=\"{url}\"}}"),
    ] {
        assert_eq!(values.get(wanted), Some(&0.0), "{wanted}");
    }
}

/// How many series a model, an engine and all else take is what the README says.
#[tokio::test]
async fn models_and_engines_take_so_many_series_as_is_told() {
    let (one, two) = (Engine::start(tiny::engine_options()).await, Engine::start(tiny::engine_options()).await);
    let count = async |models: &[&str], engines: &[&str]| {
        let couplet = Couplet::with_config(&config(models, engines));
        let text = scrape(&couplet).await;
        series(&text).filter(|(name, _)| name.starts_with("couplet_")).count()
    };
    let base = count(&["a"], &[&one.url]).await;
    let engine = count(&["a"], &[&one.url, &two.url]).await - base;
    let model = count(&["a", "b"], &[&one.url]).await - base;
    let readme = fs::read_to_string(format!("{ROOT}/dashboards/README.md")).unwrap();
    let told = format!(
        "{model} series of each model, {engine} of each engine, 3 of each dialect, and {} besides",
        base - model - engine - 3
    );
    assert!(readme.replace('\n', " ").contains(&told), "dashboards/README.md does not say: {told}");
}

/// The time of the first token is known where the engine streams, and vLLM counts it of whole answers too.
#[tokio::test]
async fn first_tokens_of_whole_answers_count_where_anybody_saw_them() {
    let engine = pool::slow_engine(50, 20).await;
    let couplet = Couplet::start(&[&engine.url]);
    let first =
        async |what: &str| sum(&scrape(&couplet).await, &format!("couplet_time_to_first_token_seconds_{what}"), "");
    let between = async || sum(&scrape(&couplet).await, "couplet_inter_token_latency_seconds_count", "");
    post(&couplet, CHAT, &chat(TEXT, json!({}))).await;
    assert_eq!((first("count").await, between().await), (0.0, 0.0), "the engine gave all of it at once");
    // A stop string is couplet's to look for: the engine streams.
    let answer = post(&couplet, CHAT, &chat(TEXT, json!({"stop": ["five"]}))).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let tokens = answer["usage"]["completion_tokens"].as_f64().unwrap();
    assert_eq!((first("count").await, between().await), (1.0, tokens - 1.0));
    let took = first("sum").await;
    assert!((0.05..0.05 + 0.02 * tokens).contains(&took), "{took} s is the time of the first token, not of the last");
}

#[tokio::test]
async fn replies_are_counted_by_their_end() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let call = "</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    post(&couplet, CHAT, &chat(TEXT, json!({"n": 2}))).await;
    post(&couplet, CHAT, &chat(TEXT, json!({"stream": true, "max_tokens": 3}))).await;
    for stream in [false, true] {
        post(&couplet, CHAT, &chat(call, json!({"stream": stream, "tools": tools}))).await;
    }
    let completion = json!({"model": "tiny", "prompt": "a", "max_tokens": 2, "n": 3, "vllm_xargs": tiny::says(TEXT)});
    post(&couplet, "/v1/completions", &completion).await;
    let text = scrape(&couplet).await;
    let ended = |reason: &str| sum(&text, "couplet_replies_total", &format!("finish_reason=\"{reason}\""));
    assert_eq!([ended("stop"), ended("length"), ended("tool_calls"), ended("error")], [2.0, 4.0, 2.0, 0.0]);
    assert_eq!(sum(&text, "couplet_reply_duration_seconds_count", ""), 8.0);
}

/// `tests/fixtures/vllm_metrics.json` holds the kinds, labels and buckets that vLLM 0.33 gives its metrics.
#[tokio::test]
async fn vllms_names_say_the_same_where_they_are_wanted() {
    let engine = Engine::start(Options { itl: Duration::from_millis(1), ..tiny::engine_options() }).await;
    let couplet = Couplet::with_config(&format!("vllm_metric_names: true\n{}", config(&["tiny", "b"], &[&engine.url])));
    for stream in [true, false] {
        post(&couplet, CHAT, &chat(TEXT, json!({"stream": stream, "stop": ["no such thing"]}))).await;
        let script = tiny::says(TEXT);
        let completion =
            json!({"model": "tiny", "prompt": "a", "stream": stream, "max_tokens": 4, "vllm_xargs": script});
        post(&couplet, "/v1/completions", &completion).await;
    }
    let text = scrape(&couplet).await;
    let fixture = fs::read_to_string(format!("{ROOT}/tests/fixtures/vllm_metrics.json")).unwrap();
    let defined: BTreeMap<String, Value> = serde_json::from_str(&fixture).unwrap();
    let there = families(&text);
    let names: Vec<&str> = there.keys().map(String::as_str).filter(|name| name.starts_with("vllm:")).collect();
    assert_eq!(names, defined.keys().map(String::as_str).collect::<Vec<_>>());
    for (ours, theirs) in vllm::SAME {
        let (family, defined) = (&there[theirs], &defined[theirs]);
        assert_eq!(family.kind, defined["type"], "{theirs}");
        assert_eq!(json!(family.labels), defined["labels"], "{theirs}");
        let ends = defined["buckets"].as_array().into_iter().flatten().map(|end| end.as_f64().unwrap().to_string());
        assert_eq!(buckets(&text, theirs), ends.collect(), "{theirs}");
        for part in if family.kind == "histogram" { &["_count", "_sum", "_bucket"][..] } else { &[""] } {
            let of = |name: &str, label: &str| sum(&text, &format!("{name}{part}"), label);
            let (counted, told) = (of(ours, "model=\"tiny\""), of(theirs, "model_name=\"tiny\""));
            assert_eq!(of(theirs, "engine=\"0\""), of(theirs, ""), "{theirs}{part}");
            assert!((counted - told).abs() < 1e-6, "{theirs}{part}: {told} of {counted}");
            assert_eq!(counted > 0.0, family.kind != "gauge", "{ours}{part} of a model that was asked");
            assert_eq!(of(theirs, "model_name=\"b\""), 0.0, "{theirs}{part} of one that was not");
        }
    }
    let success = |reason: &str| sum(&text, "vllm:request_success_total", &format!("finished_reason=\"{reason}\""));
    assert_eq!((success("stop"), success("length"), success("tool_calls")), (2.0, 2.0, 0.0));
}

#[tokio::test]
async fn vllms_names_are_not_there_unless_the_flag_is() {
    let engine = Engine::start(tiny::engine_options()).await;
    let without = Couplet::start(&[&engine.url]);
    let with = Couplet::with_flags(&[&engine.url], &["--vllm-metric-names"]);
    assert!(!scrape(&without).await.contains("vllm:"));
    assert!(scrape(&with).await.contains("vllm:num_requests_waiting{"));
}

/// Stands in all that is made up: none of it may be in a scrape.
const MARK: &str = "rnd7f3a";
/// How many requests of each kind there are.
const EACH: usize = 1000;
const CLIENTS: usize = 8;

/// A request that nobody has sent before; there are ten kinds.
fn made_up(number: usize) -> Vec<u8> {
    let what = format!("{MARK}-{number}");
    let body = |more: Value| chat(TEXT, more);
    let (method, path, body): (String, Vec<u8>, Option<String>) = match number % 10 {
        0 => ("GET".into(), format!("/{what}/{number}?{what}={number}").into(), None),
        1 => ("POST".into(), [b"/v1/\xff\xfe\xc3", what.as_bytes()].concat(), Some("{}".into())),
        2 => (what.to_uppercase(), CHAT.into(), None),
        3 => ("POST".into(), CHAT.into(), Some(format!("{{\"model\": \"{what}\", "))),
        4 => ("POST".into(), CHAT.into(), Some(body(json!({"model": what})).to_string())),
        5 => ("POST".into(), CHAT.into(), Some(body(json!({"user": what, "temperature": -1})).to_string())),
        6 => ("POST".into(), "/tokenize".into(), Some(json!({"prompt": what, "model": "tiny"}).to_string())),
        7 => ("GET".into(), format!("/v1/models?{what}").into(), None),
        8 => {
            let body = json!({"model": "tiny", "prompt": what, "max_tokens": 1, "user": what, "request_id": what});
            ("POST".into(), "/v1/completions".into(), Some(body.to_string()))
        }
        _ => {
            let tool = json!([{"type": "function", "function": {"name": what, "parameters": {}}}]);
            let more = json!({"user": what, "stream": true, "max_tokens": 2, "tools": tool});
            ("POST".into(), CHAT.into(), Some(body(more).to_string()))
        }
    };
    let body = body.unwrap_or_default();
    let head = format!(
        " HTTP/1.1\r\nhost: {what}\r\nuser-agent: {what}\r\nx-request-id: {what}\r\nx-session-id: {what}\r\nauthorization: \
         Bearer {what}\r\n{what}: {what}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [method.as_bytes(), b" ", &path, head.as_bytes(), body.as_bytes()].concat()
}

/// Whether a whole answer is there.
fn is_complete(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let head = std::str::from_utf8(&answer[..end]).unwrap().to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return answer.ends_with(b"\r\n0\r\n\r\n");
    }
    let length = head.split("content-length: ").nth(1).map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    answer.len() == end + 4 + length
}

/// Sends requests one after the other, on one connection for as long as couplet keeps it. How many were answered by status.
async fn send(address: Arc<str>, requests: impl Iterator<Item = Vec<u8>>) -> BTreeMap<String, usize> {
    let mut statuses = BTreeMap::new();
    let mut connection = TcpStream::connect(&*address).await.unwrap();
    for request in requests {
        connection.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        while !is_complete(&answer) {
            let read = connection.read_buf(&mut answer).await.unwrap();
            assert!(read > 0, "the connection ended in {:?}", String::from_utf8_lossy(&answer));
        }
        let status = String::from_utf8_lossy(&answer[9..12]).into_owned();
        if answer.windows(17).any(|bytes| bytes.eq_ignore_ascii_case(b"connection: close")) {
            connection = TcpStream::connect(&*address).await.unwrap();
        }
        *statuses.entry(status).or_default() += 1;
    }
    statuses
}

/// All of them, a part for each client.
async fn send_all(couplet: &Couplet, numbers: std::ops::Range<usize>) -> BTreeMap<String, usize> {
    let address: Arc<str> = couplet.url.trim_start_matches("http://").into();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mine = numbers.clone().filter(move |number| number / 10 % CLIENTS == client).map(made_up);
            tokio::spawn(send(Arc::clone(&address), mine))
        })
        .collect();
    let mut statuses = BTreeMap::new();
    for client in clients {
        for (status, count) in client.await.unwrap() {
            *statuses.entry(status).or_default() += count;
        }
    }
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_made_up_values_add_no_series() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let before = series(&scrape(&couplet).await).count();
    let first = send_all(&couplet, 0..100).await;
    let few = series(&scrape(&couplet).await).count();
    let statuses = send_all(&couplet, 100..10 * EACH).await;
    let text = scrape(&couplet).await;
    let many = series(&text).count();
    assert_eq!(statuses.values().sum::<usize>() + first.values().sum::<usize>(), 10 * EACH, "{statuses:?}");
    assert!(statuses["200"] >= 4 * (EACH - 10) && statuses["404"] >= 2 * (EACH - 10), "{statuses:?}");
    assert!(sum(&text, "couplet_requests_total", "") >= (9 * EACH) as f64, "they were counted");
    assert_eq!(many, few, "what nobody has sent before adds nothing");
    // The times of three routes that no rule asks for, which begin with the first request.
    assert!(few - before <= 100, "{} series more than at the start", few - before);
    assert!(!text.to_ascii_lowercase().contains(MARK), "a client's own word is a label");
}
