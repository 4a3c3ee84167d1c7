//! The examples that the documentation of the statements gives are statements,
//! and print as something that means the same.

#![allow(clippy::unwrap_used, reason = "a test's helper fails the test")]

use std::fs;
use std::path::Path;

use lancegate_sql::{Limits, Statement, parse};

/// Returns the text of every example below a folder, with the file it is in.
fn examples(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            examples(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("//! Example: `"));
        let texts = lines.map(|line| line.strip_suffix('`').unwrap_or_else(|| panic!("{}: {line}", path.display())));
        found.extend(texts.map(|text| (path.display().to_string(), text.to_owned())));
    }
}

fn only(sql: &str) -> Statement {
    let mut parsed = parse(sql, &Limits::default()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(parsed.len(), 1, "{sql}");
    parsed.remove(0).statement
}

#[test]
fn every_documented_example_parses_and_prints_as_itself() {
    let mut found = Vec::new();
    examples(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ast"), &mut found);
    assert!(found.len() >= 19, "each family of statements has an example: {found:?}");
    for (file, text) in found {
        let printed = only(&text).to_string();
        assert_eq!(only(&printed).to_string(), printed, "{file}: {text}");
        let words = |text: &str| text.split_whitespace().next().map(str::to_ascii_uppercase);
        assert_eq!(words(&printed), words(&text), "{file}: {text} is printed as {printed}");
    }
}
