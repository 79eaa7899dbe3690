//! The fixture of a dialect: outputs of a model, each with the whole answer that we make of it.
//!
//! ```json
//! {
//!   "tool_parser": "hermes", "reasoning_parser": null,
//!   "tokens": ["<tool_call>", "</tool_call>"],
//!   "cases": [{"name": "a call", "output": "q1 <tool_call>…</tool_call>", "message": {…}}]
//! }
//! ```
//!
//! `tokens` are single tokens of the model, `response_template` is what its files say. A case may have `request` (fields of the chat request), `prompt` (text of
//! which only tokens matter), `cut` (the output was cut or is malformed: a stream may differ from the whole answer),
//! `drops` (sentinels that the dialect drops), `doubles` (the dialect says reasoning again as content). An output may be a list: then `{"text": "<think>"}` is text that only
//! spells a token. Words `q1`, `q2`, … are sentinels: each must come out exactly once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use couplet::parsers::{Context, Dialect, Vocabulary};
use serde_json::{Value, json};

use crate::request::context;

/// Stands for every token that is not in the list.
const TEXT: u32 = 1_000_000;

/// A fixture file.
pub(crate) struct Fixture {
    pub(crate) path: PathBuf,
    pub(crate) json: Value,
    pub(crate) dialect: Arc<Dialect>,
    tokens: Vec<String>,
}

/// A piece of an output that only a tokenizer could divide further.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// A token by its place in the list.
    Token(u32, String),
    /// Text.
    Text(String),
}

/// Where fixtures live.
pub(crate) fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dialects")
}

/// All fixtures, in order.
pub(crate) fn all() -> Vec<Fixture> {
    let mut paths: Vec<_> = std::fs::read_dir(dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
    paths.sort();
    paths.into_iter().map(Fixture::load).collect()
}

impl Fixture {
    fn load(path: PathBuf) -> Self {
        let json: Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let tokens: Vec<String> = serde_json::from_value(json["tokens"].clone()).unwrap();
        let ids: HashMap<_, _> = tokens.iter().cloned().zip(0..).collect();
        let special = json["special"].as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned());
        let response_template = json.get("response_template").cloned();
        let special = special.map(|text| (ids[&text], text)).collect();
        let vocabulary = Vocabulary { special, ids, response_template };
        let model_type = json["model_type"].as_str().unwrap_or("llama");
        let parsers = [json["tool_parser"].as_str(), json["reasoning_parser"].as_str()];
        let dialect = Dialect::new(parsers[0], parsers[1], &vocabulary, model_type, true);
        Self { dialect: Arc::new(dialect.unwrap().unwrap()), path, json, tokens }
    }

    pub(crate) fn cases(&self) -> impl Iterator<Item = &Value> {
        self.json["cases"].as_array().unwrap().iter()
    }

    /// A plan for a case.
    pub(crate) fn plan(&self, case: &Value) -> couplet::parsers::Plan {
        let mut request = case.get("request").cloned().unwrap_or(json!({}));
        if request.get("tools").is_none() {
            request["tools"] = self.json.get("tools").cloned().unwrap_or(json!([]));
        }
        let prompt = self.divide(&case["prompt"]).into_iter().map(|piece| piece.id()).collect::<Vec<_>>();
        let prompt_text = case["prompt"].as_str().unwrap_or_default().to_owned();
        self.dialect.plan(Context { prompt_text, ..context(&request, &prompt) })
    }

    /// Divides an output at its tokens.
    pub(crate) fn divide(&self, output: &Value) -> Vec<Piece> {
        match output {
            Value::String(text) => self.divide_text(text),
            Value::Array(parts) => parts
                .iter()
                .flat_map(|part| match part {
                    Value::Object(_) => vec![Piece::Text(part["text"].as_str().unwrap().to_owned())],
                    _ => self.divide(part),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn divide_text(&self, mut text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while !text.is_empty() {
            let next = self
                .tokens
                .iter()
                .enumerate()
                .filter_map(|(id, token)| Some((text.find(token)?, std::cmp::Reverse(token.len()), id)));
            let Some((at, _, id)) = next.min() else {
                pieces.push(Piece::Text(text.to_owned()));
                break;
            };
            if at > 0 {
                pieces.push(Piece::Text(text[..at].to_owned()));
            }
            let token = &self.tokens[id];
            pieces.push(Piece::Token(id as u32, token.clone()));
            text = &text[at + token.len()..];
        }
        pieces
    }
}

impl Piece {
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Token(id, _) => *id,
            Self::Text(_) => TEXT,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Token(_, text) | Self::Text(text) => text,
        }
    }
}
