//! Temporary tables: known to one session, and gone with it.
//!
//! They are Lance tables below [`FOLDER`] of the data root that no name in the
//! metadata store points to. Only the session that made one finds it, under the
//! schema `pg_temp_<session>`, which nobody can make; so whoever is bound to one may
//! do with it what they like. What a crash leaves is removed at the next start.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use lancegate_catalog::Table;
use sqlparser::ast::OnCommit;

use crate::exec::Engine;

/// Where the files are.
pub(crate) const FOLDER: &str = "_lancegate/temp";
/// How the schemas of temporary tables begin.
const SCHEMA_PREFIX: &str = "pg_temp_";
/// The name of the caller's own schema of them.
const OWN_SCHEMA: &str = "pg_temp";

/// Returns the schema of a session's temporary tables.
pub(crate) fn schema(session: i32) -> String {
    format!("{SCHEMA_PREFIX}{session}")
}

/// Returns whether a namespace is one of temporary tables.
pub(crate) fn is_temporary(namespace: &[String]) -> bool {
    matches!(namespace, [only] if only.starts_with(SCHEMA_PREFIX))
}

/// Returns whether a schema name is about temporary tables, of whatever session.
pub(crate) fn names_temporary(schema: &str) -> bool {
    schema == OWN_SCHEMA || schema.starts_with(SCHEMA_PREFIX)
}

/// A temporary table.
#[derive(Debug, Clone)]
pub(crate) struct TempTable {
    pub(crate) record: Table,
    /// What the end of a transaction does with it.
    pub(crate) on_commit: OnCommit,
    /// Whether the open block has made it.
    pub(crate) is_new: bool,
}

/// The temporary tables of a session.
#[derive(Debug, Default)]
pub struct TempTables {
    tables: Mutex<BTreeMap<String, TempTable>>,
    /// What deletes the files when the session ends.
    engine: OnceLock<Engine>,
}

impl TempTables {
    /// Returns the table of a name, if `schema` is none or the session's own.
    pub(crate) fn find(&self, session: i32, schema_name: Option<&str>, name: &str) -> Option<Table> {
        let own = schema_name.is_none_or(|named| named == OWN_SCHEMA || named == schema(session));
        own.then(|| self.tables().get(name).map(|table| table.record.clone())).flatten()
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<TempTable> {
        self.tables().values().cloned().collect()
    }

    /// Adds one.
    pub(crate) fn add(&self, engine: &Engine, table: TempTable) {
        let _ = self.engine.set(engine.clone());
        self.tables().insert(table.record.name.name.clone(), table);
    }

    /// Takes away those that `gone` picks; their files are the caller's to delete.
    pub(crate) fn take(&self, gone: impl Fn(&TempTable) -> bool) -> Vec<Table> {
        let mut tables = self.tables();
        let (taken, kept) = std::mem::take(&mut *tables).into_iter().partition(|(_, table)| gone(table));
        *tables = kept;
        let taken: BTreeMap<String, TempTable> = taken;
        taken.into_values().map(|table| table.record).collect()
    }

    /// Makes the tables of an open block those of the session.
    pub(crate) fn settle(&self) {
        self.tables().values_mut().for_each(|table| table.is_new = false);
    }

    fn tables(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, TempTable>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TempTables {
    fn drop(&mut self) {
        let tables = self.take(|_| true);
        let Some(engine) = self.engine.get().filter(|_| !tables.is_empty()) else { return };
        let engine = engine.clone();
        // Nobody waits for it; what is not deleted now is at the next start.
        engine.query_runtime().spawn(async move { engine.delete_temporary(&tables).await });
    }
}
