//! Runs statements about the session: settings and transaction blocks.
//!
//! A block groups statements for the protocol, for settings and for names, which change
//! together with COMMIT; writes to tables that were there before it take effect one by one.
//! ROLLBACK says which of them it does not undo.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use lancegate_sql::ast::{Begin, Discard, Reset, Set, SetScope, Show, Statement, TransactionModes};

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, temp};
use crate::session::names::Mark;
use crate::session::{JOBS_CHANNEL, NoticeSeverity, Savepoint, Session, TransactionStatus};
use crate::sql::plan::SessionPlan;
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;

/// Runs one statement about the session.
pub(super) async fn run(engine: &Engine, session: &mut Session, plan: &SessionPlan) -> Result<Outcome> {
    let statement = &plan.statement;
    match statement {
        Statement::Set(set) => apply_set(session, set)?,
        Statement::Show(show) => return show_settings(session, show, plan),
        Statement::Reset(Reset::All) => session.settings.reset_all(),
        Statement::Reset(Reset::Setting(name)) => {
            session.settings.reset(name)?;
        }
        Statement::Discard(discard) => {
            apply_discard(session, *discard)?;
            if matches!(discard, Discard::All | Discard::Temp) {
                temp::discard(engine, session).await;
            }
            if matches!(discard, Discard::All) {
                engine.activity().advisory().unlock_all(session.id);
            }
        }
        Statement::Begin(begin) => apply_begin(session, begin)?,
        Statement::Commit(commit) => return end(engine, session, true, commit.chain).await,
        Statement::Rollback(rollback) => return end(engine, session, false, rollback.chain).await,
        Statement::Savepoint(savepoint) => {
            ensure_block(session, "SAVEPOINT")?;
            let names = session.names.mark();
            session.savepoints.push(Savepoint { name: savepoint.name.as_str().to_owned(), names });
        }
        Statement::Release(release) => {
            ensure_block(session, "RELEASE SAVEPOINT")?;
            let index = savepoint(session, release.name.as_str())?;
            session.savepoints.truncate(index);
        }
        Statement::RollbackTo(rollback) => {
            ensure_block(session, "ROLLBACK TO SAVEPOINT")?;
            let index = savepoint(session, rollback.name.as_str())?;
            session.savepoints.truncate(index + 1);
            session.transaction = TransactionStatus::InBlock;
            let to = session.savepoints.last().map(|savepoint| savepoint.names).unwrap_or_default();
            engine.roll_names_back(session, to).await;
            warn_of_writes(session);
        }
        Statement::SetTransaction(set) => {
            if session.transaction == TransactionStatus::Idle && !set.session {
                let warning = SqlError::new(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION can only be used in transaction blocks",
                );
                session.notify(NoticeSeverity::Warning, warning);
            } else {
                apply_modes(session, &set.modes, set.session)?;
            }
        }
        Statement::Listen(_) => listen(session, true),
        // Drivers send UNLISTEN * when they hand a connection on. A channel that is not listened to is no error.
        Statement::Unlisten(unlisten)
            if unlisten.channel.as_ref().is_none_or(|channel| channel.as_str() == JOBS_CHANNEL) =>
        {
            listen(session, false);
        }
        _ => {}
    }
    Ok(Outcome::Done(statement.command_tag().unwrap_or("SET").to_owned()))
}

fn listen(session: &mut Session, listens: bool) {
    let in_block = session.transaction != TransactionStatus::Idle;
    session.channels.set(listens, in_block);
}

/// Remembers which version a statement has made by changing rows; none, if there were none.
pub(crate) fn committed(session: &mut Session, table: &BoundTable, version: Option<u64>) {
    session.committed = version;
    session.pins.wrote((table.record.id, session.branch.clone()), version);
    changed_table(session, table);
}

/// Remembers that a statement has changed columns, indexes or versions of a table.
pub(crate) fn altered(session: &mut Session, table: &BoundTable) {
    session.pins.altered((table.record.id, session.branch.clone()));
    changed_table(session, table);
}

/// Remembers that a block has changed a table, for the warning of ROLLBACK.
fn changed_table(session: &mut Session, table: &BoundTable) {
    let id = table.record.id;
    let made_here =
        session.names.has_made(id) || session.temp.all().iter().any(|temp| temp.is_new && temp.record.id == id);
    // What the block has made itself goes with it.
    if !made_here {
        changed(session, &table.record.name.name);
    }
}

/// Remembers that a block has changed something at once.
pub(crate) fn changed(session: &mut Session, name: &str) {
    if session.transaction == TransactionStatus::InBlock && !session.written.iter().any(|written| written == name) {
        session.written.push(name.to_owned());
    }
}

fn apply_set(session: &mut Session, set: &Set) -> Result<()> {
    let value = match set.name.as_str() {
        "search_path" => set.value.to_identifier_list(),
        _ => set.value.to_text(),
    };
    match (value, set.scope) {
        (None, SetScope::Session) => {
            session.settings.reset(&set.name)?;
        }
        (None, SetScope::Local) => {
            let default = session.settings.clone().reset(&set.name)?.value;
            session.settings.set_local(&set.name, &default)?;
        }
        (Some(value), SetScope::Session) => {
            session.settings.set(&set.name, &value)?;
        }
        (Some(value), SetScope::Local) => {
            session.settings.set_local(&set.name, &value)?;
            if session.transaction == TransactionStatus::Idle {
                let message = "SET LOCAL can only be used in transaction blocks";
                session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            }
        }
    }
    Ok(())
}

fn show_settings(session: &Session, show: &Show, plan: &SessionPlan) -> Result<Outcome> {
    let schema = plan.schema.clone().ok_or_else(|| SqlError::internal("SHOW has no columns"))?;
    let columns: Vec<ArrayRef> = match show {
        Show::Setting(name) => vec![Arc::new(StringArray::from(vec![session.settings.get(name)?]))],
        Show::All => {
            let all: Vec<(&str, &str, &str)> = session.settings.all().collect();
            vec![
                Arc::new(StringArray::from_iter_values(all.iter().map(|row| row.0))),
                Arc::new(StringArray::from_iter_values(all.iter().map(|row| row.1))),
                Arc::new(StringArray::from_iter_values(all.iter().map(|row| row.2))),
            ]
        }
    };
    Ok(Outcome::batch(RecordBatch::try_new(schema, columns)?, "SHOW"))
}

fn apply_discard(session: &mut Session, discard: Discard) -> Result<()> {
    if discard == Discard::All {
        if session.transaction != TransactionStatus::Idle {
            let message = "DISCARD ALL cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        session.settings.reset_all();
        session.channels.clear();
    }
    Ok(())
}

fn apply_begin(session: &mut Session, begin: &Begin) -> Result<()> {
    if session.transaction == TransactionStatus::Idle {
        session.transaction = TransactionStatus::InBlock;
        session.settings.begin_block();
        session.pins.begin();
    } else {
        let message = "there is already a transaction in progress";
        session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    apply_modes(session, &begin.modes, false)
}

fn apply_modes(session: &mut Session, modes: &TransactionModes, default: bool) -> Result<()> {
    let mut set = |own: &str, of_session: &str, value: &str| -> Result<()> {
        let name = if default { of_session } else { own };
        session.settings.set(name, value)?;
        Ok(())
    };
    if let Some(isolation) = modes.isolation {
        set("transaction_isolation", "default_transaction_isolation", isolation.as_str())?;
    }
    if let Some(read_only) = modes.read_only {
        let value = if read_only { "on" } else { "off" };
        set("transaction_read_only", "default_transaction_read_only", value)?;
    }
    if let Some(deferrable) = modes.deferrable {
        let value = if deferrable { "on" } else { "off" };
        set("transaction_deferrable", "default_transaction_deferrable", value)?;
    }
    Ok(())
}

/// Ends the block. COMMIT of a failed one is a ROLLBACK, and says so in its tag.
async fn end(engine: &Engine, session: &mut Session, commit: bool, chain: bool) -> Result<Outcome> {
    let status = session.transaction;
    if status == TransactionStatus::Idle {
        if chain {
            let command = if commit { "COMMIT AND CHAIN" } else { "ROLLBACK AND CHAIN" };
            let message = format!("{command} can only be used in transaction blocks");
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        let message = "there is no transaction in progress";
        session.notify(NoticeSeverity::Warning, SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        return Ok(Outcome::Done(if commit { "COMMIT" } else { "ROLLBACK" }.to_owned()));
    }
    let named = match commit && status == TransactionStatus::InBlock {
        true => engine.commit_names(session).await.map(|()| true),
        false => {
            engine.roll_names_back(session, Mark::default()).await;
            Ok(false)
        }
    };
    let committed = matches!(named, Ok(true));
    if committed {
        session.settings.commit_block();
    } else {
        session.settings.roll_back_block();
        warn_of_writes(session);
    }
    let ended = temp::end_transaction(engine, session, committed).await;
    session.channels.end_block(committed);
    session.savepoints.clear();
    session.written.clear();
    let chain = chain && named.is_ok();
    session.transaction = if chain { TransactionStatus::InBlock } else { TransactionStatus::Idle };
    session.pins.end();
    if chain {
        session.settings.begin_block();
        session.pins.begin();
    }
    // The block is over, whatever became of names and temporary tables.
    named?;
    ended?;
    Ok(Outcome::Done(if committed { "COMMIT" } else { "ROLLBACK" }.to_owned()))
}

fn warn_of_writes(session: &Session) {
    if session.written.is_empty() {
        return;
    }
    let names: Vec<String> = session.written.iter().map(|name| format!("\"{name}\"")).collect();
    let warning = SqlError::new(
        SqlState::INVALID_TRANSACTION_STATE,
        format!("changes of {} were applied at once and are not rolled back", names.join(", ")),
    )
    .detail("Each statement that writes is a transaction of its own.");
    session.notify(NoticeSeverity::Warning, warning);
}

fn ensure_block(session: &Session, command: &str) -> Result<()> {
    if session.transaction != TransactionStatus::Idle {
        return Ok(());
    }
    let message = format!("{command} can only be used in transaction blocks");
    Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message))
}

fn savepoint(session: &Session, name: &str) -> Result<usize> {
    let found = session.savepoints.iter().rposition(|savepoint| savepoint.name == name);
    found.ok_or_else(|| SqlError::new(SqlState::parse("3B001"), format!("savepoint \"{name}\" does not exist")))
}
