//! Structured outputs on an engine that refuses grammars, through the front door: what the client gets keeps to its
//! grammar, whatever the model says.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use couplet::sim::Options;
use serde_json::{Value, json};
use support::chat::{Collected, chat, collect};
use support::couplet::Couplet;
use support::http;
use support::sim::Engine;
use support::tiny;

const GOOD: &str = "{\"city\": \"Rome\", \"days\": 12}";

fn schema() -> Value {
    json!({"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer"}},
        "required": ["city", "days"], "additionalProperties": false})
}

fn is_valid(text: &str) -> bool {
    let Ok(Value::Object(map)) = serde_json::from_str::<Value>(text) else { return false };
    map.len() == 2 && (map["city"] == "Paris" || map["city"] == "Rome") && map["days"].is_i64()
}

/// A chat bound to the schema, whose engine says a text and goes on with it when it is asked again.
async fn bound(couplet: &Couplet, says: &str, more: Value) -> Value {
    let mut body = chat(says, json!({"max_tokens": 300, "temperature": 1.0}));
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema()}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let rendered = http::post(&format!("{}/v1/chat/completions/render", couplet.url), &body).await.json();
    body["vllm_xargs"]["script_from"] = rendered["token_ids"].as_array().unwrap().len().into();
    body
}

async fn metric(couplet: &Couplet, name: &str) -> f64 {
    let text = http::get(&format!("{}/metrics", couplet.url)).await.text;
    let line = text.lines().find(|line| line.starts_with(&format!("couplet_grammar_{name}_total{{")));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

async fn answer(couplet: &Couplet, body: &Value) -> Value {
    let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

async fn streamed(couplet: &Couplet, body: &Value) -> Collected {
    let mut body = body.clone();
    body["stream"] = true.into();
    collect(&http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await.events())
}

#[tokio::test]
async fn a_model_that_keeps_to_its_grammar_is_left_alone() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let body = bound(&couplet, &format!("as I thought</think>{GOOD}"), json!({})).await;
    let whole = answer(&couplet, &body).await;
    assert_eq!(whole["choices"][0]["message"]["content"], GOOD);
    assert_eq!(whole["choices"][0]["message"]["reasoning"], "as I thought");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["choices"][0]["stop_reason"], Value::Null);
    assert_eq!(metric(&couplet, "requests").await, 1.0);
    assert_eq!(metric(&couplet, "violations").await, 0.0);
    assert_eq!(metric(&couplet, "engine_requests").await, 1.0);
    let told = streamed(&couplet, &body).await;
    assert_eq!((told.content.as_str(), told.reasoning.as_str()), (GOOD, "as I thought"));
    assert_eq!(told.finish_reason.as_deref(), Some("stop"));
}

#[tokio::test]
async fn what_breaks_the_grammar_never_reaches_the_client() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    for says in
        ["</think>Sure! {\"city\": \"Rome\"}", "</think>{\"city\": \"Berlin\", \"days\": 1}", "</think>{}", "</think>"]
    {
        let body = bound(&couplet, says, json!({})).await;
        let whole = answer(&couplet, &body).await;
        let content = whole["choices"][0]["message"]["content"].as_str().unwrap();
        assert!(is_valid(content), "{says:?} became {content:?}");
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
        let told = streamed(&couplet, &body).await;
        assert!(is_valid(&told.content), "{says:?} was streamed as {:?}", told.content);
    }
    assert!(metric(&couplet, "violations").await > 0.0);
}

#[tokio::test]
async fn a_slip_costs_two_requests() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    // Not a number where there should be one; what comes behind it is right again.
    let says = [tiny::ids("</think>{\"city\": \"Rome\", \"days\":"), tiny::ids("x"), tiny::ids("}")].concat();
    let body = bound(&couplet, "", json!({"vllm_xargs": {"script": says}})).await;
    let whole = answer(&couplet, &body).await;
    assert!(is_valid(whole["choices"][0]["message"]["content"].as_str().unwrap()), "{whole}");
    assert_eq!(metric(&couplet, "violations").await, 1.0);
    assert_eq!(metric(&couplet, "engine_requests").await, 3.0, "the reply, one token with a mask, and the rest");
}

#[tokio::test]
async fn calls_that_must_come_do() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let tools = json!([{"type": "function", "function": {"name": "weather", "strict": true, "parameters": schema()}}]);
    let named = json!({"type": "function", "function": {"name": "weather"}});
    for choice in [json!("required"), named] {
        let more =
            json!({"response_format": null, "tools": tools, "tool_choice": choice, "parallel_tool_calls": false});
        let body = bound(&couplet, "</think>I will not call anything.", more).await;
        let whole = answer(&couplet, &body).await;
        let calls = whole["choices"][0]["message"]["tool_calls"].as_array().unwrap();
        assert_eq!(calls.len(), 1, "{whole}");
        assert_eq!(calls[0]["function"]["name"], "weather");
        assert!(is_valid(calls[0]["function"]["arguments"].as_str().unwrap()), "{whole}");
    }
}

#[tokio::test]
async fn every_choice_keeps_to_it_and_each_token_has_its_logprob() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let body = bound(&couplet, "</think>no", json!({"n": 3, "logprobs": true, "return_token_ids": true})).await;
    let whole = answer(&couplet, &body).await;
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for choice in choices {
        assert!(is_valid(choice["message"]["content"].as_str().unwrap()), "{choice}");
        let tokens = choice["token_ids"].as_array().unwrap().len();
        assert_eq!(choice["logprobs"]["content"].as_array().unwrap().len(), tokens);
    }
}

#[tokio::test]
async fn a_reply_that_is_too_long_ends_inside_its_grammar() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let body = bound(&couplet, "</think>x", json!({"max_tokens": 6})).await;
    let whole = answer(&couplet, &body).await;
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"]["completion_tokens"], 6);
    assert!(whole["choices"][0]["message"]["content"].as_str().unwrap().starts_with('{'));
}

#[tokio::test]
async fn completions_keep_to_it_too() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let body = json!({"model": "tiny", "prompt": "x", "max_tokens": 50, "vllm_xargs": {"script": tiny::ids("well")},
        "structured_outputs": {"choice": ["yes", "no"]}});
    let whole = http::post(&format!("{}/v1/completions", couplet.url), &body).await.json();
    assert!(matches!(whole["choices"][0]["text"].as_str(), Some("yes" | "no")), "{whole}");
}

#[tokio::test]
async fn a_grammar_that_is_wrong_is_refused_before_anybody_is_asked() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    for given in [json!({"regex": "("}), json!({"json": {"type": "nonsense"}}), json!({"grammar": "root ::= \"a"})] {
        let answer = http::post(&url, &chat("x", json!({"structured_outputs": given}))).await;
        assert_eq!(answer.status, 400, "{given}: {}", answer.text);
        assert_eq!(answer.json()["error"]["type"], "BadRequestError");
    }
    assert_eq!(metric(&couplet, "engine_requests").await, 0.0);
}

#[tokio::test]
async fn an_engine_with_a_tokenizer_gets_the_grammar() {
    let engine = Engine::start(Options { scale_out: true, ..tiny::engine_options() }).await;
    let couplet = Couplet::start(&[&engine.url]);
    let body = bound(&couplet, &format!("</think>{GOOD}"), json!({})).await;
    let whole = answer(&couplet, &body).await;
    assert_eq!(whole["choices"][0]["message"]["content"], GOOD);
    assert_eq!(metric(&couplet, "requests").await, 0.0);
}

/// Tokens are drawn freely and dropped, or drawn among the allowed: each comes as often as a mask would let it come.
#[tokio::test]
async fn tokens_come_as_often_as_behind_a_mask() {
    const SAMPLES: usize = 20_000;
    const CHOICES: usize = 100;
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let id = |text: &str| tiny::ids(text)[0];
    let allowed: [(&str, u32); 3] = [("a", 50), ("b", 20), ("c", 5)];
    let all = allowed.iter().chain(&[("x", 15), ("y", 10)]);
    let distribution: Vec<u32> = all.flat_map(|(text, weight)| [id(text), *weight]).collect();
    let mut counts = [0_usize; 3];
    for request in 0..SAMPLES / CHOICES {
        let body = json!({
            "model": "tiny", "prompt": "x", "max_tokens": 4, "n": CHOICES, "temperature": 1.0,
            "seed": request * 1000, "vllm_xargs": {"distribution": distribution},
            "structured_outputs": {"choice": ["a", "b", "c"]},
        });
        let answer = http::post(&format!("{}/v1/completions", couplet.url), &body).await.json();
        assert_eq!(answer["choices"].as_array().map(Vec::len), Some(CHOICES), "{answer}");
        for choice in answer["choices"].as_array().unwrap() {
            counts[allowed.iter().position(|(text, _)| choice["text"] == *text).unwrap()] += 1;
        }
    }
    assert_eq!(counts.iter().sum::<usize>(), SAMPLES);
    let squares = allowed.iter().zip(counts).map(|((_, weight), count)| {
        let expected = SAMPLES as f64 * f64::from(*weight) / 75.0;
        (count as f64 - expected).powi(2) / expected
    });
    // Two degrees of freedom: one in a thousand honest coins is beyond this.
    let chi_square: f64 = squares.sum();
    assert!(chi_square < 13.8, "{counts:?}: {chi_square}");
    // A quarter of the first tokens, and whatever follows where only the end may.
    let violations = metric(&couplet, "violations").await;
    assert!((1.22..1.28).contains(&(violations / SAMPLES as f64)), "{violations} violations");
}
