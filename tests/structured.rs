//! Structured outputs on an engine that refuses grammars, through the front door: what the client gets keeps to its
//! grammar, whatever the model says.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::{Faults, Options};
use serde_json::{Value, json};
use support::chat::{Collected, chat, collect};
use support::couplet::Couplet;
use support::sim::Engine;
use support::{http, pool, tiny};

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

/// The end-to-end case `json_schema_grammar_reject`, in which vLLM gives up: any object may go on for as long as it likes, so
/// here the model wants to close what is open again and again.
#[tokio::test]
async fn an_object_without_bounds_ends_where_the_model_ends_it() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let says = [tiny::ids("</think>{\"a\": 1]"), tiny::ids("\":1}").repeat(500)].concat();
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}});
    let mut body = bound(&couplet, "", json!({"vllm_xargs": {"script": says}, "max_tokens": 2000})).await;
    body["response_format"] = format;
    let whole = answer(&couplet, &body).await;
    let content = whole["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(content.starts_with("{\"a\": 1"), "{content:?}");
    assert!(serde_json::from_str::<Value>(content).is_ok_and(|value| value.is_object()), "{content:?}");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
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
async fn what_a_reply_waits_for_because_of_its_grammar_is_measured() {
    let engine = Engine::start(Options { ttft: Duration::from_millis(100), ..tiny::engine_options() }).await;
    let couplet = Couplet::start(&[&engine.url]);
    let added = async || {
        let name = "couplet_grammar_added_seconds";
        let [sum, count] = ["sum", "count"].map(|part| format!("{name}_{part}"));
        (pool::metric(&couplet, &sum).await, pool::metric(&couplet, &count).await)
    };
    answer(&couplet, &bound(&couplet, &format!("</think>{GOOD}"), json!({})).await).await;
    assert_eq!(added().await, (0.0, 1.0), "the first token is nothing added");
    let says = [tiny::ids("</think>{\"city\": \"Rome\", \"days\":"), tiny::ids("x"), tiny::ids("}")].concat();
    let body = bound(&couplet, "", json!({"vllm_xargs": {"script": says}})).await;
    let start = std::time::Instant::now();
    answer(&couplet, &body).await;
    let without_first = start.elapsed().as_secs_f64() - 0.1;
    let (sum, count) = added().await;
    assert_eq!(count, 2.0);
    assert!((0.2..without_first).contains(&sum), "one token with a mask, and the rest: {sum} s of {without_first}");
}

/// What an engine has said is kept, and nothing of it comes twice, wherever it dies: between two tokens of the model's, at
/// one that is refused, before and behind one that is asked for with a mask.
#[tokio::test]
async fn a_bound_reply_survives_its_engine_wherever_that_dies() {
    let healthy = Engine::start(tiny::engine_options()).await;
    let says = "</think>{\"city\": \"Berlin\", \"days\": x";
    let more = json!({"logprobs": true, "return_token_ids": true});
    let expected = {
        let couplet = Couplet::start(&[&healthy.url]);
        let body = bound(&couplet, says, more.clone()).await;
        answer(&couplet, &body).await["choices"][0].clone()
    };
    assert!(is_valid(expected["message"]["content"].as_str().unwrap()), "{expected}");
    let tokens = expected["token_ids"].as_array().unwrap().len();
    let mut resumes = 0.0;
    for after in 0..tokens as u64 {
        let faults = Faults { die_after_tokens: Some(after), ..Faults::default() };
        let dying = Engine::start(Options { faults, ..tiny::engine_options() }).await;
        for engines in [[&dying.url, &healthy.url], [&healthy.url, &dying.url]] {
            let couplet = pool::serve(&engines.map(String::as_str), &[]);
            let body = bound(&couplet, says, more.clone()).await;
            let whole = answer(&couplet, &body).await;
            for key in ["message", "token_ids", "finish_reason"] {
                assert_eq!(whole["choices"][0][key], expected[key], "{key}, dead after {after}");
            }
            let content = |choice: &Value| choice["logprobs"]["content"].as_array().unwrap().len();
            assert_eq!(content(&whole["choices"][0]), content(&expected));
            assert_eq!(whole["usage"]["completion_tokens"], tokens);
            resumes += pool::metric(&couplet, "couplet_engine_resumes_total").await;
        }
    }
    // Engines are asked in turns, so each of the two sees but a part of the reply.
    assert!(resumes >= 6.0, "{resumes} times another engine went on, of {tokens} tokens twice");
}

/// The same with an engine that is gone for good while it computes.
#[tokio::test]
async fn a_bound_reply_survives_the_sudden_death_of_its_engine() {
    let slow =
        || Options { ttft: Duration::from_millis(400), itl: Duration::from_millis(30), ..tiny::engine_options() };
    let says = [tiny::ids("</think>{\"city\": \"Rome\", \"days\":"), tiny::ids("x"), tiny::ids("}")].concat();
    // Asked in turns: the first for the reply, the second for one token with a mask.
    for (name, victim, asks, pause) in [("first token", 0, 1.0, 0), ("middle", 0, 1.0, 550), ("masked step", 1, 2.0, 0)]
    {
        let mut engines = [Some(Engine::start(slow()).await), Some(Engine::start(slow()).await)];
        let urls = engines.each_ref().map(|engine| engine.as_ref().unwrap().url.clone());
        let couplet = pool::serve(&urls.each_ref().map(String::as_str), &[]);
        let body = bound(&couplet, "", json!({"vllm_xargs": {"script": says}})).await;
        let death = async {
            while metric(&couplet, "engine_requests").await < asks {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            engines[victim].as_ref().unwrap().running_becomes(1).await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            engines[victim] = None;
        };
        let (told, ()) = tokio::join!(streamed(&couplet, &body), death);
        assert!(is_valid(&told.content), "{name}: {told:?}");
        assert!(told.content.starts_with("{\"city\": \"Rome\", \"days\":"), "{name}: {told:?}");
        assert_eq!(told.finish_reason.as_deref(), Some("stop"), "{name}");
        assert!(pool::metric(&couplet, "couplet_engine_failures_total").await >= 1.0, "{name}: nothing died");
        assert_eq!(metric(&couplet, "violations").await, 1.0, "{name}");
    }
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

const SAMPLES: usize = 20_000;
const CHOICES: usize = 100;

/// How often each of these tokens comes first, of [`SAMPLES`] drawn from a distribution under a grammar.
async fn draw(couplet: &Couplet, allowed: [(&str, u32); 3], forbidden: &[(&str, u32)], more: &Value) -> [usize; 3] {
    let all = allowed.iter().chain(forbidden);
    let distribution: Vec<u32> = all.flat_map(|(text, weight)| [tiny::ids(text)[0], *weight]).collect();
    let mut counts = [0_usize; 3];
    for request in 0..SAMPLES / CHOICES {
        let mut body = json!({
            "model": "tiny", "prompt": "x", "n": CHOICES, "temperature": 1.0, "seed": request * 1000,
            "vllm_xargs": {"distribution": distribution},
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = http::post(&format!("{}/v1/completions", couplet.url), &body).await.json();
        assert_eq!(answer["choices"].as_array().map(Vec::len), Some(CHOICES), "{answer}");
        for choice in answer["choices"].as_array().unwrap() {
            counts[allowed.iter().position(|(text, _)| choice["text"] == *text).unwrap()] += 1;
        }
    }
    assert_eq!(counts.iter().sum::<usize>(), SAMPLES);
    counts
}

/// Two degrees of freedom: one in a thousand honest coins is beyond 13.8.
fn assert_honest(counts: [usize; 3], allowed: [(&str, u32); 3]) {
    let whole: u32 = allowed.iter().map(|(_, weight)| weight).sum();
    let squares = allowed.iter().zip(counts).map(|((_, weight), count)| {
        let expected = SAMPLES as f64 * f64::from(*weight) / f64::from(whole);
        (count as f64 - expected).powi(2) / expected
    });
    let chi_square: f64 = squares.sum();
    assert!(chi_square < 13.8, "{counts:?}: {chi_square}");
}

/// Tokens are drawn freely and dropped, or drawn among the allowed: each comes as often as a mask would let it come.
#[tokio::test]
async fn tokens_come_as_often_as_behind_a_mask() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let allowed = [("a", 50), ("b", 20), ("c", 5)];
    let more = json!({"max_tokens": 4, "structured_outputs": {"choice": ["a", "b", "c"]}});
    assert_honest(draw(&couplet, allowed, &[("x", 15), ("y", 10)], &more).await, allowed);
    // A quarter of the first tokens, and whatever follows where only the end may.
    let violations = metric(&couplet, "violations").await / SAMPLES as f64;
    assert!((1.22..1.28).contains(&violations), "{violations} violations");
}

/// The same where most tokens may come: a token that is refused is drawn again freely, and only then with a mask.
#[tokio::test]
async fn tokens_that_are_drawn_again_come_as_often_too() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let allowed = [("a", 40), ("b", 15), ("c", 5)];
    let more = json!({"max_tokens": 1, "structured_outputs": {"regex": "[^xy]+"}});
    assert_honest(draw(&couplet, allowed, &[("x", 30), ("y", 10)], &more).await, allowed);
    // Two fifths are refused, and two fifths of those again, which are then asked for with a mask.
    let (violations, asks) = (metric(&couplet, "violations").await, metric(&couplet, "engine_requests").await);
    let (violations, asks) = (violations / SAMPLES as f64, asks / SAMPLES as f64);
    assert!((0.54..0.58).contains(&violations), "{violations} violations");
    assert!((asks - 1.0 - violations).abs() < 1e-9, "{asks} asks for {violations} violations");
}
