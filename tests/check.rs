//! `couplet check`, as somebody who sets couplet up runs it.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

mod support;

use std::process::{Command, Output};

use couplet::sim::Options;
use support::sim::Engine;
use support::tiny;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny");

fn check(flags: &[&str]) -> (Option<i32>, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_couplet")).arg("check").args(flags).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The verdict and the text of a line.
fn line<'t>(table: &'t str, what: &str) -> (&'t str, &'t str) {
    let rest = table.lines().find_map(|line| line.strip_prefix(what).filter(|rest| rest.starts_with(' ')));
    rest.unwrap_or_else(|| panic!("no {what} in\n{table}")).trim_start().split_once(' ').unwrap()
}

#[test]
fn a_model_that_works_is_told_line_by_line() {
    let (code, table) = check(&[
        "--model",
        TINY,
        "--tool-call-parser",
        "auto",
        "--reasoning-parser",
        "qwen3",
        "--enable-auto-tool-choice",
    ]);
    assert_eq!(code, Some(0), "{table}");
    for (what, verdict, part) in [
        ("model", "ok", "tokens"),
        ("tokenizer", "ok", "fast"),
        ("chat", "ok", "renders to"),
        ("tool chat", "ok", "renders to"),
        ("tool calls", "ok", "hermes ("),
        ("reasoning", "ok", "qwen3 ("),
        ("engine", "note", "none"),
    ] {
        let (found, told) = line(&table, what);
        assert!(found == verdict && told.contains(part), "{what}: {part} is missing in\n{table}");
    }
    let tokens = |what| line(&table, what).1.trim().split(' ').nth(2).unwrap().parse::<usize>().unwrap();
    assert!(tokens("tool chat") > tokens("chat"), "{table}");
}

#[test]
fn what_is_wrong_is_told_with_its_reason() {
    for (flags, what, part) in [
        (vec!["--model", "/no/such/model"], "start", "/no/such/model"),
        (vec!["--model", TINY, "--reasoning-parser", "qwem3"], "start", "qwen3"),
        (vec!["--model", TINY, "--chat-template", "{{ raise_exception('not today') }}"], "chat", "not today"),
        (vec!["--model", TINY, "--chat-template", "{% if %}"], "start", "template"),
        (vec!["--model", TINY, "--engine", "http://127.0.0.1:9"], "engine", "127.0.0.1:9"),
    ] {
        let (code, table) = check(&flags);
        let (verdict, told) = line(&table, what);
        assert_eq!((code, verdict), (Some(1), "WRONG"), "{table}");
        assert!(told.contains(part), "{part} is missing in\n{table}");
    }
}

/// A template that refuses tools is wrong only where calls are to be parsed.
#[test]
fn tools_are_wanted_where_they_can_be_called() {
    let template = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}{{ messages[0].content }}";
    let (code, table) = check(&["--model", TINY, "--chat-template", template]);
    assert_eq!((code, line(&table, "tool chat").0), (Some(0), "note"), "{table}");
    let (code, table) = check(&[
        "--model",
        TINY,
        "--chat-template",
        template,
        "--tool-call-parser",
        "hermes",
        "--enable-auto-tool-choice",
    ]);
    assert_eq!((code, line(&table, "tool chat").0), (Some(1), "WRONG"), "{table}");
}

/// An engine that would get no requests is told with the reason; one that would get them with what it is.
#[tokio::test]
async fn an_engine_is_asked_what_it_is() {
    let short = Options { max_model_len: 100, ..tiny::engine_options() };
    let other = Options { model_name: vec!["other".to_owned()], ..tiny::engine_options() };
    for (options, code, verdict, part) in [
        (tiny::engine_options(), 0, "ok", "TokensOnly, serves tiny"),
        (short, 0, "note", "its context of 100 tokens is shorter"),
        (other, 1, "WRONG", "it serves other, not"),
    ] {
        let engine = Engine::start(options).await;
        let url = engine.url.clone();
        let checked = tokio::task::spawn_blocking(move || {
            check(&["--model", TINY, "--served-model-name", "tiny", "--engine", &url])
        });
        let (found, table) = checked.await.unwrap();
        assert_eq!((found, line(&table, "engine").0), (Some(code), verdict), "{table}");
        assert!(line(&table, "engine").1.contains(part), "{part} is missing in\n{table}");
    }
}

#[test]
fn all_problems_of_a_configuration_are_told_at_once() {
    let wrong = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/config/unknown_key.yaml");
    let (code, table) = check(&["--config", wrong]);
    assert_eq!((code, line(&table, "start").0), (Some(1), "WRONG"), "{table}");
    for word in ["hots", "did you mean weight?", "every", "color"] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
}
