//! Whose job is next.
//!
//! Lanes take turns: each user's own jobs are one, what nobody asked for is another. Within a lane its tables take
//! turns, and the jobs of a table go oldest first. So nobody waits for more than one job of each other lane, however
//! many somebody has submitted. Each choice is a few index seeks, whatever is queued.
//!
//! Turns are kept in memory: after a restart they begin anew, which costs a lane one turn at most.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use super::rows::{self, JOB_COLUMNS, micros};
use crate::Timestamp;
use crate::error::Result;
use crate::job::{Job, JobKind};

/// Lanes whose last table is remembered; beyond that turns begin anew.
const LANES_MAX: usize = 10_000;

/// The jobs of one user, or those that nobody asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Lane {
    automatic: bool,
    user: String,
}

/// Who had a turn last.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    lane: Option<Lane>,
    /// By lane.
    tables: HashMap<Lane, String>,
}

impl Turns {
    /// Returns the queued job whose turn it is at `now`.
    pub(super) async fn next(&self, connection: &mut SqliteConnection, now: Timestamp) -> Result<Option<Job>> {
        let Some(lane) = self.lane(connection, now).await? else { return Ok(None) };
        let after = self.last(|last| last.tables.get(&lane).cloned());
        let mut job = None;
        if let Some(after) = after {
            job = of_lane(connection, &lane, Some(&after), now).await?;
        }
        if job.is_none() {
            job = of_lane(connection, &lane, None, now).await?;
        }
        Ok(job)
    }

    /// Notes that a job was taken.
    pub(super) fn took(&self, job: &Job) {
        let lane = Lane::of(job);
        let table = job.table_id.map(|table| table.to_string()).unwrap_or_default();
        self.last(|last| {
            if last.tables.len() >= LANES_MAX {
                last.tables.clear();
            }
            last.tables.insert(lane.clone(), table);
            last.lane = Some(lane);
        });
    }

    async fn lane(&self, connection: &mut SqliteConnection, now: Timestamp) -> Result<Option<Lane>> {
        let Some(last) = self.last(|last| last.lane.clone()) else {
            return lane(connection, After::Nothing, &Lane::default(), now).await;
        };
        for after in [After::Lane, After::Kind, After::Nothing] {
            if let Some(lane) = lane(connection, after, &last, now).await? {
                return Ok(Some(lane));
            }
        }
        Ok(None)
    }

    fn last<T>(&self, with: impl FnOnce(&mut Last) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Lane {
    fn of(job: &Job) -> Self {
        let user = if job.automatic { String::new() } else { job.submitted_by.clone() };
        Self { automatic: job.automatic, user }
    }
}

/// The lane of a queued job; the index `jobs_turns` is in this order.
const LANE: &str = "CASE WHEN automatic = 0 THEN submitted_by ELSE '' END";

/// What can be claimed at `$1`.
fn claimable() -> String {
    let kinds = JobKind::KNOWN.map(|kind| format!("'{}'", kind.as_str())).join(", ");
    format!("state = 'queued' AND COALESCE(not_before, $1) <= $1 AND parent IS NULL AND kind IN ({kinds})")
}

/// Which lanes are looked at. Each is one seek in the index; a comparison of pairs would not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// All.
    Nothing,
    /// Later ones (`$3`) that are automatic or not as the last one (`$2`).
    Lane,
    /// Those that are automatic if the last one (`$2`) was not.
    Kind,
}

/// Returns the query for the first lane.
pub(super) fn lane_query(after: After) -> AssertSqlSafe<String> {
    let after = match after {
        After::Nothing => String::new(),
        After::Lane => format!("AND automatic = $2 AND {LANE} > $3"),
        After::Kind => "AND automatic > $2".to_owned(),
    };
    // All parts are constants of this crate.
    AssertSqlSafe(format!(
        "SELECT automatic, {LANE} AS lane FROM jobs WHERE {} {after} ORDER BY automatic, {LANE} LIMIT 1",
        claimable()
    ))
}

/// Returns the query for the first job of a lane (`$2`, `$3`), of a table after another one (`$4`) if asked for.
pub(super) fn job_query(after: bool) -> AssertSqlSafe<String> {
    let after = if after { "AND COALESCE(table_id, '') > $4" } else { "" };
    // All parts are constants of this crate.
    AssertSqlSafe(format!(
        "SELECT {JOB_COLUMNS} FROM jobs WHERE {} AND automatic = $2 AND {LANE} = $3 {after}
         ORDER BY COALESCE(table_id, ''), created_at, job_id LIMIT 1",
        claimable()
    ))
}

async fn lane(connection: &mut SqliteConnection, after: After, last: &Lane, now: Timestamp) -> Result<Option<Lane>> {
    let mut query = sqlx::query(lane_query(after)).bind(micros(now));
    if after != After::Nothing {
        query = query.bind(i64::from(last.automatic));
    }
    if after == After::Lane {
        query = query.bind(last.user.clone());
    }
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
    Ok(Some(Lane { automatic: row.try_get::<i64, _>("automatic")? != 0, user: row.try_get("lane")? }))
}

async fn of_lane(
    connection: &mut SqliteConnection,
    lane: &Lane,
    after: Option<&str>,
    now: Timestamp,
) -> Result<Option<Job>> {
    let mut query = sqlx::query(job_query(after.is_some()))
        .bind(micros(now))
        .bind(i64::from(lane.automatic))
        .bind(lane.user.clone());
    if let Some(after) = after {
        query = query.bind(after.to_owned());
    }
    query.fetch_optional(connection).await?.map(|row| rows::job(&row)).transpose()
}
