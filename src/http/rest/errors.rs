//! `POST /v1/table/{id}/errors`: rows that Functions failed on.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_catalog::RowFailure;
use lancegate_engine::error::SqlError;
use lancegate_engine::sql::plan::Plan;
use lancegate_engine::sql::plan::jobs::JobsAction;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::RowErrors;
use super::caller::Caller;
use super::error::{RestError, Result};
use super::openapi::Doc;
use super::request::{Body, Id};
use crate::http::reply;

/// Records if the request does not say, and the most of one request.
const LIMIT_DEFAULT: u32 = 10_000;
const LIMIT_MAX: u32 = 100_000;

pub(super) fn routes(routes: &mut Routes) {
    routes.post(
        "/v1/table/{id}/errors",
        errors,
        Doc::json::<RowErrors>("Lists rows that Functions failed on.").example(r#"{"column": "y", "limit": 10}"#),
    );
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "RowErrorsRequest")]
#[serde(default, deny_unknown_fields)]
struct Asked {
    job_id: Option<String>,
    column: Option<String>,
    limit: Option<u32>,
    branch: Option<String>,
}

/// Newest job first. A fragment has counts beside its records, because only so many
/// of its rows have a record of their own.
async fn errors(caller: Caller, id: Id, Body(asked): Body<Asked>) -> Result<Response> {
    let limit = asked.limit.unwrap_or(LIMIT_DEFAULT);
    if limit > LIMIT_MAX {
        return Err(RestError::invalid(format!("limit {limit} is larger than {LIMIT_MAX}")));
    }
    let plan = caller.plan(&format!("SHOW ERRORS ON {}", id.object()?)).await?;
    let plan = caller.authorize(plan).await?;
    let Plan::Jobs(jobs) = &*plan else { return Err(RestError::internal("SHOW ERRORS was bound to something else")) };
    let JobsAction::Errors { table, .. } = &jobs.action else {
        return Err(RestError::internal("SHOW ERRORS was bound to another listing"));
    };
    let catalog = caller.engine().catalog();
    let found = catalog.row_failures(table.id, asked.job_id.as_deref(), LIMIT_MAX).await.map_err(SqlError::from)?;
    let branch = asked.branch.filter(|branch| branch != "main");
    let wanted = |failure: &&RowFailure| {
        asked.column.as_ref().is_none_or(|column| *column == failure.column) && failure.branch == branch
    };
    let failures: Vec<&RowFailure> = found.iter().filter(wanted).collect();
    let records: Vec<&&RowFailure> = failures.iter().filter(|failure| failure.row_offset.is_some()).collect();
    let shown = records.iter().take(limit as usize);
    let body = json!({
        "records": shown.map(|failure| record(failure)).collect::<Vec<_>>(),
        "fragments": fragments(&failures),
        "truncated": records.len() > limit as usize || found.len() == LIMIT_MAX as usize,
    });
    Ok(reply::json(StatusCode::OK, &body))
}

fn record(failure: &RowFailure) -> Value {
    json!({
        "job_id": failure.job_id.to_string(),
        "fragment_id": failure.fragment_id,
        "row_offset": failure.row_offset,
        "row_id": failure.row_id,
        "column": failure.column,
        "function": failure.function,
        "function_version": failure.function_version,
        "table_version": failure.table_version,
        "error_type": failure.error_type,
        "error_message": failure.error_message,
        "attempts": failure.attempts,
        "created_at_millis": failure.created_at.timestamp_millis(),
    })
}

/// Counts the rows of fragments that have more failed rows than records.
fn fragments(failures: &[&RowFailure]) -> Vec<Value> {
    let mut counts: BTreeMap<(String, u64), (u64, u64)> = BTreeMap::new();
    for failure in failures {
        let (skipped, recorded) = counts.entry((failure.job_id.to_string(), failure.fragment_id)).or_default();
        *skipped += failure.rows;
        *recorded += if failure.row_offset.is_some() { failure.rows } else { 0 };
    }
    let more = counts.into_iter().filter(|(_, (skipped, recorded))| skipped > recorded);
    more.map(|((job_id, fragment_id), (skipped, recorded))| {
        json!({ "job_id": job_id, "fragment_id": fragment_id, "rows_skipped": skipped, "rows_recorded": recorded })
    })
    .collect()
}
