//! The values of columns that a statement gives none: their defaults (PostgreSQL, "Default
//! Values").

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, cast};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{self as native, SelectItem, SetExpr, Statement as Native, Value};

use crate::error::{Result, SqlError};
use crate::sql::plan::Planner;
use crate::sql::plan::dml::select;
use crate::sql::resolve::BoundTable;
use crate::sql::rewrite::build;
use crate::sqlstate::SqlState;
use crate::storage::defaults::{self, Numbering};

/// A column that gets a value of its own, and the value.
pub(crate) type Default = (FieldRef, Expr);

/// The defaults of the columns that rows from a client lack, ready to be evaluated.
#[derive(Debug, Clone)]
pub struct Filling(pub(crate) Vec<(FieldRef, Arc<dyn PhysicalExpr>)>);

impl Planner {
    /// Returns the defaults of the columns that are not among `given`.
    ///
    /// # Errors
    /// If one does not bind any more.
    pub(crate) async fn defaults(&self, table: &BoundTable, given: &[String]) -> Result<Vec<Default>> {
        let stored = Schema::from(table.dataset.schema());
        let mut found = Vec::new();
        for field in stored.fields() {
            if let Some(text) = defaults::default_of(field)
                && !given.contains(field.name())
            {
                found.push((Arc::clone(field), self.default_value(field, text).await?));
            }
        }
        Ok(found)
    }

    /// Returns what fills the columns that are not among `given`.
    ///
    /// # Errors
    /// As [`Self::defaults`].
    pub(crate) async fn filling(&self, table: &BoundTable, given: &[String]) -> Result<Filling> {
        let (fields, values): (Vec<_>, Vec<_>) = self.defaults(table, given).await?.into_iter().unzip();
        if fields.is_empty() {
            return Ok(Filling(Vec::new()));
        }
        let named = values.into_iter().zip(&fields).map(|(value, field)| value.alias(field.name()));
        let values = self.simplified(named.collect())?.into_iter().map(|value| self.evaluable(value));
        Ok(Filling(fields.into_iter().zip(values.collect::<Result<Vec<_>>>()?).collect()))
    }

    /// Returns values in which all that is the same in every row, such as `now()`, is a constant.
    fn simplified(&self, named: Vec<Expr>) -> Result<Vec<Expr>> {
        let row = LogicalPlanBuilder::empty(true).project(named)?.build()?;
        match self.caller.state(self.engine.state()).optimize(&row)? {
            LogicalPlan::Projection(row) => Ok(row.expr.into_iter().map(Expr::unalias).collect()),
            _ => Err(SqlError::internal("values are no row")),
        }
    }

    fn evaluable(&self, value: Expr) -> Result<Arc<dyn PhysicalExpr>> {
        let state = self.caller.state(self.engine.state());
        Ok(state.create_physical_expr(value, &DFSchema::empty())?)
    }

    /// Tries the default of a column, so that it is refused when it is declared and not
    /// when a row needs it.
    ///
    /// # Errors
    /// As [`Self::default_value`], and what its evaluation raises.
    pub(crate) async fn ensure_default(&self, field: &Field, text: &str) -> Result<()> {
        let value = self.default_value(field, text).await?.alias(field.name());
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one)?;
        for value in self.simplified(vec![value])? {
            self.evaluable(value)?.evaluate(&row)?;
        }
        Ok(())
    }

    /// Binds the default of a column.
    ///
    /// # Errors
    /// 0A000 for what reads rows, 42703 for a column, 42804 for another type.
    async fn default_value(&self, field: &Field, text: &str) -> Result<Expr> {
        let item = SelectItem::UnnamedExpr(parsed(text)?);
        let select = build::select(vec![item], Vec::new(), None);
        let query = build::query(SetExpr::Select(Box::new(select)));
        let planner = Self { text: Arc::from(""), declared: Arc::from([]), values: Arc::from([]), ..self.clone() };
        let bound = Box::pin(planner.bind_query(Native::Query(Box::new(query)))).await?;
        let LogicalPlan::Projection(Projection { mut expr, input, .. }) = bound.logical else {
            return Err(not_simple());
        };
        let (Some(value), LogicalPlan::EmptyRelation(_), true) =
            (expr.pop(), input.as_ref(), bound.parameters.reported.is_empty())
        else {
            return Err(not_simple());
        };
        let reads = |expr: &Expr| {
            Ok(matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
        };
        // What a subquery reads would be read with nobody's rights.
        if value.exists(reads)? || !bound.reads.is_empty() {
            return Err(not_simple());
        }
        Ok(cast(value.unalias(), field.data_type().clone()))
    }

    /// Returns the value that a new column's default has in the rows that are there.
    ///
    /// # Errors
    /// As [`Self::default_value`]; 0A000 for one that differs from row to row.
    pub(crate) async fn constant_default(&self, field: &Field, text: &str) -> Result<ScalarValue> {
        self.ensure_default(field, text).await?;
        let value = self.default_value(field, text).await?.alias(field.name());
        if let [Expr::Literal(value, _)] = self.simplified(vec![value])?.as_slice() {
            return Ok(value.clone());
        }
        let message = format!("the DEFAULT of new column \"{}\" differs from row to row", field.name());
        Err(SqlError::not_supported(message).hint("Add the column without it, and UPDATE the rows."))
    }
}

/// Returns what `DEFAULT` stands for in place of a value of a column.
///
/// # Errors
/// If what is recorded does not parse any more.
pub(super) fn in_place(field: &Field) -> Result<native::Expr> {
    match defaults::default_of(field) {
        Some(text) => parsed(text),
        None => Ok(native::Expr::Value(Value::Null.with_empty_span())),
    }
}

/// Returns the columns that are set to DEFAULT and have a sequence.
pub(super) fn drawn(visible: &Schema, assignments: &[(String, native::Expr)]) -> Vec<String> {
    let is_numbered =
        |column: &str| visible.field_with_name(column).is_ok_and(|field| defaults::numbering_of(field).is_some());
    let drawn = assignments.iter().filter(|(column, value)| select::is_default(value) && is_numbered(column));
    drawn.map(|(column, _)| column.clone()).collect()
}

/// Puts a column's default in the place of the word DEFAULT. The number of one that has a
/// sequence is drawn when the row comes.
///
/// # Errors
/// As [`in_place`]; 428C9 for another value of a column that takes none.
pub(super) fn fill_in(visible: &Schema, column: &str, value: &mut native::Expr) -> Result<()> {
    let Ok(field) = visible.field_with_name(column) else { return Ok(()) };
    if select::is_default(value) {
        *value = in_place(field)?;
    } else if is_always_numbered(field) {
        let message = format!("column \"{column}\" can only be updated to DEFAULT");
        return Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
            .detail(format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS.")));
    }
    Ok(())
}

/// Returns whether a column takes no number but those of its sequence.
pub(crate) fn is_always_numbered(field: &Field) -> bool {
    defaults::numbering_of(field) == Some(Numbering::Always)
}

/// Returns the error for a value of such a column.
pub(crate) fn non_default_number(column: &str) -> SqlError {
    SqlError::new(SqlState::GENERATED_ALWAYS, format!("cannot insert a non-DEFAULT value into column \"{column}\""))
        .detail(format!("Column \"{column}\" is an identity column defined as GENERATED ALWAYS."))
}

/// Parses an expression that was recorded.
pub(crate) fn parsed(text: &str) -> Result<native::Expr> {
    let statement = lancegate_sql::parse(&format!("SELECT {text}"), &lancegate_sql::Limits::default())?.pop();
    let Some(lancegate_sql::Statement::Query(query)) = statement.map(|parsed| parsed.statement) else {
        return Err(not_simple());
    };
    let Native::Query(query) = *query else { return Err(not_simple()) };
    let SetExpr::Select(select) = *query.body else { return Err(not_simple()) };
    match <[SelectItem; 1]>::try_from(select.projection) {
        Ok([SelectItem::UnnamedExpr(expr)]) => Ok(expr),
        _ => Err(not_simple()),
    }
}

fn not_simple() -> SqlError {
    SqlError::not_supported("a DEFAULT expression must not read rows")
        .hint("Constants and functions such as now() are possible.")
}
