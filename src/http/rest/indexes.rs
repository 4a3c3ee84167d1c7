//! Indexes of a table.

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use lancegate_engine::sql::plan::indexes::{IndexRequest, IndexRow};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Routes;
use super::answers::{Done, IndexStatistics, Indexes};
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::openapi::Doc;
use super::request::{Body, Id};
use super::tables::misread;
use crate::http::reply;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/create_index",
        create,
        Doc::json::<Done>("Builds an index.").example(r#"{"column": "x", "index_type": "BTREE"}"#),
    );
    routes.post(
        "/v1/table/{id}/create_scalar_index",
        create,
        Doc::json::<Done>("Builds an index of single values.").example(r#"{"column": "x", "index_type": "BTREE"}"#),
    );
    routes.post("/v1/table/{id}/index/list", list, Doc::json::<Indexes>("Lists the indexes of a table."));
    routes.post(
        "/v1/table/{id}/index/{index}/stats",
        stats,
        Doc::json::<IndexStatistics>("Tells how much of a table an index covers."),
    );
    routes.post("/v1/table/{id}/index/{index}/drop", drop, Doc::json::<Done>("Drops an index."));
    routes.post("/v1/table/{id}/index/{index}/prewarm", prewarm, Doc::json::<Done>("Reads an index into memory."));
    routes.post("/v1/table/{id}/page_cache/prewarm", accepted, Doc::json::<Done>("Is accepted and does nothing."));
}

/// A request for an index; what is left are parameters of its kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "CreateIndexRequest")]
struct Create {
    column: String,
    #[serde(default)]
    index_type: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    replace: Option<bool>,
    #[serde(default)]
    branch: Option<String>,
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

/// `POST /v1/table/{id}/create_index`: built when it answers, so there is no job.
async fn create(mut caller: Caller, id: Id, Body(given): Body<Create>) -> Result<Response> {
    let mut parameters = given.parameters;
    parameters.retain(|_, value| !value.is_null());
    let request = IndexRequest {
        table: id.object()?,
        branch: given.branch,
        column: given.column,
        name: given.name,
        replace: given.replace.unwrap_or(true),
        spec: IndexRequest::spec(given.index_type.as_deref().unwrap_or_default(), &parameters)
            .map_err(RestError::from)
            .map_err(RestError::into_bad_request)?,
    };
    let plan = caller.engine().plan_create_index(caller.session(), &request).await;
    let plan = caller.authorize(plan.map_err(RestError::from).map_err(misread)?).await?;
    caller.execute(&plan).await.map_err(misread)?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// Which version and branch are looked at.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "IndexesRequest")]
#[serde(default, deny_unknown_fields)]
struct At {
    version: Option<u64>,
    branch: Option<String>,
    limit: Option<u32>,
    page_token: Option<String>,
}

async fn found(caller: &Caller, id: &Id, at: &At) -> Result<Vec<IndexRow>> {
    let table = id.object()?;
    let plan = caller.engine().plan_list_indexes(caller.session(), &table, at.branch.as_deref(), at.version).await?;
    let plan = caller.authorize(plan).await?;
    Ok(caller.engine().indexes(&plan).await?)
}

/// `POST /v1/table/{id}/index/list`
async fn list(caller: Caller, id: Id, Body(at): Body<At>) -> Result<Response> {
    let mut indexes = found(&caller, &id, &at).await?;
    if let Some(after) = at.page_token.as_deref().filter(|token| !token.is_empty()) {
        indexes.retain(|index| index.name.as_str() > after);
    }
    indexes.truncate(at.limit.map_or(usize::MAX, |limit| limit as usize));
    let told: Vec<Value> = indexes.iter().map(described).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "indexes": told })))
}

fn described(index: &IndexRow) -> Value {
    let mut told = json!({
        "index_name": index.name,
        "index_uuid": index.uuid,
        "columns": index.columns,
        "index_type": index.index_type,
        "index_status": "done",
        "status": "done",
        "num_indexed_rows": index.indexed_rows,
        "num_unindexed_rows": index.unindexed_rows,
        "num_segments": index.segments,
        "index_version": index.index_version,
        "type_url": index.type_url,
    });
    if let Some(bytes) = index.size_bytes {
        told["size_bytes"] = json!(bytes);
    }
    if let Some(details) = &index.details {
        told["index_details"] = json!(details);
    }
    if let Some(at) = index.created_at {
        told["created_at"] = json!(at.to_rfc3339());
    }
    told
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    index: String,
}

/// `POST /v1/table/{id}/index/{index}/stats`
async fn stats(caller: Caller, id: Id, Path(named): Path<Named>, Body(at): Body<At>) -> Result<Response> {
    let indexes = found(&caller, &id, &at).await?;
    let index = indexes.iter().find(|index| index.name == named.index).ok_or_else(|| no_index(&named.index))?;
    let body = json!({
        "num_indexed_rows": index.indexed_rows,
        "num_unindexed_rows": index.unindexed_rows,
        "index_type": index.index_type,
        "distance_type": index.distance_type,
        "num_indices": index.segments,
    });
    Ok(reply::json(StatusCode::OK, &body))
}

fn no_index(name: &str) -> RestError {
    let message = format!("index \"{name}\" does not exist");
    RestError::new(StatusCode::NOT_FOUND, Code::TableIndexNotFound, message)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "IndexBranch")]
struct OnBranch {
    branch: Option<String>,
}

/// `POST /v1/table/{id}/index/{index}/drop`
async fn drop(mut caller: Caller, id: Id, Path(named): Path<Named>, Query(on): Query<OnBranch>) -> Result<Response> {
    let table = id.object()?;
    let plan = caller
        .engine()
        .plan_drop_index(caller.session(), &table, on.branch.as_deref(), &named.index)
        .await
        .map_err(|error| misnamed(error.into(), &named.index))?;
    let plan = caller.authorize(plan).await?;
    caller.execute(&plan).await.map_err(|error| misnamed(error, &named.index))?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// An index that is not there is told apart from a table that is not.
fn misnamed(error: RestError, index: &str) -> RestError {
    if error.is_undefined_object() { no_index(index) } else { error }
}

/// `POST /v1/table/{id}/index/{index}/prewarm`
async fn prewarm(mut caller: Caller, id: Id, Path(named): Path<Named>) -> Result<Response> {
    let table = id.object()?;
    let plan = caller.engine().plan_prewarm_index(caller.session(), &table, &named.index).await;
    let plan = caller.authorize(plan.map_err(|error| misnamed(error.into(), &named.index))?).await?;
    caller.execute(&plan).await.map_err(|error| misnamed(error, &named.index))?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}

/// Pages are read when they are needed; the table must be one that the caller reads.
async fn accepted(mut caller: Caller, id: Id) -> Result<Response> {
    super::tables::readable(&mut caller, &id.object()?).await?;
    Ok(reply::json(StatusCode::OK, &json!({})))
}
