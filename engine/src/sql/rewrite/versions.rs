//! Clauses of FROM and of a query that DataFusion's binder passes over in
//! silence: a version is taken out and remembered, the others are refused.

use std::collections::HashMap;
use std::ops::ControlFlow;

use lancegate_sql::ObjectName;
use lancegate_sql::ast::VersionReference;
use sqlparser::ast::{self as native, Ident, Query, Statement, TableAlias, TableFactor, VisitMut, VisitorMut};

use crate::error::{Result, SqlError};

/// A table at a version, as a statement names both.
#[derive(Debug, Clone)]
pub struct Versioned {
    /// The table.
    pub table: ObjectName,
    /// The version.
    pub at: VersionReference,
}

/// Tables at versions by the names that they have in the rewritten statement.
/// No object can have such a name.
pub type Versions = HashMap<String, Versioned>;

/// Gives every table that is read at a version a name of its own, so that it
/// may also stand in the statement at another one.
///
/// # Errors
/// 0A000 for TABLESAMPLE, for locks, and for a version that is an expression.
pub fn take(statement: &mut Statement) -> Result<Versions> {
    let mut take = Take(Versions::new());
    match statement.visit(&mut take) {
        ControlFlow::Continue(()) => Ok(take.0),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Take(Versions);

impl VisitorMut for Take {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match query.locks.first() {
            None => ControlFlow::Continue(()),
            Some(lock) => ControlFlow::Break(
                SqlError::not_supported(format!("FOR {} is not supported here", lock.lock_type))
                    .hint("A SELECT that is a statement of its own locks rows."),
            ),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        if let TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } = factor {
            return ControlFlow::Break(
                SqlError::not_supported("TABLESAMPLE is not supported")
                    .hint("ORDER BY random() LIMIT <n> picks rows at random."),
            );
        }
        let TableFactor::Table { name, alias, version, .. } = factor else { return ControlFlow::Continue(()) };
        let Some(version) = version.take() else { return ControlFlow::Continue(()) };
        match (VersionReference::from_native(&version), ObjectName::from_native(name)) {
            (Some(at), Some(table)) => {
                self.rename(name, alias, Versioned { table, at });
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(
                SqlError::not_supported("a version that is an expression is not supported")
                    .hint("Write FOR SYSTEM_TIME AS OF VERSION <n>, TAG '<tag>' or TIMESTAMP '<time>'."),
            ),
        }
    }
}

impl Take {
    fn rename(&mut self, name: &mut native::ObjectName, alias: &mut Option<TableAlias>, versioned: Versioned) {
        alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', versioned.table.name.clone()),
            columns: Vec::new(),
            at: None,
        });
        let ObjectName { database, schema, name: table } = &versioned.table;
        let place = [database, schema].into_iter().flatten().map(|part| format!("{part}.")).collect::<String>();
        let unique = format!("{place}{table} FOR SYSTEM_TIME AS OF {}", versioned.at);
        *name = native::ObjectName::from(vec![Ident::with_quote('"', unique.clone())]);
        self.0.insert(unique, versioned);
    }
}
