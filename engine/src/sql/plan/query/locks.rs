//! The locks of a query that says FOR UPDATE or FOR SHARE.

use lancegate_auth::{Privilege, Requirement};
use lancegate_catalog::{Table, TableKind};
use lancegate_sql::ObjectName;
use sqlparser::ast::Statement as Native;

use super::{QueryPlan, Read};
use crate::error::{Result, SqlError};
use crate::sql::plan::Planner;
use crate::sql::resolve::object_of;
use crate::sql::rewrite::locking::{Locked, Wait};
use crate::sqlstate::SqlState;

/// A table whose rows are locked.
#[derive(Debug, Clone)]
pub struct RowLock {
    pub(crate) table: Table,
    /// Whether others may lock it like that, too.
    pub(crate) shared: bool,
    pub(crate) wait: Wait,
}

/// The locks of a query, and how it is bound again when it has them.
#[derive(Debug, Clone)]
pub struct Locking {
    /// By the tables' ids, so that sessions take them in one order.
    pub(crate) locks: Vec<RowLock>,
    needs: Vec<Read>,
    planner: Planner,
    statement: Native,
}

impl Locking {
    /// Binds the query at what its names stand for now.
    ///
    /// # Errors
    /// As SELECT.
    pub(crate) async fn bind(self) -> Result<QueryPlan> {
        let mut plan = self.planner.bind_query(self.statement).await?;
        plan.reads.extend(self.needs);
        Ok(plan)
    }
}

impl Planner {
    /// Adds the locks of a query to its plan. As in PostgreSQL the caller needs UPDATE for them.
    ///
    /// # Errors
    /// 42809 and 0A000 for relations that are no tables.
    pub(super) async fn with_locks(
        &self,
        mut plan: QueryPlan,
        query: Native,
        locked: Vec<Locked>,
    ) -> Result<QueryPlan> {
        let (mut locks, mut needs) = (Vec::<RowLock>::new(), Vec::new());
        for Locked { name, shared, wait, words } in locked {
            let Some(name) = ObjectName::from_native(&name) else { continue };
            // What is no relation of a database holds still by itself.
            let Some(table) = self.find(&name).await? else { continue };
            match table.kind {
                TableKind::Table => {}
                TableKind::View => {
                    let message = format!("{words} of view \"{}\" is not supported", table.name.name);
                    return Err(SqlError::not_supported(message).hint("Lock the table that it reads."));
                }
                TableKind::MaterializedView => {
                    let message = format!("cannot lock rows in materialized view \"{}\"", table.name.name);
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
            }
            let requirement = Requirement::new(Privilege::Update, object_of(&table));
            match locks.iter_mut().find(|lock| lock.table.id == table.id) {
                Some(lock) => lock.shared &= shared,
                None => {
                    needs.push(Read { requirement, on_behalf_of: None });
                    locks.push(RowLock { table, shared, wait });
                }
            }
        }
        if !locks.is_empty() {
            locks.sort_by_key(|lock| lock.table.id);
            plan.reads.extend(needs.clone());
            plan.basis = None;
            plan.locking = Some(Box::new(Locking { locks, needs, planner: self.clone(), statement: query }));
        }
        Ok(plan)
    }
}
