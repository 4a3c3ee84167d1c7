//! Children: parts of the work of a running job that are shown as jobs of their own.
//!
//! A child is made by the attempt that holds its parent, runs at once, and is held by that attempt: both have one
//! fence, so an attempt that has lost the parent can no longer say anything about the child either. Whoever takes the
//! parent on finds no child that runs. Nothing here is flushed to disk: a child tells what an attempt does, and after
//! power loss there is no such attempt.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::Row;

use super::draft::{Draft, load_held, step};
use super::events::Note;
use super::jobs::{created, insert, select};
use super::rows;
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::Timestamp;
use crate::error::Result;
use crate::ids::{AttemptEpoch, JobId};
use crate::job::{Failure, Job, JobKind, NewJob, Trigger};

/// Which splits of a refresh the attempts of its job have begun and not noted, as JSON.
pub(super) const COLUMNS: &[&str] = &["ALTER TABLE jobs ADD COLUMN begun TEXT"];

/// How a child ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildEnd {
    /// It did its part; with what came of it.
    Succeeded(Value),
    /// It did not.
    Failed(Failure),
    /// It was told to stop.
    Canceled,
}

impl Catalog {
    /// Makes a child of a held job, of the same table and column, that is in progress.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn begin_child(
        &self,
        parent: JobId,
        epoch: AttemptEpoch,
        kind: JobKind,
        spec: Value,
        now: Timestamp,
    ) -> Result<Job> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let parent = load_held(tx, parent, epoch).await?.job;
                let new = NewJob {
                    namespace: parent.namespace.clone(),
                    table_id: parent.table_id,
                    column: parent.column.clone(),
                    branch: parent.branch.clone(),
                    spec,
                    parent: Some(parent.id),
                    // Nobody asked for this part of the work.
                    automatic: true,
                    ..NewJob::new(kind, &parent.database, &parent.table_name, &parent.submitted_by)
                };
                let child = created(&new, now);
                insert(tx, &child, None).await?;
                let by = parent.gateway.as_ref().map_or_else(|| "catalog".to_owned(), ToString::to_string);
                Note::by(&by).saying("created").record(tx, &child, now).await?;
                let queued = step(tx, child.into(), Trigger::Enqueue, Note::by(&by).saying("queued"), now).await?;
                let mut draft = Draft::from(queued);
                let child = &mut draft.job;
                child.epoch = parent.epoch;
                child.attempt = parent.attempt;
                child.started_at = Some(now);
                child.gateway = parent.gateway;
                let details = json!({ "epoch": child.epoch, "attempt": child.attempt });
                let note = Note::by(&by).saying(Trigger::Claim.as_str()).with(details);
                step(tx, draft, Trigger::Claim, note, now).await
            })
        })
        .await
    }

    /// Ends a child.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn end_child(&self, id: JobId, epoch: AttemptEpoch, end: ChildEnd, now: Timestamp) -> Result<Job> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                let mut draft = load_held(tx, id, epoch).await?;
                let by = draft.job.gateway.as_ref().map_or_else(|| "catalog".to_owned(), ToString::to_string);
                let trigger = match end {
                    ChildEnd::Succeeded(result) => {
                        draft.job.result = Some(result);
                        Trigger::Complete
                    }
                    ChildEnd::Failed(failure) => {
                        draft.job.failure = Some(failure);
                        Trigger::Fail
                    }
                    ChildEnd::Canceled => {
                        let note = Note::by(&by).saying("cancel");
                        draft = step(tx, draft, Trigger::Cancel, note, now).await?.into();
                        Trigger::Stop
                    }
                };
                step(tx, draft, trigger, Note::by(&by).saying(trigger.as_str()), now).await
            })
        })
        .await
    }

    /// Notes how often each split of a held job was begun that is not complete, by the number of the split.
    ///
    /// # Errors
    ///
    /// [`StaleEpoch`](crate::CatalogError::StaleEpoch).
    pub async fn note_begun(&self, id: JobId, epoch: AttemptEpoch, begun: BTreeMap<u64, u64>) -> Result<()> {
        self.write(Durability::Process, move |tx| {
            Box::pin(async move {
                load_held(tx, id, epoch).await?;
                sqlx::query("UPDATE jobs SET begun = $1 WHERE job_id = $2")
                    .bind((!begun.is_empty()).then(|| json!(begun).to_string()))
                    .bind(id.to_string())
                    .execute(tx.connection())
                    .await?;
                Ok(())
            })
        })
        .await
    }

    /// Returns what was noted last by [`Self::note_begun`], by whatever attempt.
    ///
    /// # Errors
    ///
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn begun(&self, id: JobId) -> Result<BTreeMap<u64, u64>> {
        let row = sqlx::query("SELECT begun FROM jobs WHERE job_id = $1")
            .bind(id.to_string())
            .fetch_optional(self.readers())
            .await?;
        let text: Option<String> = row.map(|row| row.try_get("begun")).transpose()?.flatten();
        text.map_or_else(
            || Ok(BTreeMap::new()),
            |text| serde_json::from_str(&text).map_err(|_| rows::damaged("begun", text)),
        )
    }
}

/// Ends the children of an attempt that holds their parent no longer.
pub(super) async fn leave(tx: &mut Tx, parent: &Job, held: AttemptEpoch, now: Timestamp) -> Result<()> {
    let children = sqlx::query(select("WHERE parent = $1 AND state = 'in_progress' AND epoch = $2"))
        .bind(parent.id.to_string())
        .bind(rows::signed("epoch", held.0)?)
        .fetch_all(tx.connection())
        .await?;
    for row in &children {
        let note = || Note::by("catalog").saying("the attempt of its parent ended");
        let child = Box::pin(step(tx, rows::job(row)?.into(), Trigger::Cancel, note(), now)).await?;
        Box::pin(step(tx, child.into(), Trigger::Stop, note(), now)).await?;
    }
    Ok(())
}
