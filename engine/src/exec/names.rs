//! Changes of names: at once, or with the COMMIT of a block (see [`crate::session::names`]).
//!
//! A COMMIT is one transaction of the metadata store. Before it the folders of tables that go are
//! marked, after it the marks of tables that have come are taken away and the files of those that
//! have gone are deleted. So a crash on either side of it leaves names and files that fit: the
//! next start deletes marked folders without a name, and takes the mark from those with one.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use lancegate_catalog::{ObjectChange, Table, TableId};
use tokio::sync::oneshot;

use crate::error::{Result, SqlError};
use crate::exec::places::Place;
use crate::exec::turns::Closed;
use crate::exec::{Engine, adopt, grants, tables};
use crate::session::names::{Block, Made, Mark};
use crate::session::{Session, TransactionStatus};
use crate::sql::authorize;

/// What is done to files after a COMMIT.
struct Follows {
    stay: Vec<Made>,
    go: Vec<Made>,
    dropped: tables::Dropped,
}

/// Tables that open blocks have made: the metadata store does not know them, and yet they are there.
#[derive(Debug, Default)]
pub(in crate::exec) struct Unnamed(Mutex<HashSet<TableId>>);

impl Unnamed {
    fn change<T>(&self, change: impl FnOnce(&mut HashSet<TableId>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine {
    /// Changes names: in a block with its COMMIT, otherwise at once.
    ///
    /// # Errors
    /// What the metadata store answers, such as 42P07 for a name that is taken.
    pub(crate) async fn change_names(&self, session: &Session, changes: Vec<ObjectChange>) -> Result<()> {
        match session.transaction {
            TransactionStatus::Idle => Ok(self.catalog().apply(changes).await?),
            TransactionStatus::InBlock | TransactionStatus::Failed => {
                Ok(session.names.add(self.catalog(), changes).await?)
            }
        }
    }

    /// Names a table that is complete in an open block. Without a name its files go.
    ///
    /// # Errors
    /// As [`Self::change_names`].
    pub(in crate::exec) async fn name_in_block(
        &self,
        session: &Session,
        record: Table,
        place: Place,
        changes: Vec<ObjectChange>,
    ) -> Result<()> {
        let id = record.id;
        self.inner.unnamed.change(|unnamed| unnamed.insert(id));
        if let Err((made, error)) = session.names.add_made(self, (record, place), changes).await {
            self.forget_made(vec![made]).await;
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns whether an open block has made a table.
    pub(in crate::exec) fn is_unnamed(&self, table: TableId) -> bool {
        self.inner.unnamed.change(|unnamed| unnamed.contains(&table))
    }

    /// Makes what a block has changed visible to everybody, all at once. Until it waits for nobody any more it can be
    /// given up, and the block is as it was; from there on it is done, also without its client.
    ///
    /// # Errors
    /// What another session has brought about meanwhile: 42P07 for a name that is taken, 42P01 for
    /// a relation that is gone, 40001 for one that has another name or owner, 42501 for a privilege that the caller
    /// has lost. Then nothing is changed.
    pub(in crate::exec) async fn commit_names(&self, session: &Session) -> Result<()> {
        let dropped = session.names.dropped();
        let closed = match tables::close_all(self, &dropped).await {
            Ok(closed) => closed,
            Err(error) => return self.refuse_names(session, error).await,
        };
        if let Err(error) = self.ensure_may_commit(session).await {
            std::mem::drop(closed);
            return self.refuse_names(session, error).await;
        }
        let block = session.names.take();
        if block.changes.is_empty() && block.made.is_empty() {
            return Ok(());
        }
        let (engine, by) = (self.clone(), session.principal.user.as_str().to_owned());
        let (answers, answer) = oneshot::channel();
        self.query_runtime().spawn(async move {
            let named = engine.name_block(block, &by, closed).await;
            let (answered, follows) = match named {
                Ok(follows) => (Ok(()), follows),
                Err((error, made)) => {
                    engine.forget_made(made).await;
                    (Err(error), None)
                }
            };
            // Before the client goes on: a mark that a later DROP sets is not this one's to take away.
            if let Some(Follows { stay, .. }) = &follows {
                engine.unmark(stay).await;
            }
            // Nobody is there to be told if the client has gone. It does not wait for the end of files, which may take long.
            let _ = answers.send(answered);
            if let Some(Follows { go, dropped, .. }) = follows {
                engine.forget_made(go).await;
                tables::delete_dropped(&engine, dropped).await;
            }
        });
        answer.await.map_err(|_| SqlError::internal("COMMIT was not run to its end"))?
    }

    async fn refuse_names(&self, session: &Session, error: SqlError) -> Result<()> {
        self.forget_made(session.names.take().made).await;
        Err(error)
    }

    /// Asks again for what the changes of a block need.
    async fn ensure_may_commit(&self, session: &Session) -> Result<()> {
        session.names.ensure_all_as_before(self.catalog()).await?;
        grants::ensure_subjects(self, session.names.grantees().iter()).await?;
        let grants = self.catalog().grants().await?;
        let needs = session.names.needs();
        needs.iter().try_for_each(|need| authorize::ensure(&session.principal, &grants, need))
    }

    /// Names what a block has made; what is to be done to files follows.
    async fn name_block(
        &self,
        mut block: Block,
        by: &str,
        closed: Vec<Closed>,
    ) -> std::result::Result<Option<Follows>, (SqlError, Vec<Made>)> {
        let (changes, mut jobs) = (std::mem::take(&mut block.changes), std::mem::take(&mut block.jobs));
        jobs.retain(|job| job.table_id.is_none_or(|table| block.is_there(table)));
        let made = std::mem::take(&mut block.made);
        let dropped = match tables::name_changes(self, by, (changes, jobs), &block.dropped(), closed).await {
            Ok(dropped) => dropped,
            Err(error) => return Err((error, made)),
        };
        let (stay, go): (Vec<Made>, Vec<Made>) = made.into_iter().partition(|made| block.is_there(made.record.id));
        for made in &stay {
            self.inner.unnamed.change(|unnamed| unnamed.remove(&made.record.id));
        }
        Ok(Some(Follows { stay, go, dropped }))
    }

    async fn unmark(&self, named: &[Made]) {
        for made in named {
            if let Err(error) = adopt::unmark(self, made.location()).await {
                let location = made.location();
                tracing::warn!(%error, location, "a table keeps the mark of one without a name until the next start");
            }
        }
    }

    /// Forgets what a block has changed, also without its client.
    pub(in crate::exec) async fn roll_names_back(&self, session: &Session, to: Mark) {
        let (engine, made) = (self.clone(), session.names.truncate(to));
        if !made.is_empty() {
            let _ = self.query_runtime().spawn(async move { engine.forget_made(made).await }).await;
        }
    }

    /// Deletes the files of tables that never got a name, and what is kept of them besides.
    pub(crate) async fn forget_made(&self, made: Vec<Made>) {
        for made in made {
            let id = made.record.id;
            tables::remove(self, made.location()).await;
            if let Err(error) = self.catalog().forget_sequences(id).await {
                tracing::warn!(%error, table = %made.record.name, "sequences of a table that was rolled back stay");
            }
            self.inner.unnamed.change(|unnamed| unnamed.remove(&id));
        }
    }
}
