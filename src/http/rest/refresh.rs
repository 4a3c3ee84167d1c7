//! `POST /v1/table/{id}/backfill_column`: REFRESH COLUMN that answers with its job.
//!
//! Takes every field of the Lance namespace specification and, beside them, every
//! option of REFRESH COLUMN under its SQL name. Hints that mean nothing here are
//! named in the answer's context.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_engine::sql::plan::Plan;
use lancegate_sql::ObjectName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::answers::Submitted;
use super::caller::Caller;
use super::columns::shown;
use super::error::{Code, RestError, Result};
use super::names::{self, field_path, literal, sql_path};
use super::openapi::Doc;
use super::request::{BodyWithId, Id};
use super::tables::readable;
use super::text::expression;
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/backfill_column",
        backfill_column,
        Doc::json::<Submitted>("Submits a refresh of a computed column.")
            .with(&[202])
            .example(r#"{"column": "y", "where": "x > 1"}"#),
    );
}

/// The hints of the specification that the engine decides by itself.
const HINTS: [&str; 9] = [
    "intra_applier_concurrency",
    "min_checkpoint_size",
    "max_checkpoint_size",
    "batch_checkpoint_flush_interval_seconds",
    "task_size",
    "num_frags",
    "commit_granularity",
    "cluster",
    "manifest",
];

/// A request; the options of REFRESH COLUMN are among `options`.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RefreshColumnRequest")]
struct Backfill {
    column: String,
    #[serde(default)]
    branch: Option<String>,
    #[serde(default, rename = "where")]
    filter: Option<String>,
    #[serde(default)]
    concurrency: Option<u32>,
    #[serde(default)]
    checkpoint_size: Option<u64>,
    #[serde(default)]
    read_version: Option<u64>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

async fn backfill_column(mut caller: Caller, id: Id, request: BodyWithId<Backfill>) -> Result<Response> {
    let BodyWithId { id: repeated, body: given } = request;
    let name = id.object()?;
    ensure_same_id(&id, repeated.as_deref())?;
    caller.ensure_registry().await?;
    ensure_version(&mut caller, &name, given.read_version).await?;
    let (statement, mut ignored) = statement(&name, &given)?;
    let plan = caller.plan(&statement(Vec::new())).await.map_err(|error| unresolved(error, &given.column))?;
    let plan = match kind_options(&plan, &given, &mut ignored) {
        options if options.is_empty() => plan,
        options => caller.plan(&statement(options)).await.map_err(|error| unresolved(error, &given.column))?,
    };
    let plan = caller.authorize(plan).await?;
    let rows = caller.execute(&plan).await.map_err(|error| match error.code() {
        // A column that is being refreshed stays so for longer than the client tries again.
        Code::InvalidTableState => error.into_bad_request(),
        _ => error,
    })?;
    let mut body = json!({ "job_id": rows.text(0, "job_id") });
    if !ignored.is_empty() {
        body["context"] = json!({ "warning": format!("ignored: {}", ignored.join(", ")) });
    }
    Ok(reply::json(StatusCode::ACCEPTED, &body))
}

/// The body may repeat the id of the path, and then it must be the same one.
fn ensure_same_id(id: &Id, given: Option<&[String]>) -> Result<()> {
    match given {
        Some(given) if given != names::components(&id.text, &id.delimiter)? => {
            Err(RestError::invalid("id in the body is not the id of the path"))
        }
        _ => Ok(()),
    }
}

/// A refresh reads the newest version: the values of older inputs would be wrong in
/// rows that have changed since.
async fn ensure_version(caller: &mut Caller, name: &ObjectName, wanted: Option<u64>) -> Result<()> {
    let Some(wanted) = wanted else { return Ok(()) };
    let newest = readable(caller, name).await?.dataset.version_id();
    if wanted > newest {
        let message = format!("version {wanted} of table \"{}\" does not exist; the newest is {newest}", name.name);
        return Err(RestError::new(StatusCode::BAD_REQUEST, Code::TableVersionNotFound, message));
    }
    match wanted == newest {
        true => Ok(()),
        false => Err(RestError::invalid(format!(
            "read_version {wanted} is not the newest version {newest} of table \"{}\": values of its inputs would be \
             wrong in rows that have changed since",
            name.name
        ))),
    }
}

/// Returns what makes the statement from more options, and which hints it leaves out.
fn statement<'a>(
    name: &'a ObjectName,
    given: &'a Backfill,
) -> Result<(impl Fn(Vec<String>) -> String + 'a, Vec<String>)> {
    let column = sql_path(&field_path(&given.column)?);
    let filter = match given.filter.as_deref() {
        Some(filter) => format!(" WHERE {}", expression(filter)?),
        None => String::new(),
    };
    let mut options = Vec::new();
    let mut ignored = Vec::new();
    if let Some(branch) = given.branch.as_deref() {
        options.push(format!("branch = {}", literal(branch)));
    }
    // Fields without a value are as if they were not there.
    for (option, value) in given.options.iter().filter(|(_, value)| !value.is_null()) {
        if HINTS.contains(&option.as_str()) {
            ignored.push(option.clone());
            continue;
        }
        options.push(format!("{} = {}", lancegate_sql::Ident::new(option), written(option, value)?));
    }
    let make = move |more: Vec<String>| {
        let all: Vec<String> = options.iter().cloned().chain(more).collect();
        let with = if all.is_empty() { String::new() } else { format!(" WITH ({})", all.join(", ")) };
        format!("REFRESH COLUMN {column} ON {name}{filter}{with} NOWAIT")
    };
    Ok((make, ignored))
}

/// Returns a value as an option of SQL, where its name and range are checked.
fn written(option: &str, value: &Value) -> Result<String> {
    match value {
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(value) => Ok(value.to_string()),
        Value::String(value) => Ok(literal(value)),
        _ => Err(RestError::invalid(format!("{option} must be a number, a text or a boolean"))),
    }
}

/// Returns the options that depend on what fills the column.
fn kind_options(plan: &Plan, given: &Backfill, ignored: &mut Vec<String>) -> Vec<String> {
    let function = matches!(plan, Plan::RefreshColumn(refresh) if refresh.function.is_some());
    let mut options = Vec::new();
    match given.concurrency {
        Some(workers) if !function => options.push(format!("num_workers = {workers}")),
        Some(_) => ignored.push("concurrency".to_owned()),
        None => {}
    }
    match given.checkpoint_size {
        Some(rows) if function => options.push(format!("publication_interval_rows = {rows}")),
        Some(_) => ignored.push("checkpoint_size".to_owned()),
        None => {}
    }
    options
}

/// Shows the full path of a column that cannot be refreshed.
fn unresolved(error: RestError, column: &str) -> RestError {
    // The filter may be what names a column that is not there.
    let root = field_path(column).ok().and_then(|path| path.into_iter().next()).unwrap_or_default();
    let about_it = error.message().contains(&format!("\"{root}"));
    match (error.code(), shown(column)) {
        (Code::TableColumnNotFound, Ok(path)) if about_it => RestError::new(
            StatusCode::BAD_REQUEST,
            Code::TableColumnNotFound,
            format!("column \"{path}\" does not exist"),
        ),
        _ if error.message().starts_with("branch ") && error.is_missing() => {
            error.with_code(Code::TableBranchNotFound).into_bad_request()
        }
        (Code::TableNotFound | Code::PermissionDenied, _) => error,
        _ => error.into_bad_request(),
    }
}
