//! Jobs: listed, described, steered.

use axum::http::StatusCode;
use axum::response::Response;
use lancegate_catalog::{Job, JobId, JobKind, JobState};
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::Outcome;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Routes;
use super::answers::{CancelledJob, JobDescription, Jobs, PausedJob, ResumedJob};
use super::batches;
use super::caller::Caller;
use super::error::{RestError, Result};
use super::functions;
use super::names::literal;
use super::openapi::Doc;
use super::request::Body;
use super::rows::Rows;
use super::tables::no_object;
use crate::http::reply;

/// Jobs of one page if the request does not say.
const PAGE_DEFAULT: usize = 1_000;
/// The most jobs that a listing looks at.
const LISTED_MAX: usize = 10_000;

pub(super) fn routes(routes: &mut Routes) {
    routes.post("/v1/jobs/list", list, Doc::json::<Jobs>("Lists jobs, newest first.").example(r#"{"limit": 10}"#));
    routes.post(
        "/v1/jobs/describe",
        describe,
        Doc::json::<JobDescription>("Tells a job.").example(r#"{"job_id": "job_01JABCDEFGHJKMNPQRSTVWXYZ0"}"#),
    );
    routes.post(
        "/v1/jobs/cancel",
        cancel,
        Doc::json::<CancelledJob>("Ends a job.").example(r#"{"job_id": "job_01JABCDEFGHJKMNPQRSTVWXYZ0"}"#),
    );
    routes.post(
        "/v1/jobs/pause",
        pause,
        Doc::json::<PausedJob>("Lets a job pause.").example(r#"{"job_id": "job_01JABCDEFGHJKMNPQRSTVWXYZ0"}"#),
    );
    routes.post(
        "/v1/jobs/resume",
        resume,
        Doc::json::<ResumedJob>("Lets a job go on.").example(r#"{"job_id": "job_01JABCDEFGHJKMNPQRSTVWXYZ0"}"#),
    );
    routes.post(
        "/v1/jobs/query_events",
        query_events,
        Doc::rows("Tells what has happened to jobs.").example(r#"{"job_id": "job_01JABCDEFGHJKMNPQRSTVWXYZ0"}"#),
    );
    routes.post(
        "/v1/jobs/query_splits",
        query_splits,
        Doc::rows("Tells the work of a job fragment by fragment.")
            .example(r#"{"job_id": "job_01JABCDEFGHJKMNPQRSTVWXYZ0"}"#),
    );
}

/// Returns the word that clients know a kind of job by.
fn type_word(kind: &str) -> &str {
    match kind {
        "computed_refresh" => "refresh_column",
        "function_refresh" => "refresh_function_columns",
        other => other,
    }
}

/// Returns the words of `describe`: a client waits on any other for ever.
fn state_word(state: &JobState) -> &'static str {
    match state {
        JobState::Succeeded => "DONE",
        JobState::Failed | JobState::TimedOut => "FAILED",
        JobState::Canceled => "CANCELLED",
        _ => "IN_PROGRESS",
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "ListJobsRequest")]
#[serde(default, deny_unknown_fields)]
struct List {
    limit: Option<usize>,
    page_token: Option<String>,
    table_name: Option<String>,
    job_type: Option<String>,
    job_subtype: Option<String>,
    state: Option<String>,
    parent_job_id: Option<String>,
}

/// `POST /v1/jobs/list`: newest first.
async fn list(mut caller: Caller, Body(asked): Body<List>) -> Result<Response> {
    let of = match &asked.parent_job_id {
        Some(parent) => format!(" FOR JOB {}", literal(parent)),
        None => String::new(),
    };
    let rows = caller.run(&format!("SHOW JOBS{of} LIMIT {LISTED_MAX}")).await?;
    let parent = asked.parent_job_id.is_some();
    let kind = if parent { "kind" } else { "job_type" };
    let wanted = |row: &usize| {
        let same = |wanted: &Option<String>, found: Option<String>| {
            wanted.as_ref().is_none_or(|wanted| Some(wanted) == found.as_ref())
        };
        let word = rows.text(*row, kind).map(|word| type_word(&word).to_owned());
        same(&asked.table_name, rows.text(*row, "table_name"))
            && (same(&asked.job_type, word.clone()) || same(&asked.job_type, rows.text(*row, kind)))
            && same(&asked.job_subtype, word)
            && same(&asked.state, rows.text(*row, "state"))
    };
    let mut found: Vec<usize> = (0..rows.len()).filter(wanted).collect();
    if let Some(token) = asked.page_token.as_deref().filter(|token| !token.is_empty()) {
        let seen = found.iter().position(|row| rows.text(*row, "job_id").as_deref() == Some(token));
        let seen = seen.ok_or_else(|| RestError::invalid("page_token is not one of this listing"))?;
        found.drain(..=seen);
    }
    let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
    let more = found.len() > limit;
    found.truncate(limit);
    let token = if more { found.last().and_then(|row| rows.text(*row, "job_id")) } else { None };
    let jobs: Vec<Value> = found.iter().map(|row| listed(&rows, *row, kind)).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "jobs": jobs, "page_token": token })))
}

fn listed(rows: &Rows, row: usize, kind: &str) -> Value {
    let word = rows.text(row, kind).unwrap_or_default();
    let mut job = json!({
        "job_id": rows.text(row, "job_id"),
        "table": rows.text(row, "table_name").unwrap_or_default(),
        "job_type": type_word(&word),
        "job_subtype": word,
        "state": rows.text(row, "state"),
        "created_at_millis": rows.millis(row, "created_at"),
    });
    if let Some(progress) = rows.json(row, "progress") {
        job["progress"] = progress;
    }
    job
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "JobRequest")]
#[serde(deny_unknown_fields)]
struct One {
    job_id: String,
}

/// `POST /v1/jobs/describe`
async fn describe(mut caller: Caller, Body(One { job_id }): Body<One>) -> Result<Response> {
    let job = find(&mut caller, &job_id).await?;
    let body = described(&caller, &job).await?;
    Ok(reply::json(StatusCode::OK, &body))
}

/// Returns a job that the caller may see.
///
/// # Errors
/// 404 for one that is not there or that he may not see.
async fn find(caller: &mut Caller, id: &str) -> Result<Job> {
    let parsed: JobId = id.parse().map_err(|_| missing(id))?;
    let plan = caller.plan(&format!("EXPLAIN JOB {}", literal(id))).await?;
    // EXPLAIN JOB takes what all reads of the registry take.
    caller.authorize(plan).await?;
    let job = caller.engine().catalog().job(parsed).await.map_err(SqlError::from)?;
    job.ok_or_else(|| missing(id))
}

fn missing(id: &str) -> RestError {
    no_object(format!("job \"{id}\" does not exist"))
}

async fn described(caller: &Caller, job: &Job) -> Result<Value> {
    let kind = job.kind.as_str();
    let mut body = json!({
        "job_id": job.id.to_string(),
        "job_type": type_word(kind),
        "job_subtype": kind,
        "job_state": state_word(&job.status.state),
        "status": job.status.state.as_str(),
        "creation_ms": job.created_at.timestamp_millis(),
        "spec": spec(job),
    });
    if let Some(result) = result(caller, job).await? {
        body["result"] = result;
    }
    if let Some(failure) = job.failure.as_ref().filter(|_| job.status.state != JobState::Succeeded) {
        body["failure"] = json!({
            "phase": job.phase,
            // The clients show the message alone.
            "message": format!("{}: {}", failure.error_code, failure.message),
            "retryable": is_retryable(&failure.error_code),
            "error_code": failure.error_code,
        });
    }
    if let Some(progress) = lancegate_engine::jobs::progress::shown(job) {
        body["progress"] = progress;
    }
    Ok(body)
}

/// What a job is about; the rest of its document is the runner's own.
fn spec(job: &Job) -> Value {
    let mut spec = json!({ "database": job.database, "namespace": job.namespace, "table": job.table_name });
    if let Some(column) = &job.column {
        spec["column"] = json!(column);
    }
    if let Some(branch) = &job.branch {
        spec["branch"] = json!(branch);
    }
    spec
}

async fn result(caller: &Caller, job: &Job) -> Result<Option<Value>> {
    if job.status.state != JobState::Succeeded {
        return Ok(None);
    }
    match &job.kind {
        JobKind::ComputedRefresh | JobKind::FunctionRefresh => {
            let mut told = job.result.clone().unwrap_or_else(|| json!({}));
            // The clients read these of every refresh.
            for counter in ["rows_assigned", "rows_failed", "rows_remaining", "source_version"] {
                if !told[counter].is_u64() {
                    told[counter] = json!(0);
                }
            }
            Ok(Some(told))
        }
        JobKind::CreateFunction => functions::of_job(caller, job).await,
        _ => Ok(job.result.clone()),
    }
}

/// Whether the same work may succeed if it is asked for again.
fn is_retryable(error_name: &str) -> bool {
    matches!(error_name, "ConcurrentWriteError" | "WorkerLostError" | "StorageError" | "ResourceExhaustedError")
}

/// `POST /v1/jobs/cancel`: also of a job that has ended, which then stays as it is.
async fn cancel(mut caller: Caller, Body(One { job_id }): Body<One>) -> Result<Response> {
    control(&mut caller, "CANCEL", &job_id).await?;
    Ok(reply::json(StatusCode::OK, &json!({ "job_id": job_id })))
}

async fn control(caller: &mut Caller, word: &str, id: &str) -> Result<String> {
    let rows = caller.run(&format!("{word} JOB {}", literal(id))).await?;
    Ok(rows.text(0, "status").unwrap_or_default())
}

/// `POST /v1/jobs/pause`
async fn pause(mut caller: Caller, Body(One { job_id }): Body<One>) -> Result<Response> {
    let status = control(&mut caller, "PAUSE", &job_id).await?;
    let body = json!({ "job_id": job_id, "paused": status == "pausing", "committing": status == "committing" });
    Ok(reply::json(StatusCode::OK, &body))
}

/// `POST /v1/jobs/resume`
async fn resume(mut caller: Caller, Body(One { job_id }): Body<One>) -> Result<Response> {
    let status = control(&mut caller, "RESUME", &job_id).await?;
    let body = json!({ "job_id": job_id, "resumed": status == "resumed", "still_pausing": status == "still_pausing" });
    Ok(reply::json(StatusCode::OK, &body))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "JobEventsRequest")]
#[serde(default, deny_unknown_fields)]
struct Events {
    job_id: Option<String>,
    job_ids: Option<Vec<String>>,
    limit: Option<u32>,
    limit_per_job: Option<u32>,
    filter: Option<String>,
}

/// `POST /v1/jobs/query_events`: an Arrow stream, also if there is no event.
async fn query_events(mut caller: Caller, Body(asked): Body<Events>) -> Result<Response> {
    let ids = match (asked.job_id, asked.job_ids) {
        (Some(id), None) => vec![id],
        (None, Some(ids)) if (1..=100).contains(&ids.len()) => ids,
        _ => return Err(RestError::invalid("give job_id, or 1 to 100 job_ids")),
    };
    let filter = asked.filter.map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
    let limit = asked.limit_per_job.or(asked.limit).map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
    let mut parts = Vec::with_capacity(ids.len());
    for id in &ids {
        let rows = caller.run(&format!("SHOW JOB EVENTS {}{filter}{limit}", literal(id))).await?;
        parts.push(rows);
    }
    let batch = Rows::joined(parts, asked.limit)?;
    batches::whole(&batch)
}

/// `POST /v1/jobs/query_splits`: an Arrow stream.
async fn query_splits(mut caller: Caller, Body(One { job_id }): Body<One>) -> Result<Response> {
    let plan = caller.plan(&format!("SHOW JOB SPLITS {}", literal(&job_id))).await?;
    let plan = caller.authorize(plan).await?;
    match caller.outcome(&plan).await? {
        Outcome::Rows { stream, .. } => batches::answer(stream, caller).await,
        Outcome::Done(_) => Err(RestError::internal("SHOW JOB SPLITS has no rows")),
    }
}
