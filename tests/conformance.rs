//! Answers recorded from real vLLM 0.33, replayed against this build.
//!
//! `cargo test --test conformance -- --nocapture` prints a row per golden file; `COUPLET_MISSES=hermes+` beside it
//! prints what is not vLLM's, listed or not, in the files whose names have that.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod kit;

use std::collections::BTreeMap;

use kit::{Case, Check, Servers, cases, check, close};
use serde_json::{Value, json};

/// Without a parser everything is exact: texts, logprobs, usage, errors, every chunk, and every field of the state.
#[test]
fn plain_output_is_vllms_to_the_chunk() {
    assert_eq!(all_exact(|file| file.starts_with("plain-")), 551, "every recorded answer was compared");
}

/// Requests around a configured parser: what is missing, what contradicts itself, what is refused.
#[test]
fn requests_around_a_parser_are_answered_as_vllm_does() {
    assert_eq!(all_exact(|file| file == "parser-requests"), 31, "every recorded answer was compared");
}

fn all_exact(wanted: impl Fn(&str) -> bool) -> usize {
    let mut servers = Servers::default();
    let mut checked = 0;
    for case in cases(wanted) {
        let context = servers.of(&case);
        for result in check(&context, &case) {
            let name = format!("{} {} {}", case.file, case.line["id"], result.part);
            assert!(result.exact, "{name}\n want {}\n  got {}", result.want, result.got);
            assert!(result.state, "{name}: stream_state differs");
            checked += 1;
        }
    }
    checked
}

/// How one golden file, or all of them, came out: passed and tried.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    once: (usize, usize),
    merged: (usize, usize),
    exact: (usize, usize),
    itself: (usize, usize),
}

impl Score {
    fn add(&mut self, other: Self) {
        for (sum, part) in [
            (&mut self.once, other.once),
            (&mut self.merged, other.merged),
            (&mut self.exact, other.exact),
            (&mut self.itself, other.itself),
        ] {
            *sum = (sum.0 + part.0, sum.1 + part.1);
        }
    }

    fn row(&self, file: &str) -> String {
        let part = |(passed, tried): (usize, usize)| format!("{passed}/{tried}");
        format!(
            "{file:42} once {:>9}  agreed {:>9}  to the chunk {:>9}  streams = whole {:>9}",
            part(self.once),
            part(self.merged),
            part(self.exact),
            part(self.itself)
        )
    }
}

/// Every dialect, over every recorded combination of parsers. A whole answer is vLLM's unless the case is listed in
/// DIFFERENCES.md; where vLLM's streams agree with its own whole answers, so do ours with both.
#[test]
fn every_dialect_is_right_where_vllm_is_right() {
    let mut files: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    // The gptoss directory's vocabulary is an extract of a public one and stays outside the repository.
    let dialects = cases(|file| !file.starts_with("plain-") && file != "parser-requests");
    for case in dialects.into_iter().filter(|case| case.line["model"] != "gptoss") {
        files.entry(case.file.clone()).or_default().push(case);
    }
    let listed = std::fs::read_to_string(kit::root().join("DIFFERENCES.md")).unwrap();
    let (mut total, mut wrong) = (Score::default(), Vec::new());
    for (file, cases) in files {
        let mut servers = Servers::default();
        let mut score = Score::default();
        for case in &cases {
            let context = servers.of(case);
            score.add(score_of(case, &check(&context, case), &listed, &mut wrong));
        }
        println!("{}", score.row(&file));
        total.add(score);
    }
    println!("{}", total.row("all"));
    assert!(wrong.is_empty(), "{} differences that DIFFERENCES.md does not list:\n{}", wrong.len(), wrong.join("\n"));
    assert!(total.exact.0 * 100 >= total.exact.1 * 95, "too few chunks are vLLM's: {total:?}");
    // What misses are calls that were cut or are malformed, where a whole answer gives the text back: what a stream said of them
    // cannot be unsaid.
    assert!(total.itself.0 * 1000 >= total.itself.1 * 977, "streams and whole answers differ too often: {total:?}");
}

#[expect(clippy::print_stdout, reason = "misses are for people to read")]
fn score_of(case: &Case, checks: &[Check], listed: &str, wrong: &mut Vec<String>) -> Score {
    let mut score = Score::default();
    let id = case.line["id"].as_str().unwrap();
    let prints = std::env::var("COUPLET_MISSES").is_ok_and(|part| case.file.contains(&part));
    // A whole answer gives a cut or malformed call back as text; a stream may have announced it before.
    let is_broken = id.starts_with("truncated") || id.starts_with("bad-");
    let is_listed = is_listed(listed, case);
    let whole = checks.iter().find(|check| check.part == "once").map(|check| told(&check.got["choices"][0]));
    for check in checks {
        let is_once = check.part == "once";
        if prints && !check.exact {
            println!("{id} {} agree {}\n want {}\n  got {}", check.part, case.line["agree"], check.want, check.got);
        }
        if is_once {
            count(&mut score.once, check.exact);
        } else if case.line["agree"] == true {
            count(&mut score.merged, check.merged);
            count(&mut score.exact, check.exact);
        }
        if (is_once || case.line["agree"] == true) && !check.merged && !is_listed {
            wrong.push(format!("{} {id} {}\n want {}\n  got {}", case.file, check.part, check.want, check.got));
        }
        if let Some(whole) = whole.as_ref().filter(|_| !is_once && check.got.as_array().is_some()) {
            let streamed = told(&kit::merge(check.got.as_array().unwrap())["0"]);
            let same = close(&streamed, whole);
            count(&mut score.itself, same);
            if prints && !same {
                println!("{id} {} is not as our whole answer\n  whole {whole}\n stream {streamed}", check.part);
            }
            if !same && !is_broken && !is_listed {
                wrong.push(format!(
                    "{} {id} {} is not as our whole answer\n  whole {whole}\n  stream {streamed}",
                    case.file, check.part
                ));
            }
        }
    }
    score
}

/// Whether DIFFERENCES.md names a case in a section about one of its parsers, or about all.
fn is_listed(differences: &str, case: &Case) -> bool {
    let id = format!("`{}`", case.line["id"].as_str().unwrap());
    let parsers: Vec<&str> =
        ["tool_parser", "reasoning_parser"].iter().filter_map(|key| case.line[key].as_str()).collect();
    let is_about = |section: &str| {
        let heading = section.lines().next().unwrap_or_default();
        let introduction = section.split("\n- ").next().unwrap_or_default();
        let names =
            |name: &&str| heading.split(", ").any(|part| part == *name) || introduction.contains(&format!("`{name}`"));
        heading == "All dialects" || parsers.iter().any(names)
    };
    differences.split("\n## ").skip(1).any(|section| section.contains(&id) && is_about(section))
}

fn count(score: &mut (usize, usize), passed: bool) {
    *score = (score.0 + usize::from(passed), score.1 + 1);
}

/// What a client is told by a merged stream or a whole answer, without the white space at the edges: reasoning, content,
/// calls with their arguments as values.
fn told(choice: &Value) -> Value {
    let message = choice.get("message").unwrap_or(choice);
    let text = |key: &str| message[key].as_str().unwrap_or_default().trim().to_owned();
    let function = |call: &Value| {
        let function = call.get("function").unwrap_or(call);
        let arguments = function["arguments"].as_str().unwrap_or_default();
        json!([function["name"], serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments))])
    };
    let calls: Vec<Value> = match &message["tool_calls"] {
        Value::Array(calls) => calls.iter().map(function).collect(),
        Value::Object(calls) => calls.values().map(function).collect(),
        _ => Vec::new(),
    };
    json!([text("reasoning"), text("content"), calls, choice["finish_reason"]])
}
