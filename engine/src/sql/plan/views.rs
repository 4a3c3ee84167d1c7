//! CREATE VIEW and DROP VIEW.

use lancegate_auth::Object;
use lancegate_catalog::{Table, TableKind, TableName};
use lancegate_sql::ast;
use sqlparser::ast::{CreateTableOptions, Statement as Native};

use super::query::QueryPlan;
use super::tables::ensure_columns;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::session::temp::is_temporary;
use crate::sqlstate::SqlState;

/// A bound CREATE VIEW.
#[derive(Debug, Clone)]
pub struct CreateViewPlan {
    /// The new name.
    pub name: TableName,
    /// The query as it is stored.
    pub text: String,
    /// The query, bound once to check it.
    pub query: QueryPlan,
    /// The view that OR REPLACE replaces.
    pub replaces: Option<Table>,
    /// Whether an existing view is no error.
    pub if_not_exists: bool,
}

/// A bound DROP VIEW.
#[derive(Debug, Clone)]
pub struct DropViewPlan {
    /// The views that exist.
    pub views: Vec<Table>,
    /// Names that IF EXISTS passed over.
    pub missing: Vec<String>,
    /// Views that go with them.
    pub cascaded: Vec<Table>,
}

impl Planner {
    /// Binds CREATE VIEW.
    ///
    /// # Errors
    /// As SELECT; 42P07 for a name that is taken, 0A000 for options.
    pub(super) async fn plan_create_view(&self, create: &ast::CreateView) -> Result<Plan> {
        let native = create.native.as_ref();
        if native.temporary || native.materialized {
            return Err(SqlError::not_supported("temporary views are not supported"));
        }
        if !matches!(native.options, CreateTableOptions::None) {
            return Err(SqlError::not_supported("view options are not supported"));
        }
        let name = self.creation_name(&create.view).await?;
        let mut query = native.query.as_ref().clone();
        if !native.columns.is_empty() {
            query = with_column_names(&query, native)?;
        }
        let text = query.to_string();
        let bound = self.bind_query(Native::Query(Box::new(query))).await?;
        if !bound.parameters.reported.is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "views cannot have parameters"));
        }
        ensure_no_temporary(&bound)?;
        ensure_columns(bound.columns.fields().iter().map(|field| field.name().as_str()))?;
        let existing = self.caller.names.table(self.engine.catalog(), &name).await?;
        let replaces = match existing {
            Some(record) if native.or_replace && record.kind != TableKind::View => {
                let message = format!("\"{}\" is not a view", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            existing => existing.filter(|_| native.or_replace),
        };
        let if_not_exists = native.if_not_exists;
        Ok(Plan::CreateView(Box::new(CreateViewPlan { name, text, query: bound, replaces, if_not_exists })))
    }

    /// Binds DROP VIEW.
    ///
    /// # Errors
    /// 42P01, 42809 for a table.
    pub(super) async fn plan_drop_view(&self, drop: &ast::DropView) -> Result<Plan> {
        let mut plan = DropViewPlan { views: Vec::new(), missing: Vec::new(), cascaded: Vec::new() };
        for name in &drop.views {
            match self.find(name).await? {
                Some(record) if record.kind == TableKind::View => plan.views.push(record),
                Some(record) => {
                    let message = format!("\"{}\" is not a view", name.name);
                    let hint = match record.kind {
                        TableKind::MaterializedView => "Use DROP MATERIALIZED VIEW to remove a materialized view.",
                        TableKind::Table | TableKind::View => "Use DROP TABLE to remove a table.",
                    };
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
                }
                None if drop.if_exists => plan.missing.push(name.name.clone()),
                None => {
                    let message = format!("view \"{}\" does not exist", name.name);
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
            }
        }
        plan.cascaded = self.dependents(&plan.views, drop.behavior).await?;
        Ok(Plan::DropView(Box::new(plan)))
    }
}

/// Refuses a query over temporary tables, which others would not find.
///
/// # Errors
/// 0A000.
pub(super) fn ensure_no_temporary(query: &QueryPlan) -> Result<()> {
    let temporary = |object: &Object| matches!(object, Object::Table { namespace, .. } if is_temporary(namespace));
    if query.reads.iter().any(|read| temporary(&read.requirement.object)) {
        return Err(SqlError::not_supported("views over temporary tables are not supported"));
    }
    Ok(())
}

/// `CREATE VIEW v (a, b) AS q` is `SELECT * FROM (q) v (a, b)`.
fn with_column_names(
    query: &sqlparser::ast::Query,
    native: &sqlparser::ast::CreateView,
) -> Result<sqlparser::ast::Query> {
    let names: Vec<String> = native.columns.iter().map(|column| column.name.to_string()).collect();
    let text = format!("SELECT * FROM ({query}) AS view_query ({})", names.join(", "));
    let dialect = sqlparser::dialect::PostgreSqlDialect {};
    let parsed = sqlparser::parser::Parser::parse_sql(&dialect, &text);
    match parsed.ok().and_then(|mut statements| statements.pop()) {
        Some(Native::Query(query)) => Ok(*query),
        _ => Err(SqlError::internal("the column names of a view do not parse")),
    }
}
