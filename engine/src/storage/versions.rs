//! Versions, tags and branches of a table.
//!
//! A restore is a commit that makes an older version the newest one; nothing is lost
//! by it. Tags and branches are small files beside the versions, written in one step
//! each and flushed before the caller goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use lance::Dataset;
use lance::dataset::refs::{Ref, branch_contents_path, tag_path};

use super::{StorageError, durable};

/// One version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRow {
    /// Its number.
    pub version: u64,
    /// When it was committed.
    pub timestamp: DateTime<Utc>,
    /// What Lance says of it.
    pub metadata: BTreeMap<String, String>,
}

/// One tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagRow {
    /// Its name.
    pub name: String,
    /// The version that it names.
    pub version: u64,
    /// The branch of that version; `None` for the main one.
    pub branch: Option<String>,
    /// Bytes of the version's manifest.
    pub manifest_size: u64,
    /// When it was made.
    pub created_at: Option<DateTime<Utc>>,
    /// When it was moved last.
    pub updated_at: Option<DateTime<Utc>>,
}

/// One branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchRow {
    /// Its name.
    pub name: String,
    /// The branch that it comes from; `None` for the main one.
    pub parent_branch: Option<String>,
    /// The version that it comes from.
    pub parent_version: u64,
    /// When it was made, in seconds since 1970.
    pub created_at: u64,
    /// Bytes of the first manifest.
    pub manifest_size: u64,
}

/// Returns the versions of the branch that `dataset` is on, oldest first.
///
/// # Errors
/// What Lance reports.
pub async fn list(dataset: &Dataset) -> Result<Vec<VersionRow>, StorageError> {
    let versions = dataset.versions().await?;
    let row = |version: lance::dataset::Version| VersionRow {
        version: version.version,
        timestamp: version.timestamp,
        metadata: version.metadata,
    };
    Ok(versions.into_iter().map(row).collect())
}

/// Makes an older version of a branch its newest one.
///
/// # Errors
/// What Lance reports, [`lance::Error::NotFound`] for a version that is gone.
pub async fn restore(head: &Dataset, version: u64) -> Result<Dataset, StorageError> {
    let mut restored = head.checkout_version(version).await?;
    let before = restored.clone();
    restored.restore().await?;
    durable::sync_commit(&restored, Some(&before)).await?;
    Ok(restored)
}

/// Returns the tags of a table by name.
///
/// # Errors
/// What Lance reports.
pub async fn tags(dataset: &Dataset) -> Result<Vec<TagRow>, StorageError> {
    let mut rows: Vec<TagRow> = dataset
        .tags()
        .list()
        .await?
        .into_iter()
        .map(|(name, tag)| TagRow {
            name,
            version: tag.version,
            branch: tag.branch,
            manifest_size: tag.manifest_size as u64,
            created_at: tag.created_at,
            updated_at: tag.updated_at,
        })
        .collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

/// Names a version; `moves` says whether the tag is there already.
///
/// # Errors
/// What Lance reports: a tag that exists or does not, a version that does not.
pub async fn set_tag(
    dataset: &Dataset,
    tag: &str,
    (branch, version): (Option<&str>, u64),
    moves: bool,
) -> Result<(), StorageError> {
    let reference = Ref::Version(branch.map(str::to_owned), Some(version));
    match moves {
        true => dataset.tags().update(tag, reference).await?,
        false => dataset.tags().create(tag, reference).await?,
    }
    let root = dataset.branch_location().find_main()?.path;
    durable::sync_path(dataset, &tag_path(&root, tag)).await
}

/// Forgets a tag.
///
/// # Errors
/// What Lance reports: a tag that does not exist.
pub async fn drop_tag(dataset: &Dataset, tag: &str) -> Result<(), StorageError> {
    Ok(dataset.tags().delete(tag).await?)
}

/// Returns the branches of a table by name; the main one is not among them.
///
/// # Errors
/// What Lance reports.
pub async fn branches(dataset: &Dataset) -> Result<Vec<BranchRow>, StorageError> {
    let mut rows: Vec<BranchRow> = dataset
        .list_branches()
        .await?
        .into_iter()
        .map(|(name, branch)| BranchRow {
            name,
            parent_branch: branch.parent_branch,
            parent_version: branch.parent_version,
            created_at: branch.create_at,
            manifest_size: branch.manifest_size as u64,
        })
        .collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(rows)
}

/// Makes a branch of a version.
///
/// # Errors
/// What Lance reports: a branch that exists, a source that does not.
pub async fn create_branch(
    main: &Arc<Dataset>,
    name: &str,
    (from, version): (Option<&str>, Option<u64>),
) -> Result<Dataset, StorageError> {
    let mut working = main.as_ref().clone();
    let source = Ref::Version(from.map(str::to_owned), version);
    let branch = working.create_branch(name, source, None).await?;
    let root = main.branch_location().find_main()?.path;
    durable::sync_deep(&branch, &branch.manifest_location().path, &root).await?;
    durable::sync_deep(main, &branch_contents_path(&root, name), &root).await?;
    Ok(branch)
}

/// Removes a branch and what only it holds.
///
/// # Errors
/// What Lance reports: a branch that does not exist, or that tags or other branches
/// need.
pub async fn drop_branch(main: &Arc<Dataset>, name: &str) -> Result<(), StorageError> {
    let mut working = main.as_ref().clone();
    Ok(working.delete_branch(name).await?)
}
