//! Counting the versions that this process commits.
//!
//! Lance publishes every version of a table, whatever the operation, through
//! the table's commit handler; so this is the one place where all of them are
//! seen. It decides nothing: each call goes on to Lance's own handler.

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use lance_io::object_store::ObjectStore;
use lance_table::format::{IndexMetadata, Manifest, Transaction};
use lance_table::io::commit::{
    CommitError, CommitHandler, ManifestLocation, ManifestNamingScheme, ManifestWriter, PredecessorIdentity,
    commit_handler_from_url,
};
use object_store::ObjectStore as Bucket;
use object_store::path::Path;
use prometheus_client::metrics::counter::Counter;

/// A commit handler that counts what it commits.
#[derive(Debug)]
pub(super) struct CountedCommits {
    inner: Arc<dyn CommitHandler>,
    commits: Counter,
}

impl CountedCommits {
    /// Returns Lance's handler for the table at `uri`, counted by `commits`.
    ///
    /// # Errors
    /// If Lance knows no way to commit there.
    pub(super) async fn at(uri: &str, commits: Counter) -> lance::Result<Arc<dyn CommitHandler>> {
        let inner = commit_handler_from_url(uri, &None).await?;
        Ok(Arc::new(Self { inner, commits }))
    }

    fn count<E>(&self, committed: Result<ManifestLocation, E>) -> Result<ManifestLocation, E> {
        if committed.is_ok() {
            self.commits.inc();
        }
        committed
    }
}

#[async_trait]
impl CommitHandler for CountedCommits {
    async fn commit(
        &self,
        manifest: &mut Manifest,
        indices: Option<Vec<IndexMetadata>>,
        base_path: &Path,
        object_store: &ObjectStore,
        manifest_writer: ManifestWriter,
        naming_scheme: ManifestNamingScheme,
        transaction: Option<Transaction>,
    ) -> Result<ManifestLocation, CommitError> {
        let committed = self
            .inner
            .commit(manifest, indices, base_path, object_store, manifest_writer, naming_scheme, transaction)
            .await;
        self.count(committed)
    }

    async fn commit_after(
        &self,
        manifest: &mut Manifest,
        indices: Option<Vec<IndexMetadata>>,
        base_path: &Path,
        object_store: &ObjectStore,
        manifest_writer: ManifestWriter,
        naming_scheme: ManifestNamingScheme,
        transaction: Option<Transaction>,
        predecessor: &PredecessorIdentity,
    ) -> Result<ManifestLocation, CommitError> {
        let committed = self
            .inner
            .commit_after(
                manifest,
                indices,
                base_path,
                object_store,
                manifest_writer,
                naming_scheme,
                transaction,
                predecessor,
            )
            .await;
        self.count(committed)
    }

    fn is_version_not_found_definitive(&self) -> bool {
        self.inner.is_version_not_found_definitive()
    }

    fn propagate_commit_error_after_success(&self) -> bool {
        self.inner.propagate_commit_error_after_success()
    }

    fn supports_predecessor_condition(&self) -> bool {
        self.inner.supports_predecessor_condition()
    }

    async fn resolve_latest_location(
        &self,
        base_path: &Path,
        object_store: &ObjectStore,
    ) -> lance::Result<ManifestLocation> {
        self.inner.resolve_latest_location(base_path, object_store).await
    }

    async fn resolve_version_location(
        &self,
        base_path: &Path,
        version: u64,
        object_store: &dyn Bucket,
    ) -> lance::Result<ManifestLocation> {
        self.inner.resolve_version_location(base_path, version, object_store).await
    }

    async fn version_exists(
        &self,
        base_path: &Path,
        version: u64,
        object_store: &dyn Bucket,
        naming_scheme: ManifestNamingScheme,
    ) -> lance::Result<bool> {
        self.inner.version_exists(base_path, version, object_store, naming_scheme).await
    }

    fn list_detached_manifest_locations<'a>(
        &self,
        base_path: &Path,
        object_store: &'a ObjectStore,
    ) -> BoxStream<'a, lance::Result<ManifestLocation>> {
        self.inner.list_detached_manifest_locations(base_path, object_store)
    }

    fn list_manifest_locations<'a>(
        &self,
        base_path: &Path,
        object_store: &'a ObjectStore,
        sorted_descending: bool,
    ) -> BoxStream<'a, lance::Result<ManifestLocation>> {
        self.inner.list_manifest_locations(base_path, object_store, sorted_descending)
    }

    fn list_manifest_locations_since<'a>(
        &self,
        base_path: &Path,
        object_store: &'a ObjectStore,
        since_version: u64,
    ) -> BoxStream<'a, lance::Result<ManifestLocation>> {
        self.inner.list_manifest_locations_since(base_path, object_store, since_version)
    }

    async fn resolve_latest_identity(
        &self,
        base_path: &Path,
        object_store: &ObjectStore,
    ) -> lance::Result<Option<PredecessorIdentity>> {
        self.inner.resolve_latest_identity(base_path, object_store).await
    }

    async fn resolve_identity(
        &self,
        base_path: &Path,
        object_store: &ObjectStore,
        version: u64,
    ) -> lance::Result<Option<PredecessorIdentity>> {
        self.inner.resolve_identity(base_path, object_store, version).await
    }

    async fn forget_version(&self, base_path: &Path, version: u64, identity: &str) -> lance::Result<()> {
        self.inner.forget_version(base_path, version, identity).await
    }

    async fn delete(&self, base_path: &Path) -> lance::Result<()> {
        self.inner.delete(base_path).await
    }
}
