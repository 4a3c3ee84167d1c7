//! Files of refreshes that no version will ever show: how they are known, and
//! how they are deleted. [`crate::jobs::garbage`] decides when, and what the
//! registry has to say about it.
//!
//! Lance deletes nothing by itself, and its cleanup of old versions is a tool
//! that an operator runs. The rules here are its rules: what any version of main
//! or of a branch names stays, and what is younger than a week may be named by a
//! commit of whatever writer at any moment. A shallow clone elsewhere reads files
//! of the versions that it was made from; it is on its own once they are cleaned
//! up, here as there.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use lance::Dataset;
use lance_core::datatypes::{Field, Schema};
use lance_file::reader::FileReader;
use lance_io::scheduler::{ScanScheduler, SchedulerConfig};
use lance_io::utils::CachedFileSize;
use object_store::path::Path;

use super::ledger::PartNote;
use super::snapshot::Snapshot;
use super::{RefreshSpec, tidy};
use crate::storage::{StorageError, Store, commit, computed};

/// Manifests whose names begin so are in no list of versions.
const DETACHED: char = 'd';
/// How Lance names a local file that it has not completed.
const PARTIAL: &str = ".tmp";
/// How the name of a complete data file ends.
const COMPLETE: &str = ".lance";
/// Nobody keeps more of these than fits in memory at once.
const CANDIDATES_MAX: usize = 4_096;

/// The newest version of a table on main or a branch; `None` if there is no such
/// table or branch any more.
///
/// # Errors
/// What the store reports: nothing can be said then.
pub async fn head(store: &Store, location: &str, branch: Option<&str>) -> Result<Option<Arc<Dataset>>, StorageError> {
    let main = match store.open(location).await {
        Ok(main) => main,
        Err(StorageError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(branch) = branch else { return Ok(Some(main)) };
    if !main.list_branches().await?.contains_key(branch) {
        return Ok(None);
    }
    Ok(Some(Arc::new(main.checkout_branch(branch).await?)))
}

/// Whether a part may still be published on this branch: its column, definition,
/// fragment, inputs and the values that it replaces are what they were, and its
/// file is there. Whether its rows are those that are due is for a refresh to say.
///
/// # Errors
/// What the store reports; a column that cannot be understood is one.
pub async fn may_fit(head: &Arc<Dataset>, spec: &RefreshSpec, note: &PartNote) -> Result<bool, StorageError> {
    let snapshot = match spec.column_in(head).and_then(|name| Snapshot::of(Arc::clone(head), &name)) {
        Ok(snapshot) => snapshot,
        Err(StorageError::NoColumn { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let part = &note.part;
    let Some(fragment) = head.iter_fragments().find(|fragment| fragment.id == part.fragment_id) else {
        return Ok(false);
    };
    let fits = note.is_of(snapshot.definition)
        && snapshot.input_signer().sign(fragment) == part.inputs
        && snapshot.output_signer().sign(fragment) == part.replaces;
    Ok(fits && commit::is_intact(head, &part.file).await?)
}

/// What all versions of a table name.
#[derive(Debug, Default)]
pub struct Named {
    files: HashSet<String>,
    /// Ids of computed fields, and of the fields inside them.
    computed: HashSet<i32>,
}

impl Named {
    /// Reads all versions of main and of all branches; `None` if that cannot be
    /// done: there are too many, or some are in no list.
    ///
    /// # Errors
    /// What the store reports, a version that goes meanwhile included.
    pub async fn of(main: &Dataset) -> Result<Option<Self>, StorageError> {
        let mut named = Self::default();
        let all = tidy::each_version(main, |at| {
            let files = at.iter_fragments().flat_map(|fragment| {
                fragment.files.iter().chain(fragment.overlays.iter().map(|overlay| &overlay.data_file))
            });
            named.files.extend(files.map(|file| file.path.clone()));
            at.schema().fields.iter().for_each(|field| collect_computed(field, false, &mut named.computed));
        });
        if !all.await? || has_detached_versions(main).await? {
            return Ok(None);
        }
        Ok(Some(named))
    }

    /// Whether any version names the file.
    pub fn holds(&self, file: &str) -> bool {
        self.files.contains(file)
    }
}

fn collect_computed(field: &Field, inside: bool, ids: &mut HashSet<i32>) {
    let computed = inside || computed::is_marked(field);
    if computed {
        ids.insert(field.id);
    }
    field.children.iter().for_each(|child| collect_computed(child, computed, ids));
}

async fn has_detached_versions(main: &Dataset) -> Result<bool, StorageError> {
    let store = main.object_store(None).await?;
    for folder in folders(main).await? {
        let names = match store.read_dir(folder.join("_versions")).await {
            Ok(names) => names,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        if names.iter().any(|name| name.starts_with(DETACHED)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The folders of main and of all branches.
async fn folders(main: &Dataset) -> Result<Vec<Path>, StorageError> {
    let root = main.branch_location().find_main()?;
    let mut folders = vec![root.path.clone()];
    for branch in main.list_branches().await?.keys() {
        folders.push(root.find_branch(Some(branch))?.path);
    }
    Ok(folders)
}

/// Deletes the file of a part; one that is gone is fine.
///
/// # Errors
/// What the store reports.
pub async fn delete_part(main: &Dataset, branch: Option<&str>, file: &str) -> Result<(), StorageError> {
    let root = main.branch_location().find_main()?;
    delete(main, &root.find_branch(branch)?.path.join("data").join(file)).await
}

async fn delete(main: &Dataset, path: &Path) -> Result<(), StorageError> {
    match main.object_store(None).await?.delete(path).await {
        Ok(()) => Ok(()),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A data file that the newest version of main does not name.
#[derive(Debug)]
pub struct Candidate {
    path: Path,
    /// Its name.
    pub file: String,
}

/// Lists the data files of main and of all branches that have not changed since
/// `before` and that the newest version of main does not name.
///
/// # Errors
/// What the store reports.
pub async fn candidates(main: &Dataset, before: DateTime<Utc>) -> Result<Vec<Candidate>, StorageError> {
    let current: HashSet<&str> =
        main.iter_fragments().flat_map(|fragment| fragment.files.iter()).map(|file| file.path.as_str()).collect();
    let store = main.object_store(None).await?;
    let mut found = Vec::new();
    for folder in folders(main).await? {
        let data = folder.join("data");
        let depth = data.parts().count() + 1;
        let mut listed = store.read_dir_all(&data, Some(before));
        while let Some(object) = listed.try_next().await? {
            let Some(file) = object.location.filename() else { continue };
            let ours = file.ends_with(COMPLETE) || file.starts_with(PARTIAL);
            if ours
                && object.location.parts().count() == depth
                && !current.contains(file)
                && found.len() < CANDIDATES_MAX
            {
                found.push(Candidate { file: file.to_owned(), path: object.location.clone() });
            }
        }
    }
    Ok(found)
}

/// Deletes a file that no version names, if a refresh may have written it: it is
/// not complete, or holds computed columns and nothing else. Returns whether it did.
///
/// # Errors
/// What the store reports.
pub async fn delete_orphan(main: &Dataset, named: &Named, orphan: &Candidate) -> Result<bool, StorageError> {
    if named.holds(&orphan.file) {
        return Ok(false);
    }
    if !orphan.file.starts_with(PARTIAL) {
        let Some(schema) = file_schema(main, &orphan.path).await else { return Ok(false) };
        let mut leaves = schema.fields_pre_order().filter(|field| field.children.is_empty()).peekable();
        if leaves.peek().is_none() || !leaves.all(|field| named.computed.contains(&field.id)) {
            return Ok(false);
        }
    }
    delete(main, &orphan.path).await?;
    Ok(true)
}

/// Returns what a file says that it holds; `None` if it is not to be read.
async fn file_schema(main: &Dataset, path: &Path) -> Option<Arc<Schema>> {
    let store = main.object_store(None).await.ok()?;
    let scheduler = ScanScheduler::new(Arc::clone(&store), SchedulerConfig::max_bandwidth(&store));
    let file = scheduler.open_file(path, &CachedFileSize::unknown()).await.ok()?;
    Some(FileReader::read_all_metadata(&file).await.ok()?.file_schema)
}
