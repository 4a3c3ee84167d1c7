//! Changes of columns that come with Arrow types instead of SQL text.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field};
use lancegate_sql::ObjectName;

use super::{AlterAction, AlterTablePlan, ColumnEdit, Shape, ensure_unread, no_column};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::session::Session;
use crate::sql::plan::{Plan, Planner};
use crate::sqlstate::SqlState;
use crate::storage::computed::{self, RESERVED_PREFIXES};
use crate::storage::{nested, provider};

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
    /// Changes what the metadata of a field says.
    Metadata(MetadataChange),
}

/// What begins the keys by which Lance and Arrow know how values are stored. Written by hand they would
/// make stored values unreadable.
const PHYSICAL_PREFIXES: [&str; 2] = ["lance-encoding:", "ARROW:extension:"];

/// Another text for keys of a field's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataChange {
    /// The field, from the column inwards.
    pub path: Vec<String>,
    /// What keys say from now on; `None` takes a key away.
    pub entries: BTreeMap<String, Option<String>>,
    /// Whether the keys that are not named go.
    pub replace: bool,
}

impl MetadataChange {
    /// Returns whether a key stays when the others are replaced: it is the software's, not the user's.
    pub(crate) fn is_kept(key: &str) -> bool {
        let kept = RESERVED_PREFIXES.iter().chain(&PHYSICAL_PREFIXES).chain(&["lance-schema:"]);
        kept.into_iter().any(|prefix| key.starts_with(prefix))
    }

    /// Returns whether a key says how values are stored.
    pub(crate) fn is_physical(key: &str) -> bool {
        PHYSICAL_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
    }

    fn ensure_free_keys(&self) -> Result<()> {
        let taken = |key: &&String| {
            let mut prefixes = RESERVED_PREFIXES.iter().chain(&PHYSICAL_PREFIXES);
            prefixes.any(|prefix| key.starts_with(prefix))
        };
        match self.entries.keys().find(taken) {
            Some(key) => {
                let message = format!("metadata key \"{key}\" of column \"{}\" is reserved", self.shown());
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            None => Ok(()),
        }
    }

    fn shown(&self) -> String {
        nested::path_text(&self.path.iter().map(String::as_str).collect::<Vec<_>>())
    }
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
                    AlterAction::AlterColumns(vec![ColumnEdit { column, data_type: None, drop_not_null: true }])
                }
                ColumnChange::Type { column, data_type } => {
                    let field = shape.field(&column, table.name())?;
                    if computed::is_computed(&field) {
                        let message = format!("cannot alter type of computed column \"{column}\"");
                        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
                            .hint("Drop the column and declare it again."));
                    }
                    ensure_unread(&table, &column, "alter type of", &[])?;
                    planner.ensure_carried(&table, &field, &data_type).await?;
                    let data_type = Some(data_type);
                    AlterAction::AlterColumns(vec![ColumnEdit { column, data_type, drop_not_null: false }])
                }
                ColumnChange::Metadata(change) => {
                    shape.at(&change.path).ok_or_else(|| no_column(&change.shown(), table.name()))?;
                    change.ensure_free_keys()?;
                    AlterAction::SetMetadata(vec![change])
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
