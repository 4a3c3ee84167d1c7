//! Tables as a whole: listed, described, counted, changed by expressions, dropped.

use arrow::datatypes::Schema;
use axum::extract::OriginalUri;
use axum::http::StatusCode;
use axum::response::Response;
use lancegate_catalog::{Table, TableName};
use lancegate_engine::error::SqlError;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::listing::Listing;
use lancegate_engine::sql::plan::search::CountRequest;
use lancegate_engine::sql::resolve::{BoundTable, namespace_of};
use lancegate_engine::sqlstate::SqlState;
use lancegate_engine::storage::describe as storage;
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{Deleted, Done, MemoryTier, TableDescription, TableStatistics, Tables, Updated};
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::names;
use super::openapi::Doc;
use super::request::{Body, Id, Page, PageOf, page};
use super::text::expression;
use super::writes::versioned;
use crate::http::reply;

/// What the clients ask of a table and nothing here does: said with a 400, because
/// they read a 404 as a missing table.
const UNSUPPORTED: [&str; 12] = [
    "clone",
    "fetch_blobs",
    "set_lsm_write_spec",
    "unset_lsm_write_spec",
    "flush_lsm",
    "compact_lsm",
    "enable_rte",
    "disable_rte",
    "flush_rte",
    "compact_rte",
    "branches/diff",
    "branches/cherry_pick",
];
/// The longest name of a table that the clients read.
const NAME_BYTES_MAX: usize = 128;

pub(super) fn routes(routes: &mut Routes) {
    routes.get("/v1/table", list_root, Doc::json::<Tables>("Lists the tables of the root namespace."));
    routes.get("/v1/namespace/{id}/table/list", list, Doc::json::<Tables>("Lists the tables of a namespace."));
    routes.post("/v1/table/{id}/describe", describe, Doc::json::<TableDescription>("Tells a table."));
    routes.post("/v1/table/{id}/exists", exists, Doc::json::<Done>("Tells whether a table is there."));
    routes.post("/v1/table/{id}/drop", drop, Doc::json::<Done>("Drops a table."));
    routes.post(
        "/v1/table/{id}/rename",
        rename,
        Doc::json::<Done>("Renames a table.").example(r#"{"new_table_name": "u"}"#),
    );
    routes.post("/v1/table/{id}/stats", stats, Doc::json::<TableStatistics>("Tells how large a table is."));
    for route in UNSUPPORTED {
        routes.post(&format!("/v1/table/{{id}}/{route}"), unsupported, Doc::refused("Is not supported."));
    }
    for route in ["get_lsm_write_spec", "get_rte_spec", "get_lsm_stats", "get_rte_stats"] {
        let doc = Doc::json::<MemoryTier>("Tells that there is no tier in memory.");
        routes.post(&format!("/v1/table/{{id}}/{route}"), no_memory_tier, doc);
    }
}

/// What takes as long as there are rows.
pub(super) fn long_routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/count_rows",
        count_rows,
        Doc::json::<u64>("Counts rows.").example(r#"{"predicate": "x > 1"}"#),
    );
    routes.post(
        "/v1/table/{id}/update",
        update,
        Doc::json::<Updated>("Changes rows.").example(r#"{"updates": [["x", "x + 1"]], "predicate": "x > 1"}"#),
    );
    routes.post(
        "/v1/table/{id}/delete",
        delete,
        Doc::json::<Deleted>("Deletes rows.").example(r#"{"predicate": "x > 1"}"#),
    );
}

/// `GET /v1/table/`: the tables of the root namespace.
async fn list_root(mut caller: Caller, PageOf(asked): PageOf) -> Result<Response> {
    listed(&mut caller, &[], &asked).await
}

/// `GET /v1/namespace/{id}/table/list`
async fn list(mut caller: Caller, id: Id, PageOf(asked): PageOf) -> Result<Response> {
    listed(&mut caller, &id.namespace()?, &asked).await
}

async fn listed(caller: &mut Caller, path: &[String], asked: &Page) -> Result<Response> {
    let schema = Ident::new(names::schema(path));
    let mut names = caller.run(&format!("SHOW TABLES IN {schema}")).await?.texts("name");
    // The clients refuse a whole listing for one name that they do not read.
    names.retain(|name| is_readable(name));
    let (names, token) = page(names, asked);
    Ok(reply::json(StatusCode::OK, &json!({ "tables": names, "page_token": token })))
}

fn is_readable(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != ".."
}

/// What most requests about a table may have beside their own fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "TableRequest")]
#[serde(default, deny_unknown_fields)]
struct About {
    version: Option<u64>,
    branch: Option<String>,
    with_table_uri: Option<bool>,
    load_detailed_metadata: Option<bool>,
    vend_credentials: Option<bool>,
    predicate: Option<String>,
}

impl About {
    fn ensure_main(&self) -> Result<()> {
        ensure_main(self.branch.as_ref())
    }
}

/// Refuses branches, where they are not supported.
pub(super) fn ensure_main(branch: Option<&String>) -> Result<()> {
    match branch {
        Some(branch) if branch != "main" => {
            Err(RestError::unsupported(format!("branch \"{branch}\" cannot be used here")).into_bad_request())
        }
        _ => Ok(()),
    }
}

/// Opens a table that the caller may read.
///
/// # Errors
/// 404, 403; 400 for a view.
pub(super) async fn readable(caller: &mut Caller, name: &ObjectName) -> Result<BoundTable> {
    let plan = caller.plan(&format!("DESCRIBE TABLE {name}")).await?;
    let plan = caller.authorize(plan).await?;
    match &*plan {
        Plan::Listing(listing) => match &listing.what {
            Listing::Columns(table) => Ok(table.clone()),
            _ => Err(RestError::internal("DESCRIBE was bound to something else")),
        },
        _ => Err(RestError::internal("DESCRIBE was bound to another plan")),
    }
}

/// Returns a table or view that the caller may read, and its columns.
///
/// # Errors
/// 404, 403.
pub(super) async fn relation(caller: &mut Caller, name: &ObjectName) -> Result<(Table, Schema)> {
    let plan = caller.plan(&format!("SELECT * FROM {name}")).await?;
    let plan = caller.authorize(plan).await?;
    let columns = plan.columns().ok_or_else(|| RestError::internal("a query has no columns"))?;
    let full = full_name(caller, name);
    let record = caller.engine().catalog().table(&full).await.map_err(SqlError::from)?;
    let record = record.ok_or_else(|| RestError::not_found(format!("relation \"{}\" does not exist", name.name)))?;
    Ok((record, columns.as_ref().clone()))
}

fn full_name(caller: &Caller, name: &ObjectName) -> TableName {
    TableName {
        database: caller.database().to_owned(),
        namespace: namespace_of(name.schema.as_deref().unwrap_or("public")),
        name: name.name.clone(),
    }
}

/// Returns the version that the caller's last change of a table has made, or its
/// newest one if there was nothing to commit.
pub(super) async fn newest_version(caller: &Caller, name: &ObjectName) -> Result<u64> {
    if let Some(version) = caller.session().committed {
        return Ok(version);
    }
    let full = full_name(caller, name);
    let Some(record) = caller.engine().catalog().table(&full).await.map_err(SqlError::from)? else { return Ok(0) };
    let dataset = caller.engine().store().open(&record.location).await.map_err(SqlError::from)?;
    let table = BoundTable { record, dataset };
    let table = match caller.session().branch.clone() {
        Some(branch) => caller.engine().on_branch(caller.session(), table, &branch).await?,
        None => table,
    };
    Ok(table.dataset.version_id())
}

/// `POST /v1/table/{id}/describe`
async fn describe(
    mut caller: Caller,
    id: Id,
    OriginalUri(uri): OriginalUri,
    Body(about): Body<About>,
) -> Result<Response> {
    let name = id.object()?;
    let mut table = match readable(&mut caller, &name).await {
        Ok(table) => table,
        // A view reads as a table does.
        Err(error) if error.code() == Code::InvalidInput => {
            let (record, schema) = relation(&mut caller, &name).await?;
            return described(&uri, &record, &schema, 1);
        }
        Err(error) => return Err(error),
    };
    if let Some(branch) = about.branch.as_deref().filter(|branch| *branch != "main") {
        table = caller.engine().on_branch(caller.session(), table, branch).await?;
    }
    if let Some(version) = about.version {
        table = at_version(&table, version).await?;
    }
    described(&uri, &table.record, &storage::shown_schema(&table.dataset), table.dataset.version_id())
}

/// Opens another version of a table.
///
/// # Errors
/// 404 if it is not there, which is what the clients expect of a version.
pub(super) async fn at_version(table: &BoundTable, version: u64) -> Result<BoundTable> {
    match storage::at_version(&table.dataset, version).await.map_err(SqlError::from)? {
        Some(dataset) => Ok(BoundTable { record: table.record.clone(), dataset }),
        None => {
            let message = format!("version {version} of table \"{}\" does not exist", table.name());
            Err(RestError::new(StatusCode::NOT_FOUND, Code::TableVersionNotFound, message))
        }
    }
}

fn described(uri: &axum::http::Uri, record: &Table, schema: &Schema, version: u64) -> Result<Response> {
    // LanceDB's client spells types as Lance does, the specification as Arrow does.
    let columns = match uri.path().ends_with('/') {
        true => remote_schema(schema)?,
        false => namespace_schema(schema)?,
    };
    let body = json!({
        "table": record.name.name,
        "namespace": record.name.namespace,
        "version": version,
        "location": record.location,
        "schema": columns,
    });
    Ok(versioned(&body, version))
}

fn remote_schema(schema: &Schema) -> Result<Value> {
    let json = lance::arrow::json::JsonSchema::try_from(schema).map_err(|error| untold(&error))?;
    serde_json::to_value(&json).map_err(RestError::internal)
}

/// Returns a schema in the dialect of the Lance namespace specification.
///
/// # Errors
/// 400 for a type that it has no word for.
pub(super) fn namespace_schema(schema: &Schema) -> Result<Value> {
    let json = lance_namespace::schema::arrow_schema_to_json(schema).map_err(|error| untold(&error))?;
    serde_json::to_value(&json).map_err(RestError::internal)
}

fn untold(error: &dyn std::fmt::Display) -> RestError {
    RestError::invalid(format!("the columns have a type that the protocol cannot tell: {error}"))
}

/// `POST /v1/table/{id}/exists`
async fn exists(mut caller: Caller, id: Id, Body(about): Body<About>) -> Result<Response> {
    about.ensure_main()?;
    let name = id.object()?;
    let (_, _) = relation(&mut caller, &name).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `POST /v1/table/{id}/drop`
async fn drop(mut caller: Caller, id: Id, OriginalUri(uri): OriginalUri, Body(_): Body<About>) -> Result<Response> {
    // LanceDB's client takes a table that is not there for dropped.
    let if_exists = if uri.path().ends_with('/') { "IF EXISTS " } else { "" };
    caller.run(&format!("DROP TABLE {if_exists}{}", id.object()?)).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "RenameRequest")]
#[serde(deny_unknown_fields)]
struct Rename {
    new_table_name: String,
    #[serde(default, alias = "new_namespace_id")]
    new_namespace: Option<Vec<String>>,
}

/// `POST /v1/table/{id}/rename`
async fn rename(mut caller: Caller, id: Id, Body(given): Body<Rename>) -> Result<Response> {
    let name = id.object()?;
    let path = namespace_of(name.schema.as_deref().unwrap_or("public"));
    if given.new_namespace.is_some_and(|wanted| wanted != path) {
        return Err(RestError::unsupported("a table cannot be moved to another namespace").into_bad_request());
    }
    caller.run(&format!("ALTER TABLE {name} RENAME TO {}", Ident::new(given.new_table_name))).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `POST /v1/table/{id}/count_rows`: a bare number.
async fn count_rows(mut caller: Caller, id: Id, Body(about): Body<About>) -> Result<Response> {
    if let Some(predicate) = &about.predicate {
        // Lance reads it itself; here only its form is checked.
        expression(predicate)?;
    }
    let request =
        CountRequest { table: id.object()?, version: about.version, branch: about.branch, filter: about.predicate };
    let plan = caller.engine().plan_count(caller.session(), &request).await;
    let plan = caller.authorize(plan.map_err(RestError::from).map_err(misread)?).await?;
    let rows = caller.execute(&plan).await.map_err(misread)?;
    let count: Option<u64> = rows.first_text().and_then(|text| text.parse().ok());
    Ok(reply::json(StatusCode::OK, &json!(count)))
}

/// `POST /v1/table/{id}/stats`
async fn stats(mut caller: Caller, id: Id, Body(about): Body<About>) -> Result<Response> {
    about.ensure_main()?;
    let table = readable(&mut caller, &id.object()?).await?;
    let found = storage::statistics(&table.dataset).await.map_err(SqlError::from)?;
    let mean = found.rows / (found.lengths.len().max(1) as u64);
    let body = json!({
        "total_bytes": found.bytes,
        "num_rows": found.rows,
        "num_deleted_rows": found.deleted_rows,
        "num_indices": found.indices,
        "fragment_stats": {
            "num_fragments": found.lengths.len(),
            "num_small_fragments": found.small_fragments(),
            "lengths": {
                "min": found.length(0), "max": found.length(100), "mean": mean, "p25": found.length(25),
                "p50": found.length(50), "p75": found.length(75), "p99": found.length(99),
            },
        },
    });
    Ok(versioned(&body, table.dataset.version_id()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "UpdateRequest")]
#[serde(deny_unknown_fields)]
struct Update {
    #[schemars(length(min = 1))]
    updates: Vec<(String, String)>,
    #[serde(default)]
    predicate: Option<String>,
    #[serde(default)]
    branch: Option<String>,
}

/// `POST /v1/table/{id}/update`
async fn update(
    mut caller: Caller,
    id: Id,
    OriginalUri(uri): OriginalUri,
    Body(given): Body<Update>,
) -> Result<Response> {
    caller.on_branch(given.branch);
    let name = id.object()?;
    if given.updates.is_empty() {
        return Err(RestError::invalid("there is nothing to update"));
    }
    let set = given.updates.iter().map(|(column, value)| {
        let column = names::field_path(column)?;
        Ok(format!("{} = {}", names::sql_path(&column), expression(value)?))
    });
    let set = set.collect::<Result<Vec<_>>>()?.join(", ");
    let only = filter(given.predicate.as_deref())?;
    let rows = caller.run(&format!("UPDATE {name} SET {set}{only}")).await.map_err(misread)?;
    let version = newest_version(&caller, &name).await?;
    let count = if uri.path().ends_with('/') { "rows_updated" } else { "updated_rows" };
    Ok(versioned(&json!({ count: rows.affected(), "version": version }), version))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "DeleteRequest")]
#[serde(deny_unknown_fields)]
struct Delete {
    predicate: String,
    #[serde(default)]
    branch: Option<String>,
}

/// `POST /v1/table/{id}/delete`
async fn delete(mut caller: Caller, id: Id, Body(given): Body<Delete>) -> Result<Response> {
    caller.on_branch(given.branch);
    let name = id.object()?;
    let only = filter(Some(&given.predicate))?;
    let rows = caller.run(&format!("DELETE FROM {name}{only}")).await.map_err(misread)?;
    let version = newest_version(&caller, &name).await?;
    Ok(versioned(&json!({ "num_deleted_rows": rows.affected(), "version": version }), version))
}

fn filter(predicate: Option<&str>) -> Result<String> {
    Ok(match predicate {
        Some(predicate) => format!(" WHERE {}", expression(predicate)?),
        None => String::new(),
    })
}

/// On routes of tables every 404 but that of the table itself is misread, and a
/// 409 that stays is sent again.
pub(super) fn misread(error: RestError) -> RestError {
    match error.code() {
        _ if error.is_undefined_object() => error.with_code(Code::InvalidInput).into_bad_request(),
        Code::TableNotFound | Code::ConcurrentModification | Code::PermissionDenied => error,
        _ => error.into_bad_request(),
    }
}

async fn unsupported(caller: Caller, id: Id, OriginalUri(uri): OriginalUri) -> Result<Response> {
    id.object()?;
    let route = uri.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    tracing::debug!(user = %caller.session().principal.user, route, "not supported");
    Err(RestError::unsupported(format!("{route} is not supported")).into_bad_request())
}

/// Rows are written to the table at once, so there is no tier before it to tell of.
async fn no_memory_tier(mut caller: Caller, id: Id) -> Result<Response> {
    readable(&mut caller, &id.object()?).await?;
    let none = json!({ "lsm_write_spec": null, "rte_spec": null, "lsm_stats": null, "rte_stats": null });
    Ok(reply::json(StatusCode::OK, &none))
}

/// Returns an error for something else than a table that is missing.
pub(super) fn no_object(message: String) -> RestError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, message).into()
}
