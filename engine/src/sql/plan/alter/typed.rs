//! Changes of columns that come with Arrow types instead of SQL text.

use arrow::datatypes::{DataType, Field};
use lancegate_sql::ObjectName;

use super::{AlterAction, AlterTablePlan, Shape, ensure_unread};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::Session;
use crate::sql::plan::{Plan, Planner};
use crate::sqlstate::SqlState;
use crate::storage::computed::{self, RESERVED_PREFIXES};
use crate::storage::provider;

/// One change of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnChange {
    /// Adds an empty nullable column.
    Add(Field),
    /// Lets a column take NULL.
    DropNotNull {
        /// The column.
        column: String,
    },
    /// Gives a column another type.
    Type {
        /// The column.
        column: String,
        /// The new type.
        data_type: DataType,
    },
}

impl Engine {
    /// Binds changes of a table's columns as ALTER TABLE does.
    ///
    /// # Errors
    /// 42P01, 42701, 42703, 2BP01 for a column that a computed column reads.
    pub async fn plan_column_changes(
        &self,
        session: &Session,
        name: &ObjectName,
        changes: Vec<ColumnChange>,
    ) -> Result<Plan> {
        let planner = Planner::new(self.clone(), session, "", &[]);
        let table = planner.table(name).await?;
        let mut shape = Shape { schema: provider::visible_schema(&table.dataset), dropped: Vec::new() };
        let mut actions = Vec::new();
        for change in changes {
            let action = match change {
                ColumnChange::Add(field) => {
                    shape.ensure_new(field.name(), false, table.name())?;
                    ensure_own_metadata(&field)?;
                    let field = field.with_nullable(true);
                    shape.add(field.clone());
                    AlterAction::AddColumns(vec![field])
                }
                ColumnChange::DropNotNull { column } => {
                    shape.field(&column, table.name())?;
                    AlterAction::DropNotNull { column }
                }
                ColumnChange::Type { column, data_type } => {
                    let field = shape.field(&column, table.name())?;
                    if computed::is_computed(&field) {
                        let message = format!("cannot alter type of computed column \"{column}\"");
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
                            .hint("Drop the column and declare it again."));
                    }
                    ensure_unread(&table, &column, "alter type of", &[])?;
                    AlterAction::AlterType { column, data_type }
                }
            };
            super::merge(&mut actions, action);
        }
        Ok(Plan::AlterTable(Box::new(AlterTablePlan { table: Some(table), actions, functions: Vec::new() })))
    }
}

fn ensure_own_metadata(field: &Field) -> Result<()> {
    let reserved = |key: &&String| RESERVED_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    match field.metadata().keys().find(reserved) {
        Some(key) => {
            let message = format!("metadata key \"{key}\" of column \"{}\" is reserved", field.name());
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
        None => Ok(()),
    }
}
