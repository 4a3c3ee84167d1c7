//! INSERT, UPDATE, DELETE, TRUNCATE: which rows, with which values.
//!
//! UPDATE and DELETE become queries that read the rows to change with their row
//! ids, so that predicates and assignments mean exactly what they mean in a
//! SELECT, subqueries and joins included.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, cast};
use lancegate_auth::{Privilege, Requirement};
use lancegate_sql::{ObjectName, ast};
use sqlparser::ast as native;
use sqlparser::ast::{Ident, Statement as Native, TableWithJoins};

use super::query::{QueryPlan, binder};
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{BoundTable, is_materialized, no_relation};
use crate::sqlstate::SqlState;
use crate::storage::computed;
use crate::storage::provider;

mod conflict;
pub(crate) mod default;
mod insert;
pub(crate) mod merge;
mod returning;
mod select;

pub use merge::{MergeCommand, MergePlan};
pub use returning::Returning;
pub(crate) use select::{ROW_ADDRESS, ROW_ID, stored_name};

/// A bound INSERT.
#[derive(Debug, Clone)]
pub struct InsertPlan {
    /// The table.
    pub table: BoundTable,
    /// The rows; each column is a column of the table under its name.
    pub source: QueryPlan,
    /// What is answered.
    pub returning: Option<Returning>,
}

/// A bound UPDATE.
#[derive(Debug, Clone)]
pub struct UpdatePlan {
    /// The table.
    pub table: BoundTable,
    /// The rows as they shall be, after row id and row address.
    pub rows: QueryPlan,
    /// The columns that change.
    pub assigned: Vec<String>,
    /// Those of them that get the next numbers of their sequences, and come as NULL.
    pub drawn: Vec<String>,
    /// What is bound again after a lost race.
    pub(crate) rebind: Rebind,
    /// What is answered.
    pub returning: Option<Returning>,
}

/// A bound DELETE.
#[derive(Debug, Clone)]
pub struct DeletePlan {
    /// The table.
    pub table: BoundTable,
    /// The addresses of the rows; `None` for all rows.
    pub(crate) rows: Option<(QueryPlan, Rebind)>,
    /// What is answered; `rows` then hold every stored column, too.
    pub returning: Option<Returning>,
}

/// A bound TRUNCATE.
#[derive(Debug, Clone)]
pub struct TruncatePlan {
    /// The tables.
    pub tables: Vec<BoundTable>,
}

/// How the rows of a change are bound again, at a newer version of the table.
#[derive(Clone)]
pub(crate) struct Rebind {
    planner: Planner,
    target: ObjectName,
    select: Box<Native>,
    /// The columns that the rows consist of; empty for addresses only.
    columns: Vec<FieldRef>,
    /// Whether each row says what is done with it; see [`merge`].
    merges: bool,
    /// A relation that the statement itself gives, under its name.
    given: Option<(ObjectName, Arc<dyn TableProvider>)>,
}

impl DeletePlan {
    /// Returns the types of the parameters.
    pub fn parameter_types(&self) -> &[FieldRef] {
        self.rows.as_ref().map_or(&[], |(rows, _)| &rows.parameters.reported)
    }
}

impl fmt::Debug for Rebind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebind").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Rebind {
    /// Returns whether the rows are whole rows of a table with these columns.
    pub(crate) fn gives_rows_of(&self, stored: &arrow::datatypes::Schema) -> bool {
        let same = |(given, stored): (&FieldRef, &FieldRef)| {
            given.name() == stored.name() && given.data_type() == stored.data_type()
        };
        self.columns.is_empty()
            || (self.columns.len() == stored.fields().len() && self.columns.iter().zip(stored.fields()).all(same))
    }

    /// Returns whether the rows are those of one version, because the open block reads no other.
    pub(crate) fn is_pinned(&self) -> bool {
        self.planner.caller.repeats_reads()
    }

    /// Binds the rows at the newest version of the table.
    ///
    /// # Errors
    /// As the statement itself.
    pub(crate) async fn bind(&self) -> Result<QueryPlan> {
        let (columns, merges) = (self.columns.clone(), self.merges);
        let finish = move |plan: LogicalPlan| match merges {
            true => merge::as_stored(plan, &columns),
            false => as_stored(plan, &columns),
        };
        let given = self.given.as_ref().map(|(name, given)| (name, given));
        self.planner.bind_change_with(self.select.as_ref().clone(), &self.target, &finish, given).await
    }
}

impl Planner {
    /// Binds UPDATE.
    ///
    /// # Errors
    /// 428C9 for a computed column, and what the query for the rows raises.
    pub(super) async fn plan_update(&self, statement: &ast::Update) -> Result<Plan> {
        let update = &statement.0;
        ensure_plain(!update.order_by.is_empty() || update.limit.is_some(), "ORDER BY in UPDATE")?;
        let target = select::target(&update.table)?;
        let table = self.change_target(&target.name).await?;
        let mut assignments = select::assignments(&update.assignments)?;
        let visible = provider::visible_schema(&table.dataset);
        let drawn = default::drawn(&visible, &assignments);
        let mut assigned = Vec::new();
        for (column, value) in &mut assignments {
            if self.may_assign(&table, column, value)? {
                default::fill_in(&visible, column, value)?;
                assigned.push(column.clone());
            }
        }
        for column in &assigned {
            if visible.field_with_name(column).is_err() {
                let mut named = update.assignments.iter().rev().map(|assignment| &assignment.target);
                let named = named.find(|target| target.to_string().trim_matches('"') == column);
                let position = named.and_then(|target| self.position(target));
                return Err(no_column(column, table.name()).at(position));
            }
        }
        let stored = table_schema(&table);
        let query = select::of_update(update, &target, &stored, &assignments, &assigned);
        let rebind = Rebind {
            planner: self.clone(),
            target: target.name.clone(),
            select: Box::new(query),
            columns: stored.fields().iter().cloned().collect(),
            merges: false,
            given: None,
        };
        let mut rows = rebind.bind().await?;
        if update.selection.is_none() && !assignments.iter().any(|(_, value)| select::reads_columns(value)) {
            forget_target(&mut rows, &table);
        }
        let from = TableWithJoins { joins: Vec::new(), ..update.table.clone() };
        let returning = self.plan_returning(update.returning.as_ref(), from, &table).await?;
        Ok(Plan::Update(Box::new(UpdatePlan { table, rows, assigned, drawn, rebind, returning })))
    }

    /// Binds DELETE.
    ///
    /// # Errors
    /// What the query for the rows raises.
    pub(super) async fn plan_delete(&self, statement: &ast::Delete) -> Result<Plan> {
        let delete = &statement.0;
        ensure_plain(!delete.order_by.is_empty() || delete.limit.is_some(), "ORDER BY in DELETE")?;
        let from = match &delete.from {
            native::FromTable::WithFromKeyword(from) | native::FromTable::WithoutKeyword(from) => from,
        };
        let [from] = from.as_slice() else {
            return Err(SqlError::not_supported("DELETE from several tables is not supported"));
        };
        let target = select::target(from)?;
        let table = self.change_target(&target.name).await?;
        let named = TableWithJoins { joins: Vec::new(), ..from.clone() };
        let returning = self.plan_returning(delete.returning.as_ref(), named, &table).await?;
        if delete.selection.is_none() && delete.using.is_none() && returning.is_none() {
            return Ok(Plan::Delete(Box::new(DeletePlan { table, rows: None, returning })));
        }
        let stored = table_schema(&table);
        let kept = if returning.is_some() { stored.fields().iter().cloned().collect() } else { Vec::new() };
        let rebind = Rebind {
            planner: self.clone(),
            target: target.name.clone(),
            select: Box::new(select::of_delete(delete, from, &target, &kept)),
            columns: kept,
            merges: false,
            given: None,
        };
        let rows = rebind.bind().await?;
        Ok(Plan::Delete(Box::new(DeletePlan { table, rows: Some((rows, rebind)), returning })))
    }

    /// Binds TRUNCATE.
    ///
    /// # Errors
    /// 42P01, 42809.
    pub(super) async fn plan_truncate(&self, statement: &ast::Truncate) -> Result<Plan> {
        let mut tables = Vec::new();
        for target in &statement.0.table_names {
            let name = ObjectName::from_native(&target.name)
                .ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "improper relation name"))?;
            tables.push(self.changeable_table(&name).await?);
        }
        Ok(Plan::Truncate(Box::new(TruncatePlan { tables })))
    }

    /// Returns the table that a statement changes.
    async fn change_target(&self, name: &ObjectName) -> Result<BoundTable> {
        let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
        match record.kind {
            lancegate_catalog::TableKind::Table => self.open(record).await,
            lancegate_catalog::TableKind::View => {
                let message = format!("cannot change view \"{}\"", name.name);
                Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .detail("Views cannot be written to."))
            }
            lancegate_catalog::TableKind::MaterializedView => Err(is_materialized(&name.name)),
        }
    }

    /// Says whether an assignment changes something; DEFAULT of a computed
    /// column does not.
    fn may_assign(&self, table: &BoundTable, column: &str, value: &native::Expr) -> Result<bool> {
        let computed = table.computed()?.iter().any(|computed| computed.name == *column);
        match (computed, select::is_default(value)) {
            (false, _) => Ok(true),
            (true, true) => Ok(false),
            (true, false) => Err(only_default(column, table.name())),
        }
    }
}

/// Returns a 42703 that names the table.
pub(crate) fn no_column(column: &str, table: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

/// Returns all stored columns of a table.
fn table_schema(table: &BoundTable) -> arrow::datatypes::Schema {
    arrow::datatypes::Schema::from(table.dataset.schema())
}

fn ensure_plain(present: bool, clause: &str) -> Result<()> {
    if present { Err(SqlError::not_supported(format!("{clause} is not supported yet"))) } else { Ok(()) }
}

/// A change without WHERE and with constant values needs no right to read.
fn forget_target(rows: &mut QueryPlan, table: &BoundTable) {
    let own = Requirement::new(Privilege::Select, table.object());
    rows.reads.retain(|read| read.requirement != own || read.on_behalf_of.is_some());
}

/// Casts the columns after row id and address to their stored types, and types
/// parameters that are assigned as they are.
fn as_stored(plan: LogicalPlan, columns: &[FieldRef]) -> Result<LogicalPlan> {
    if columns.is_empty() {
        return Ok(plan);
    }
    let plan = typed_parameters(plan, columns)?;
    let system = plan.schema().fields().len() - columns.len();
    let outputs = plan.schema().columns();
    let exprs = outputs.into_iter().enumerate().map(|(index, column)| {
        let name = column.name.clone();
        match index.checked_sub(system).and_then(|index| columns.get(index)) {
            Some(field) => cast(Expr::Column(column), field.data_type().clone()).alias(field.name()),
            None => Expr::Column(column).alias(name),
        }
    });
    let exprs: Vec<Expr> = exprs.collect();
    Ok(LogicalPlanBuilder::from(plan).project(exprs)?.build()?)
}

fn typed_parameters(plan: LogicalPlan, columns: &[FieldRef]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else { return Ok(plan) };
    let system = expr.len() - columns.len();
    let exprs = expr.into_iter().enumerate().map(|(index, expr)| {
        let Some(field) = index.checked_sub(system).and_then(|index| columns.get(index)) else { return Ok(expr) };
        typed(expr, field)
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, input)?))
}

/// Gives the parameters of an expression whose type is not known that of a column.
fn typed(expr: Expr, field: &FieldRef) -> Result<Expr> {
    let typed = expr.transform_up(|expr| match expr {
        Expr::Placeholder(mut placeholder) if placeholder.field.is_none() => {
            placeholder.field = Some(Arc::clone(field));
            Ok(Transformed::yes(Expr::Placeholder(placeholder)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(typed.data)
}

/// Returns the error for an UPDATE that gives a computed column a value.
pub(crate) fn only_default(column: &str, table: &str) -> SqlError {
    SqlError::new(SqlState::GENERATED_ALWAYS, format!("column \"{column}\" can only be updated to DEFAULT"))
        .detail(format!("Column \"{column}\" is a generated column."))
        .hint(format!("REFRESH COLUMN {column} ON {table} computes it."))
}

/// Returns the error for an INSERT that gives a computed column a value.
pub(crate) fn non_default(column: &str, table: &str) -> SqlError {
    SqlError::new(SqlState::GENERATED_ALWAYS, format!("cannot insert a non-DEFAULT value into column \"{column}\""))
        .detail(format!("Column \"{column}\" is a generated column."))
        .hint(format!("REFRESH COLUMN {column} ON {table} computes it."))
}

/// Returns whether a column of a table is computed.
pub(super) fn is_computed(table: &BoundTable, column: &str) -> bool {
    let schema = table_schema(table);
    schema.field_with_name(column).is_ok_and(computed::is_computed)
}

/// Quotes a name so that it is taken as it is.
pub(super) fn exactly(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// Keeps of an INSERT's projection the columns that are written, under their names; those
/// with a default get it.
fn only_columns(plan: LogicalPlan, names: &[String], defaults: &[default::Default]) -> Result<LogicalPlan> {
    let LogicalPlan::Dml(statement) = plan else {
        return Err(SqlError::internal("an INSERT was not bound to one"));
    };
    let input = statement.input.as_ref().clone();
    let exprs = names.iter().map(|name| match defaults.iter().find(|(field, _)| field.name() == name) {
        Some((_, value)) => value.clone().alias(name),
        None => binder::column(name),
    });
    let exprs: Vec<Expr> = exprs.collect();
    Ok(LogicalPlanBuilder::from(input).project(exprs)?.build()?)
}
