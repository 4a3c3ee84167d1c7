//! Writes the small fragments of a table anew as large ones, without their deleted rows, and extends indexes to rows
//! that they do not know.
//!
//! Rows keep their stable ids, and a refresh follows them, so values of computed columns stay current. Earlier versions
//! keep the files that they had. What is written here is flushed before the commit that shows it.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::index::DatasetIndexRemapperOptions;
use lance::dataset::optimize::{CompactionOptions, CompactionTask, RewriteResult, commit_compaction, plan_compaction};
use lance::index::DatasetIndexExt;
use lance::index::optimize::{IndexSegmentResult, commit_optimize_indices, plan_optimize_indices};
use lance_index::optimize::OptimizeOptions;

use super::{StorageError, durable};

/// Groups of fragments that are written at one time.
const WRITERS: usize = 2;
/// Bytes that are read ahead for one of them; Lance's own default is for a machine that does nothing else.
const READ_AHEAD_BYTES: u64 = 64 << 20;

/// Fragments that were written and that no version shows yet.
#[derive(Debug)]
pub struct Rewritten {
    dataset: Arc<Dataset>,
    options: CompactionOptions,
    results: Vec<RewriteResult>,
}

impl Rewritten {
    /// Returns how many fragments go, and how many come for them.
    pub fn fragments(&self) -> (usize, usize) {
        let metrics = self.results.iter().map(|result| &result.metrics);
        metrics.fold((0, 0), |(gone, new), one| (gone + one.fragments_removed, new + one.fragments_added))
    }
}

/// Writes what is worth it: neighbours of fewer rows than Lance wants in a fragment, and fragments of which more than a
/// tenth is deleted; with `all_deletions` also those with any deleted row. `None` if there are none. The table's own
/// options (`lance.compaction.…`) come first. Dropping the future gives it up; its files are garbage then.
///
/// # Errors
/// What Lance reports.
pub async fn rewrite(dataset: Arc<Dataset>, all_deletions: bool) -> Result<Option<Rewritten>, StorageError> {
    let mut options = CompactionOptions::from_dataset_config(dataset.config())?;
    options.io_buffer_size.get_or_insert(READ_AHEAD_BYTES);
    if all_deletions {
        options.materialize_deletions = true;
        options.materialize_deletions_threshold = 0.0;
    }
    let plan = plan_compaction(&dataset, &options).await?;
    let options = plan.options().clone();
    let tasks: Vec<CompactionTask> = plan.compaction_tasks().collect();
    if tasks.is_empty() {
        return Ok(None);
    }
    let writing = tasks.into_iter().map(|task| {
        let dataset = Arc::clone(&dataset);
        async move { task.execute(&dataset).await }
    });
    let writing = futures::stream::iter(writing).buffer_unordered(WRITERS);
    let results: Vec<RewriteResult> = writing.try_collect().await?;
    let new: Vec<_> = results.iter().flat_map(|result| result.new_fragments.clone()).collect();
    durable::sync_fragments(&dataset, &new, &[]).await?;
    Ok(Some(Rewritten { dataset, options, results }))
}

/// Shows what was written, in one version.
///
/// # Errors
/// A commit conflict if rows of the old fragments have changed meanwhile; then nothing has.
pub async fn commit(rewritten: Rewritten) -> Result<(), StorageError> {
    let Rewritten { dataset, options, results } = rewritten;
    let mut changed = dataset.as_ref().clone();
    commit_compaction(&mut changed, results, Arc::new(DatasetIndexRemapperOptions::default()), &options).await?;
    // Without stable row ids the indexes were written anew, too.
    let known = dataset.load_indices().await?;
    for index in changed.load_indices().await?.iter().filter(|index| known.iter().all(|old| old.uuid != index.uuid)) {
        durable::sync_index(&changed, index).await?;
    }
    durable::sync_commit(&changed, Some(&dataset)).await
}

/// Parts of indexes that were built and that no version shows yet.
#[derive(Debug)]
pub struct Extended {
    dataset: Arc<Dataset>,
    results: Vec<IndexSegmentResult>,
}

impl Extended {
    /// Returns how many indexes are extended.
    pub fn indexes(&self) -> usize {
        self.results.len()
    }
}

/// Builds what the indexes of a table lack: the rows that were written after them. `None` if they lack nothing.
/// Dropping the future gives it up.
///
/// # Errors
/// What Lance reports.
pub async fn extend_indexes(dataset: Arc<Dataset>) -> Result<Option<Extended>, StorageError> {
    if dataset.load_indices().await?.is_empty() {
        return Ok(None);
    }
    let plan = plan_optimize_indices(&dataset, &OptimizeOptions::default()).await?;
    let mut built = Vec::new();
    for task in &plan.tasks {
        built.extend(task.execute(&dataset).await?);
    }
    let mut results = Vec::new();
    for merge in &plan.merges {
        results.extend(merge.execute(&dataset, &built).await?);
    }
    for result in &results {
        durable::sync_index(&dataset, &result.segment).await?;
    }
    Ok((!results.is_empty()).then_some(Extended { dataset, results }))
}

/// Shows the parts of indexes, in one version.
///
/// # Errors
/// A commit conflict if an index or rows of it have changed meanwhile; then nothing has.
pub async fn commit_indexes(extended: Extended) -> Result<(), StorageError> {
    let Extended { dataset, results } = extended;
    let mut changed = dataset.as_ref().clone();
    commit_optimize_indices(&mut changed, results, &OptimizeOptions::default()).await?;
    durable::sync_commit(&changed, Some(&dataset)).await
}
