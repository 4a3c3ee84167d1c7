//! CREATE FUNCTION and ALTER FUNCTION: a version is made at once, or by a job if there is an environment to build.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use chrono::Utc;
use lancegate_catalog::{CatalogError, FunctionVersion, Job, JobKind, NewJob, TableName};
use lancegate_functions::Definition;
use serde_json::json;

use super::document::document;
use crate::error::{Result, SqlError};
use crate::exec::refresh::{blocked, reads_registry};
use crate::exec::tables::ownership;
use crate::exec::{Engine, Outcome};
use crate::jobs::creation::{CreationSpec, checked};
use crate::session::{Session, StatementContext};
use crate::sql::plan::functions::{CreationAnswer, definition_of, object_of};
use crate::sqlstate::SqlState;

/// A statement that makes a version.
pub(super) struct Creation<'a> {
    pub(super) name: &'a TableName,
    pub(super) definition: &'a Definition,
    pub(super) new: bool,
    pub(super) answer: &'a CreationAnswer,
    pub(super) schema: Option<&'a SchemaRef>,
}

impl Creation<'_> {
    pub(super) async fn run(&self, engine: &Engine, session: &Session, ctx: &StatementContext) -> Result<Outcome> {
        // Before there is anything, with the exception of a source for a Python that is built first.
        let definition = match self.definition.brings_python() {
            true => self.definition.clone(),
            false => checked(engine.functions(), &self.name.name, self.definition).await?,
        };
        if *self.answer == CreationAnswer::Job {
            let job = self.submit(engine, session, definition).await?;
            if reads_registry(engine, &session.principal).await? {
                return self.rows(&[&["create_function", "submitted", &job.id.to_string()]]);
            }
            // Without the registry there is no handle to give (HAND-02).
            blocked::until_ended(engine, session, job.id, ctx).await?;
            return self.rows(&[&["create_function", "created", ""]]);
        }
        if definition.has_environment() {
            let job = self.submit(engine, session, definition).await?;
            blocked::until_ended(engine, session, job.id, ctx).await?;
        } else {
            self.create(engine, session, &definition).await?;
        }
        match self.answer {
            CreationAnswer::Tag(tag) => Ok(Outcome::Done((*tag).to_owned())),
            CreationAnswer::Document | CreationAnswer::Job => {
                let made = engine.catalog().function(self.name, None).await?;
                let made = made.ok_or_else(|| SqlError::internal("a version that was just made is gone"))?;
                self.rows(&[&[&document(&made, &definition_of(&made)?).to_string()]])
            }
        }
    }

    /// Makes a version that needs no environment of its own.
    async fn create(&self, engine: &Engine, session: &Session, definition: &Definition) -> Result<()> {
        let function = FunctionVersion {
            name: self.name.clone(),
            version: 0,
            definition: json!(definition),
            owner: session.principal.user.as_str().to_owned(),
            disabled: false,
            created_at: Utc::now(),
        };
        if self.new {
            engine.catalog().apply(vec![ownership(&session.principal, object_of(self.name))]).await?;
        }
        engine.catalog().add_function(function).await?;
        Ok(())
    }

    async fn submit(&self, engine: &Engine, session: &Session, definition: Definition) -> Result<Job> {
        let TableName { database, namespace, name } = self.name;
        let mut job = NewJob::new(JobKind::CreateFunction, database, name, session.principal.user.as_str());
        job.namespace.clone_from(namespace);
        job.exclusive_key = Some(format!("function/{database}/{}/{name}", namespace.join("$")));
        job.spec = json!(CreationSpec { definition });
        match engine.jobs().submit(job).await {
            Ok(job) => Ok(job),
            Err(CatalogError::Busy { .. }) => {
                let message = format!("function \"{name}\" is already being built");
                Err(SqlError::new(SqlState::OBJECT_IN_USE, message).hint("Run the statement again when it is there."))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn rows(&self, rows: &[&[&str]]) -> Result<Outcome> {
        let schema = self.schema.ok_or_else(|| SqlError::internal("an answer without columns"))?;
        let column =
            |index: usize| Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row[index]))) as ArrayRef;
        let columns = (0..schema.fields().len()).map(column).collect();
        Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(schema), columns)?, "CREATE FUNCTION"))
    }
}
