//! Runs what is done with versions, tags and branches of a table.
//!
//! A restore is a commit like others: who reads the table before it sees the old rows,
//! and a refresh that runs finds the table changed and plans its rows again.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Result, SqlError};
use crate::exec::indexes::{gave_up, lost_race, newest};
use crate::exec::turns::Committer;
use crate::exec::{Engine, session};
use crate::session::Session;
use crate::sql::plan::search::no_branch;
use crate::sql::plan::versions::{VersionAction, VersionAnswer, VersionPlan};
use crate::sql::resolve::BoundTable;
use crate::sqlstate::SqlState;
use crate::storage::{StorageError, versions};

/// Offers of one restore while other commits come first.
const ATTEMPTS_MAX: u32 = 8;

/// Runs one statement.
pub(super) async fn run(engine: &Engine, session: &mut Session, plan: &VersionPlan) -> Result<VersionAnswer> {
    let (table, branch) = (&plan.table, plan.branch.as_deref());
    let main = newest(engine, session, table, None).await?;
    match &plan.action {
        VersionAction::List => {
            let at = newest(engine, session, table, branch).await?;
            Ok(VersionAnswer::Versions(versions::list(&at.dataset).await?))
        }
        VersionAction::Tags => Ok(VersionAnswer::Tags(versions::tags(&main.dataset).await?)),
        VersionAction::Tag { tag } => {
            let found = versions::tags(&main.dataset).await?.into_iter().find(|found| found.name == *tag);
            found.map(VersionAnswer::Tag).ok_or_else(|| no_tag(table, tag))
        }
        VersionAction::Branches => Ok(VersionAnswer::Branches(versions::branches(&main.dataset).await?)),
        VersionAction::Restore { version } => {
            let version = restore(engine, session, plan, *version).await?;
            session::altered(session, table);
            Ok(VersionAnswer::Version(version))
        }
        VersionAction::CreateTag { tag, version } | VersionAction::MoveTag { tag, version } => {
            // Looks the branch up, for an error of its own.
            newest(engine, session, table, branch).await?;
            let moves = matches!(plan.action, VersionAction::MoveTag { .. });
            let (name, at) = (tag.clone(), plan.branch.clone());
            let (dataset, version) = (Arc::clone(&main.dataset), *version);
            let setting = engine.runtime().run_to_end(async move {
                Ok(versions::set_tag(&dataset, &name, (at.as_deref(), version), moves).await)
            });
            setting.await?.map_err(|error| of_tag(error, table, tag, Some(version)))?;
            Ok(VersionAnswer::Done)
        }
        VersionAction::DropTag { tag } => {
            versions::drop_tag(&main.dataset, tag).await.map_err(|error| of_tag(error, table, tag, None))?;
            Ok(VersionAnswer::Done)
        }
        VersionAction::CreateBranch { name, version } => {
            newest(engine, session, table, branch).await?;
            if versions::branches(&main.dataset).await?.iter().any(|found| found.name == *name) {
                return Err(taken(table, name));
            }
            let (dataset, from, made, version) =
                (Arc::clone(&main.dataset), plan.branch.clone(), name.clone(), *version);
            let creating = engine.runtime().run_to_end(async move {
                Ok(versions::create_branch(&dataset, &made, (from.as_deref(), version)).await)
            });
            let created = creating.await?.map_err(|error| of_branch(error, table, name, version))?;
            Ok(VersionAnswer::Version(created.version_id()))
        }
        VersionAction::DropBranch { name } => {
            let (dataset, gone) = (Arc::clone(&main.dataset), name.clone());
            let dropping = engine.runtime().run_to_end(async move { Ok(versions::drop_branch(&dataset, &gone).await) });
            dropping.await?.map_err(|error| of_branch(error, table, name, None))?;
            Ok(VersionAnswer::Done)
        }
    }
}

async fn restore(engine: &Engine, session: &Session, plan: &VersionPlan, version: u64) -> Result<u64> {
    for attempt in 1..=ATTEMPTS_MAX {
        let head = newest(engine, session, &plan.table, plan.branch.as_deref()).await?.dataset;
        let committer = Committer::new(engine, &plan.table.record);
        let restoring = engine.runtime().run_to_end(async move {
            let _share = committer.enter(&head).await?;
            Ok(versions::restore(&head, version).await)
        });
        match restoring.await?.map_err(|error| no_version(error, &plan.table, version)) {
            Ok(restored) => return Ok(restored.version_id()),
            Err(error) if lost_race(&error) && attempt < ATTEMPTS_MAX => {
                tokio::time::sleep(Duration::from_millis(5) * attempt * attempt).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(gave_up())
}

fn no_tag(table: &BoundTable, tag: &str) -> SqlError {
    let message = format!("tag \"{tag}\" of table \"{}\" does not exist", table.name());
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn no_version(error: StorageError, table: &BoundTable, version: u64) -> SqlError {
    match &error {
        StorageError::Lance(
            lance::Error::VersionNotFound { .. } | lance::Error::NotFound { .. } | lance::Error::DatasetNotFound { .. },
        ) => {
            let message = format!("version {version} of table \"{}\" does not exist", table.name());
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }
        _ => error.into(),
    }
}

fn of_tag(error: StorageError, table: &BoundTable, tag: &str, version: Option<u64>) -> SqlError {
    match &error {
        StorageError::Lance(lance::Error::RefNotFound { .. }) => no_tag(table, tag),
        StorageError::Lance(lance::Error::RefConflict { .. }) => {
            let message = format!("tag \"{tag}\" of table \"{}\" already exists", table.name());
            SqlError::new(SqlState::DUPLICATE_OBJECT, message)
        }
        StorageError::Lance(lance::Error::InvalidRef { .. }) => invalid("tag", tag),
        _ => no_version(error, table, version.unwrap_or(0)),
    }
}

fn of_branch(error: StorageError, table: &BoundTable, name: &str, version: Option<u64>) -> SqlError {
    match &error {
        StorageError::Lance(lance::Error::RefNotFound { .. }) => no_branch(table, name),
        StorageError::Lance(lance::Error::RefConflict { message, .. }) if message.contains("referenced") => {
            let said = format!("cannot drop branch \"{name}\" because tags or other branches need it");
            SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, said)
        }
        StorageError::Lance(lance::Error::RefConflict { .. } | lance::Error::DatasetAlreadyExists { .. }) => {
            taken(table, name)
        }
        StorageError::Lance(lance::Error::InvalidRef { .. }) => invalid("branch", name),
        _ => no_version(error, table, version.unwrap_or(0)),
    }
}

fn taken(table: &BoundTable, name: &str) -> SqlError {
    let message = format!("branch \"{name}\" of table \"{}\" already exists", table.name());
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

fn invalid(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_NAME, format!("invalid name \"{name}\" of a {kind}"))
        .detail("Names consist of letters, digits, \"_\", \"-\" and \".\", and do not begin with a dot.")
}
