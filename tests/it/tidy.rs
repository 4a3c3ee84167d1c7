//! Rules about the source text that no compiler checks.

use std::fs;
use std::path::Path;

/// Past this, a file has a seam that nobody has looked for.
const LINES_MAX: usize = 900;

/// Every file of the project's own text, by path from its root.
fn files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", "bin", ".git", "__pycache__", "node_modules"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if is_text(&path) {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 20, "the search for files is broken");
    found.sort();
    found
}

fn is_text(path: &Path) -> bool {
    let named = ["Makefile", "Dockerfile", "run"].iter().any(|name| path.ends_with(name));
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    named || ["rs", "md", "toml", "py", "sql", "slt", "sh", "txt"].contains(&extension)
}

/// Fails with every place where `broken` says what is wrong with a line.
fn check(what: &str, applies: impl Fn(&str) -> bool, broken: impl Fn(&str) -> bool) {
    let mut places = Vec::new();
    for (name, text) in files().iter().filter(|(name, _)| applies(name)) {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| broken(line)) {
            places.push(format!("{name}:{}: {}", number + 1, line.trim()));
        }
    }
    assert!(places.is_empty(), "{what}:\n{}", places.join("\n"));
}

fn is_rust(name: &str) -> bool {
    name.ends_with(".rs")
}

#[test]
fn no_file_is_too_long_to_read() {
    let long: Vec<String> = files()
        .iter()
        .filter(|(name, text)| is_rust(name) && text.lines().count() > LINES_MAX)
        .map(|(name, text)| format!("{name}: {} lines", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "look for the seam in\n{}", long.join("\n"));
}

#[test]
fn a_module_is_a_file_beside_its_folder() {
    let wrong: Vec<String> =
        files().into_iter().map(|(name, _)| name).filter(|name| name.ends_with("mod.rs")).collect();
    assert!(wrong.is_empty(), "use foo.rs beside foo/ instead of {wrong:?}");
}

#[test]
fn a_todo_names_an_issue() {
    // Split, so that this file does not find itself.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    check("name an issue as in (#12), or do it", is_rust, |line| {
        words.iter().any(|word| line.contains(word)) && !line.contains("(#")
    });
}

#[test]
fn no_path_of_one_machine_is_mentioned() {
    let words = [concat!("/work", "/"), concat!("/home", "/"), concat!("/Use", "rs/"), concat!("index.crates", ".io")];
    check("no path or host of one machine belongs here", |_| true, |line| words.iter().any(|word| line.contains(word)));
}

#[test]
fn lance_is_imported_by_its_owners_only() {
    // Table versions pass through binding as they are; the statements that
    // change tables commit through Lance.
    let changes = [
        "adopt",
        "alter",
        "dml",
        "ingest",
        "materialized/refresh",
        "materialized/state",
        "merge",
        "rewrite_rows",
        "tables",
        "turns",
    ];
    let changes = changes.map(|name| format!("engine/src/exec/{name}.rs"));
    let binds = [
        "engine/src/session/pins.rs",
        "engine/src/sql/resolve.rs",
        "engine/src/sql/plan/indexes.rs",
        "engine/src/sql/plan/query.rs",
        "engine/src/sql/plan/search.rs",
        "engine/src/error/refresh.rs",
    ];
    let owned = |name: &str| {
        name.starts_with("engine/src/storage")
            || name.starts_with("engine/src/refresh")
            || changes.iter().any(|owner| owner == name)
            || binds.contains(&name)
    };
    check(
        "only storage, refresh and the statements that change tables speak Lance",
        |name| is_rust(name) && (name.starts_with("src/") || name.starts_with("engine/")) && !owned(name),
        |line| line.trim_start().starts_with("use lance::") || line.contains(concat!("lance", "::dataset")),
    );
}

#[test]
fn the_metadata_store_is_queried_below_one_module() {
    check(
        "only catalog/src/store speaks to the database",
        |name| is_rust(name) && name.starts_with("catalog/src") && !name.starts_with("catalog/src/store"),
        |line| line.contains(concat!("sqlx::", "query")),
    );
}
