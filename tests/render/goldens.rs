//! The recorded answers. A line of `goldens.jsonl` is a request, and the status and JSON that vLLM answered.

use serde_json::{Map, Value};

use super::server::{post, prompt_text};

/// Where the template engine is not Python: see `tests/conformance/DIFFERENCES.md`.
const OTHERWISE: [&str; 6] = [
    "trap/compare_mixed",
    "trap/groupby_index",
    "trap/percent_format",
    "trap/macro_kwargs",
    "trap/print_range",
    "trap/int_parse",
];

/// Every request gets vLLM's answer: each field of it, and each error's status, type, parameter and code. Texts of
/// errors that Python or Jinja raise inside a template are their own. What is listed as different is different.
#[test]
fn every_recorded_request_is_answered_as_vllm_did() {
    let lines: Vec<Value> =
        include_str!("goldens.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 196, "every recorded answer is compared");
    let different = |line: &Value| OTHERWISE.contains(&line["id"].as_str().unwrap());
    let wrong: Vec<String> = lines.iter().filter(|line| !different(line)).filter_map(difference).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
    let agree: Vec<&Value> = lines.iter().filter(|line| different(line) && difference(line).is_none()).collect();
    assert!(agree.is_empty(), "no difference any more: {agree:?}");
}

fn difference(line: &Value) -> Option<String> {
    let id = line["id"].as_str()?;
    let (status, got) = post(line["path"].as_str()?, &line["request"]);
    let want = &line["answer"];
    if line["status"] != status {
        return Some(format!("{id}: want {} {want}\n  got {status} {got} {}", line["status"], prompt_text(&got)));
    }
    if status != 200 {
        let parts = ["type", "param", "code"];
        let differs = parts.iter().find(|part| want["error"][**part] != got["error"][**part]);
        return differs.map(|part| format!("{id}: another {part}: want {want}\n  got {got}"));
    }
    if want["token_ids"] != got["token_ids"] {
        return Some(format!("{id}:\n  want {:?}\n  got  {:?}", prompt_text(want), prompt_text(&got)));
    }
    let (want, got) = (without_nulls(want), without_nulls(&got));
    (!same(&want, &got)).then(|| format!("{id}:\n  want {want}\n  got  {got}"))
}

/// Null and absent mean the same, except in what users write, which is the same on both sides.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, item)| !item.is_null());
            Value::Object(kept.map(|(key, item)| (key.clone(), without_nulls(item))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

fn same(want: &Value, got: &Value) -> bool {
    match (want, got) {
        (Value::Number(want), Value::Number(got)) => want == got || want.as_f64() == got.as_f64(),
        (Value::Array(want), Value::Array(got)) => {
            want.len() == got.len() && want.iter().zip(got).all(|(want, got)| same(want, got))
        }
        (Value::Object(want), Value::Object(got)) => {
            want.len() == got.len() && want.iter().all(|(key, item)| got.get(key).is_some_and(|got| same(item, got)))
        }
        _ => want == got,
    }
}
