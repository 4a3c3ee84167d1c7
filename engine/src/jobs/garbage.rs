//! Deleting files that refreshes have left and that no version will ever show.
//!
//! There are two kinds. A *part* is noted. An ended job leaves those that it did
//! not publish to the next refresh of its column (RC-11). Once one can fit no more – the
//! definition is another, the column, the branch or the table is gone, the
//! fragment, its inputs or the values to replace have moved – the registry gives
//! it up, so that nobody is handed it from then on, and its file is deleted. An
//! *orphan* is a file, half written or complete, whose attempt was killed before
//! the note: nothing but its folder knows of it.
//!
//! What stays, whatever else is true:
//!
//! - a file that any version of main or of a branch names: all of them are read
//!   after the last moment at which a note could have been handed out;
//! - a part of an unfinished job, and one that may still fit;
//! - whatever is younger than [`GRACE`]: a file by its last change, a part by the
//!   end of its job. An attempt that has lost its job, or another program, may be
//!   about to commit it;
//! - orphans of a table while a refresh of it runs: it may be about to note one;
//! - a complete file that holds anything but computed columns: no refresh wrote it.
//!
//! Being stopped or killed in between costs nothing: a part stays given up until
//! its file is gone, and the next sweep goes on. A part whose job is removed from
//! the registry is an orphan from then on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::TimeDelta;
use lancegate_catalog::{Catalog, CatalogError, Job, JobId, JobState, Receipt, Table, TableId, TableKind, Timestamp};

use crate::refresh::RefreshSpec;
use crate::refresh::garbage::{self, Named};
use crate::refresh::ledger::PartNote;
use crate::storage::{StorageError, Store, computed};

/// As long as Lance's own cleanup waits for files that no version names.
pub const GRACE: TimeDelta = TimeDelta::days(7);
/// Orphans of one table that one sweep deletes.
const ORPHANS_MAX: usize = 256;

/// What a sweep has deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Files of noted parts.
    pub parts: u64,
    /// Files that nothing knew of.
    pub orphans: u64,
}

/// Looks through the registry and through all tables that refreshes write to, as
/// if it were `now`. What goes wrong with one table is logged, and the others go on.
///
/// # Errors
/// If the registry cannot be read or written. What was deleted stays deleted.
pub async fn collect(catalog: &Catalog, store: &Store, now: Timestamp) -> Result<Collected, CatalogError> {
    let before = now - GRACE;
    give_up(catalog, store, before).await?;
    let parts = delete_given_up(catalog, store).await?;
    let orphans = delete_orphans(catalog, store, before).await?;
    Ok(Collected { parts, orphans })
}

/// A job as far as its parts are concerned.
struct Owner {
    spec: RefreshSpec,
    /// None if it was dropped.
    table: Option<Table>,
}

impl Owner {
    /// `None` for a job that is not a refresh as this software knows it.
    async fn of(catalog: &Catalog, id: JobId) -> Result<Option<Self>, CatalogError> {
        let Some(Job { spec, table_id: Some(table), .. }) = catalog.job(id).await? else { return Ok(None) };
        let Ok(spec) = serde_json::from_value(spec) else { return Ok(None) };
        Ok(Some(Self { spec, table: catalog.table_by_id(table).await? }))
    }
}

fn by_job(parts: Vec<(JobId, Receipt)>) -> BTreeMap<JobId, Vec<Receipt>> {
    let mut jobs: BTreeMap<JobId, Vec<Receipt>> = BTreeMap::new();
    for (job, part) in parts {
        jobs.entry(job).or_default().push(part);
    }
    jobs
}

/// Gives up the parts that can fit no more.
async fn give_up(catalog: &Catalog, store: &Store, before: Timestamp) -> Result<(), CatalogError> {
    for (job, parts) in by_job(catalog.left_parts(before).await?) {
        let Some(owner) = Owner::of(catalog, job).await? else { continue };
        match useless(store, &owner, &parts).await {
            Ok(files) if files.is_empty() => {}
            Ok(files) => {
                let files = files.into_iter().map(|file| (job, file)).collect();
                let given_up = catalog.give_up_parts(files, before).await?;
                tracing::info!(%job, parts = given_up, "gave up computed fragments that fit no more");
            }
            Err(error) => tracing::warn!(%job, %error, "cannot look through what a job has left"),
        }
    }
    Ok(())
}

/// Returns the files among `parts` that fit no more.
async fn useless(store: &Store, owner: &Owner, parts: &[Receipt]) -> Result<Vec<String>, StorageError> {
    let head = match &owner.table {
        Some(table) => garbage::head(store, &table.location, owner.spec.branch.as_deref()).await?,
        None => None,
    };
    let mut useless = Vec::new();
    for part in parts {
        let fits = match (&head, PartNote::read(part)) {
            (None, _) => false,
            // Of another format, that other software may know.
            (Some(_), None) => true,
            (Some(head), Some(note)) => garbage::may_fit(head, &owner.spec, &note).await?,
        };
        if !fits {
            useless.push(part.key.clone());
        }
    }
    Ok(useless)
}

/// Deletes the files of parts that were given up, in this sweep or an earlier
/// one. Returns how many.
async fn delete_given_up(catalog: &Catalog, store: &Store) -> Result<u64, CatalogError> {
    let mut deleted = 0;
    let mut known: HashMap<TableId, Option<Arc<Named>>> = HashMap::new();
    for (job, parts) in by_job(catalog.given_up_parts().await?) {
        let Some(owner) = Owner::of(catalog, job).await? else { continue };
        let files: Vec<&str> = parts.iter().map(|part| part.key.as_str()).collect();
        match delete_parts(store, &owner, &files, &mut known).await {
            Ok(published) => {
                for file in files {
                    let named = published.contains(file);
                    catalog.forget_part(job, file, named).await?;
                    deleted += u64::from(!named);
                }
            }
            // They stay given up.
            Err(Kept::Versions) => {}
            Err(Kept::Error(error)) => tracing::warn!(%job, %error, "cannot delete what a job has left"),
        }
    }
    Ok(deleted)
}

/// Why parts stay.
enum Kept {
    /// Not all versions of the table can be read.
    Versions,
    Error(StorageError),
}

impl From<StorageError> for Kept {
    fn from(error: StorageError) -> Self {
        Self::Error(error)
    }
}

/// Deletes files that no version names; returns the others.
async fn delete_parts(
    store: &Store,
    owner: &Owner,
    files: &[&str],
    known: &mut HashMap<TableId, Option<Arc<Named>>>,
) -> Result<HashSet<String>, Kept> {
    // The files of a table that was dropped go with its folder.
    let Some(table) = &owner.table else { return Ok(HashSet::new()) };
    let Some(main) = garbage::head(store, &table.location, None).await? else { return Ok(HashSet::new()) };
    let named = match known.get(&table.id) {
        Some(named) => named.clone(),
        None => known.entry(table.id).or_insert(Named::of(&main).await?.map(Arc::new)).clone(),
    };
    let Some(named) = named else { return Err(Kept::Versions) };
    let mut published = HashSet::new();
    for file in files {
        if named.holds(file) {
            published.insert((*file).to_owned());
        } else {
            garbage::delete_part(&main, owner.spec.branch.as_deref(), file).await?;
        }
    }
    Ok(published)
}

/// Deletes the orphans of all tables; returns how many.
async fn delete_orphans(catalog: &Catalog, store: &Store, before: Timestamp) -> Result<u64, CatalogError> {
    let mut deleted = 0;
    for database in catalog.databases().await? {
        for table in catalog.tables(&database.name, None).await? {
            if table.kind != TableKind::Table {
                continue;
            }
            match orphans_of(catalog, store, &table, before).await {
                Ok(count) => deleted += count,
                Err(Failed::Registry(error)) => return Err(error),
                Err(Failed::Storage(error)) => {
                    tracing::warn!(table = %table.name, %error, "cannot look for files that refreshes have left");
                }
            }
        }
    }
    Ok(deleted)
}

enum Failed {
    Registry(CatalogError),
    Storage(StorageError),
}

impl From<CatalogError> for Failed {
    fn from(error: CatalogError) -> Self {
        Self::Registry(error)
    }
}

impl From<StorageError> for Failed {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

async fn orphans_of(catalog: &Catalog, store: &Store, table: &Table, before: Timestamp) -> Result<u64, Failed> {
    let Some(main) = garbage::head(store, &table.location, None).await? else { return Ok(0) };
    if computed::columns(&main)?.is_empty() && !was_refreshed(catalog, table).await? {
        return Ok(0);
    }
    let mut candidates = garbage::candidates(&main, before).await?;
    if candidates.is_empty() || is_being_refreshed(catalog, table.id).await? {
        return Ok(0);
    }
    // A refresh that has begun since the files were listed has written none of
    // them. One that has ended since has noted those that it wrote, or published
    // them. So the order of these three looks matters.
    let noted = catalog.unpublished_files().await?;
    candidates.retain(|candidate| !noted.contains(&candidate.file));
    if candidates.is_empty() {
        return Ok(0);
    }
    let Some(named) = Named::of(&main).await? else { return Ok(0) };
    let mut deleted = 0;
    for candidate in &candidates {
        if garbage::delete_orphan(&main, &named, candidate).await? {
            tracing::info!(table = %table.name, file = candidate.file, "deleted a file that a killed refresh has left");
            deleted += 1;
        }
        if deleted as usize == ORPHANS_MAX {
            break;
        }
    }
    Ok(deleted)
}

/// Whether the registry knows of a job on the table: its columns may be dropped.
async fn was_refreshed(catalog: &Catalog, table: &Table) -> Result<bool, CatalogError> {
    let filter = lancegate_catalog::JobFilter {
        database: Some(table.name.database.clone()),
        table: Some((table.name.namespace.clone(), table.name.name.clone())),
        limit: Some(1),
        ..Default::default()
    };
    Ok(!catalog.jobs(filter).await?.is_empty())
}

async fn is_being_refreshed(catalog: &Catalog, table: TableId) -> Result<bool, CatalogError> {
    let active = catalog.active_jobs().await?;
    Ok(active.iter().any(|job| job.table_id == Some(table) && job.status.state == JobState::InProgress))
}
