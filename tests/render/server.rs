//! The tiny model, loaded once, and its routes without sockets.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use couplet::app::App;
use couplet::config::file::{File, ModelFile};
use couplet::endpoints::{Context, render, tokenize};
use http::HeaderMap;
use serde_json::Value;

static CONTEXT: LazyLock<Arc<Context>> = LazyLock::new(|| {
    let model = ModelFile {
        model: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny").to_owned()),
        served_model_name: vec!["tiny".to_owned()],
        tool_call_parser: Some("hermes".to_owned()),
        reasoning_parser: Some("qwen3".to_owned()),
        enable_auto_tool_choice: Some(true),
        trust_request_chat_template: Some(true),
        max_model_len: Some(4096),
        ..ModelFile::default()
    };
    App::load(File { models: vec![model], ..File::default() }.check().unwrap()).unwrap().context()
});

/// Status and body of one request.
pub(super) fn post(path: &str, body: &Value) -> (u64, Value) {
    post_text(path, &body.to_string())
}

/// As [`post`], for a body that need not be JSON.
pub(super) fn post_text(path: &str, body: &str) -> (u64, Value) {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let headers = HeaderMap::new();
    let result = match path {
        "/v1/chat/completions/render" => render::chat(&CONTEXT, &headers, &body),
        "/v1/completions/render" => render::completions(&CONTEXT, &headers, &body),
        "/tokenize" => tokenize::tokenize(&CONTEXT, &body),
        "/detokenize" => tokenize::detokenize(&CONTEXT, &body),
        other => panic!("no route {other}"),
    };
    match result {
        Ok(bytes) => (200, serde_json::from_slice(&bytes).unwrap()),
        Err(error) => (u64::from(error.status), error.body.to_json()),
    }
}

/// The text of a rendered prompt.
pub(super) fn prompt_text(answer: &Value) -> String {
    let tokens = serde_json::json!({"model": "tiny", "tokens": answer["token_ids"]});
    post("/detokenize", &tokens).1["prompt"].as_str().unwrap_or_default().to_owned()
}
