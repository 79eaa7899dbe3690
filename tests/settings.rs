//! Flags, environment, file: who wins, and what is said of settings and models that are wrong.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use couplet::config::file::File;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs `couplet serve`, which must refuse to start.
fn refused(args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_couplet"));
    let output = command.args(["serve", "--port", "0"]).args(args).envs(env.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The commented file names every key, with the value that holds where nothing is written.
#[test]
fn the_commented_file_says_the_defaults() {
    let written = File::read(&path("config/couplet.yaml")).unwrap().check().unwrap();
    let least = File::read(&path("config/minimal.yaml")).unwrap().check().unwrap();
    assert_eq!((&written.host, written.port), (&least.host, least.port));
    assert_eq!(written.max_body_bytes, least.max_body_bytes);
    assert_eq!(written.vllm_metric_names, least.vllm_metric_names);
    let (written, least) = (&written.models[0], &least.models[0]);
    assert_eq!(written.pool, least.pool);
    assert_eq!(written.engines, least.engines);
    let (written, least) = (&written.load, &least.load);
    assert_eq!(written.max_logprobs, least.max_logprobs);
    assert_eq!(written.generation_config, least.generation_config);
    assert_eq!(written.content_format, least.content_format);
    assert_eq!(written.trust_request_chat_template, least.trust_request_chat_template);
}

#[test]
fn a_flag_wins_over_the_environment_which_wins_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, "models:\n  - model: from-file\n").unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let from_env = [("COUPLET_MODEL", "/from-env")];
    let named = |output: Output, model: &str| assert!(message(&output).contains(model), "{}", message(&output));
    named(refused(&config, &[]), "from-file");
    named(refused(&config, &from_env), "/from-env");
    named(refused(&[config[0], config[1], "--model", "/from-flag"], &from_env), "/from-flag");
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    let tiny = path("models/tiny").display().to_string();
    let cases: [(&[&str], &[&str]); 8] = [
        (&[], &["models[0].model", "--model"]),
        (&["--model", "/no/such/model"], &["/no/such/model"]),
        (&["--model", &tiny, "--engine", "localhost:8000"], &["localhost:8000", "http://HOST:PORT"]),
        (&["--model", &tiny, "--tool-call-parser", "hermez"], &["hermez", "hermes"]),
        (&["--model", &tiny, "--reasoning-parser", "qwen33"], &["qwen33", "qwen3"]),
        (&["--model", &tiny, "--default-chat-template-kwargs", "[1]"], &["not a JSON object"]),
        (&["--model", &tiny, "--chat-template-content-format", "xml"], &["xml", "auto, string, openai"]),
        (&["--model", &tiny, "--host", "203.0.113.1"], &["203.0.113.1", "--host"]),
    ];
    for (args, words) in cases {
        let said = message(&refused(args, &[]));
        for word in words {
            assert!(said.contains(word), "{args:?} says {said:?}, which does not name {word:?}");
        }
    }
}

#[test]
fn an_unknown_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, "hots: 127.0.0.1\nmodels:\n  - model: x\n").unwrap();
    let said = message(&refused(&["--config", file.to_str().unwrap()], &[]));
    assert!(said.contains("hots") && said.contains("host"), "{said}");
}

#[test]
fn a_pool_that_cannot_work_is_refused_with_all_its_problems() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    let engines = "    engines:\n      - url: engine:8000\n      - url: http://e:8000\n        weight: 0\n";
    let pool = "    pool:\n      token_timeout: -1\n      health_interval: 0\n";
    std::fs::write(&file, format!("models:\n  - model: x\n{engines}{pool}")).unwrap();
    let said = message(&refused(&["--config", file.to_str().unwrap()], &[]));
    for word in ["engine:8000", "weight 0", "pool.token_timeout: -1", "pool.health_interval: 0"] {
        assert!(said.contains(word), "{said} does not name {word:?}");
    }
    std::fs::write(&file, "models:\n  - model: x\n    pool:\n      policy: fastest\n").unwrap();
    let said = message(&refused(&["--config", file.to_str().unwrap()], &[]));
    assert!(said.contains("fastest") && said.contains("power_of_two"), "{said}");
}

/// A model directory with one file broken or gone: the file is named.
#[test]
fn a_broken_model_file_is_named() {
    for (name, content) in [("tokenizer.json", None), ("tokenizer.json", Some("{")), ("config.json", Some("[]"))] {
        let folder = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(path("models/tiny")).unwrap() {
            let from = entry.unwrap().path();
            std::fs::copy(&from, folder.path().join(from.file_name().unwrap())).unwrap();
        }
        let broken = folder.path().join(name);
        match content {
            Some(content) => std::fs::write(&broken, content).unwrap(),
            None => std::fs::remove_file(&broken).unwrap(),
        }
        let said = message(&refused(&["--model", folder.path().to_str().unwrap()], &[]));
        assert!(said.contains(name), "{said}");
    }
}
