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
