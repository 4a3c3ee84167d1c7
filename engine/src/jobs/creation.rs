//! Jobs that make a version of a Function: its environment is built, then the version is there.
//!
//! Nothing names a version before its environment is complete. A job that is taken over after the version was written
//! finds it and writes no second one: versions of one name are made by one job at a time.

use lancegate_auth::{Grant, Object, Privilege, Subject, UserName};
use lancegate_catalog::{Catalog, CatalogError, FunctionVersion, Job, NewEvent, ObjectChange, TableName};
use lancegate_functions::definition::CallMode;
use lancegate_functions::{CheckError, Definition};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::now;
use super::verdict::failure;
use super::work::WorkError;
use crate::error::SqlError;
use crate::refresh::{FunctionHost, Progress};
use crate::sqlstate::SqlState;

/// The document of such a job; the name is the job's own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreationSpec {
    /// What the version is.
    pub definition: Definition,
}

/// Builds the environment and adds the version; returns its number.
///
/// # Errors
/// `FunctionBuildError` with what the tool says; `FunctionDefinitionError` for a source that cannot be its code.
pub(super) async fn create(
    catalog: &Catalog,
    host: &FunctionHost,
    job: &Job,
    progress: &Progress,
) -> Result<Value, WorkError> {
    let spec: CreationSpec = serde_json::from_value(job.spec.clone()).map_err(super::work::damaged)?;
    let name =
        TableName { database: job.database.clone(), namespace: job.namespace.clone(), name: job.table_name.clone() };
    progress.enter("building");
    let built = tokio::select! {
        biased;
        () = progress.stopped() => return Err(WorkError::Stopped),
        built = host.prepare(&spec.definition) => built,
    };
    let python = built.map_err(|error| WorkError::Failed(failure(&not_built(&name.name, &error.to_string()))))?;
    if !python.build_output.is_empty() {
        let details = Some(json!({ "output": python.build_output, "python": python.version }));
        let message = "environment built".to_owned();
        let event = NewEvent { emitted_by: "functions".to_owned(), worker: None, message, details };
        catalog.append_event(job.id, job.epoch, event, crate::clock::now()).await.map_err(registry)?;
    }
    let definition = match spec.definition.brings_python() {
        // Without a Python of its own, the statement has looked at the source already.
        false => spec.definition,
        true => {
            let checked = checked(host, &name.name, &spec.definition).await;
            checked.map_err(|error| WorkError::Failed(failure(&error)))?
        }
    };
    let version = add(catalog, job, name, &definition).await.map_err(registry)?;
    Ok(json!({ "version": version }))
}

/// Returns the error of a Function whose environment cannot be built.
pub fn not_built(name: &str, said: &str) -> SqlError {
    SqlError::new(SqlState::EXTERNAL_ROUTINE_EXCEPTION, format!("function \"{name}\" could not be built"))
        .detail(said.to_owned())
        .named("FunctionBuildError")
}

/// Looks at the source of a Function with the Python that will run it, in a confined process. Returns the definition with
/// the way in which it is called.
///
/// # Errors
/// 42601 for a source that does not compile, 42P13 for one without a callable that takes the parameters, 38000 if it
/// cannot be looked at.
pub async fn checked(host: &FunctionHost, name: &str, definition: &Definition) -> Result<Definition, SqlError> {
    let python = host.python(definition).await.map_err(|error| not_built(name, &error.to_string()))?;
    let style = host.check(definition, python).await.map_err(|error| rejected(name, error))?;
    let mode = match definition.mode {
        CallMode::Annotated => style.unwrap_or_default(),
        declared => declared,
    };
    Ok(Definition { mode, ..definition.clone() })
}

fn rejected(name: &str, error: CheckError) -> SqlError {
    match error {
        CheckError::Syntax(place) => {
            let error =
                SqlError::new(SqlState::SYNTAX_ERROR, format!("could not compile function \"{name}\": {place}"));
            let error = error.named("FunctionDefinitionError");
            if place.text.is_empty() { error } else { error.detail(place.text) }
        }
        CheckError::Definition(place) => {
            let message = format!("invalid definition of function \"{name}\": {place}");
            SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message).named("FunctionDefinitionError").hint(
                "The source defines a function, or a class with __call__, that takes the parameters in their order.",
            )
        }
        CheckError::Worker(error) => not_built(name, &error.to_string()),
    }
}

async fn add(catalog: &Catalog, job: &Job, name: TableName, definition: &Definition) -> Result<u64, CatalogError> {
    let version = FunctionVersion {
        name: name.clone(),
        version: 0,
        definition: json!(definition),
        owner: job.submitted_by.clone(),
        disabled: false,
        created_at: now(),
    };
    let number = catalog.add_function_of(job.id, job.epoch, version).await?;
    let grants = catalog.grants().await?;
    let TableName { database, namespace, name } = name;
    let object = Object::Function { database, namespace, name };
    if grants.owner_of(&object).is_none()
        && let Ok(user) = UserName::parse(&job.submitted_by)
    {
        let grant = Grant { subject: Subject::User(user), privilege: Privilege::Ownership, object };
        catalog.apply(vec![ObjectChange::Grant(grant)]).await?;
    }
    Ok(number)
}

fn registry(error: CatalogError) -> WorkError {
    if error.is_stale_epoch() {
        return WorkError::LeaseLost;
    }
    WorkError::Transient(failure(&SqlError::from(error)))
}
