//! Any bytes as the body of the derender routes, with and without parsers: an answer or a 4xx, never a panic or a 500.
//!
//! `cargo fuzz run --fuzz-dir tests/fuzz derender -- -max_total_time=600`

#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use couplet::app::App;
use couplet::config::file::{File, ModelFile};
use couplet::endpoints::{Context, derender};
use libfuzzer_sys::fuzz_target;

/// The tiny model, plain and with the hermes and qwen3 dialects.
static SERVERS: LazyLock<[Arc<Context>; 2]> = LazyLock::new(|| [server(None, None), server(Some("hermes"), Some("qwen3"))]);

fn server(tools: Option<&str>, reasoning: Option<&str>) -> Arc<Context> {
    let model = ModelFile {
        model: Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny").to_owned()),
        served_model_name: vec!["m".to_owned()],
        tool_call_parser: tools.map(str::to_owned),
        reasoning_parser: reasoning.map(str::to_owned),
        enable_auto_tool_choice: Some(tools.is_some()),
        ..ModelFile::default()
    };
    let settings = File { models: vec![model], ..File::default() }.check().expect("settings of the fuzz target");
    App::load(settings).expect("the tiny model loads").context()
}

fuzz_target!(|data: &[u8]| {
    let Some((first, body)) = data.split_first() else { return };
    let (context, body) = (&SERVERS[usize::from(first & 1)], Bytes::copy_from_slice(body));
    let answer = if first & 2 == 0 { derender::chat(context, &body) } else { derender::completions(context, &body) };
    if let Err(error) = answer {
        assert!((400..500).contains(&error.status), "{error}");
    }
});
