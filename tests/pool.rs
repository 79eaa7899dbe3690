//! Several engines behind one address: who gets a request, and what a client sees when an engine fails.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::time::Duration;

use couplet::sim::{Faults, Options};
use serde_json::{Value, json};
use support::chat::chat;
use support::pool::{TEXT, assert_complete, engine, metric, scripted, serve, stream};
use support::sim::Engine;
use support::{http, tiny};

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

/// How many requests each engine got.
async fn counts(engines: &[Engine]) -> Vec<f64> {
    let mut counts = Vec::new();
    for engine in engines {
        counts.push(engine.metric("vllm:request_success_total").await);
    }
    counts
}

#[tokio::test]
async fn a_session_stays_with_its_engine() {
    let engines = [engine(Faults::default()).await, engine(Faults::default()).await, engine(Faults::default()).await];
    let urls = engines.each_ref().map(|engine| engine.url.as_str());
    let by_user = serve(&urls, &["policy: session"]);
    let by_header = serve(&urls, &["policy: session", "session_header: x-conversation"]);
    let mut engines_seen = std::collections::BTreeSet::new();
    for session in 0..8 {
        let (name, before) = (format!("session {session}"), counts(&engines).await);
        // The header wins over the user, and both couplets agree.
        for (couplet, header, user) in [(&by_user, None, &*name), (&by_header, Some(&*name), "somebody else")] {
            for _ in 0..2 {
                let headers: Vec<_> = header.iter().map(|name| ("x-conversation", *name)).collect();
                let body = chat(TEXT, json!({"user": user})).to_string().into_bytes();
                let url = format!("{}/v1/chat/completions", couplet.url);
                assert_eq!(http::send("POST", &url, &headers, Some(body)).await.status, 200);
            }
        }
        let got: Vec<f64> = counts(&engines).await.iter().zip(&before).map(|(after, before)| after - before).collect();
        engines_seen.insert(got.iter().position(|count| *count == 4.0).unwrap_or_else(|| panic!("{name}: {got:?}")));
    }
    assert!(engines_seen.len() > 1, "eight sessions, one engine");
}

#[tokio::test]
async fn a_chat_goes_on_where_its_beginning_was_served() {
    let engines = [engine(Faults::default()).await, engine(Faults::default()).await, engine(Faults::default()).await];
    let couplet = serve(&engines.each_ref().map(|engine| engine.url.as_str()), &["policy: prefix"]);
    for chat_number in 0..6 {
        let before = counts(&engines).await;
        let said = format!("Chat {chat_number}: {}", "tell me something new about it. ".repeat(40));
        let mut messages = vec![json!({"role": "user", "content": said})];
        for _ in 0..4 {
            let mut body = chat(TEXT, json!({}));
            body["messages"] = messages.clone().into();
            let answer = http::post(&format!("{}/v1/chat/completions", couplet.url), &body).await;
            messages.push(json!({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]}));
            messages.push(json!({"role": "user", "content": "Go on, please."}));
        }
        let got: Vec<f64> = counts(&engines).await.iter().zip(&before).map(|(after, before)| after - before).collect();
        assert!(got.contains(&4.0), "chat {chat_number}: {got:?}");
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
