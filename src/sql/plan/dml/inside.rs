//! Computed fields inside columns, which no statement gives a value.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use super::non_default;
use crate::error::Result;
use crate::sql::resolve::BoundTable;
use crate::storage::nested;

/// The computed fields inside the columns of a table.
#[derive(Debug, Clone)]
pub(super) struct ComputedInside {
    table: String,
    /// Names from the column inwards.
    paths: Vec<Vec<String>>,
}

impl ComputedInside {
    /// Reads them off the table's declarations.
    ///
    /// # Errors
    /// 0A000 for a declaration of newer or other software.
    pub(super) fn of(table: &BoundTable) -> Result<Self> {
        let paths =
            table.computed()?.into_iter().map(|column| nested::parts(&column.name)).filter(|path| path.len() > 1);
        Ok(Self { table: table.name().to_owned(), paths: paths.collect() })
    }

    /// Refuses rows whose structs name one of the fields, whatever their value; a
    /// struct that leaves it out is fine.
    ///
    /// # Errors
    /// 428C9, and internal errors.
    pub(super) fn ensure_not_given(&self, rows: &LogicalPlan, columns: &[String]) -> Result<()> {
        for path in self.paths.iter().filter(|path| columns.contains(&path[0])) {
            let Some(given) = rows.schema().index_of_column_by_name(None, &path[0]) else { continue };
            if types(rows, given)?.iter().any(|data_type| names(data_type, &path[1..])) {
                let path: Vec<&str> = path.iter().map(String::as_str).collect();
                return Err(non_default(&nested::path_text(&path), &self.table));
            }
        }
        Ok(())
    }
}

/// Returns the types that a column of a plan has before it is cast to what is stored.
fn types(plan: &LogicalPlan, column: usize) -> Result<Vec<DataType>> {
    match plan {
        LogicalPlan::Projection(projection) => types_of(&projection.expr[column], &projection.input),
        LogicalPlan::Values(values) => {
            let given = values.values.iter().map(|row| types_of(&row[column], plan));
            Ok(given.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
        }
        LogicalPlan::SubqueryAlias(alias) => types(&alias.input, column),
        other => Ok(vec![other.schema().field(column).data_type().clone()]),
    }
}

fn types_of(expr: &Expr, input: &LogicalPlan) -> Result<Vec<DataType>> {
    match expr {
        Expr::Alias(alias) => types_of(&alias.expr, input),
        Expr::Cast(cast) => types_of(&cast.expr, input),
        Expr::TryCast(cast) => types_of(&cast.expr, input),
        Expr::Column(column) => types(input, input.schema().index_of_column(column)?),
        other => Ok(vec![other.get_type(input.schema())?]),
    }
}

/// Whether a struct type has the field at this path.
fn names(data_type: &DataType, path: &[String]) -> bool {
    let ([name, rest @ ..], DataType::Struct(fields)) = (path, data_type) else { return path.is_empty() };
    fields.iter().any(|field| field.name() == name && names(field.data_type(), rest))
}
