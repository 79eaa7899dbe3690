//! What derendering costs: nanoseconds per token on the coupled path, requests and chunks on the stateless one.
//!
//! The output is what an assistant writes: reasoning, an answer, a tool call, with the hermes and qwen3 dialects.

#![expect(clippy::unwrap_used, reason = "a bench that panics has reported")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use couplet::app::App;
use couplet::config::file::{File, ModelFile};
use couplet::endpoints::{Context, derender};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const SENTENCE: &str = "the quick brown fox jumps over the lazy dog while notes describe latency budgets ";
const CALL: &str = "\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
/// Longest reply that is measured, in tokens.
const LONGEST: usize = 50_000;

/// The tiny model, made to accept long replies.
fn server() -> Arc<Context> {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = directory.path().join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["max_position_embeddings"] = json!(2 * LONGEST);
    std::fs::write(&path, config.to_string()).unwrap();
    let model = ModelFile {
        model: Some(directory.path().display().to_string()),
        served_model_name: vec!["tiny".to_owned()],
        tool_call_parser: Some("hermes".to_owned()),
        reasoning_parser: Some("qwen3".to_owned()),
        enable_auto_tool_choice: Some(true),
        ..ModelFile::default()
    };
    App::load(File { models: vec![model], ..File::default() }.check().unwrap()).unwrap().context()
}

/// About `tokens` ids of reasoning, answer and a call.
fn output(context: &Context, tokens: usize) -> Vec<u32> {
    let encode = |text: &str| context.models[0].model.encoder().encode(text, false).unwrap();
    let (sentence, call) = (encode(SENTENCE), encode(CALL));
    let filler = |count: usize| sentence.iter().copied().cycle().take(count).collect::<Vec<u32>>();
    let half = tokens.saturating_sub(call.len() + 4) / 2;
    [encode("<think>"), filler(half), encode("</think>"), filler(half), call].concat()
}

fn request() -> Value {
    json!({
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}}}}],
    })
}

fn one_shot(c: &mut Criterion) {
    let context = server();
    let mut group = c.benchmark_group("one-shot");
    for tokens in [488, 5_000, LONGEST] {
        let ids = output(&context, tokens);
        let body = json!({
            "generate_response": {"request_id": "x", "choices": [{"index": 0, "finish_reason": "stop", "token_ids": ids}]},
            "chat_request": request(),
        });
        let body = Bytes::from(body.to_string());
        group.throughput(Throughput::Elements(ids.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(tokens), &body, |b, body| {
            b.iter(|| derender::chat(black_box(&context), body).unwrap());
        });
    }
    group.finish();
}

/// One chunk of one token at the end of a reply of this length: flat where the state is compact.
fn stateless_chunk(c: &mut Criterion) {
    let context = server();
    for compact in [true, false] {
        let mut group = c.benchmark_group(if compact { "chunk, compact state" } else { "chunk, vLLM's state" });
        for tokens in [500, 5_000, LONGEST] {
            let body = Bytes::from(chunk_after(&context, tokens, compact).to_string());
            group.bench_with_input(BenchmarkId::from_parameter(tokens), &body, |b, body| {
                b.iter(|| derender::chat(black_box(&context), body).unwrap());
            });
        }
        group.finish();
    }
}

/// The request for one more token after `tokens` others.
fn chunk_after(context: &Context, tokens: usize, compact: bool) -> Value {
    let body = |ids: &[u32], state: Value| {
        json!({
            "stream": true, "stream_state": state, "compact_state": compact, "prompt_token_ids": [1, 2, 3],
            "chat_request": request(),
            "generate_chunk": {"request_id": "x", "choices": [{"index": 0, "token_ids": ids}]},
        })
    };
    let ids = output(context, tokens);
    let first = derender::chat(context, &Bytes::from(body(&ids, Value::Null).to_string())).unwrap();
    let state = serde_json::from_slice::<Value>(&first).unwrap()["stream_state"].take();
    body(&ids[2..3], state)
}

criterion_group!(benches, one_shot, stateless_chunk);
criterion_main!(benches);
