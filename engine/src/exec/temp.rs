//! Makes and removes temporary tables; see [`crate::session::temp`].

use lancegate_catalog::Table;
use sqlparser::ast::OnCommit;

use crate::error::{Result, SqlError};
use crate::exec::{Engine, adopt, dml};
use crate::session::temp::{self, TempTable};
use crate::session::{NoticeSeverity, Session, TransactionStatus};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;

impl Engine {
    /// Deletes the files of temporary tables that nobody finds any more.
    pub(crate) async fn delete_temporary(&self, tables: &[Table]) {
        for table in tables {
            self.store().forget(&table.location);
            if let Err(error) = adopt::delete_files(self, &table.location).await {
                tracing::warn!(%error, location = table.location, "a temporary table could not be deleted");
            }
        }
    }

    /// Deletes what sessions of an earlier process have left.
    ///
    /// # Errors
    /// If the folder is there and cannot be deleted.
    pub(super) async fn sweep_temporary(&self) -> Result<()> {
        if adopt::occupied(self, temp::FOLDER).await? {
            adopt::delete_files(self, temp::FOLDER).await?;
        }
        Ok(())
    }
}

/// Returns a place for a new table.
pub(super) fn location() -> String {
    format!("{}/{}.lance", temp::FOLDER, ulid::Ulid::new().to_string().to_lowercase())
}

/// Returns whether the session has a table of this name and that is fine.
///
/// # Errors
/// 42P07 if it is not.
pub(super) fn exists(session: &Session, name: &str, if_not_exists: bool) -> Result<bool> {
    if session.temp.find(session.id, None, name).is_none() {
        return Ok(false);
    }
    let message = format!("relation \"{name}\" already exists");
    if !if_not_exists {
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    let notice = SqlError::new(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
    session.notify(NoticeSeverity::Notice, notice);
    Ok(true)
}

/// Lets the session find a table that is complete. Outside of a block its
/// transaction ends with the statement.
pub(super) async fn name_it(engine: &Engine, session: &Session, record: Table, on_commit: OnCommit) -> Result<()> {
    let is_new = session.transaction != TransactionStatus::Idle;
    session.temp.add(engine, TempTable { record, on_commit, is_new });
    if is_new { Ok(()) } else { end_transaction(engine, session, true).await }
}

/// Does what ON COMMIT says, or takes away what a block that is rolled back has made.
///
/// # Errors
/// If the rows of a table cannot be deleted.
pub(super) async fn end_transaction(engine: &Engine, session: &Session, committed: bool) -> Result<()> {
    let gone = session.temp.take(|table| match committed {
        true => table.on_commit == OnCommit::Drop,
        false => table.is_new,
    });
    engine.delete_temporary(&gone).await;
    session.temp.settle();
    if !committed {
        return Ok(());
    }
    for table in session.temp.all() {
        if table.on_commit == OnCommit::DeleteRows {
            let dataset = engine.store().open(&table.record.location).await?;
            dml::delete_all(engine, &BoundTable { record: table.record, dataset }, dml::ATTEMPTS_MAX).await?;
        }
    }
    Ok(())
}

/// Removes tables that the session has named.
pub(super) async fn drop(engine: &Engine, session: &Session, tables: &[&Table]) {
    let gone = session.temp.take(|table| tables.iter().any(|gone| gone.id == table.record.id));
    engine.delete_temporary(&gone).await;
}

/// Removes all of a session's tables: DISCARD TEMP.
pub(super) async fn discard(engine: &Engine, session: &Session) {
    let gone = session.temp.take(|_| true);
    engine.delete_temporary(&gone).await;
}
