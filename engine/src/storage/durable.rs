//! Makes what a commit added survive a power cut.
//!
//! Lance writes local files without `fsync`, which survives a killed process
//! but not a lost page cache. Files that a commit of ours will reference are
//! flushed before it, and after it whatever Lance itself wrote for it, the
//! manifest and the folders: a version that can be seen can be read, and one
//! that a client was told about is still there. Object stores are
//! durable when they answer; there is nothing to do.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use lance::Dataset;
use lance_table::format::{Fragment, IndexMetadata};
use lance_table::io::deletion::relative_deletion_file_path;
use object_store::path::Path as StorePath;

use super::StorageError;

/// How many folders above a file a commit may have made.
const FOLDERS_ABOVE: usize = 3;
/// Files flushed at once.
const FLUSHES: usize = 32;

/// Flushes the manifest of `dataset` and every data and deletion file that
/// `before` (the version it was made from, if any) did not reference.
///
/// # Errors
/// [`StorageError::Io`] names the file that could not be flushed.
pub async fn sync_commit(dataset: &Dataset, before: Option<&Dataset>) -> Result<(), StorageError> {
    let store = dataset.object_store(None).await?;
    if !store.is_local() {
        return Ok(());
    }
    let mut files = added_files(dataset, before);
    files.push(local(&dataset.manifest_location().path));
    sync_files(files).await
}

/// Flushes data files of `dataset` that a commit is about to reference.
///
/// # Errors
/// [`StorageError::Io`] names the file that could not be flushed.
pub async fn sync_data_files<'a>(dataset: &Dataset, names: impl Iterator<Item = &'a str>) -> Result<(), StorageError> {
    if !dataset.object_store(None).await?.is_local() {
        return Ok(());
    }
    let folder = local(&dataset.data_dir());
    sync_files(names.map(|name| folder.join(name)).collect()).await
}

/// Flushes what a commit is about to reference: the data files of `written`
/// fragments and the deletion files of `deleted_from` fragments.
///
/// # Errors
/// [`StorageError::Io`] names the file that could not be flushed.
pub async fn sync_fragments(
    dataset: &Dataset,
    written: &[Fragment],
    deleted_from: &[Fragment],
) -> Result<(), StorageError> {
    if !dataset.object_store(None).await?.is_local() {
        return Ok(());
    }
    let data = local(&dataset.data_dir());
    let written = written.iter().flat_map(|fragment| fragment.files.iter());
    let mut files: Vec<PathBuf> = written.map(|file| data.join(&file.path)).collect();
    let root = local(&dataset.branch_location().path);
    files.extend(deleted_from.iter().filter_map(deletion_file).map(|file| root.join(file)));
    sync_files(files).await
}

/// Flushes one file of the table's folder, written through Lance's store.
///
/// # Errors
/// [`StorageError::Io`] names the file that could not be flushed.
pub async fn sync_path(dataset: &Dataset, path: &StorePath) -> Result<(), StorageError> {
    if !dataset.object_store(None).await?.is_local() {
        return Ok(());
    }
    sync_files(vec![local(path)]).await
}

/// Flushes the files of an index that a commit is about to reference.
///
/// # Errors
/// [`StorageError::Io`] names the file that could not be flushed.
pub async fn sync_index(dataset: &Dataset, index: &IndexMetadata) -> Result<(), StorageError> {
    if !dataset.object_store(None).await?.is_local() {
        return Ok(());
    }
    let folder = local(&dataset.indices_dir().join(index.uuid.to_string()));
    let files = index.files.iter().flatten().map(|file| folder.join(&file.path));
    sync_files(files.collect()).await
}

/// Flushes one file and every folder above it, up to `root`.
///
/// # Errors
/// [`StorageError::Io`] names what could not be flushed.
pub async fn sync_deep(dataset: &Dataset, path: &StorePath, root: &StorePath) -> Result<(), StorageError> {
    if !dataset.object_store(None).await?.is_local() {
        return Ok(());
    }
    let (file, root) = (local(path), local(root));
    let folders = file.ancestors().skip(1).take_while(|folder| folder.starts_with(&root)).map(Path::to_path_buf);
    let folders: Vec<PathBuf> = folders.collect();
    sync_files(vec![file]).await?;
    sync_all(folders).await
}

/// Object-store paths are relative to the file-system root.
fn local(path: &StorePath) -> PathBuf {
    Path::new("/").join(path.as_ref())
}

fn added_files(dataset: &Dataset, before: Option<&Dataset>) -> Vec<PathBuf> {
    let known: HashSet<&str> = before
        .iter()
        .flat_map(|dataset| dataset.iter_fragments())
        .flat_map(|fragment| fragment.files.iter().map(|file| file.path.as_str()))
        .collect();
    let data = local(&dataset.data_dir());
    let mut files: Vec<PathBuf> = dataset
        .iter_fragments()
        .flat_map(|fragment| fragment.files.iter())
        .filter(|file| file.base_id.is_none() && !known.contains(file.path.as_str()))
        .map(|file| data.join(&file.path))
        .collect();
    let known_deletions: HashSet<String> = before.map(deletion_files).unwrap_or_default();
    let root = local(&dataset.branch_location().path);
    files.extend(deletion_files(dataset).difference(&known_deletions).map(|file| root.join(file)));
    files
}

/// Deletion files of this table's own folder, relative to it.
fn deletion_files(dataset: &Dataset) -> HashSet<String> {
    dataset.iter_fragments().filter_map(deletion_file).collect()
}

fn deletion_file(fragment: &Fragment) -> Option<String> {
    let file = fragment.deletion_file.as_ref().filter(|file| file.base_id.is_none())?;
    Some(relative_deletion_file_path(fragment.id, file))
}

/// Flushes files, then the folders that name them. Several at once: the file
/// system writes its journal once for all that wait for it.
async fn sync_files(files: Vec<PathBuf>) -> Result<(), StorageError> {
    // A new folder is only there after a power cut if the folder above
    // says so: `data`, the table's own, and the one of all tables.
    let above = |file: &PathBuf| -> Vec<PathBuf> {
        file.ancestors().skip(1).take(FOLDERS_ABOVE).map(Path::to_path_buf).collect()
    };
    let folders: HashSet<PathBuf> = files.iter().flat_map(above).collect();
    sync_all(files).await?;
    sync_all(folders.into_iter().collect()).await
}

async fn sync_all(paths: Vec<PathBuf>) -> Result<(), StorageError> {
    let share = paths.len().div_ceil(FLUSHES).max(1);
    let flush = |paths: &[PathBuf]| {
        let paths = paths.to_vec();
        tokio::task::spawn_blocking(move || paths.iter().try_for_each(|path| sync_one(path)))
    };
    let flushes: Vec<_> = paths.chunks(share).map(flush).collect();
    // All are waited for: none goes on behind the back of an error.
    for ended in futures::future::join_all(flushes).await {
        ended.map_err(|error| StorageError::Io { path: PathBuf::new(), source: std::io::Error::other(error) })??;
    }
    Ok(())
}

fn sync_one(path: &Path) -> Result<(), StorageError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| StorageError::Io { path: path.to_owned(), source })
}
