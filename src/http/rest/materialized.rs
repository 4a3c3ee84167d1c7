//! Materialized views: queries whose rows are stored.
//!
//! The same paths serve two clients. LanceDB's sends `query`, expects 202 with a job where
//! rows are computed, and waits for the job itself. A client of the Lance namespace
//! specification sends `source_query` and expects the version of the new table.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_catalog::{Table, TableKind};
use lancegate_sql::{Ident, ObjectName};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::answers::{Done, MadeView, MaterializedViewDescription, Submitted, Views};
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::names;
use super::openapi::Doc;
use super::request::{Body, Id, PageOf, page};
use super::text::{first_relation, query};
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/materialized_view/{id}/create",
        create,
        Doc::json::<MadeView>("Makes a materialized view.")
            .with(&[200, 202])
            .example(r#"{"query": "SELECT x FROM t"}"#),
    );
    routes.post(
        "/v1/materialized_view/{id}/describe",
        describe,
        Doc::json::<MaterializedViewDescription>("Tells a materialized view."),
    );
    routes.post(
        "/v1/materialized_view/{id}/refresh",
        refresh,
        Doc::json::<Submitted>("Submits a refresh of a materialized view.").with(&[202]).example(r#"{"full": true}"#),
    );
    routes.post("/v1/materialized_view/{id}/drop", drop, Doc::json::<Done>("Drops a materialized view."));
    routes.get("/v1/namespace/{id}/materialized_view/list", list, Doc::json::<Views>("Lists materialized views."));
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "MaterializedViewRequest")]
#[serde(default, deny_unknown_fields)]
struct Definition {
    /// LanceDB's.
    query: Option<String>,
    /// The specification's.
    source_query: Option<String>,
    /// The specification's: what makes the rows; only queries do here.
    kind: Option<String>,
    /// The specification's: the columns that its client expects; the query says them.
    #[serde(rename = "output_schema")]
    _output_schema: Option<Value>,
    /// The specification's, for kinds that do not do here.
    udtf_spec: Option<Value>,
    /// LanceDB's, for a view that removes what is near to each other.
    vector_source: Option<Value>,
    with_no_data: Option<bool>,
    auto_refresh: Option<bool>,
}

/// `POST /v1/materialized_view/{id}/create`
async fn create(mut caller: Caller, id: Id, Body(given): Body<Definition>) -> Result<Response> {
    let name = id.object()?;
    if let Some(kind) = given.kind.as_deref().filter(|kind| *kind != "query") {
        return Err(RestError::unsupported(format!("materialized views of kind \"{kind}\" are not supported")));
    }
    if given.udtf_spec.is_some() || given.vector_source.is_some() {
        return Err(RestError::unsupported(
            "materialized views are made of queries; udtf_spec and vector_source are not supported",
        ));
    }
    let (text, with_data) = match (&given.query, &given.source_query) {
        (Some(text), _) => (text, !given.with_no_data.unwrap_or(false)),
        (None, Some(text)) => (text, !given.with_no_data.unwrap_or(true)),
        (None, None) => return Err(RestError::invalid("query is missing")),
    };
    if with_data {
        caller.ensure_registry().await?;
    }
    let options = given.auto_refresh.map(|on| format!(" WITH (auto_refresh_enabled = {on})")).unwrap_or_default();
    let text = query(text)?;
    // The view is there before its first job, so that the answer need not wait for that.
    caller.run(&format!("CREATE MATERIALIZED VIEW {name}{options} AS {text} WITH NO DATA")).await?;
    let job = match with_data {
        true => match submitted(&mut caller, &name, true).await {
            Ok(job) => Some(job),
            Err(error) => {
                caller.run(&format!("DROP MATERIALIZED VIEW IF EXISTS {name}")).await?;
                return Err(error);
            }
        },
        false => None,
    };
    let status = if job.is_some() { StatusCode::ACCEPTED } else { StatusCode::OK };
    let mut body = json!({});
    if let Some(job) = job {
        body["job_id"] = json!(job);
    }
    if given.query.is_none() {
        body["version"] = json!(super::tables::newest_version(&caller, &name).await?);
    }
    Ok(reply::json(status, &body))
}

/// Submits a refresh and returns its job.
async fn submitted(caller: &mut Caller, name: &ObjectName, full: bool) -> Result<String> {
    let rows = caller.run(&format!("REFRESH MATERIALIZED VIEW {name} WITH (full = {full}) NOWAIT")).await;
    let rows = rows.map_err(|error| match error.code() {
        // It is being refreshed for longer than the client tries again.
        Code::InvalidTableState => error.into_bad_request(),
        _ => error,
    })?;
    rows.text(0, "job_id").ok_or_else(|| RestError::internal("a refresh has no job"))
}

/// `POST /v1/materialized_view/{id}/describe`
async fn describe(mut caller: Caller, id: Id) -> Result<Response> {
    let record = view(&mut caller, &id.object()?).await?;
    let text = record.definition.clone().unwrap_or_default();
    let source = first_relation(&text);
    let mut namespace = source.as_ref().map(|source| source[..source.len() - 1].to_vec()).unwrap_or_default();
    namespace.retain(|part| part != "public" && *part != record.name.database);
    let body = json!({
        "source_table": source.as_ref().and_then(|source| source.last()).cloned().unwrap_or_default(),
        "source_namespace": namespace.iter().flat_map(|path| path.split(names::DELIMITER)).collect::<Vec<_>>(),
        "projections": [],
        "query": text,
        "incarnation": record.id.to_string(),
    });
    Ok(reply::json(StatusCode::OK, &body))
}

/// Returns a view that the caller may read.
async fn view(caller: &mut Caller, name: &ObjectName) -> Result<Table> {
    let (record, _) = super::tables::relation(caller, name).await?;
    match record.kind {
        TableKind::MaterializedView => Ok(record),
        TableKind::Table | TableKind::View => {
            Err(RestError::invalid(format!("\"{}\" is not a materialized view", name.name)))
        }
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "RefreshMaterializedViewRequest")]
#[serde(default)]
struct Refresh {
    full: Option<bool>,
    /// LanceDB's, and the specification's.
    #[serde(alias = "src_version")]
    source_version: Option<u64>,
    expected_incarnation: Option<String>,
    #[serde(flatten)]
    hints: Map<String, Value>,
}

/// `POST /v1/materialized_view/{id}/refresh`
async fn refresh(mut caller: Caller, id: Id, Body(given): Body<Refresh>) -> Result<Response> {
    let name = id.object()?;
    if given.source_version.is_some() {
        return Err(RestError::invalid("source_version is not supported: a refresh reads the newest versions"));
    }
    caller.ensure_registry().await?;
    if let Some(expected) = &given.expected_incarnation {
        let found = view(&mut caller, &name).await?.id.to_string();
        if *expected != found {
            let message = format!("materialized view \"{}\" was made anew: it is {found}, not {expected}", name.name);
            return Err(RestError::new(StatusCode::BAD_REQUEST, Code::InvalidTableState, message));
        }
    }
    let mut body = json!({ "job_id": submitted(&mut caller, &name, given.full.unwrap_or(false)).await? });
    let ignored = given.hints.iter().filter(|(name, value)| !value.is_null() && *name != "id");
    let ignored: Vec<&str> = ignored.map(|(name, _)| name.as_str()).collect();
    if !ignored.is_empty() {
        body["context"] = json!({ "warning": format!("ignored: {}", ignored.join(", ")) });
    }
    Ok(reply::json(StatusCode::ACCEPTED, &body))
}

/// `POST /v1/materialized_view/{id}/drop`
async fn drop(mut caller: Caller, id: Id) -> Result<Response> {
    caller.run(&format!("DROP MATERIALIZED VIEW {}", id.object()?)).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// `GET /v1/namespace/{id}/materialized_view/list`
async fn list(mut caller: Caller, id: Id, PageOf(asked): PageOf) -> Result<Response> {
    let schema = Ident::new(names::schema(&id.namespace()?));
    let names = caller.run(&format!("SHOW MATERIALIZED VIEWS IN {schema}")).await?.texts("name");
    let (names, token) = page(names, &asked);
    let body: Value = json!({ "views": names, "page_token": token });
    Ok(reply::json(StatusCode::OK, &body))
}
