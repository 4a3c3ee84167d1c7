//! Who gets in: rules, tokens, certificates, keys, sockets, and what is recorded of it.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::Gateway;

mod audit;
mod certificates;
mod granting;
mod matrix;
mod pki;
mod provider;
mod rules;
mod scram;
mod siege;
#[cfg(feature = "failpoints")]
mod startup;
mod storage;
mod tokens;
mod unix;

/// A folder for files that a configuration names.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

/// Returns a key of TOML with a path.
pub(crate) fn key(name: &str, path: &Path) -> String {
    format!("{name} = '{}'\n", path.display())
}

/// What a program said, and whether it succeeded.
pub(crate) fn said(output: &std::process::Output) -> (bool, String) {
    (output.status.success(), crate::harness::text(output))
}

/// Runs `psql` with a connection string and a password; the rest of the environment
/// tells it nothing.
pub(crate) fn psql(connection: &str, password: &str, sql: &str) -> (bool, String) {
    let mut command = std::process::Command::new("psql");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.args(["-X", "-w", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", connection, "-c", sql]);
    // Nothing of the user who runs the tests is to be found.
    command.env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "30").env("HOME", "/nonexistent");
    said(&command.stdin(std::process::Stdio::null()).output().unwrap())
}

/// Returns the connection string of a gateway over TCP.
pub(crate) fn over_tcp(gateway: &Gateway, user: &str, more: &str) -> String {
    let address = gateway.pg_addr();
    let (host, port) = (address.ip(), address.port());
    format!("host={host} port={port} dbname=lancegate user={user} {more}")
}

/// Reads the records of an audit file.
pub(crate) fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}
