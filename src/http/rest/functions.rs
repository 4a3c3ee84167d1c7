//! Functions: registered, described, listed, dropped; and how a request binds one
//! to columns.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_auth::{Object, Privilege};
use lancegate_catalog::{FunctionVersion, Job, TableName};
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::python::function_document;
use lancegate_engine::sql::resolve::namespace_of;
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::answers::{Dropped, FunctionDocument, Functions, Submitted};
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::names::{field_path, literal, schema, sql_path};
use super::openapi::Doc;
use super::request::{Body, Id, PageOf, page};
use super::tables::no_object;
use crate::http::reply;

/// The result of a Function that has one.
const WHOLE: &str = "$value";

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/function/{id}/create",
        create,
        Doc::json::<Submitted>("Registers a Function.").with(&[202]).example(r#"{"schema_version": 1}"#),
    );
    routes.post(
        "/v1/function/{id}/describe",
        describe,
        Doc::json::<FunctionDocument>("Tells a version of a Function, the newest unless one is named.")
            .example(r#"{"version": "1"}"#),
    );
    routes.post(
        "/v1/function/{id}/drop",
        drop,
        Doc::json::<Dropped>("Drops a version of a Function.").example(r#"{"version": "1"}"#),
    );
    routes.get("/v1/namespace/{id}/function/list", list, Doc::json::<Functions>("Lists the versions of Functions."));
}

/// `POST /v1/function/{id}/create`: the body is the registration document of the
/// SDK without the name.
async fn create(mut caller: Caller, id: Id, Body(mut given): Body<Map<String, Value>>) -> Result<Response> {
    // Before there is a job whose id could not be told.
    caller.ensure_registry().await?;
    let name = id.object()?;
    given.insert("name".to_owned(), json!(name.name));
    let document = Value::Object(given).to_string();
    let rows = caller.run(&format!("CREATE FUNCTION {name} FROM {} WITH (wait = false)", literal(&document))).await?;
    let job_id = rows.text(0, "job_id").ok_or_else(|| RestError::internal("a registration has no job"))?;
    Ok(reply::json(StatusCode::ACCEPTED, &json!({ "job_id": job_id })))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "FunctionVersionRequest")]
#[serde(default, deny_unknown_fields)]
struct Version {
    version: Option<String>,
}

impl Version {
    fn number(&self) -> Result<Option<u64>> {
        let Some(text) = &self.version else { return Ok(None) };
        let number = text.parse().ok().filter(|number| *number > 0 && !text.starts_with(['0', '+']));
        number.map(Some).ok_or_else(|| RestError::invalid(format!("\"{text}\" is not a version")))
    }
}

/// `POST /v1/function/{id}/describe`
async fn describe(mut caller: Caller, id: Id, Body(version): Body<Version>) -> Result<Response> {
    let function = find(&mut caller, &id.object()?, version.number()?).await?;
    Ok(reply::json(StatusCode::OK, &document(&function)?))
}

/// Returns a version that the caller may use; to him others do not exist.
async fn find(caller: &mut Caller, name: &ObjectName, version: Option<u64>) -> Result<FunctionVersion> {
    let missing = || no_object(format!("function \"{}\" does not exist", name.name));
    caller.run(&format!("DESCRIBE FUNCTION {name}")).await.map_err(|error| match error.code() {
        Code::PermissionDenied | Code::InvalidInput => missing(),
        _ => error,
    })?;
    let full = TableName {
        database: caller.database().to_owned(),
        namespace: namespace_of(name.schema.as_deref().unwrap_or("public")),
        name: name.name.clone(),
    };
    let found = caller.engine().catalog().function(&full, version).await.map_err(SqlError::from)?;
    found.ok_or_else(missing)
}

async fn may_use(caller: &Caller, function: &FunctionVersion) -> Result<bool> {
    let TableName { database, namespace, name } = function.name.clone();
    let object = Object::Function { database, namespace, name };
    Ok(caller.engine().allows(&caller.session().principal, Privilege::Usage, object).await?)
}

/// Returns a version as the clients read it: the older ones its time as text, the
/// newer as a number.
fn document(function: &FunctionVersion) -> Result<Value> {
    let mut document = function_document(function)?;
    document["created_at"] = json!(function.created_at.to_rfc3339());
    Ok(document)
}

/// Returns the version that a job has made.
pub(super) async fn of_job(caller: &Caller, job: &Job) -> Result<Option<Value>> {
    let name =
        TableName { database: job.database.clone(), namespace: job.namespace.clone(), name: job.table_name.clone() };
    let version = job.result.as_ref().and_then(|result| {
        let version = &result["version"];
        version.as_u64().or_else(|| version.as_str()?.parse().ok())
    });
    let made = caller.engine().catalog().function(&name, version).await.map_err(SqlError::from)?;
    match made {
        Some(function) if may_use(caller, &function).await? => document(&function).map(Some),
        // Who reads the registry sees that there is a version, and not what it is.
        _ => Ok(job.result.clone()),
    }
}

/// `POST /v1/function/{id}/drop`
async fn drop(mut caller: Caller, id: Id, Body(version): Body<Version>) -> Result<Response> {
    let name = id.object()?;
    let number = version.number()?.ok_or_else(|| RestError::invalid("version is missing"))?;
    let dropped = caller.run(&format!("DROP FUNCTION {name} WITH (version = '{number}')")).await;
    dropped.map_err(RestError::of_function)?;
    Ok(reply::json(StatusCode::OK, &json!({ "dropped": true })))
}

/// `GET /v1/namespace/{id}/function/list`: every version, by name and number.
async fn list(caller: Caller, id: Id, PageOf(asked): PageOf) -> Result<Response> {
    let path = id.namespace()?;
    let mut found = Vec::new();
    for function in caller.engine().catalog().functions(caller.database()).await.map_err(SqlError::from)? {
        if function.name.namespace == path && may_use(&caller, &function).await? {
            found.push(function);
        }
    }
    // A token is a name with its number, padded so that it sorts as a number.
    let key = |function: &FunctionVersion| format!("{}@{:020}", function.name.name, function.version);
    let (keys, token) = page(found.iter().map(key).collect(), &asked);
    let mut functions = Vec::with_capacity(keys.len());
    for wanted in &keys {
        if let Some(function) = found.iter().find(|function| key(function) == *wanted) {
            functions.push(json!({
                "name": function.name.name,
                "version": function.version.to_string(),
                "definition": document(function)?,
            }));
        }
    }
    Ok(reply::json(StatusCode::OK, &json!({ "functions": functions, "page_token": token })))
}

/// A Function applied to columns, as the SDK declares it.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "FunctionApplication")]
#[serde(deny_unknown_fields)]
pub(super) struct Application {
    application: Applied,
    binding_metadata_version: u32,
    outputs: Vec<Output>,
    /// What the client has made of the table and the Function; made again here.
    #[serde(default, rename = "input_bindings")]
    _input_bindings: Option<Value>,
    #[serde(default, rename = "input_schema")]
    _input_schema: Option<Value>,
    #[serde(default, rename = "output_schema")]
    _output_schema: Option<Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AppliedFunction")]
struct Applied {
    function: Reference,
    inputs: Vec<Input>,
    #[serde(default)]
    initialization: Map<String, Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "FunctionReference")]
struct Reference {
    name: String,
    version: String,
    #[serde(default)]
    namespace_path: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "FunctionInput")]
struct Input {
    kind: String,
    parameter: String,
    value: Value,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "FunctionOutput")]
struct Output {
    output_name: String,
    output_ordinal: u32,
    result_field: String,
}

/// Returns `ADD COLUMN … AS f(…)`.
///
/// # Errors
/// 400 for a binding that is not of version 1 or does not fit the new columns.
pub(super) fn declaration(given: &Application, columns: &[&str]) -> Result<String> {
    if given.binding_metadata_version != 1 {
        return Err(RestError::unsupported("only binding_metadata_version 1 is supported"));
    }
    let mut outputs: Vec<&Output> = given.outputs.iter().collect();
    outputs.sort_by_key(|output| output.output_ordinal);
    let ordered = outputs.iter().enumerate().all(|(index, output)| output.output_ordinal as usize == index);
    let named: Vec<&str> = outputs.iter().map(|output| output.output_name.as_str()).collect();
    if !ordered || named.is_empty() || named != columns {
        return Err(RestError::invalid("outputs are not the new columns in their order"));
    }
    let whole = outputs.iter().filter(|output| output.result_field == WHOLE).count();
    if whole > 0 && outputs.len() > 1 {
        return Err(RestError::invalid("the whole result of a Function is one column"));
    }
    let names: Vec<String> = named.iter().map(|name| Ident::new(*name).to_string()).collect();
    let names = if names.len() == 1 && whole == 1 { names.concat() } else { format!("({})", names.join(", ")) };
    let Reference { name, namespace_path, .. } = &given.application.function;
    let function = ObjectName::in_schema(schema(namespace_path), name.clone());
    let mut arguments = Vec::new();
    for input in &given.application.inputs {
        arguments.push(format!("{} => {}", Ident::new(&input.parameter), argument(input)?));
    }
    for (parameter, value) in &given.application.initialization {
        arguments.push(format!("{} => {}", Ident::new(parameter), constant(value)?));
    }
    Ok(format!("ADD COLUMN {names} AS {function}({})", arguments.join(", ")))
}

/// Returns the options of a declaration.
pub(super) fn with(options: &[String], given: &Application) -> Result<String> {
    let version = Version { version: Some(given.application.function.version.clone()) };
    let number = version.number()?.ok_or_else(|| RestError::invalid("the version of the Function is missing"))?;
    let all: Vec<String> = std::iter::once(format!("version = '{number}'")).chain(options.iter().cloned()).collect();
    Ok(format!(" WITH ({})", all.join(", ")))
}

fn argument(input: &Input) -> Result<String> {
    let path = input.value.get("path").and_then(Value::as_str).filter(|_| input.kind == "column");
    let path = path.ok_or_else(|| RestError::unsupported(format!("input \"{}\" is not a column", input.parameter)))?;
    Ok(sql_path(&field_path(path)?))
}

fn constant(value: &Value) -> Result<String> {
    match value {
        Value::Null => Ok("NULL".to_owned()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(value) => Ok(value.to_string()),
        Value::String(text) => Ok(literal(text)),
        _ => Err(RestError::unsupported("an initialization value must be a number, a text, a boolean or null")),
    }
}
