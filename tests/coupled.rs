//! The whole path through real sockets: an OpenAI request in, a simulated tokens-only engine behind, OpenAI's answer out.

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

const THINK_AND_CALL: &str = "<think>\nParis, so the weather tool.\n</think>\n\nLet me look.\n<tool_call>\n{\"name\": \
                              \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";

fn weather_tool() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}])
}

#[tokio::test]
async fn a_stream_and_a_whole_answer_tell_the_same_of_reasoning_content_and_calls() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    let whole = http::post(&url, &chat(THINK_AND_CALL, json!({"tools": weather_tool()}))).await.json();
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["reasoning"], "\nParis, so the weather tool.\n");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "get_weather");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"city\": \"Paris\"}");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    assert!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);

    let options = json!({"tools": weather_tool(), "stream": true, "stream_options": {"include_usage": true}});
    let streamed = collect(&http::post(&url, &chat(THINK_AND_CALL, options)).await.events());
    assert_eq!(streamed.reasoning, message["reasoning"].as_str().unwrap());
    assert_eq!(streamed.content.trim(), message["content"].as_str().unwrap_or_default().trim());
    assert_eq!(streamed.calls, [("get_weather".to_owned(), "{\"city\": \"Paris\"}".to_owned())]);
    assert_eq!(streamed.finish_reason.as_deref(), Some("tool_calls"));
    assert_eq!(streamed.usage.unwrap()["completion_tokens"], whole["usage"]["completion_tokens"]);
}

#[tokio::test]
async fn a_stop_string_ends_the_reply_and_the_engines_work() {
    // 10 ms per token: without an abort the engine would be busy for 20 seconds.
    let pace = Duration::from_millis(10);
    let engine = Engine::start(Options { itl: pace, ..tiny::engine_options() }).await;
    let couplet = Couplet::start(&[&engine.url]);
    let long = format!("</think>one two three STOP {}", "more and more ".repeat(500));
    for stream in [true, false] {
        let body = chat(&long, json!({"stop": ["STOP"], "stream": stream, "stream_options": null}));
        let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await;
        if stream {
            let collected = collect(&answer.events());
            assert_eq!(collected.content, "one two three ");
            assert_eq!(collected.finish_reason.as_deref(), Some("stop"));
        } else {
            assert_eq!(answer.json()["choices"][0]["message"]["content"], "one two three ");
            assert_eq!(answer.json()["choices"][0]["stop_reason"], "STOP");
        }
        engine.running_becomes(0).await;
    }
}

/// vLLM 0.32 answers `content: ""`, not null, where the model says nothing or a stop string cuts all of it.
#[tokio::test]
async fn an_empty_reply_has_empty_content() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    let thinks_not = json!({"enable_thinking": false});
    for (says, stop) in [("", Value::Null), ("alpha beta", json!("alpha"))] {
        let body = chat(says, json!({"stop": stop, "chat_template_kwargs": thinks_not}));
        let message = http::post(&url, &body).await.json()["choices"][0]["message"].take();
        assert_eq!((&message["content"], &message["reasoning"]), (&json!(""), &Value::Null), "{says:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_frees_the_engine_within_a_second() {
    let engine = Engine::start(Options { itl: Duration::from_millis(20), ..tiny::engine_options() }).await;
    let couplet = Couplet::start(&[&engine.url]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    let long = "word ".repeat(2000);
    let mut events = Events::open(&url, &chat(&long, json!({"stream": true}))).await;
    events.next().await.unwrap();
    engine.running_becomes(1).await;
    drop(events);
    engine.running_becomes(0).await;

    let body = chat(&long, json!({}));
    let whole = tokio::spawn(async move { http::post(&url, &body).await });
    engine.running_becomes(1).await;
    whole.abort();
    engine.running_becomes(0).await;
}

#[tokio::test]
async fn each_of_n_choices_is_read_by_itself() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let mut xargs = tiny::says("<think>a</think>first");
    xargs["script_1"] = json!(tiny::ids("<think>b</think>second"));
    xargs["script_seed"] = json!(7);
    let body = chat("", json!({"n": 2, "seed": 7, "vllm_xargs": xargs}));
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await.json();
    let told: Vec<(&Value, &Value)> = (0..2)
        .map(|at| {
            let message = &answer["choices"][at]["message"];
            (&message["reasoning"], &message["content"])
        })
        .collect();
    assert_eq!(told, [(&json!("a"), &json!("first")), (&json!("b"), &json!("second"))]);
}

#[tokio::test]
async fn what_an_engine_does_wrong_is_told_and_nothing_hangs() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    let text = "</think>one two three four five six";
    for fault in ["die_after_tokens", "garbage_after_tokens"] {
        for stream in [true, false] {
            let mut body = chat(text, json!({"stream": stream}));
            body["vllm_xargs"][fault] = json!(3);
            let answer = http::post(&url, &body).await;
            if stream {
                assert_eq!(answer.status, 200);
                let events = answer.events();
                let error: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
                assert_eq!(error["error"]["code"], 502, "{fault}");
                assert_eq!(events.last().unwrap(), "[DONE]");
            } else {
                assert_eq!(answer.status, 502, "{fault}");
                assert_eq!(answer.json()["error"]["type"], "BadGatewayError");
            }
        }
    }
    let mut refused = chat(text, json!({}));
    refused["vllm_xargs"]["fail_status"] = json!(503);
    assert_eq!(http::post(&url, &refused).await.status, 503);
    engine.running_becomes(0).await;
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_a_503_that_names_it() {
    let couplet = Couplet::start(&["http://127.0.0.1:9"]);
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &chat("x", json!({}))).await;
    assert_eq!(answer.status, 503);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("http://127.0.0.1:9"));
}

#[tokio::test]
async fn without_an_engine_the_raw_steps_are_served_and_the_coupled_routes_say_so() {
    let couplet = Couplet::start(&[]);
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &chat("x", json!({}))).await;
    assert_eq!(answer.status, 503);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("--engine"));
    let rendered = http::post(&format!("{}/v1/chat/completions/render", couplet.url), &chat("x", json!({}))).await;
    assert_eq!(rendered.status, 200);
    assert!(rendered.json()["token_ids"].as_array().unwrap().len() > 5);
}

#[tokio::test]
async fn a_key_is_needed_where_one_is_configured() {
    let couplet = Couplet::with_flags(&[], &["--api-key", "secret"]);
    let models = format!("{}/v1/models", couplet.url);
    assert_eq!(http::get(&models).await.status, 401);
    assert_eq!(http::send("GET", &models, &[("authorization", "Bearer wrong!")], None).await.status, 401);
    assert_eq!(http::send("GET", &models, &[("authorization", "Bearer secret")], None).await.status, 200);
    assert_eq!(http::get(&format!("{}/health", couplet.url)).await.status, 200);
}

#[tokio::test]
async fn bad_bodies_are_refused_before_anything_is_sent() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::with_flags(&[&engine.url], &["--max-body-bytes", "100000"]);
    let chat_url = format!("{}/v1/chat/completions", couplet.url);
    let completions_url = format!("{}/v1/completions", couplet.url);
    let deep = format!("{}{}", "[".repeat(40_000), "]".repeat(40_000));
    let cases: [(&str, Vec<u8>, u16); 7] = [
        (&chat_url, b"{\"a\": \xff}".to_vec(), 400),
        (&chat_url, b"{not json".to_vec(), 400),
        (&chat_url, deep.into_bytes(), 400),
        (&chat_url, vec![b' '; 100_001], 413),
        (&chat_url, json!({"model": "other", "messages": [{"role": "user", "content": "x"}]}).to_string().into(), 404),
        (&completions_url, json!({"model": "tiny", "prompt": [1, 999_999]}).to_string().into(), 400),
        (&completions_url, json!({"model": "tiny", "prompt": [-1]}).to_string().into(), 400),
    ];
    for (url, body, status) in cases {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let answer = http::send("POST", url, &[], Some(body)).await;
        assert_eq!(answer.status, status, "{shown}: {}", answer.text);
    }
    let typed = http::send("POST", &chat_url, &[("content-type", "text/plain")], Some(b"{}".to_vec())).await;
    assert_eq!(typed.status, 400);
    assert_eq!(engine.metric("vllm:prompt_tokens_total").await, 0.0, "nothing reached the engine");
}
