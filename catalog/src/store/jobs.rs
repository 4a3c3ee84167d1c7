//! Submitting, reading and changing the rows of jobs.

use chrono::TimeDelta;
use sqlx::{AssertSqlSafe, QueryBuilder, Row, Sqlite, SqliteConnection};

use super::draft::{load, step};
use super::events::Note;
use super::rows::{self, JOB_COLUMNS, micros};
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::{CatalogError, EntityKind, Result};
use crate::ids::{AttemptEpoch, JobId};
use crate::job::{Job, JobFilter, JobState, JobSummary, NewJob, Trigger};
use crate::object::namespace_to_text;

/// Who submits jobs that nobody asks for, in events.
const AUTOMATIC: &str = "auto_refresh";

/// How long an idempotency key answers with the job that it first made.
const IDEMPOTENCY_WINDOW: TimeDelta = TimeDelta::hours(24);

impl Catalog {
    /// Records a job and offers it to runners.
    ///
    /// When this returns, the job is on disk. The same idempotency key, user,
    /// database and work as within the last 24 h return the earlier job, in
    /// whatever state it is now.
    ///
    /// # Errors
    ///
    /// [`Busy`](CatalogError::Busy) when an unfinished job has the exclusive
    /// key, [`TooManyJobs`](CatalogError::TooManyJobs) when its user has as many as it allows,
    /// [`IdempotencyConflict`](CatalogError::IdempotencyConflict),
    /// [`UnknownValue`](CatalogError::UnknownValue) for an unknown kind,
    /// [`NotFound`](CatalogError::NotFound) for the parent.
    pub async fn submit(&self, job: NewJob, now: Timestamp) -> Result<Job> {
        self.write(Durability::Full, move |tx| Box::pin(submit(tx, job, now))).await
    }

    /// Returns a job.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn job(&self, id: JobId) -> Result<Option<Job>> {
        let mut connection = self.readers().acquire().await?;
        find(&mut connection, id).await
    }

    /// Returns the jobs that `filter` selects, newest first. The cost follows
    /// the number returned when the filter names no states; filtering by
    /// states that are all unfinished reads unfinished jobs only.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn jobs(&self, filter: JobFilter) -> Result<Vec<Job>> {
        let mut query = listing(JOB_COLUMNS, &filter)?;
        let rows = query.build().fetch_all(self.readers()).await?;
        rows.iter().map(rows::job).collect()
    }

    /// As [`Self::jobs`], what listings show of them.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn job_summaries(&self, filter: JobFilter) -> Result<Vec<JobSummary>> {
        let mut query = listing(rows::SUMMARY_COLUMNS, &filter)?;
        let rows = query.build().fetch_all(self.readers()).await?;
        rows.iter().map(rows::summary).collect()
    }

    /// Returns how many jobs are unfinished that somebody has asked for, or `max` if there are more.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store).
    pub async fn unfinished(&self, max: usize) -> Result<usize> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE finished_at IS NULL AND automatic = 0 LIMIT $1)",
        )
        .bind(max)
        .fetch_one(self.readers())
        .await?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns every unfinished job that is not a part of another one, oldest first.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store), [`DamagedValue`](CatalogError::DamagedValue).
    pub async fn active_jobs(&self) -> Result<Vec<Job>> {
        let sql = select("WHERE finished_at IS NULL AND parent IS NULL ORDER BY created_at, job_id");
        let rows = sqlx::query(sql).fetch_all(self.readers()).await?;
        rows.iter().map(rows::job).collect()
    }
}

/// Returns a query for whole jobs; `rest` is what follows the table.
pub(super) fn select(rest: &'static str) -> AssertSqlSafe<String> {
    // Both parts are constants of this crate.
    AssertSqlSafe(format!("SELECT {JOB_COLUMNS} FROM jobs {rest}"))
}

/// Builds the query of a listing.
fn listing(columns: &str, filter: &JobFilter) -> Result<QueryBuilder<Sqlite>> {
    let mut query = QueryBuilder::new(format!("SELECT {columns} FROM jobs WHERE 1 = 1"));
    push_listing(&mut query, filter)?;
    Ok(query)
}

/// Appends the conditions, order and limit of a listing.
fn push_listing(query: &mut QueryBuilder<Sqlite>, filter: &JobFilter) -> Result<()> {
    if let Some(database) = &filter.database {
        query.push(" AND database_name = ").push_bind(database.clone());
    }
    if let Some((namespace, table)) = &filter.table {
        query.push(" AND namespace = ").push_bind(namespace_to_text(namespace)?);
        query.push(" AND table_name = ").push_bind(table.clone());
    }
    match filter.parent {
        Some(parent) => query.push(" AND parent = ").push_bind(parent.to_string()),
        None => query.push(" AND parent IS NULL"),
    };
    if let Some(states) = &filter.states {
        if states.is_empty() {
            query.push(" AND 1 = 0 LIMIT 0");
            return Ok(());
        }
        if states.iter().all(|state| !state.is_terminal()) {
            query.push(" AND finished_at IS NULL");
        }
        query.push(" AND state IN (");
        let mut list = query.separated(", ");
        for state in states {
            list.push_bind(state.as_str().to_owned());
        }
        query.push(")");
    }
    if let Some(before) = filter.before {
        query.push(" AND (created_at, job_id) < (").push_bind(micros(before.created_at));
        query.push(", ").push_bind(before.id.to_string()).push(")");
    }
    query.push(" ORDER BY created_at DESC, job_id DESC LIMIT ");
    query.push_bind(i64::from(filter.effective_limit()));
    Ok(())
}

/// Returns the job with this id as the connection sees it.
pub(super) async fn find(connection: &mut SqliteConnection, id: JobId) -> Result<Option<Job>> {
    sqlx::query(select("WHERE job_id = $1"))
        .bind(id.to_string())
        .fetch_optional(connection)
        .await?
        .map(|row| rows::job(&row))
        .transpose()
}

pub(super) async fn submit(tx: &mut Tx, new: NewJob, now: Timestamp) -> Result<Job> {
    if !new.kind.is_known() {
        let value = new.kind.to_string();
        return Err(CatalogError::UnknownValue { what: "job kind", value });
    }
    if let Some(earlier) = find_idempotent(tx, &new, now).await? {
        return Ok(earlier);
    }
    ensure_exclusive(tx, &new).await?;
    ensure_parent(tx, &new).await?;
    ensure_table(tx, &new).await?;
    ensure_share(tx, &new).await?;
    let job = created(&new, now);
    insert(tx, &job, new.idempotency_key.as_deref()).await?;
    let by = if job.automatic { AUTOMATIC.to_owned() } else { job.submitted_by.clone() };
    Note::by(&by).saying("created").record(tx, &job, now).await?;
    step(tx, job.into(), Trigger::Enqueue, Note::by(&by).saying("queued"), now).await
}

/// Returns the job that the idempotency key made within the window.
async fn find_idempotent(tx: &mut Tx, new: &NewJob, now: Timestamp) -> Result<Option<Job>> {
    let Some(key) = &new.idempotency_key else {
        return Ok(None);
    };
    let row = sqlx::query(select(
        "WHERE idempotency_key = $1 AND submitted_by = $2 AND database_name = $3
            AND created_at > $4 ORDER BY created_at DESC LIMIT 1",
    ))
    .bind(key)
    .bind(&new.submitted_by)
    .bind(&new.database)
    .bind(micros(now - IDEMPOTENCY_WINDOW))
    .fetch_optional(tx.connection())
    .await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let earlier = rows::job(&row)?;
    let same = earlier.kind == new.kind
        && earlier.namespace == new.namespace
        && earlier.table_name == new.table_name
        && earlier.table_id == new.table_id
        && earlier.column == new.column
        && earlier.branch == new.branch
        && earlier.spec == new.spec;
    if same { Ok(Some(earlier)) } else { Err(CatalogError::IdempotencyConflict { job: earlier.id }) }
}

async fn ensure_exclusive(tx: &mut Tx, new: &NewJob) -> Result<()> {
    let Some(key) = &new.exclusive_key else {
        return Ok(());
    };
    let active = sqlx::query("SELECT job_id FROM jobs WHERE exclusive_key = $1 AND finished_at IS NULL")
        .bind(key)
        .fetch_optional(tx.connection())
        .await?;
    match active {
        None => Ok(()),
        Some(row) => {
            let active = rows::parsed("job_id", row.try_get("job_id")?)?;
            Err(CatalogError::Busy { active })
        }
    }
}

/// Nobody waits for an automatic job, so it is not made for a table that was dropped since it was looked at.
async fn ensure_table(tx: &mut Tx, new: &NewJob) -> Result<()> {
    let Some(table) = new.table_id.filter(|_| new.automatic) else { return Ok(()) };
    let there = sqlx::query("SELECT 1 FROM tables WHERE table_id = $1")
        .bind(table.to_string())
        .fetch_optional(tx.connection())
        .await?;
    there.map(drop).ok_or_else(|| CatalogError::not_found(EntityKind::Table, &new.table_name))
}

/// Nobody fills the registry alone.
async fn ensure_share(tx: &mut Tx, new: &NewJob) -> Result<()> {
    let Some(max) = new.unfinished_max.filter(|_| !new.automatic) else { return Ok(()) };
    let count: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT 1 FROM jobs
            WHERE submitted_by = $1 AND finished_at IS NULL AND automatic = 0 LIMIT $2)",
    )
    .bind(&new.submitted_by)
    .bind(i64::from(max))
    .fetch_one(tx.connection())
    .await?;
    if count < i64::from(max) {
        return Ok(());
    }
    Err(CatalogError::TooManyJobs { user: new.submitted_by.clone(), max })
}

async fn ensure_parent(tx: &mut Tx, new: &NewJob) -> Result<()> {
    let Some(parent) = new.parent else {
        return Ok(());
    };
    let parent = load(tx, parent).await?.job;
    if parent.status.state.is_terminal() {
        return Err(CatalogError::not_found(EntityKind::Job, parent.id));
    }
    Ok(())
}

pub(super) fn created(new: &NewJob, now: Timestamp) -> Job {
    Job {
        id: new.id.unwrap_or_else(|| JobId::new(now)),
        kind: new.kind.clone(),
        database: new.database.clone(),
        namespace: new.namespace.clone(),
        table_name: new.table_name.clone(),
        table_id: new.table_id,
        column: new.column.clone(),
        branch: new.branch.clone(),
        submitted_by: new.submitted_by.clone(),
        spec: new.spec.clone(),
        parent: new.parent,
        exclusive_key: new.exclusive_key.clone(),
        automatic: new.automatic,
        binding: new.binding.clone(),
        status: JobState::Created.into(),
        phase: "queued".to_owned(),
        progress: None,
        queue_reason: None,
        result: None,
        failure: None,
        source_version: None,
        epoch: AttemptEpoch(0),
        attempt: 0,
        gateway: None,
        lease_expires_at: None,
        not_before: None,
        created_at: now,
        updated_at: now,
        started_at: None,
        finished_at: None,
    }
}

pub(super) async fn insert(tx: &mut Tx, job: &Job, idempotency_key: Option<&str>) -> Result<()> {
    sqlx::query(
        "INSERT INTO jobs (job_id, kind, database_name, namespace, table_name, table_id,
            column_name, branch, submitted_by, spec, parent, exclusive_key, idempotency_key,
            state, phase, epoch, attempt, created_at, updated_at, last_event, automatic, binding)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 0, 0, $16, $16, 0, $17, $18)",
    )
    .bind(job.id.to_string())
    .bind(job.kind.as_str())
    .bind(&job.database)
    .bind(namespace_to_text(&job.namespace)?)
    .bind(&job.table_name)
    .bind(job.table_id.map(|id| id.to_string()))
    .bind(&job.column)
    .bind(&job.branch)
    .bind(&job.submitted_by)
    .bind(job.spec.to_string())
    .bind(job.parent.map(|id| id.to_string()))
    .bind(&job.exclusive_key)
    .bind(idempotency_key)
    .bind(job.status.state.as_str())
    .bind(&job.phase)
    .bind(micros(job.created_at))
    .bind(i64::from(job.automatic))
    .bind(&job.binding)
    .execute(tx.connection())
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
