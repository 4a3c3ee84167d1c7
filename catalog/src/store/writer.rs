//! The one task that changes the store.
//!
//! Callers send changes; the task runs those that have gathered in one
//! transaction, each under its own savepoint, and answers after the commit.
//! So concurrent callers share one flush of the disk, a caller that goes away
//! leaves nothing half done, and news of a change follows its commit in order.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::grants::GrantCache;
use super::names::NameCache;
use super::open::{FileIdentity, LockFile};
use super::{Durability, Pending};
use crate::error::{CatalogError, Result};
use crate::event::JobChange;

/// Changes that may wait for the writer before callers wait to send.
const CHANGES_QUEUED_MAX: usize = 1_024;

/// Changes that share a transaction at most; bounds how long one waits.
const CHANGES_PER_COMMIT_MAX: usize = 64;

/// What the writer works with. Without a connection every change is refused.
pub(super) enum WriterTarget {
    /// The store can be changed.
    Open {
        /// The only connection that writes.
        connection: SqliteConnection,
        /// Held as long as the connection.
        lock: LockFile,
        /// The file that the connection writes to.
        file: FileIdentity,
    },
    /// The store must not be changed.
    Refused(CatalogError),
}

/// Sends changes to the writing task.
pub(super) struct Writer {
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    task: Mutex<Option<JoinHandle<()>>>,
    refused: Option<CatalogError>,
}

/// The transaction that a change runs in.
pub(super) struct Tx {
    connection: SqliteConnection,
    changes: Vec<JobChange>,
    grants_changed: bool,
    names_changed: bool,
}

impl Tx {
    /// The connection, inside the transaction.
    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Announces a change of a job, to be told after the commit.
    pub(super) fn job_changed(&mut self, change: JobChange) {
        self.changes.push(change);
    }

    /// Announces a change of grants or role bindings.
    pub(super) fn grants_changed(&mut self) {
        self.grants_changed = true;
    }

    /// Announces a change of databases, namespaces or tables.
    pub(super) fn names_changed(&mut self) {
        self.names_changed = true;
    }
}

struct Command {
    durability: Durability,
    /// Runs the change, or answers that there is no transaction to run it in.
    run: Run,
}

type Run = Box<dyn for<'t> FnOnce(Result<&'t mut Tx>) -> Running<'t> + Send>;

type Running<'t> = Pin<Box<dyn Future<Output = Done> + Send + 't>>;

/// A change that has run and is not committed yet.
struct Done {
    /// Why it failed, if it did.
    failed: Option<CatalogError>,
    /// Answers the caller; the argument is the failure of the commit.
    answer: Box<dyn FnOnce(Option<CatalogError>) + Send>,
}

impl Writer {
    pub(super) fn start(
        target: WriterTarget,
        changes: broadcast::Sender<JobChange>,
        (grants, names): (Arc<GrantCache>, Arc<NameCache>),
    ) -> Self {
        let (connection, lock, file) = match target {
            WriterTarget::Open { connection, lock, file } => (connection, lock, file),
            WriterTarget::Refused(error) => {
                return Writer { commands: Mutex::new(None), task: Mutex::new(None), refused: Some(error) };
            }
        };
        let (sender, receiver) = mpsc::channel(CHANGES_QUEUED_MAX);
        let tx = Tx { connection, changes: Vec::new(), grants_changed: false, names_changed: false };
        let task = WriterTask { tx, changes, grants, names, file, synchronous: Durability::Full };
        Writer {
            commands: Mutex::new(Some(sender)),
            task: Mutex::new(Some(tokio::spawn(task.run(receiver, lock)))),
            refused: None,
        }
    }

    /// Runs `change` and returns its result after the commit.
    pub(super) async fn write<T, F>(&self, durability: Durability, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Tx) -> Pending<'t, T> + Send + 'static,
    {
        if let Some(error) = &self.refused {
            return Err(error.clone());
        }
        let (answer_tx, answer_rx) = oneshot::channel();
        let command = Command {
            durability,
            run: Box::new(move |tx| {
                Box::pin(async move {
                    let result = match tx {
                        Ok(tx) => change(tx).await,
                        Err(error) => Err(error),
                    };
                    Done {
                        failed: result.as_ref().err().cloned(),
                        answer: Box::new(move |failure| {
                            // The caller may be gone; the change stands.
                            let _ = answer_tx.send(failure.map_or(result, Err));
                        }),
                    }
                })
            }),
        };
        let sender = lock(&self.commands).clone().ok_or(CatalogError::Closed)?;
        sender.send(command).await.map_err(|_| CatalogError::Closed)?;
        drop(sender);
        answer_rx.await.map_err(|_| CatalogError::Closed)?
    }

    /// Waits for the changes that were sent and ends the task.
    pub(super) async fn close(&self) {
        drop(lock(&self.commands).take());
        let task = lock(&self.task).take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the writer of the metadata store has failed");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded options are never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct WriterTask {
    tx: Tx,
    changes: broadcast::Sender<JobChange>,
    grants: Arc<GrantCache>,
    names: Arc<NameCache>,
    file: FileIdentity,
    /// What the connection is set to.
    synchronous: Durability,
}

impl WriterTask {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>, lock: LockFile) {
        let mut batch = Vec::with_capacity(CHANGES_PER_COMMIT_MAX);
        while commands.recv_many(&mut batch, CHANGES_PER_COMMIT_MAX).await > 0 {
            self.commit_batch(&mut batch).await;
        }
        if let Err(error) = self.tx.connection.close().await {
            tracing::warn!(%error, "closing the metadata store failed");
        }
        drop(lock);
    }

    async fn commit_batch(&mut self, batch: &mut Vec<Command>) {
        let (done, failure) = self.run_batch(batch).await;
        if failure.is_some() {
            self.tx.changes.clear();
            // SQLite may have rolled back by itself; then this fails, rightly.
            let _ = sqlx::query("ROLLBACK").execute(&mut self.tx.connection).await;
        }
        // Before any answer, so that a caller reads its own change.
        if std::mem::take(&mut self.tx.grants_changed) {
            self.grants.invalidate();
        }
        if std::mem::take(&mut self.tx.names_changed) {
            self.names.invalidate();
        }
        for change in self.tx.changes.drain(..) {
            // Nobody may be listening.
            let _ = self.changes.send(change);
        }
        for done in done {
            (done.answer)(failure.clone());
        }
    }

    /// Runs `batch` in one transaction and commits it. Returns what became of
    /// each change, and why the transaction as a whole failed, if it did.
    async fn run_batch(&mut self, batch: &mut Vec<Command>) -> (Vec<Done>, Option<CatalogError>) {
        let durability = batch.iter().map(|command| command.durability).max();
        let mut failure = self.begin(durability.unwrap_or(Durability::Full)).await.err();
        let mut done = Vec::with_capacity(batch.len());
        for command in batch.drain(..) {
            if failure.is_none() {
                failure = self.execute("SAVEPOINT change").await.err();
            }
            if let Some(error) = &failure {
                done.push((command.run)(Err(error.clone())).await);
                continue;
            }
            let announced = self.tx.changes.len();
            let finished = (command.run)(Ok(&mut self.tx)).await;
            if let Some(error) = &finished.failed {
                self.tx.changes.truncate(announced);
                // A full disk, for one, ends the whole transaction; what is to be told is why.
                failure = self.execute("ROLLBACK TO change").await.err().map(|_| error.clone());
            }
            if failure.is_none() {
                failure = self.execute("RELEASE change").await.err();
            }
            done.push(finished);
        }
        if failure.is_none() {
            failure = self.execute("COMMIT").await.err();
        }
        (done, failure)
    }

    async fn begin(&mut self, durability: Durability) -> Result<()> {
        self.file.ensure()?;
        self.set_synchronous(durability).await?;
        self.execute("BEGIN IMMEDIATE").await
    }

    async fn execute(&mut self, statement: &'static str) -> Result<()> {
        sqlx::query(statement).execute(&mut self.tx.connection).await?;
        Ok(())
    }

    /// Sets how far the next commits of the connection go.
    async fn set_synchronous(&mut self, durability: Durability) -> Result<()> {
        if self.synchronous != durability {
            let pragma = match durability {
                Durability::Full => "PRAGMA synchronous = FULL",
                Durability::Process => "PRAGMA synchronous = NORMAL",
            };
            // This pragma acts when it is compiled, so it is compiled each time.
            sqlx::query(pragma).persistent(false).execute(&mut self.tx.connection).await?;
            self.synchronous = durability;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
