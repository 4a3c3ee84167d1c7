//! Lance tables on disk or in an object store: opening, describing, staging,
//! committing. The only module family (with `refresh`) that speaks Lance.
//!
//! A table is named here by its *location*, a path relative to the data root
//! or an absolute one that the catalog recorded; nothing a client types ever
//! reaches this module as a location. Schemes are an allow-list, because Lance
//! commits without mutual exclusion on a scheme that it does not know.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use lance::Dataset;
use lance::dataset::builder::DatasetBuilder;
use lance::session::Session;
use lance_table::io::commit::CommitHandler;
use object_store::ObjectStoreExt as _;
use prometheus_client::metrics::counter::Counter;

pub mod commit;
pub mod compact;
pub mod computed;
mod counted;
pub mod defaults;
pub mod describe;
pub mod durable;
pub mod freshness;
pub mod index;
pub mod key;
pub mod nested;
mod newest;
pub mod provider;
pub mod scan;
pub mod search;
pub mod signature;
pub mod versions;

/// Memory that decoded indexes and metadata of all tables share, in bytes.
const INDEX_CACHE_BYTES: usize = 256 << 20;
const METADATA_CACHE_BYTES: usize = 256 << 20;

/// What can go wrong between a table and its bytes.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// No Lance table at the location.
    #[error("no Lance table at {location}")]
    NotFound {
        /// As the catalog holds it.
        location: String,
    },
    /// A table whose newest manifest is not what Lance wrote.
    #[error("the newest manifest of the table at {location} is damaged")]
    Damaged {
        /// As the catalog holds it.
        location: String,
    },
    /// A location whose scheme is not on the allow-list.
    #[error("storage scheme \"{scheme}\" is not supported")]
    Scheme {
        /// The part before `://`.
        scheme: String,
    },
    /// A column that the table does not have.
    #[error("column \"{column}\" does not exist")]
    NoColumn {
        /// As asked for.
        column: String,
    },
    /// Computed columns that read each other.
    #[error("computed column \"{column}\" is computed from itself")]
    Cycle {
        /// One of them.
        column: String,
    },
    /// Somebody else's commit won; the work must be planned again.
    #[error("concurrent write: {0}")]
    Conflict(String),
    /// What another writer persisted and this version cannot interpret.
    #[error("unsupported {what}")]
    Unsupported {
        /// Names the object and the value.
        what: String,
    },
    /// Everything that Lance reports itself.
    #[error(transparent)]
    Lance(#[from] lance::Error),
    /// File-system calls of our own.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
    },
}

impl StorageError {
    /// Returns whether another attempt may succeed without anybody's help: what
    /// is slow, interrupted or contended, but not what is missing, damaged,
    /// forbidden or full.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Lance(error) => is_transient(error),
            Self::Io { source, .. } => is_transient_io(source),
            Self::NotFound { .. }
            | Self::Damaged { .. }
            | Self::Scheme { .. }
            | Self::NoColumn { .. }
            | Self::Cycle { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}

fn is_transient(error: &lance::Error) -> bool {
    match error {
        lance::Error::Timeout { .. }
        | lance::Error::RetryableCommitConflict { .. }
        | lance::Error::TooMuchWriteContention { .. } => true,
        lance::Error::IO { .. } => {
            let text = error.to_string().to_ascii_lowercase();
            let lasting = ["no space left", "os error 28", "permission denied", "not found", "no such file", "access"];
            !lasting.iter().chain(&DAMAGE).any(|sign| text.contains(sign))
        }
        _ => false,
    }
}

/// How reports of a damaged file read.
const DAMAGE: [&str; 7] = [
    "invalid magic",
    "unexpected end",
    "out of bounds",
    "truncated",
    "magic number",
    "past the end",
    "fill whole buffer",
];

/// Returns whether a report, in lower case, is of a file that is there and too
/// short or unreadable as Lance.
pub(crate) fn looks_damaged(report: &str) -> bool {
    DAMAGE.iter().any(|sign| report.contains(sign))
}

fn is_transient_io(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    !matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::UnexpectedEof
            | ErrorKind::InvalidData
    )
}

/// A table that was opened, and how its folder of versions looked then.
#[derive(Debug, Clone)]
struct Handle {
    dataset: Arc<Dataset>,
    seen: Option<newest::Seen>,
}

/// Opens the tables below one data root and shares caches between them.
#[derive(Debug, Clone)]
pub struct Store {
    root: Arc<str>,
    session: Arc<Session>,
    handles: Arc<Mutex<HashMap<String, Handle>>>,
    commits: Counter,
}

impl Store {
    /// Returns a store over `root`: a folder, or an `s3://` URI.
    ///
    /// # Errors
    /// [`StorageError::Scheme`] for any other scheme.
    pub fn new(root: &str) -> Result<Self, StorageError> {
        let scheme = root.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            None | Some("file" | "s3" | "memory") => {}
            Some(other) => return Err(StorageError::Scheme { scheme: other.to_owned() }),
        }
        let root = root.strip_prefix("file://").unwrap_or(root).trim_end_matches('/');
        Ok(Self {
            root: Arc::from(if root.is_empty() { "/" } else { root }),
            session: Arc::new(Session::new(INDEX_CACHE_BYTES, METADATA_CACHE_BYTES, Arc::default())),
            handles: Arc::default(),
            commits: Counter::default(),
        })
    }

    /// Counts the versions that are committed to tables opened from here on.
    #[must_use]
    pub fn counting(self, commits: Counter) -> Self {
        Self { commits, ..self }
    }

    /// Returns how tables at `uri` are committed to, for a table that is made.
    ///
    /// # Errors
    /// If Lance knows no way to commit there.
    pub async fn commit_handler(&self, uri: &str) -> Result<Arc<dyn CommitHandler>, StorageError> {
        Ok(counted::CountedCommits::at(uri, self.commits.clone()).await?)
    }

    /// Returns the data root as a folder, when it is one.
    pub fn local_root(&self) -> Option<&Path> {
        (!self.root.contains("://")).then(|| Path::new(&*self.root))
    }

    /// Returns the caches that every table opened here shares.
    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    /// Returns the URI of a location: absolute ones as they are, others below the root.
    pub fn uri(&self, location: &str) -> String {
        if location.starts_with('/') || location.contains("://") {
            location.to_owned()
        } else {
            format!("{}/{location}", self.root)
        }
    }

    /// Opens the newest version of a table.
    ///
    /// A handle is kept per location. In a folder it is reused as long as nothing was
    /// added to or removed from the folder of versions, which one look tells (see
    /// [`newest`]). Elsewhere, or when that has changed, the manifest that it was read
    /// from must still be the same object, because a table may have been dropped and
    /// made again, and a later version is looked for.
    ///
    /// # Errors
    /// [`StorageError::NotFound`], or what Lance reports.
    pub async fn open(&self, location: &str) -> Result<Arc<Dataset>, StorageError> {
        let uri = self.uri(location);
        let cached = self.handles().get(&uri).cloned();
        // Looked at before the table is, so that what changes meanwhile shows next time.
        let seen = newest::look(&uri);
        let dataset = match cached {
            Some(Handle { dataset, seen: then }) if then.is_some() && then == seen => return Ok(dataset),
            Some(Handle { dataset, .. }) if same_generation(&dataset).await => {
                whole(refreshed(dataset, seen), location).await?
            }
            _ => Arc::new(self.load(&uri, location).await?),
        };
        let seen = seen.filter(newest::Seen::is_settled);
        self.handles().insert(uri, Handle { dataset: Arc::clone(&dataset), seen });
        Ok(dataset)
    }

    /// Forgets the handle of a table that was dropped or replaced.
    pub fn forget(&self, location: &str) {
        let uri = self.uri(location);
        self.handles().remove(&uri);
    }

    async fn load(&self, uri: &str, location: &str) -> Result<Dataset, StorageError> {
        let handler = self.commit_handler(uri).await?;
        let builder = DatasetBuilder::from_uri(uri).with_session(self.session()).with_commit_handler(handler);
        let loading = async {
            builder.load().await.map_err(|error| match error {
                lance::Error::DatasetNotFound { .. } | lance::Error::NotFound { .. } => {
                    StorageError::NotFound { location: location.to_owned() }
                }
                other => StorageError::Lance(other),
            })
        };
        let dataset = whole(loading, location).await?;
        // A manifest of zeros decodes as that of a table without columns, of no version.
        match dataset.manifest().version == dataset.manifest_location().version {
            true => Ok(dataset),
            false => Err(StorageError::Damaged { location: location.to_owned() }),
        }
    }

    fn handles(&self) -> std::sync::MutexGuard<'_, HashMap<String, Handle>> {
        self.handles.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Waits for a table to be read. Lance calculates with what stands at the end of a manifest without looking whether it
/// can be, so it panics over one that was cut.
async fn whole<T>(reading: impl Future<Output = Result<T, StorageError>>, location: &str) -> Result<T, StorageError> {
    let read = AssertUnwindSafe(reading).catch_unwind().await;
    read.unwrap_or_else(|_| Err(StorageError::Damaged { location: location.to_owned() }))
}

/// Whether the manifest behind a handle is still the object that was read.
async fn same_generation(dataset: &Dataset) -> bool {
    let location = dataset.manifest_location();
    let Ok(store) = dataset.object_store(None).await else { return false };
    match store.inner.head(&location.path).await {
        Ok(found) => match (&location.e_tag, &found.e_tag) {
            // Lance writes the tag of a file without the quotes that its object store has.
            (Some(read), Some(now)) => read.trim_matches('"') == now.trim_matches('"'),
            _ => location.size.is_none_or(|size| size == found.size),
        },
        Err(_) => false,
    }
}

/// Returns the handle at the newest version. Where there is a folder to look into, it
/// is: the next version may have been cleaned up already.
async fn refreshed(dataset: Arc<Dataset>, seen: Option<newest::Seen>) -> Result<Arc<Dataset>, StorageError> {
    if seen.is_none() && !dataset.has_successor_version().await? {
        return Ok(dataset);
    }
    let mut newer = dataset.as_ref().clone();
    newer.checkout_latest().await?;
    Ok(if newer.version_id() == dataset.version_id() { dataset } else { Arc::new(newer) })
}
