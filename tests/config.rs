//! What is said of wrong configurations, and that the commented one names every key.
//!
//! A case is `tests/fixtures/config/NAME.yaml` with all problems in `NAME.txt`. `UPDATE=1` writes the latter; read the diff.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use couplet::config::Draft;
use couplet::config::file::File;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/config");
const CONFIGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config");

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The variables that are set in the cases.
fn variable(name: &str) -> Option<String> {
    (name == "COUPLET_TEST_WORD").then(|| "word".to_owned())
}

fn problems(path: &Path) -> String {
    let said = Draft::read_with(path, &variable).and_then(Draft::check).unwrap_err().to_string();
    said.replace(&format!("{CASES}/"), "") + "\n"
}

#[test]
fn every_problem_is_told_with_its_place() {
    for case in files(CASES) {
        let (said, expected) = (problems(&case), case.with_extension("txt"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&expected, &said).unwrap();
        }
        assert_eq!(said, std::fs::read_to_string(&expected).unwrap(), "{}", case.display());
    }
}

#[test]
fn no_secret_is_told() {
    let said = problems(&Path::new(CASES).join("secrets.yaml"));
    for secret in ["12345", "secret-value", "two\nlines"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn variables_may_be_numbers_and_secrets_may_lie_in_files() {
    let folder = tempfile::tempdir().unwrap();
    let (config, key) = (folder.path().join("c.yaml"), folder.path().join("key"));
    std::fs::write(&key, "from-file\n").unwrap();
    let yaml = "port: ${PORT}\napi_key: [\"${KEY}\", \"file:KEY\"]\nmodels:\n  - model: m\n    enable_auto_tool_choice: ${ON}\n    \
                engines:\n      - url: http://${HOST:-localhost}:1\n        api_key: file:KEY\n        headers: {x-a: \"${KEY}\"}\n";
    std::fs::write(&config, yaml.replace("file:KEY", &format!("file:{}", key.display()))).unwrap();
    let variable = |name: &str| match name {
        "PORT" => Some("81".to_owned()),
        "KEY" => Some("007".to_owned()),
        "ON" => Some("true".to_owned()),
        _ => None,
    };
    let settings = Draft::read_with(&config, &variable).unwrap().check().unwrap();
    assert_eq!((settings.port, settings.api_keys), (81, vec!["007".to_owned(), "from-file".to_owned()]));
    let engine = &settings.models[0].engines[0];
    assert!(settings.models[0].load.enable_auto_tool_choice);
    assert_eq!(engine.url, "http://localhost:1");
    assert_eq!(engine.access.headers["authorization"], "Bearer from-file");
    assert_eq!(engine.access.headers["x-a"], "007");
}

#[test]
fn every_file_in_config_is_read() {
    for file in files(CONFIGS) {
        let settings = File::read(&file).unwrap().check();
        settings.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

/// Every key of the structs stands in the commented file; of its examples nothing is wrong but that two exclude each other.
#[test]
fn the_commented_file_names_every_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("couplet.yaml");
    let yaml = std::fs::read_to_string(Path::new(CONFIGS).join("couplet.yaml")).unwrap();
    std::fs::write(&file, set_examples(&yaml)).unwrap();
    let draft = File::read(&file).unwrap();
    let named: BTreeSet<String> = draft.keys().map(|key| key.replace("[0]", "[]")).collect();
    let mut missing = Vec::new();
    for (within, known) in known_keys() {
        let key = |name: &String| if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
        missing.extend(known.iter().map(key).filter(|key| !named.contains(key)));
    }
    assert!(missing.is_empty(), "config/couplet.yaml does not name {}", missing.join(", "));
    let problems = draft.check().unwrap_err().to_string();
    assert!(problems.ends_with("models[0].discovery: give either dns: NAME:PORT or srv: NAME"), "{problems}");
    assert_eq!(problems.lines().count(), 1, "{problems}");
}

/// The file with its examples as keys.
fn set_examples(yaml: &str) -> String {
    let example = |line: &str| {
        let (indent, rest) = line.split_once('#')?;
        let is_example = indent.trim().is_empty() && rest.starts_with(|c: char| c.is_ascii_lowercase());
        is_example.then(|| format!("{indent}{rest}"))
    };
    yaml.lines().map(|line| example(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// The keys that may stand in each place, as the refusal of a wrong one lists them.
fn known_keys() -> Vec<(String, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    let places = [
        ("", "_: 1"),
        ("models[]", "models: [{_: 1}]"),
        ("models[].pool", "models: [{pool: {_: 1}}]"),
        ("models[].engines[]", "models: [{engines: [{_: 1}]}]"),
        ("models[].discovery", "models: [{discovery: {_: 1}}]"),
    ];
    let known = |(within, yaml): (&str, &str)| {
        std::fs::write(&file, yaml).unwrap();
        let error = File::read(&file).unwrap().check().unwrap_err();
        let wrong = error.problems.iter().find(|problem| problem.said.starts_with("unknown key")).unwrap();
        let names = wrong.said.split_once("known are ").unwrap().1;
        (within.to_owned(), names.split(", ").map(str::to_owned).collect())
    };
    places.into_iter().map(known).collect()
}
