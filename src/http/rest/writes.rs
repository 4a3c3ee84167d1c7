//! Routes that rows are sent to: create, insert, merge_insert.

use std::sync::Arc;

use axum::extract::{Query, RawQuery, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use lancegate_engine::exec::ingest::Ingested;
use lancegate_engine::sql::plan::ingest::{IfExists, IngestMode, IngestRequest, MergeSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{MergeParameters, Merged, Versioned};
use super::batches::Incoming;
use super::caller::Caller;
use super::error::{Code, RestError, Result};
use super::openapi::Doc;
use super::request::Id;
use super::tables::ensure_main;
use super::text;
use crate::http::{HttpShared, reply};

pub(super) fn routes(routes: &mut Routes) {
    routes.post("/v1/table/{id}/create", create, Doc::json::<Versioned>("Makes a table of the rows that are sent."));
    routes.post("/v1/table/{id}/insert", insert, Doc::json::<Versioned>("Adds the rows that are sent."));
    routes.post(
        "/v1/table/{id}/merge_insert",
        merge_insert,
        Doc::json::<Merged>("Merges the rows that are sent.").query::<MergeParameters>(),
    );
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "WriteParameters")]
struct Mode {
    mode: Option<String>,
    branch: Option<String>,
    upload_id: Option<String>,
}

impl Mode {
    /// Parses the word as clients spell it: `exist_ok`, `ExistOk`.
    fn word(&self) -> String {
        let word = self.mode.as_deref().unwrap_or_default();
        word.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase()
    }

    fn ensure_supported(&self) -> Result<()> {
        match self.upload_id {
            Some(_) => Err(RestError::unsupported("uploads in several parts are not supported").into_bad_request()),
            None => Ok(()),
        }
    }
}

/// `POST /v1/table/{id}/create?mode=create|overwrite|exist_ok`
async fn create(
    State(shared): State<Arc<HttpShared>>,
    caller: Caller,
    id: Id,
    Query(mode): Query<Mode>,
    request: axum::extract::Request,
) -> Result<Response> {
    ensure_main(mode.branch.as_ref())?;
    let slash = request.uri().path().ends_with('/');
    let if_exists = match mode.word().as_str() {
        "" | "create" => IfExists::Fail,
        "existok" => IfExists::Keep,
        "overwrite" => IfExists::Overwrite,
        other => return Err(RestError::invalid(format!("mode \"{other}\" is not create, overwrite or exist_ok"))),
    };
    let sent = Sent { id, mode: IngestMode::Create(if_exists), request };
    let created = ingest(&shared, caller, sent).await.map_err(|error| match error.code() {
        // LanceDB's client reads "already exists" in a 400, the specification says 409.
        Code::TableAlreadyExists if slash => error.with_status(StatusCode::BAD_REQUEST),
        _ => error,
    })?;
    Ok(versioned(&json!({ "version": created.version }), created.version))
}

/// `POST /v1/table/{id}/insert[?mode=overwrite]`
async fn insert(
    State(shared): State<Arc<HttpShared>>,
    mut caller: Caller,
    id: Id,
    Query(mode): Query<Mode>,
    request: axum::extract::Request,
) -> Result<Response> {
    mode.ensure_supported()?;
    caller.on_branch(mode.branch.clone());
    let into = match mode.word().as_str() {
        "" | "append" => IngestMode::Append,
        "overwrite" => IngestMode::Overwrite,
        other => return Err(RestError::invalid(format!("mode \"{other}\" is not append or overwrite"))),
    };
    let done = ingest(&shared, caller, Sent { id, mode: into, request }).await?;
    Ok(versioned(&json!({ "version": done.version }), done.version))
}

/// `POST /v1/table/{id}/merge_insert?on=…&when_matched_update_all=…&…`
async fn merge_insert(
    State(shared): State<Arc<HttpShared>>,
    mut caller: Caller,
    id: Id,
    RawQuery(query): RawQuery,
    request: axum::extract::Request,
) -> Result<Response> {
    let (merge, branch) = merge_spec(query.as_deref().unwrap_or_default())?;
    caller.on_branch(branch);
    let done = ingest(&shared, caller, Sent { id, mode: IngestMode::Merge(merge), request }).await?;
    let body = json!({
        "version": done.version,
        "num_inserted_rows": done.inserted,
        "num_updated_rows": done.updated,
        "num_deleted_rows": done.deleted,
    });
    Ok(versioned(&body, done.version))
}

/// Reads the parameters of a merge, and its branch; `on` may come several times.
fn merge_spec(query: &str) -> Result<(MergeSpec, Option<String>)> {
    let mut branch = None;
    let mut merge = MergeSpec { use_index: true, ..MergeSpec::default() };
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let flag = || match &*value {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(RestError::invalid(format!("{name} is true or false, not \"{other}\""))),
        };
        match &*name {
            "on" => merge.on.push(value.into_owned()),
            "when_matched_update_all" => merge.update_matched = flag()?,
            "when_matched_update_all_filt" => merge.update_filter = Some(checked(&value)?),
            "when_not_matched_insert_all" => merge.insert_unmatched = flag()?,
            "when_not_matched_by_source_delete" => merge.delete_unmatched = flag()?,
            "when_not_matched_by_source_delete_filt" => merge.delete_filter = Some(checked(&value)?),
            "use_index" => merge.use_index = flag()?,
            "branch" => branch = Some(value.into_owned()),
            _ => {}
        }
    }
    Ok((merge, branch))
}

/// Lance reads the filter itself; here only its form is checked.
fn checked(filter: &str) -> Result<String> {
    text::expression(filter)?;
    Ok(filter.to_owned())
}

/// A request with rows.
struct Sent {
    id: Id,
    mode: IngestMode,
    request: axum::extract::Request,
}

async fn ingest(shared: &HttpShared, mut caller: Caller, sent: Sent) -> Result<Ingested> {
    let rows = Incoming::open(sent.request.into_body(), shared.config.upload_bytes_max.get()).await?;
    let request = IngestRequest { table: sent.id.object()?, mode: sent.mode, schema: Arc::clone(rows.schema()) };
    let plan = async {
        let plan = caller.engine().plan_ingest(caller.session(), &request).await.map_err(RestError::from)?;
        caller.authorize(plan).await
    };
    let rest = rows.rest();
    let ingested = match plan.await {
        Ok(plan) => {
            let (engine, session, ctx) = caller.parts();
            engine.ingest(session, &plan, rows.rows(), ctx).await.map_err(RestError::from)
        }
        Err(refused) => Err(refused),
    };
    if ingested.is_err() {
        rest.drain().await;
    }
    ingested.map_err(|error| match error.is_undefined_object() {
        // The clients read a 404 as a missing table.
        true => error.with_code(Code::TableBranchNotFound).into_bad_request(),
        false => error,
    })
}

/// Answers with a body and the version that it is about.
pub(super) fn versioned(body: &Value, version: u64) -> Response {
    let mut response = reply::json(StatusCode::OK, body);
    response.headers_mut().insert("x-lancedb-version", HeaderValue::from(version));
    response.into_response()
}
