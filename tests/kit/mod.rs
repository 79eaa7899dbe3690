//! Replays answers recorded from real vLLM (`tests/conformance/goldens`) against this build, in process.
//!
//! A golden line is one case: `once` is the one-shot answer, `streams` are the same output sent in chunks, with the
//! `stream_state` of the previous answer in each request. Chunks are written short: `"x"` is a delta with content only,
//! `{"r": "x"}` with reasoning only, `{"a": [i, "x"]}` with arguments of call i only, `{"t": "x"}` completion text, `0` an
//! empty delta, anything else `{"choices": […]}` in full, `{"status": …}` an error.

#![allow(unreachable_pub, dead_code, reason = "shared by test drivers, each of which uses a part")]

mod normal;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use couplet::api::error::ApiError;
use couplet::app::App;
use couplet::config::file::{File, ModelFile};
use couplet::endpoints::{Context, derender};
use serde_json::{Map, Value, json};

pub use normal::{close, compact_chunk, compact_state, merge, once_result, same};

/// The name by which the recorded requests ask for the model.
const MODEL_NAME: &str = "parity";

/// One recorded case.
pub struct Case {
    pub file: String,
    pub line: Value,
}

/// What a check compared, and how it came out.
pub struct Check {
    pub part: String,
    pub exact: bool,
    pub merged: bool,
    pub state: bool,
    pub want: Value,
    pub got: Value,
}

/// Folder of the recorded data.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// All cases of the golden files whose names `wanted` accepts, with shared definitions filled in.
pub fn cases(wanted: impl Fn(&str) -> bool) -> Vec<Case> {
    let folder = root().join("goldens");
    let defs: HashMap<String, Value> = serde_json::from_slice(&fs::read(folder.join("defs.json")).unwrap()).unwrap();
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let Some(file) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl")) else { continue };
        if !wanted(file) {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line = widen(&expand(&serde_json::from_str(line).unwrap(), &defs));
            cases.push(Case { file: file.to_owned(), line });
        }
    }
    cases
}

/// Replaces `"@name"` by the shared definition.
fn expand(value: &Value, defs: &HashMap<String, Value>) -> Value {
    match value {
        Value::String(text) => defs.get(text).unwrap_or(value).clone(),
        Value::Array(items) => items.iter().map(|item| expand(item, defs)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), expand(item, defs))).collect(),
        other => other.clone(),
    }
}

/// Writes out `{"repeat": [x, n]}`.
fn widen(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.len() == 1 && map.contains_key("repeat") => {
            let item = widen(&map["repeat"][0]);
            Value::Array(vec![item; map["repeat"][1].as_u64().unwrap() as usize])
        }
        Value::Object(map) => map.iter().map(|(key, item)| (key.clone(), widen(item))).collect(),
        Value::Array(items) => items.iter().map(widen).collect(),
        other => other.clone(),
    }
}

/// Loaded models by directory and parser flags.
#[derive(Default)]
pub struct Servers(BTreeMap<String, Arc<Context>>);

impl Servers {
    /// The server for a case, loaded at its first use.
    pub fn of(&mut self, case: &Case) -> Arc<Context> {
        let text = |key: &str| case.line[key].as_str().map(str::to_owned);
        let (model, tool, reasoning) = (text("model").unwrap(), text("tool_parser"), text("reasoning_parser"));
        let auto = case.line["enable_auto_tool_choice"] == true;
        let key = format!("{model} {tool:?} {reasoning:?} {auto}");
        Arc::clone(self.0.entry(key).or_insert_with(|| {
            let model = ModelFile {
                model: Some(root().join("models").join(model).display().to_string()),
                served_model_name: vec![MODEL_NAME.to_owned()],
                tool_call_parser: tool,
                reasoning_parser: reasoning,
                enable_auto_tool_choice: Some(auto),
                ..ModelFile::default()
            };
            let settings = File { models: vec![model], ..File::default() }.check().unwrap();
            App::load(settings).unwrap().context()
        }))
    }
}

/// Runs a case: the one-shot answer, then every stream.
pub fn check(context: &Context, case: &Case) -> Vec<Check> {
    let line = &case.line;
    let mut checks = Vec::new();
    if let Some(want) = line.get("once") {
        let got = once(context, line);
        let equal = same(want, &got);
        checks.push(Check {
            part: "once".to_owned(),
            exact: equal,
            merged: equal,
            state: true,
            want: want.clone(),
            got,
        });
    }
    for stream in line["streams"].as_array().into_iter().flatten() {
        let (got, states) = run_stream(context, line, stream);
        let want = stream["chunks"].as_array().unwrap();
        checks.push(Check {
            part: format!("stream-{}", stream["mode"].as_str().unwrap_or_default()),
            exact: want.len() == got.len() && want.iter().zip(&got).all(|(want, got)| same(want, got)),
            merged: close(&merge(want), &merge(&got)),
            state: close(stream.get("state").unwrap_or(&json!({})), &states),
            want: Value::Array(want.clone()),
            got: Value::Array(got),
        });
    }
    checks
}

/// The one-shot answer of this build, normalised.
pub fn once(context: &Context, line: &Value) -> Value {
    let body = line.get("body").cloned().unwrap_or_else(|| once_body(line));
    let (status, answer) = post(context, line, &body);
    once_result(status, answer)
}

fn once_body(line: &Value) -> Value {
    let outputs = line["outputs"].as_array().unwrap();
    let choices: Vec<Value> = outputs
        .iter()
        .enumerate()
        .map(|(index, output)| {
            json!({
                "index": index, "token_ids": output["token_ids"], "finish_reason": output["finish_reason"],
                "stop_reason": output["stop_reason"],
            })
        })
        .collect();
    json!({
        "model": MODEL_NAME,
        "generate_response": {"request_id": "parity", "choices": choices},
        "prompt_tokens": line["prompt_token_ids"].as_array().unwrap().len(),
        "prompt_token_ids": line["prompt_token_ids"],
        "chat_request": line["chat_request"],
    })
}

/// Chunks and final states of a stream, normalised.
fn run_stream(context: &Context, line: &Value, stream: &Value) -> (Vec<Value>, Value) {
    let bodies = match stream.get("bodies") {
        Some(bodies) => bodies.as_array().unwrap().clone(),
        None => stream_bodies(line, &chunk_lens(&stream["lens"], &line["outputs"][0]["token_ids"])),
    };
    run_bodies(context, line, bodies)
}

/// Sends bodies one after the other, each with the state that the previous one returned.
pub fn run_bodies(context: &Context, line: &Value, bodies: Vec<Value>) -> (Vec<Value>, Value) {
    let mut chunks = Vec::new();
    let mut states: BTreeMap<String, Value> = BTreeMap::new();
    for mut body in bodies {
        let map = body.as_object_mut().unwrap();
        let key = map.shift_remove("state_key").map_or_else(|| "0".to_owned(), |key| key.to_string());
        if !map.contains_key("stream_state") {
            map.insert("stream_state".to_owned(), states.get(&key).cloned().unwrap_or_default());
        }
        let (status, mut answer) = post(context, line, &body);
        if status != 200 {
            chunks.push(normal::error_of(status, &answer));
            break;
        }
        states.insert(key, answer["stream_state"].take());
        chunks.push(compact_chunk(answer["chunk"].take()));
    }
    let states: Map<String, Value> = states.into_iter().map(|(key, state)| (key, compact_state(&state))).collect();
    (chunks, Value::Object(states))
}

/// The requests that send the first output of a case in chunks of these lengths.
pub fn stream_bodies(line: &Value, lens: &[usize]) -> Vec<Value> {
    let output = &line["outputs"][0];
    let mut rest = output["token_ids"].as_array().unwrap().as_slice();
    let body = |(at, len): (usize, &usize)| {
        let (chunk, later) = rest.split_at(*len);
        rest = later;
        let last = at + 1 == lens.len();
        let at_end = |key: &str| if last { output[key].clone() } else { Value::Null };
        json!({
            "stream": true,
            "model": MODEL_NAME,
            "generate_chunk": {"request_id": "parity", "choices": [{
                "index": 0, "token_ids": chunk, "finish_reason": at_end("finish_reason"),
                "stop_reason": at_end("stop_reason"),
            }]},
            "prompt_tokens": line["prompt_token_ids"].as_array().unwrap().len(),
            "prompt_token_ids": line["prompt_token_ids"],
            "chat_request": line["chat_request"],
        })
    };
    lens.iter().enumerate().map(body).collect()
}

/// A list of lengths, or one length for all; 0 is a single chunk.
fn chunk_lens(spec: &Value, ids: &Value) -> Vec<usize> {
    let total = ids.as_array().unwrap().len();
    match spec {
        Value::Array(lens) => lens.iter().map(|len| len.as_u64().unwrap() as usize).collect(),
        spec => match spec.as_u64().unwrap() as usize {
            0 => vec![total],
            len => (0..total).step_by(len).map(|start| len.min(total - start)).collect(),
        },
    }
}

/// Calls an endpoint as its route would.
pub fn post(context: &Context, line: &Value, body: &Value) -> (u16, Value) {
    let body = Bytes::from(body.as_str().map_or_else(|| body.to_string(), str::to_owned));
    let answer: Result<Bytes, ApiError> = match line["endpoint"].as_str().unwrap() {
        "/v1/chat/completions/derender" => derender::chat(context, &body),
        "/v1/completions/derender" => derender::completions(context, &body),
        other => panic!("no such endpoint: {other}"),
    };
    match answer {
        Ok(bytes) => (200, serde_json::from_slice(&bytes).unwrap()),
        Err(error) => (error.status, error.body.to_json()),
    }
}
