//! EXPLAIN of queries and row changes.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use lancegate_sql::ast::{self, ExplainFormat, ExplainOptions};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};

/// A bound EXPLAIN.
#[derive(Debug, Clone)]
pub struct ExplainPlan {
    /// What the plan shows.
    pub options: ExplainOptions,
    /// The explained statement.
    pub plan: Plan,
    /// `QUERY PLAN` for JSON, `plan_type` and `plan` otherwise.
    pub columns: SchemaRef,
}

impl ExplainPlan {
    /// Returns the types of the parameters.
    pub fn parameter_types(&self) -> &[FieldRef] {
        self.plan.parameter_types()
    }
}

impl Planner {
    /// Binds EXPLAIN.
    ///
    /// # Errors
    /// As the explained statement; 0A000 for one that has no plan to show.
    pub(super) async fn plan_explain(&self, explain: &ast::Explain) -> Result<Plan> {
        let plan = Box::pin(self.plan(&explain.statement)).await?;
        let explainable = matches!(
            plan,
            Plan::Query(_)
                | Plan::Insert(_)
                | Plan::Update(_)
                | Plan::Delete(_)
                | Plan::Merge(_)
                | Plan::CreateTableAs(_)
        );
        if !explainable {
            return Err(SqlError::not_supported(format!("EXPLAIN of {} is not supported", explain.statement.kind())));
        }
        if explain.options.analyze && !matches!(plan, Plan::Query(_)) {
            return Err(SqlError::not_supported("EXPLAIN ANALYZE of a change is not supported"));
        }
        let columns = match explain.options.format {
            Some(ExplainFormat::Json) => vec![Field::new("QUERY PLAN", DataType::Utf8, false)],
            _ => vec![Field::new("plan_type", DataType::Utf8, false), Field::new("plan", DataType::Utf8, false)],
        };
        let columns = Arc::new(Schema::new(columns));
        Ok(Plan::Explain(Box::new(ExplainPlan { options: explain.options, plan, columns })))
    }
}
