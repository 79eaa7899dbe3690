//! `couplet_parser_fallback_total`: what looked like a tool call and became content is counted, on every path.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use serde_json::{Value, json};
use support::chat::chat;
use support::couplet::Couplet;
use support::http;
use support::sim::Engine;
use support::tiny;

const PING: &str = "{\"type\": \"function\", \"function\": {\"name\": \"ping\", \"parameters\": {}}}";

fn tools() -> Value {
    json!([serde_json::from_str::<Value>(PING).unwrap()])
}

/// The counter by reason, without those that stand at zero from the start.
async fn counted(couplet: &Couplet) -> Vec<(String, u64)> {
    let metrics = http::get(&format!("{}/metrics", couplet.url)).await.text;
    let line = |line: &str| {
        let (series, value) =
            line.strip_prefix("couplet_parser_fallback_total{dialect=\"hermes\",reason=\"")?.split_once("\"}")?;
        Some((series.to_owned(), value.trim().parse::<u64>().unwrap()))
    };
    metrics.lines().filter_map(line).filter(|(_, count)| *count > 0).collect()
}

#[tokio::test]
async fn a_malformed_and_an_unfinished_call_are_counted_and_plain_text_is_not() {
    let engine = Engine::start(tiny::engine_options()).await;
    let couplet = Couplet::start(&[&engine.url]);
    let url = format!("{}/v1/chat/completions", couplet.url);
    let says = |text: &str, stream: bool| chat(text, json!({"tools": tools(), "stream": stream}));
    let malformed = "</think>a <tool_call>\n{\"name\": ping}\n</tool_call> b";
    let unfinished = "</think>a <tool_call>\n{\"na";
    let well = "</think>a {\"name\": 1} [b] <tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";
    for stream in [true, false] {
        let couplet = Couplet::start(&[&engine.url]);
        let url = format!("{}/v1/chat/completions", couplet.url);
        for text in [well, "</think>just text"] {
            http::post(&url, &says(text, stream)).await;
        }
        assert_eq!(counted(&couplet).await, [], "stream: {stream}");
        let answer = http::post(&url, &says(malformed, stream)).await.text;
        assert!(answer.contains("ping"), "{answer}");
        http::post(&url, &says(unfinished, stream)).await;
        let once = |reason: &str| (reason.to_owned(), 1);
        assert_eq!(counted(&couplet).await, [once("malformed_call"), once("unfinished_call")], "stream: {stream}");
    }
    // A call that was announced and then cut is text in a whole answer only.
    let cut = "</think><tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": ";
    http::post(&url, &says(cut, true)).await;
    assert_eq!(counted(&couplet).await, []);
    http::post(&url, &says(cut, false)).await;
    assert_eq!(counted(&couplet).await, [("unfinished_call".to_owned(), 1)]);
}

#[tokio::test]
async fn the_derender_routes_count_as_well() {
    let couplet = Couplet::start(&[]);
    let url = format!("{}/v1/chat/completions/derender", couplet.url);
    let ids = tiny::ids("</think><tool_call>\n{\"name\": ping}\n</tool_call>");
    let request = json!({"model": "tiny", "messages": [{"role": "user", "content": "ping"}], "tools": tools()});
    let choice = |ids: &[u32], finish: Option<&str>| json!({"index": 0, "token_ids": ids, "finish_reason": finish});
    let whole = json!({
        "model": "tiny", "chat_request": request, "prompt_token_ids": [1], "prompt_tokens": 1,
        "generate_response": {"request_id": "r", "choices": [choice(&ids, Some("stop"))]},
    });
    assert_eq!(http::post(&url, &whole).await.status, 200);
    assert_eq!(counted(&couplet).await, [("malformed_call".to_owned(), 1)]);

    let mut state = Value::Null;
    let (last, first) = ids.split_last().unwrap();
    for (ids, finish) in [(first, None), (&[*last][..], Some("stop"))] {
        let chunk = json!({
            "stream": true, "model": "tiny", "chat_request": request, "prompt_token_ids": [1], "prompt_tokens": 1,
            "generate_chunk": {"request_id": "r", "choices": [choice(ids, finish)]}, "stream_state": state,
        });
        let answer = http::post(&url, &chunk).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        state = answer.json()["stream_state"].take();
    }
    assert_eq!(counted(&couplet).await, [("malformed_call".to_owned(), 2)]);
}
