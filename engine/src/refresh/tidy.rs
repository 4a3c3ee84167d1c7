//! Removing provenance records that no version names any more.
//!
//! A record lives as long as a version that names it, on main or on a branch;
//! tags keep their versions. Cleaning up old versions leaves records behind. They
//! are removed after a refresh has recorded its own, and only when there are more
//! records than versions: then some are garbage for certain, reading all
//! manifests is worth it, and there is never much more of them than of versions.

use std::collections::HashSet;

use chrono::{TimeDelta, Utc};
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::refs::Ref;

use super::provenance::{FOLDER, SUFFIX};
use crate::storage::StorageError;
use crate::storage::computed::PROVENANCE;

/// A younger record may be one that a commit is about to name. As long as
/// Lance's own cleanup waits for files that no version references.
const GRACE: TimeDelta = TimeDelta::days(7);
/// Records removed at once.
const REMOVED_MAX: usize = 256;
/// Manifests read at once; a table with more versions is left alone.
const VERSIONS_MAX: usize = 4_096;

/// Removes records of a table that nothing names, and returns how many.
///
/// # Errors
/// What the store reports; then nothing that is still named was removed.
pub async fn remove_unnamed_records(dataset: &Dataset) -> Result<usize, StorageError> {
    remove_older(dataset, GRACE).await
}

/// [`remove_unnamed_records`] with another grace.
///
/// # Errors
/// As there.
pub async fn remove_older(dataset: &Dataset, grace: TimeDelta) -> Result<usize, StorageError> {
    let root = dataset.branch_location().find_main()?.path;
    let store = dataset.object_store(None).await?;
    let mut records: Vec<String> = Vec::new();
    let mut listed = store.read_dir_all(&root.clone().join(FOLDER), Some(Utc::now() - grace));
    while let Some(object) = listed.try_next().await? {
        let name = object.location.filename().and_then(|name| name.strip_suffix(SUFFIX));
        records.extend(name.map(str::to_owned));
    }
    let versions = store.read_dir(root.clone().join("_versions")).await?.len();
    if records.len() <= versions || versions > VERSIONS_MAX {
        return Ok(0);
    }
    let Some(named) = named(dataset).await? else { return Ok(0) };
    let unnamed = records.iter().filter(|digest| !named.contains(*digest)).take(REMOVED_MAX);
    let mut removed = 0;
    for digest in unnamed {
        store.delete(&root.clone().join(FOLDER).join(format!("{digest}{SUFFIX}"))).await?;
        removed += 1;
    }
    Ok(removed)
}

/// Digests that any version of main or a branch names; `None` if there are too
/// many versions to look at.
async fn named(dataset: &Dataset) -> Result<Option<HashSet<String>>, StorageError> {
    let mut named = HashSet::new();
    let all = each_version(dataset, |at| {
        named.extend(at.schema().fields_pre_order().filter_map(|field| field.metadata.get(PROVENANCE)).cloned());
    });
    Ok(all.await?.then_some(named))
}

/// Shows `visit` every version of main and of all branches; `false`, and not all
/// of them, if there are too many.
pub(super) async fn each_version(
    dataset: &Dataset,
    mut visit: impl FnMut(&Dataset) + Send,
) -> Result<bool, StorageError> {
    let main = dataset.checkout_version(Ref::Version(None, None)).await?;
    let mut heads = vec![main.clone()];
    for branch in main.list_branches().await?.keys() {
        heads.push(main.checkout_branch(branch).await?);
    }
    let mut seen = 0;
    for head in heads {
        for version in head.versions().await? {
            seen += 1;
            if seen > VERSIONS_MAX {
                return Ok(false);
            }
            visit(&head.checkout_version(version.version).await?);
        }
    }
    Ok(true)
}
