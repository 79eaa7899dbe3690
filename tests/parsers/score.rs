//! Scores a set of recorded files as `check.py` does: whole answers, merged and exact streams, self-agreement.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use couplet::parsers::Dialect;
use serde_json::{Map, Value, json};

use crate::golden::{context, expand, load, normal, unfold};
use crate::model::Model;
use crate::replay::Output;

#[derive(Default, Clone, Copy)]
struct Score {
    right: usize,
    all: usize,
}

impl Score {
    fn add(&mut self, right: bool) -> bool {
        self.right += usize::from(right);
        self.all += 1;
        right
    }
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = if self.all == 0 { 100.0 } else { 100.0 * self.right as f64 / self.all as f64 };
        f.pad(&format!("{}/{} {percent:.1}%", self.right, self.all))
    }
}

#[derive(Default)]
struct Scores {
    once: Score,
    merged: Score,
    exact: Score,
    own: Score,
    misses: String,
}

pub(crate) fn run(goldens: &Path, models: &Path, pick: &str) {
    let defs: Value = serde_json::from_slice(&std::fs::read(goldens.join("defs.json")).unwrap()).unwrap();
    let mut loaded: HashMap<String, Model> = HashMap::new();
    let mut paths: Vec<_> =
        std::fs::read_dir(goldens.join("given")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let verbose = std::env::var("COUPLET_MISSES").unwrap_or_default();
    println!("{:42} {:>16} {:>18} {:>18} {:>18}", "", "once", "agree merged", "agree exact", "self");
    for path in paths {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !pick.split(' ').any(|pick| name.contains(pick)) {
            continue;
        }
        let mut scores = Scores::default();
        for line in load(&path).iter().filter(|line| line.get("outputs").is_some() && line.get("body").is_none()) {
            let model = line["model"].as_str().unwrap();
            let model = loaded.entry(model.to_owned()).or_insert_with(|| Model::load(&models.join(model)));
            case(line, model, &defs, &mut scores);
        }
        let Scores { once, merged, exact, own, misses } = scores;
        if once.all > 0 {
            println!("{name:42} {once:>16} {merged:>18} {exact:>18} {own:>18}");
        }
        for miss in
            misses.lines().filter(|miss| verbose.split(' ').any(|kind| !kind.is_empty() && miss.starts_with(kind)))
        {
            println!("    {miss}");
        }
    }
}

fn case(line: &Value, model: &Model, defs: &Value, scores: &mut Scores) {
    let tools = line["tool_parser"].as_str();
    let reasoning = line["reasoning_parser"].as_str();
    let auto = line["enable_auto_tool_choice"] != json!(false);
    let Ok(Some(dialect)) = Dialect::new(tools, reasoning, &model.vocabulary, &model.model_type, auto) else { return };
    let dialect = Arc::new(dialect);
    let request = expand(&line["chat_request"], defs);
    let prompt: Vec<u32> =
        line["prompt_token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let id = line["id"].as_str().unwrap();
    let mut whole = Value::Null;
    for (i, output) in line["outputs"].as_array().unwrap().iter().enumerate() {
        let output = Output::new(model, &dialect, context(&request, &prompt), &request, output);
        whole = normal(&output.once());
        let wanted = line["once"]["choices"].get(i).map_or(Value::Null, |choice| {
            let mut choice = normal(choice);
            choice.as_object_mut().unwrap().retain(|key, _| key == "message" || key == "finish_reason");
            choice
        });
        if !scores.once.add(wanted == whole) {
            let _ = writeln!(scores.misses, "once {id}: want {wanted} got {whole}");
        }
    }
    let output = &line["outputs"][0];
    let output = Output::new(model, &dialect, context(&request, &prompt), &request, output);
    for stream in line["streams"].as_array().into_iter().flatten() {
        let lens = lens(&stream["lens"], output.len());
        let got: Vec<_> = output.stream(&lens).iter().map(normal).collect();
        let wanted: Vec<_> = stream["chunks"].as_array().unwrap().iter().map(|chunk| plain(&unfold(chunk))).collect();
        let mode = stream["mode"].as_str().unwrap();
        if line["agree"] == json!(true) {
            let (want, have) = (merge(&wanted), merge(&got));
            if !scores.merged.add(want == have) {
                let _ = writeln!(scores.misses, "merged {id} {mode}: want {want} got {have}");
            }
            if !scores.exact.add(wanted == got) {
                let at = wanted.iter().zip(&got).position(|(a, b)| a != b).unwrap_or(wanted.len().min(got.len()));
                let (want, have) = (wanted.get(at), got.get(at));
                let _ = writeln!(scores.misses, "exact {id} {mode} at {at}: want {want:?} got {have:?}");
            }
        }
        if line["outputs"].as_array().unwrap().len() == 1 {
            let (want, have) = (essence_of_whole(&whole), essence(&merge(&got)));
            if !scores.own.add(want == have) {
                let _ = writeln!(scores.misses, "self {id} {mode}: once {want} stream {have}");
            }
        }
    }
}

fn plain(choice: &Value) -> Value {
    let mut choice = normal(choice);
    if let Some(members) = choice.as_object_mut() {
        members.retain(|key, _| key == "delta" || key == "finish_reason");
    }
    choice
}

fn lens(spec: &Value, total: usize) -> Vec<usize> {
    match spec {
        Value::Array(lens) => lens.iter().map(|len| len.as_u64().unwrap() as usize).collect(),
        _ => match spec.as_u64().unwrap() as usize {
            0 => vec![total],
            len => (0..total).step_by(len).map(|start| len.min(total - start)).collect(),
        },
    }
}

/// Concatenates a stream as a client would.
fn merge(chunks: &[Value]) -> Value {
    let mut out = Map::new();
    let mut append = |key: &str, text: &Value| {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            let before = out.entry(key).or_insert(json!("")).as_str().unwrap().to_owned();
            out.insert(key.to_owned(), json!(before + text));
        }
    };
    for chunk in chunks {
        let delta = &chunk["delta"];
        append("content", &delta["content"]);
        append("reasoning", &delta["reasoning"]);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = call["index"].as_u64().unwrap_or(0);
            append(&format!("call {index:03} id"), &call["id"]);
            append(&format!("call {index:03} name"), &call["function"]["name"]);
            append(&format!("call {index:03} arguments"), &call["function"]["arguments"]);
        }
        append("finish_reason", &chunk["finish_reason"]);
    }
    let mut sorted: Vec<_> = out.into_iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(sorted.into_iter().collect())
}

/// What a reader sees of a merged stream: no white space at edges, arguments as JSON.
fn essence(merged: &Value) -> Value {
    let trimmed = |key: &str| merged[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let calls: Vec<_> = (0..)
        .map(|index| [format!("call {index:03} name"), format!("call {index:03} arguments")])
        .take_while(|[name, arguments]| !merged[name].is_null() || !merged[arguments].is_null())
        .map(|[name, arguments]| json!([merged[name], as_json(merged[arguments].as_str().unwrap_or_default())]))
        .collect();
    json!({"content": trimmed("content"), "reasoning": trimmed("reasoning"), "calls": calls, "finish": merged["finish_reason"]})
}

fn essence_of_whole(choice: &Value) -> Value {
    let message = &choice["message"];
    let trimmed = |key: &str| message[key].as_str().map(str::trim).filter(|text| !text.is_empty());
    let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
        json!([call["function"]["name"], as_json(call["function"]["arguments"].as_str().unwrap_or_default())])
    });
    let calls: Vec<_> = calls.collect();
    json!({"content": trimmed("content"), "reasoning": trimmed("reasoning"), "calls": calls, "finish": choice["finish_reason"]})
}

fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}
