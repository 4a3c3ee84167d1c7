//! Opening the file: lock, check, migrate, connect.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

use super::schema::{self, Standing};
use super::writer::WriterTarget;
use crate::error::{CatalogError, Result};

/// Marks the file as ours, in the field that SQLite keeps for this ("lgat").
const APPLICATION_ID: i32 = 0x6c67_6174;

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Bytes of the header of a SQLite file.
const HEADER_BYTES: usize = 100;

const READERS_MAX: u32 = 4;

/// Rows that a reading thread hands over before it waits for whoever takes them. A listing that fits costs one change
/// of threads; while other work keeps the processors busy, each may take milliseconds.
const ROWS_BUFFERED_MAX: usize = 1_024;

/// Only a backup tool could make us wait; we are the only gateway.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of an open store.
pub(super) struct Opened {
    pub(super) readers: SqlitePool,
    pub(super) writer: WriterTarget,
}

/// The lock that keeps a second gateway away. Dropping it releases it.
#[derive(Debug)]
pub(super) struct LockFile {
    _file: File,
}

pub(super) async fn open(path: &Path) -> Result<Opened> {
    // The same file under another name must meet the same lock.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let lock = LockFile::acquire(path)?;
    ensure_header(path)?;
    let mut connection = connect(path, false).await?;
    let standing = prepare(path, &mut connection).await.map_err(|error| explain(path, error))?;
    let readers = open_readers(path).await?;
    let writer = match standing {
        Standing::Current => WriterTarget::Open { connection, lock, file: FileIdentity::of(path)? },
        Standing::Newer { found } => {
            connection.close().await?;
            tracing::warn!(path = %path.display(), found, "the metadata store is read-only here");
            WriterTarget::Refused(CatalogError::NewerSchema { path: path.clone(), found, supported: schema::VERSION })
        }
    };
    Ok(Opened { readers, writer })
}

impl LockFile {
    fn acquire(path: &Path) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock_path = PathBuf::from(name);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(|error| io_error(&lock_path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(LockFile { _file: file }),
            Err(TryLockError::WouldBlock) => Err(CatalogError::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(io_error(&lock_path, error)),
        }
    }
}

/// Which file is open, whatever the path names by now.
#[derive(Debug)]
pub(super) struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileIdentity {
    fn of(path: &Path) -> Result<Self> {
        let found = std::fs::metadata(path).map_err(|error| io_error(path, error))?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// Passes while the path names the file that is open: a commit to a deleted file would succeed and be lost.
    ///
    /// # Errors
    ///
    /// [`Gone`](CatalogError::Gone).
    pub(super) fn ensure(&self) -> Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (self.device, self.inode) => Ok(()),
            Ok(_) => Err(CatalogError::Gone { path: self.path.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(CatalogError::Gone { path: self.path.clone() })
            }
            Err(error) => Err(io_error(&self.path, error)),
        }
    }
}

/// Refuses what SQLite should not even look at. No file, or an empty one, is a
/// new store.
fn ensure_header(path: &Path) -> Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(path, error)),
    };
    let mut header = Vec::with_capacity(HEADER_BYTES);
    file.take(HEADER_BYTES as u64).read_to_end(&mut header).map_err(|error| io_error(path, error))?;
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(MAGIC) {
        return Err(CatalogError::NotACatalog { path: path.to_owned() });
    }
    if header.len() < HEADER_BYTES {
        return Err(corrupt(path, "the file ends within its header"));
    }
    Ok(())
}

/// Checks the file and brings its schema up to date.
async fn prepare(path: &Path, connection: &mut SqliteConnection) -> Result<Standing> {
    ensure_ours(path, connection).await?;
    let findings: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_all(&mut *connection).await?;
    if findings != ["ok"] {
        return Err(corrupt(path, &findings.join("; ")));
    }
    // Only now: it changes the file, which might have been somebody else's.
    sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await?;
    sqlx::query("PRAGMA synchronous = FULL").execute(&mut *connection).await?;
    schema::migrate(connection, APPLICATION_ID).await
}

async fn ensure_ours(path: &Path, connection: &mut SqliteConnection) -> Result<()> {
    let application_id: i32 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *connection).await?;
    let entries: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master").fetch_one(connection).await?;
    let is_new = application_id == 0 && entries == 0;
    if application_id == APPLICATION_ID || is_new {
        Ok(())
    } else {
        Err(CatalogError::NotACatalog { path: path.to_owned() })
    }
}

async fn open_readers(path: &Path) -> Result<SqlitePool> {
    let options = options(path, true).row_buffer_size(ROWS_BUFFERED_MAX);
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS_MAX)
        .connect_with(options)
        .await
        .map_err(|error| explain(path, error.into()))?;
    Ok(readers)
}

async fn connect(path: &Path, read_only: bool) -> Result<SqliteConnection> {
    let options = options(path, read_only);
    options.connect().await.map_err(|error| explain(path, error.into()))
}

fn options(path: &Path, read_only: bool) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(!read_only)
        .read_only(read_only)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// Names the file in the failures that are about the file.
fn explain(path: &Path, error: CatalogError) -> CatalogError {
    let (CatalogError::Store { source } | CatalogError::Full { source } | CatalogError::ReadOnly { source }) = &error
    else {
        return error;
    };
    let Some(database_error) = source.as_database_error() else {
        return error;
    };
    let code = database_error.code().and_then(|code| code.parse::<i32>().ok()).unwrap_or(0);
    // The low byte is the primary code: https://www.sqlite.org/rescode.html.
    match code & 0xff {
        11 => corrupt(path, database_error.message()),
        26 => CatalogError::NotACatalog { path: path.to_owned() },
        3 | 8 | 10 | 13 | 14 => io_error(path, io::Error::other(database_error.message().to_owned())),
        _ => error,
    }
}

fn corrupt(path: &Path, detail: &str) -> CatalogError {
    CatalogError::Corrupt { path: path.to_owned(), detail: detail.to_owned() }
}

fn io_error(path: &Path, error: io::Error) -> CatalogError {
    CatalogError::Io { path: path.to_owned(), source: Arc::new(error) }
}
