//! Changes of names: at once, or with the COMMIT of a block (see [`crate::session::names`]).
//!
//! A COMMIT is one transaction of the metadata store. Before it the folders of tables that go are
//! marked, after it the marks of tables that have come are taken away and the files of those that
//! have gone are deleted. So a crash on either side of it leaves names and files that fit: the
//! next start deletes marked folders without a name, and takes the mark from those with one.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use lancegate_catalog::{ObjectChange, Table, TableId};

use crate::error::{Result, SqlError};
use crate::exec::places::Place;
use crate::exec::{Engine, adopt, tables};
use crate::session::names::{Block, Made, Mark};
use crate::session::{Session, TransactionStatus};

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
        let (id, before) = (record.id, session.names.mark());
        self.inner.unnamed.change(|unnamed| unnamed.insert(id));
        session.names.keep(self, record, place);
        if let Err(error) = session.names.add(self.catalog(), changes).await {
            self.forget_made(session.names.truncate(before)).await;
            return Err(error.into());
        }
        Ok(())
    }

    /// Returns whether an open block has made a table.
    pub(in crate::exec) fn is_unnamed(&self, table: TableId) -> bool {
        self.inner.unnamed.change(|unnamed| unnamed.contains(&table))
    }

    /// Makes what a block has changed visible to everybody, all at once.
    ///
    /// # Errors
    /// What another session has brought about meanwhile: 42P07 for a name that is taken, 42P01 for
    /// a relation that is gone. Then nothing is changed.
    pub(in crate::exec) async fn commit_names(&self, session: &Session) -> Result<()> {
        let block = session.names.take();
        if block.changes.is_empty() && block.made.is_empty() {
            return Ok(());
        }
        let (engine, by) = (self.clone(), session.principal.user.as_str().to_owned());
        // Whoever has begun it ends it, also without its client.
        let committed = self.query_runtime().spawn(async move { engine.commit_block(block, &by).await });
        committed.await.map_err(|error| SqlError::internal(format!("COMMIT was not run to its end: {error}")))?
    }

    async fn commit_block(&self, mut block: Block, by: &str) -> Result<()> {
        let (changes, jobs) = (std::mem::take(&mut block.changes), std::mem::take(&mut block.jobs));
        let made = std::mem::take(&mut block.made);
        if let Err(error) = tables::change_names(self, by, changes, jobs, &block.dropped()).await {
            self.forget_made(made).await;
            return Err(error);
        }
        let (stay, go): (Vec<Made>, Vec<Made>) = made.into_iter().partition(|made| block.leaves(made));
        for made in &stay {
            self.inner.unnamed.change(|unnamed| unnamed.remove(&made.record.id));
            if let Err(error) = adopt::unmark(self, made.location()).await {
                let location = made.location();
                tracing::warn!(%error, location, "a table keeps the mark of one without a name until the next start");
            }
        }
        self.forget_made(go).await;
        Ok(())
    }

    /// Forgets what a block has changed.
    pub(in crate::exec) async fn roll_names_back(&self, session: &Session, to: Mark) {
        self.forget_made(session.names.truncate(to)).await;
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
