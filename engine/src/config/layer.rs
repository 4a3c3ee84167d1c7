//! Where values come from, and how the later source wins: defaults, then the
//! TOML file, then the environment, then flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use toml::{Table, Value};

use super::keys::{self, KEYS, LISTS, List};
use super::kind::Kind;
use super::problem::{Origin, Problem, Problems};

/// What every variable of ours starts with.
pub const ENVIRONMENT_PREFIX: &str = "LANCEGATE_";
/// The variable that names the file; it is the default of `--config`, not a key.
pub const CONFIG_VARIABLE: &str = "LANCEGATE_CONFIG";

/// Values by dotted key, each with the place that set it.
#[derive(Debug, Default)]
pub(super) struct Layers {
    values: BTreeMap<String, (Value, Origin)>,
    problems: Problems,
}

impl Layers {
    /// Starts with the defaults of the table of keys.
    pub(super) fn with_defaults() -> Self {
        let mut layers = Self::default();
        for key in KEYS {
            if let Some(text) = key.default {
                layers.set_text(key.path, text, &Origin::Default);
            }
        }
        layers
    }

    /// Adds the keys of a file's text.
    pub(super) fn add_file(&mut self, path: &Path, text: &str) {
        let origin = Origin::File(path.to_owned());
        match text.parse::<Table>() {
            Ok(table) => self.add_table("", table, &origin),
            Err(error) => {
                let what = format!("is not TOML: {}", error.to_string().trim().replace('\n', "\n  "));
                self.problems.push(Problem::new(path.display().to_string(), what));
            }
        }
    }

    /// Adds every variable with our prefix: `LANCEGATE_PG__LISTEN` is `pg.listen`.
    pub(super) fn add_environment(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) {
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|name| name.starts_with(ENVIRONMENT_PREFIX)) else {
                continue;
            };
            if name == CONFIG_VARIABLE || crate::failpoint::is_variable(name) {
                continue;
            }
            let path = name[ENVIRONMENT_PREFIX.len()..].replace("__", ".").to_lowercase();
            let origin = Origin::Environment(name.to_owned());
            match value.to_str() {
                Some(value) => self.set_text(&path, value, &origin),
                None => self.problems.push(Problem::new(path, "is not UTF-8 text").from_origin(&origin)),
            }
        }
    }

    /// Adds one flag's value.
    pub(super) fn add_flag(&mut self, flag: &str, path: &str, text: &str) {
        self.set_text(path, text, &Origin::Flag(flag.to_owned()));
    }

    /// Returns the merged table and where each key was set.
    ///
    /// # Errors
    /// Everything that any source got wrong.
    pub(super) fn finish(self) -> Result<(Table, Origins), Problems> {
        self.problems.into_result()?;
        let mut table = Table::new();
        let mut origins = Origins::default();
        for (path, (value, origin)) in self.values {
            insert(&mut table, &path, value);
            origins.0.insert(path, origin);
        }
        Ok((table, origins))
    }

    fn add_table(&mut self, prefix: &str, table: Table, origin: &Origin) {
        for (name, value) in table {
            let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            match value {
                Value::Table(inner) if is_section(&path) => self.add_table(&path, inner, origin),
                value => match LISTS.iter().find(|list| list.name == path) {
                    Some(list) => self.add_list(list, value, origin),
                    None => self.set(&path, value, origin),
                },
            }
        }
    }

    /// Checks the entries of a list of tables, which is kept as one value.
    fn add_list(&mut self, list: &List, value: Value, origin: &Origin) {
        let name = list.name;
        let Some(entries) = value.as_array().filter(|entries| entries.iter().all(Value::is_table)) else {
            let problem = Problem::new(name, format!("is a list of tables; write [[{name}]] above each"));
            self.problems.push(problem.from_origin(origin));
            return;
        };
        for (index, entry) in entries.iter().enumerate() {
            let Some(entry) = entry.as_table() else { continue };
            for (key, value) in entry {
                self.ensure_allowed(&format!("{name}[{index}].{key}"), value, origin);
            }
            for required in &list.keys[..2] {
                if !entry.contains_key(required.path) {
                    let path = format!("{name}[{index}].{}", required.path);
                    let what = format!("is missing; use {}", required.kind.allowed());
                    self.problems.push(Problem::new(path, what).from_origin(origin));
                }
            }
        }
        self.values.insert(name.to_owned(), (value, origin.clone()));
    }

    fn set_text(&mut self, path: &str, text: &str, origin: &Origin) {
        let Some(key) = keys::find(path).filter(|_| !path.contains('[')) else {
            return self.refuse_unknown(path, origin);
        };
        // Text that is not allowed is reported as what was typed.
        let value = key.kind.read(text).unwrap_or_else(|| Value::String(text.to_owned()));
        self.set(path, value, origin);
    }

    fn set(&mut self, path: &str, value: Value, origin: &Origin) {
        if self.ensure_allowed(path, &value, origin) {
            self.values.insert(path.to_owned(), (value, origin.clone()));
        }
    }

    fn ensure_allowed(&mut self, path: &str, value: &Value, origin: &Origin) -> bool {
        let Some(key) = keys::find(path) else {
            self.refuse_unknown(path, origin);
            return false;
        };
        let misplaced = key.kind == Kind::Password && !matches!(origin, Origin::Environment(_));
        if key.kind.allows(value) && !misplaced {
            return true;
        }
        let shown = if key.kind.is_secret() { String::new() } else { format!("{value} ") };
        let what = format!("{shown}is not allowed; use {}", key.kind.allowed());
        self.problems.push(Problem::new(path, what.trim_start()).from_origin(origin));
        false
    }

    fn refuse_unknown(&mut self, path: &str, origin: &Origin) {
        let what = match (keys::nearest(path), origin) {
            (Some(known), Origin::Environment(_)) => {
                format!("there is no such key; did you mean {}?", variable(known))
            }
            (Some(known), _) => format!("there is no such key; did you mean \"{known}\"?"),
            (None, _) => "there is no such key; `lancegate config-example` prints all of them".to_owned(),
        };
        self.problems.push(Problem::new(path, what).from_origin(origin));
    }
}

/// Where each key of the merged table was set.
#[derive(Debug, Default)]
pub(super) struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Returns a problem with `key` that says where it was set, unless that is the default.
    pub(super) fn problem(&self, key: &str, what: impl Into<String>) -> Problem {
        let problem = Problem::new(key, what);
        match self.0.get(key) {
            Some(origin) if *origin != Origin::Default => problem.from_origin(origin),
            _ => problem,
        }
    }
}

/// Returns the environment variable that sets `path`.
fn variable(path: &str) -> String {
    format!("{ENVIRONMENT_PREFIX}{}", path.replace('.', "__").to_uppercase())
}

fn is_section(path: &str) -> bool {
    path == keys::GPU_DEFAULT || keys::SECTIONS.iter().any(|section| section.name == path)
}

fn insert(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            let inner = inner.as_table_mut().expect("no key of the table is also a section");
            insert(inner, rest, value);
        }
        None => {
            table.insert(path.to_owned(), value);
        }
    }
}
