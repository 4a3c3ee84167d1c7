//! News of jobs: what `LISTEN lancegate_jobs` delivers.
//!
//! A notification tells that the state or the phase of a job of the session's database is another one now. As in PostgreSQL it
//! comes between statements only, never inside a transaction block, and right before ReadyForQuery if there is any by
//! then. What happened while nobody listened is not told again.

use std::collections::HashMap;

use bytes::BytesMut;
use lancegate_catalog::{Catalog, JobChange, JobId};
use lancegate_wire::backend;
use serde_json::json;
use tokio::sync::broadcast::{self, error::RecvError, error::TryRecvError};

use crate::pg::reply;
use lancegate_engine::error::SqlError;
use lancegate_engine::session::{JOBS_CHANNEL, Notice, NoticeSeverity};
use lancegate_engine::sqlstate::SqlState;

/// Unfinished jobs whose last news is remembered; beyond that some may be told twice.
const REMEMBERED_MAX: usize = 10_000;

/// What a session that listens has heard.
#[derive(Debug)]
pub(in crate::pg) struct News {
    changes: broadcast::Receiver<JobChange>,
    database: String,
    /// A sample of progress changes neither state nor phase, and is no news.
    told: HashMap<JobId, (String, String)>,
}

impl News {
    /// Returns the news of a database from now on.
    pub(in crate::pg) fn of(catalog: &Catalog, database: &str) -> Self {
        Self { changes: catalog.subscribe(), database: database.to_owned(), told: HashMap::new() }
    }

    /// Waits for something to happen; `None` once nothing will any more. Cancel-safe.
    pub(in crate::pg) async fn heard(&mut self) -> Option<Heard> {
        match self.changes.recv().await {
            Ok(change) => Some(Heard::Change(change)),
            Err(RecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }

    /// Returns what has happened and was not taken yet.
    pub(in crate::pg) fn pending(&mut self) -> Option<Heard> {
        match self.changes.try_recv() {
            Ok(change) => Some(Heard::Change(change)),
            Err(TryRecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    /// Appends what is to be told of it.
    pub(in crate::pg) fn put(&mut self, out: &mut BytesMut, heard: Heard) {
        let change = match heard {
            Heard::Change(change) => change,
            Heard::Missed(missed) => {
                let message = format!("{missed} changes of jobs were not delivered");
                let fields = SqlError::new(SqlState::WARNING, message)
                    .detail("The session took longer to read them than they are kept.")
                    .hint("SHOW JOBS tells where jobs stand.");
                return reply::put_notice(out, &Notice { severity: NoticeSeverity::Warning, fields });
            }
        };
        if change.database == self.database && !change.child && self.is_new(&change) {
            let payload = json!({ "job_id": change.job_id, "state": change.state.as_str(), "phase": change.phase });
            backend::notification_response(out, 0, JOBS_CHANNEL, &payload.to_string());
        }
    }

    fn is_new(&mut self, change: &JobChange) -> bool {
        let now = (change.state.as_str().to_owned(), change.phase.clone());
        if change.state.is_terminal() {
            self.told.remove(&change.job_id);
            return true;
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        self.told.insert(change.job_id, now.clone()) != Some(now)
    }
}

/// One thing that happened.
#[derive(Debug)]
pub(in crate::pg) enum Heard {
    /// A job changed.
    Change(JobChange),
    /// So many changes came faster than they were taken.
    Missed(u64),
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use lancegate_catalog::JobState;

    use super::*;

    async fn news() -> (tempfile::TempDir, News) {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&folder.path().join("metadata.db")).await.unwrap();
        let news = News::of(&catalog, "db");
        (folder, news)
    }

    fn change(id: JobId, state: JobState, phase: &str, database: &str) -> Heard {
        let (phase, database) = (phase.to_owned(), database.to_owned());
        Heard::Change(JobChange { job_id: id, state, phase, database, child: false })
    }

    #[tokio::test]
    async fn a_sample_is_no_news_and_neither_is_another_database() {
        let (_folder, mut news) = news().await;
        let id = JobId::new(Utc::now());
        let mut told = |state, phase, database| {
            let mut out = BytesMut::new();
            news.put(&mut out, change(id, state, phase, database));
            !out.is_empty()
        };
        assert!(told(JobState::InProgress, "running", "db"));
        assert!(!told(JobState::InProgress, "running", "db"));
        assert!(!told(JobState::InProgress, "committing", "other"));
        assert!(told(JobState::InProgress, "committing", "db"));
        assert!(told(JobState::Succeeded, "finished", "db"));
    }
}
