//! COMMENT ON.

use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::{ObjectChange, Table, TableChange, TableKind};
use lancegate_sql::ast::{Comment, CommentTarget};
use lancegate_sql::{ObjectName, SchemaName};

use super::dml::no_column;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::session::temp;
use crate::sql::resolve::{no_database, no_relation, no_schema, object_of};
use crate::sqlstate::SqlState;
use crate::system::objects::{column_key, view_column_key};

/// The longest comment, in bytes. Catalogs read all of them.
const COMMENT_BYTES_MAX: usize = 64 * 1024;

/// A bound COMMENT ON.
#[derive(Debug, Clone)]
pub struct CommentPlan {
    /// What must be owned.
    pub object: Object,
    /// What is recorded.
    pub change: ObjectChange,
}

impl CommentPlan {
    /// Returns what the statement needs.
    pub(crate) fn requirements(&self) -> Vec<Requirement> {
        vec![Requirement::new(Privilege::Ownership, self.object.clone())]
    }
}

impl Planner {
    /// Binds COMMENT ON.
    ///
    /// # Errors
    /// 42P01, 42703, 3F000, 3D000; 42809 for a thing of another kind, 0A000 for
    /// Functions, 54000 for a text that is too long.
    pub(super) async fn plan_comment(&self, comment: &Comment) -> Result<Plan> {
        let text = comment.comment.clone().filter(|text| !text.is_empty());
        if text.as_ref().is_some_and(|text| text.len() > COMMENT_BYTES_MAX) {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "comment is too long")
                .detail(format!("A comment has at most {COMMENT_BYTES_MAX} bytes.")));
        }
        let plan = match &comment.target {
            CommentTarget::Table(name) => of_relation(self.commented(name, TableKind::Table, "a table").await?, text),
            CommentTarget::View(name) => of_relation(self.commented(name, TableKind::View, "a view").await?, text),
            CommentTarget::MaterializedView(name) => {
                of_relation(self.commented(name, TableKind::MaterializedView, "a materialized view").await?, text)
            }
            CommentTarget::Column { table, column } => self.of_column(table, column.as_str(), text).await?,
            CommentTarget::Schema(name) => self.of_schema(name, text).await?,
            CommentTarget::Database(name) => {
                let name = name.as_str().to_owned();
                let database = self.engine.catalog().database(&name).await?.ok_or_else(|| no_database(&name))?;
                of_object(Object::Database(database.name), text)
            }
            CommentTarget::Function(_) => {
                return Err(SqlError::not_supported("COMMENT ON FUNCTION is not supported"));
            }
        };
        Ok(Plan::Comment(Box::new(plan)))
    }

    async fn commented(&self, name: &ObjectName, kind: TableKind, what: &str) -> Result<Table> {
        let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
        if record.kind != kind {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not {what}", name.name)));
        }
        if temp::is_temporary(&record.name.namespace) {
            return Err(SqlError::not_supported("comments of temporary tables are not supported"));
        }
        Ok(record)
    }

    async fn of_column(&self, name: &ObjectName, column: &str, comment: Option<String>) -> Result<CommentPlan> {
        let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
        let object = object_of(&record);
        let part = match record.kind {
            TableKind::View => {
                let columns = self.view_columns(&record).await?;
                columns.iter().find(|field| field.name() == column).map(|field| view_column_key(field.name()))
            }
            TableKind::Table | TableKind::MaterializedView => {
                let table = self.open(record.clone()).await?;
                table.ensure_lasting("a comment")?;
                column_key(&table.dataset, column)
            }
        };
        let part = part.ok_or_else(|| no_column(column, &name.name))?;
        Ok(CommentPlan { object, change: ObjectChange::Comment { object: record.id.to_string(), part, comment } })
    }

    async fn of_schema(&self, name: &SchemaName, comment: Option<String>) -> Result<CommentPlan> {
        let (database, path) = self.schema_path(name);
        if !self.schema_exists(&database, &name.schema).await? {
            return Err(no_schema(&name.schema));
        }
        Ok(of_object(Object::Namespace { database, path }, comment))
    }
}

fn of_relation(record: Table, comment: Option<String>) -> CommentPlan {
    let change = TableChange { comment: Some(comment), ..TableChange::default() };
    CommentPlan { object: object_of(&record), change: ObjectChange::AlterTable { id: record.id, change } }
}

fn of_object(object: Object, comment: Option<String>) -> CommentPlan {
    let change = ObjectChange::Comment { object: object.to_string(), part: String::new(), comment };
    CommentPlan { object, change }
}
