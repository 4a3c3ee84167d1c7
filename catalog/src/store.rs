//! The embedded store: one SQLite file, one writer, several readers.
//!
//! All SQL of this crate is below this module. Rust callers see the methods of
//! [`Catalog`]; each is one transaction.

mod api_keys;
mod attempt;
mod bindings;
mod children;
mod claims;
mod comments;
mod control;
mod draft;
mod events;
mod failures;
mod functions;
mod grants;
mod jobs;
mod meta;
mod metering;
mod names;
mod objects;
mod open;
mod parts;
mod receipts;
mod retention;
mod rows;
mod schema;
mod secrets;
mod sequences;
mod turns;
mod users;
mod writer;

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use sqlx::SqlitePool;
use tokio::sync::broadcast;

pub use self::children::ChildEnd;
use self::grants::GrantCache;
use self::names::NameCache;
pub use self::retention::{RetentionPolicy, Swept};
pub use self::sequences::Drawn;
use self::turns::Turns;
use self::writer::{Tx, Writer};
use crate::error::{CatalogError, Result};
use crate::event::JobChange;

/// Changes that a subscriber may be behind before it misses some.
const CHANGES_BUFFERED_MAX: usize = 1_024;

/// How far a commit must have got before the caller is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Durability {
    /// It survives a crash of the process; power loss may undo it.
    Process,
    /// It survives power loss, as far as the disk keeps its word.
    Full,
}

/// A handle of the metadata store. Cloning is cheap; all clones are one store.
///
/// A read sees every change that was acknowledged before it began. A change
/// that was begun runs to its end, committed or not at all, even if the
/// future of the caller is dropped.
#[derive(Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    readers: SqlitePool,
    writer: Writer,
    changes: broadcast::Sender<JobChange>,
    grants: Arc<GrantCache>,
    names: Arc<NameCache>,
    turns: Arc<Turns>,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Opens the store at `path`, creating it if there is none.
    ///
    /// Holds a lock on `<path>.lock` until the store is closed, checks the
    /// file, and brings its schema up to date. A store with a newer schema
    /// opens, too: it can be read, and every change fails with
    /// [`CatalogError::NewerSchema`].
    ///
    /// # Errors
    ///
    /// [`InUse`](CatalogError::InUse), [`NotACatalog`](CatalogError::NotACatalog),
    /// [`Corrupt`](CatalogError::Corrupt), [`Io`](CatalogError::Io),
    /// [`Store`](CatalogError::Store).
    pub async fn open_sqlite(path: &Path) -> Result<Catalog> {
        let (changes, _) = broadcast::channel(CHANGES_BUFFERED_MAX);
        let grants = Arc::new(GrantCache::default());
        let names = Arc::new(NameCache::default());
        let opened = open::open(path).await?;
        let writer = Writer::start(opened.writer, changes.clone(), (Arc::clone(&grants), Arc::clone(&names)));
        let (path, readers, turns) = (path.to_owned(), opened.readers, Arc::default());
        let inner = Inner { path, readers, writer, changes, grants, names, turns };
        Ok(Catalog { inner: Arc::new(inner) })
    }

    /// Returns the path of the database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Ends the store for all clones: waits for changes that have begun,
    /// closes the file and releases the lock.
    ///
    /// Without it the same happens in the background after the last clone is
    /// dropped.
    pub async fn close(&self) {
        self.inner.writer.close().await;
        self.inner.readers.close().await;
    }

    /// Returns the changes of jobs that this process commits from now on.
    ///
    /// A slow receiver misses the oldest ones and is told how many
    /// ([`RecvError::Lagged`](broadcast::error::RecvError::Lagged)); it should
    /// then read the jobs that it waits for.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<JobChange> {
        self.inner.changes.subscribe()
    }

    /// Runs `change` in a transaction of the writer and returns its result
    /// after the commit.
    async fn write<T, F>(&self, durability: Durability, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Tx) -> Pending<'t, T> + Send + 'static,
    {
        self.inner.writer.write(durability, change).await
    }

    fn readers(&self) -> &SqlitePool {
        &self.inner.readers
    }
}

/// The future of a change in progress.
type Pending<'t, T> = Pin<Box<dyn Future<Output = Result<T, CatalogError>> + Send + 't>>;
