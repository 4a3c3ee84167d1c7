//! What can go wrong in the metadata store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use lancegate_auth::{Object, Privilege, UserName};

use crate::ids::{AttemptEpoch, JobId};
use crate::job::{IllegalTransition, JobState};

/// The result of a catalog call.
pub type Result<T, E = CatalogError> = std::result::Result<T, E>;

/// The kind of thing that an error names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntityKind {
    /// A job.
    Job,
    /// A database.
    Database,
    /// A namespace, in SQL a schema.
    Namespace,
    /// A table, view or materialized view; they share one space of names.
    Table,
    /// A secret.
    Secret,
    /// A user.
    User,
    /// A key that logs a user in.
    ApiKey,
    /// A role bound to a user.
    RoleBinding,
    /// One grant.
    Grant,
}

impl fmt::Display for EntityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EntityKind::Job => "job",
            EntityKind::Database => "database",
            EntityKind::Namespace => "namespace",
            EntityKind::Table => "table",
            EntityKind::Secret => "secret",
            EntityKind::User => "user",
            EntityKind::ApiKey => "API key",
            EntityKind::RoleBinding => "role binding",
            EntityKind::Grant => "grant",
        })
    }
}

/// Why a catalog call failed. Variants carry data; the gateway chooses codes.
///
/// Cloning is cheap: a failed commit is reported to every caller whose change
/// was part of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// What a change is about has another name or owner than when it was decided.
    #[error("\"{name}\" was changed meanwhile")]
    ChangedMeanwhile {
        /// What it was called.
        name: String,
    },
    /// Another job with the same exclusive key is not finished.
    #[error("job {active} is already active")]
    Busy {
        /// The job that holds the key.
        active: JobId,
    },
    /// A user has as many unfinished jobs as one may.
    #[error("user \"{user}\" has {max} unfinished jobs already")]
    TooManyJobs {
        /// The user.
        user: String,
        /// How many one may have.
        max: u32,
    },
    /// The idempotency key was used within the last day for other work.
    #[error("the idempotency key was used for another request, job {job}")]
    IdempotencyConflict {
        /// The job that was submitted with the key.
        job: JobId,
    },
    /// Nothing has this name.
    #[error("{kind} \"{name}\" does not exist")]
    NotFound {
        /// What was looked for.
        kind: EntityKind,
        /// Its name.
        name: String,
    },
    /// The name is taken.
    #[error("{kind} \"{name}\" already exists")]
    AlreadyExists {
        /// What holds the name.
        kind: EntityKind,
        /// The name.
        name: String,
    },
    /// A container cannot be dropped while something is in it.
    #[error("{kind} \"{name}\" is not empty")]
    NotEmpty {
        /// The kind of container.
        kind: EntityKind,
        /// Its name.
        name: String,
    },
    /// A name is empty or contains a character that separates names.
    #[error("invalid {kind} name \"{name}\"")]
    InvalidName {
        /// What the name is for.
        kind: EntityKind,
        /// The name.
        name: String,
    },
    /// The caller's attempt does not hold the job any more.
    #[error("attempt {given} of job {job} has lost its lease (epoch {current}, {state})")]
    StaleEpoch {
        /// The job.
        job: JobId,
        /// The epoch that the caller carried.
        given: AttemptEpoch,
        /// The epoch of the job.
        current: AttemptEpoch,
        /// The state of the job.
        state: JobState,
    },
    /// The job is not in a state for this.
    #[error("job {job}: {source}")]
    IllegalTransition {
        /// The job.
        job: JobId,
        /// State and event.
        source: IllegalTransition,
    },
    /// A value that newer software may know must not be written by this one.
    #[error("unknown {what} \"{value}\" cannot be written")]
    UnknownValue {
        /// The kind of value, for example `job kind`.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// The OWNERSHIP of an object is transferred, never revoked.
    #[error("ownership of {object} cannot be revoked")]
    OwnershipRevoked {
        /// The object.
        object: Object,
    },
    /// Objects of this kind do not have this privilege.
    #[error("privilege {privilege} is not valid on {object}")]
    InvalidGrant {
        /// The privilege.
        privilege: Privilege,
        /// The object.
        object: Object,
    },
    /// A user who owns something cannot be dropped.
    #[error("user \"{user}\" owns {object}")]
    UserOwnsObject {
        /// The user.
        user: UserName,
        /// The first thing that the user owns, in ACL spelling.
        object: String,
    },
    /// Another process has the store open.
    #[error("the metadata store {} is in use by another process", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The file was written by newer software: it can be read, not changed.
    #[error(
        "the metadata store {} has schema version {found}, newer than {supported}",
        path.display()
    )]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        found: i64,
        /// The newest version that this software writes.
        supported: i64,
    },
    /// The file is a database, but not one of ours.
    #[error("{} is not a lancegate metadata store", path.display())]
    NotACatalog {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("the metadata store {} is damaged: {detail}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the check found.
        detail: String,
    },
    /// The file or its folder cannot be read, created or locked.
    #[error("cannot open the metadata store {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The file was deleted, or another one is in its place. Nothing is written to it any more: it would be lost.
    #[error("the metadata store {} was deleted or replaced while it was open", path.display())]
    Gone {
        /// The database file.
        path: PathBuf,
    },
    /// There is no space left on the device.
    #[error("could not write to the metadata store: no space left on device")]
    Full {
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The file cannot be written.
    #[error("could not write to the metadata store: it is read-only")]
    ReadOnly {
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// Another process, a tool that copies the file perhaps, holds a lock of it for too long.
    #[error("the metadata store is locked by another process")]
    Locked {
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A stored value cannot be read.
    #[error("damaged metadata: column {column} holds \"{value}\"")]
    DamagedValue {
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// The database refused a statement; the disk may be full or failing.
    #[error("metadata store failure")]
    Store {
        /// The cause.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The store was closed.
    #[error("the metadata store is closed")]
    Closed,
}

impl From<sqlx::Error> for CatalogError {
    fn from(source: sqlx::Error) -> Self {
        let code = source.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
        let source = Arc::new(source);
        // The low byte is the primary code: https://www.sqlite.org/rescode.html.
        match code.map(|code| code & 0xff) {
            Some(5 | 6) => CatalogError::Locked { source },
            Some(13) => CatalogError::Full { source },
            Some(8) => CatalogError::ReadOnly { source },
            _ => CatalogError::Store { source },
        }
    }
}

impl CatalogError {
    /// Returns whether the caller's attempt must stop without committing.
    #[must_use]
    pub fn is_stale_epoch(&self) -> bool {
        matches!(self, CatalogError::StaleEpoch { .. })
    }

    /// Returns the error of something that is not there.
    pub fn not_found(kind: EntityKind, name: impl ToString) -> Self {
        CatalogError::NotFound { kind, name: name.to_string() }
    }

    /// Returns the error of a name that is taken.
    pub fn already_exists(kind: EntityKind, name: impl ToString) -> Self {
        CatalogError::AlreadyExists { kind, name: name.to_string() }
    }
}
