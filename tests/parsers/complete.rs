//! Adding a dialect is one file, one registry line and one fixture: none may be missing.

use std::collections::BTreeSet;
use std::path::Path;

use couplet::parsers::registry;

use crate::fixture;

#[test]
fn every_dialect_has_its_file_its_line_and_its_fixture() {
    let stems = |dir: &Path, kind: &str| -> BTreeSet<String> {
        let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|found| found == kind));
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let files = stems(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/parsers/dialects"), "rs");
    let fixtures = stems(&fixture::dir(), "json");
    let names: Vec<_> = registry().into_iter().map(|entry| [&[entry.name][..], &entry.aliases].concat()).collect();
    let lines: BTreeSet<String> = names.iter().flatten().map(|name| name.replace('-', "_")).collect();
    for file in &files {
        assert!(lines.contains(file), "{file}.rs has no line in the registry");
        assert!(fixtures.contains(file), "{file}.rs has no fixture");
    }
    for group in names {
        let has_file = group.iter().any(|name| files.contains(&name.replace('-', "_")));
        assert!(has_file, "none of {group:?} has a file in src/parsers/dialects");
    }
    for fixture in &fixtures {
        assert!(files.contains(fixture), "{fixture}.json is of no dialect");
    }
}

#[test]
fn names_are_unique_per_kind() {
    let mut names: Vec<_> = registry().into_iter().map(|entry| (entry.name, format!("{:?}", entry.kind))).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}
