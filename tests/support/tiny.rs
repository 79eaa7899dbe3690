//! The tiny model of `models/tiny`: text as ids, for scripts that a simulated engine says.

use std::sync::OnceLock;

use couplet::sim::Options;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

/// Where the model lies.
pub const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny");

/// The ids of a text, marks such as `<think>` and `<tool_call>` included.
pub fn ids(text: &str) -> Vec<u32> {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    let tokenizer = TOKENIZER.get_or_init(|| Tokenizer::from_file(format!("{DIR}/tokenizer.json")).unwrap());
    tokenizer.encode(text, false).unwrap().get_ids().to_vec()
}

/// `vllm_xargs` of a chat or completion request that makes the engine say `text`.
pub fn says(text: &str) -> Value {
    json!({"script": ids(text)})
}

/// A simulated engine that fits the model.
pub fn engine_options() -> Options {
    Options {
        model_name: vec!["tiny".to_owned()],
        vocab_size: 2624,
        max_model_len: 8192,
        eos_token_id: vec![2602, 2600],
        ..Options::default()
    }
}
