//! The direction of imports: each folder may use only what the house plan lets it use, and the pure ones are pure.

#![expect(clippy::unwrap_used, reason = "a test that panics has reported")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of `src` → folders that it may import.
const MAY_USE: [(&str, &[&str]); 18] = [
    ("main", &["cli"]),
    ("cli", &["app", "config", "demo", "endpoints", "engine", "sim", "parsers", "model", "traces"]),
    ("demo", &["app", "config", "sim"]),
    ("app", &["config", "server", "endpoints", "engine", "metrics", "model", "parsers", "traces"]),
    ("config", &["engine", "model"]),
    ("server", &["endpoints", "respond", "api", "metrics", "traces"]),
    (
        "endpoints",
        &["api", "model", "render", "engine", "derender", "grammar", "respond", "metrics", "parsers", "traces"],
    ),
    ("render", &["api", "model", "parsers"]),
    ("derender", &["api", "model", "parsers"]),
    ("grammar", &["model", "parsers"]),
    ("engine", &["api", "metrics", "traces"]),
    ("respond", &["api", "derender", "metrics", "parsers"]),
    ("model", &["api", "parsers"]),
    ("sim", &["api"]),
    ("metrics", &[]),
    ("traces", &["metrics"]),
    ("parsers", &[]),
    ("api", &[]),
];

/// Folders that know no runtime, no clock, no metrics.
const PURE: [&str; 5] = ["render", "derender", "parsers", "grammar", "api"];
const IMPURE: [&str; 6] = ["tokio", "hyper", "reqwest", "prometheus", "std::time::Instant", "SystemTime::now"];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

/// Every source file by its top folder, with the lines that are code.
fn files() -> Vec<(String, PathBuf, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    let read = |path: PathBuf| {
        let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
        let top = first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned).collect();
        (top, path, code)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn folders_import_only_what_stands_behind_them() {
    let may_use: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    let mut wrong = BTreeSet::new();
    for (top, path, code) in files().into_iter().filter(|(top, ..)| top != "lib") {
        let allowed = may_use.get(top.as_str()).unwrap_or_else(|| panic!("src/{top} is not in the plan"));
        for line in code {
            for used in line.match_indices("crate::").filter_map(|(at, word)| line.get(at + word.len()..)) {
                let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                if !used.is_empty() && used != top && !allowed.contains(&used) {
                    wrong.insert(format!("{} uses crate::{used}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports against the plan:\n{}", wrong.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn the_core_is_pure() {
    for (top, path, code) in files().into_iter().filter(|(top, ..)| PURE.contains(&top.as_str())) {
        for (line, word) in code.iter().flat_map(|line| IMPURE.map(|word| (line, word))) {
            assert!(!line.contains(word), "src/{top} is pure, but {} says {line:?}", path.display());
        }
    }
}
