//! REFRESH COLUMN and EXPLAIN REFRESH COLUMN: which column of which table, with
//! which options.

use arrow::datatypes::SchemaRef;
use lancegate_auth::{Privilege, Requirement};
use lancegate_sql::ast;

use super::{Plan, Planner};
use crate::error::Result;
use crate::sql::resolve::BoundTable;
use crate::storage::computed::ComputedColumn;

/// A bound REFRESH COLUMN.
#[derive(Debug, Clone)]
pub struct RefreshPlan {
    /// The table at the version that the column was looked up in.
    pub table: BoundTable,
    /// The column.
    pub column: ComputedColumn,
    /// Filter, options and WAIT as written.
    pub statement: ast::RefreshColumn,
    /// See [`RefreshPlan::columns`].
    pub schema: SchemaRef,
}

/// A bound EXPLAIN REFRESH COLUMN.
#[derive(Debug, Clone)]
pub struct ExplainRefreshPlan {
    /// Whether every step of the planner is shown.
    pub verbose: bool,
    /// The refresh that would run.
    pub refresh: RefreshPlan,
    /// See [`ExplainRefreshPlan::columns`].
    pub schema: SchemaRef,
}

impl RefreshPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns what the caller must hold: UPDATE on the table and SELECT on it,
    /// because an expression reads its inputs.
    pub fn requirements(&self) -> Vec<Requirement> {
        let object = self.table.object();
        vec![Requirement::new(Privilege::Update, object.clone()), Requirement::new(Privilege::Select, object)]
    }
}

impl ExplainRefreshPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Planner {
    /// Binds REFRESH COLUMN.
    ///
    /// # Errors
    /// 42P01, 42703, 42809 for a column that is not computed, and bad options.
    pub(super) async fn plan_refresh(&self, statement: &ast::RefreshColumn) -> Result<Plan> {
        let _ = statement;
        Err(crate::error::SqlError::not_supported("REFRESH COLUMN is not supported yet"))
    }

    /// Binds EXPLAIN REFRESH COLUMN.
    ///
    /// # Errors
    /// As REFRESH COLUMN.
    pub(super) async fn plan_explain_refresh(&self, statement: &ast::ExplainRefresh) -> Result<Plan> {
        let _ = statement;
        Err(crate::error::SqlError::not_supported("EXPLAIN REFRESH COLUMN is not supported yet"))
    }
}
