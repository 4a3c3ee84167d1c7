//! The metadata store of lancegate: jobs, names of objects, users and grants.
//!
//! Owns what a job *is* – its row, its states, who holds it – and which name
//! means which table. It never runs a job, opens a Lance table, or speaks SQL,
//! HTTP or the PostgreSQL protocol: errors carry data, and codes are chosen by
//! the gateway.
//!
//! The store is one SQLite file in WAL mode, opened by one process at a time
//! ([`Catalog::open_sqlite`]). Every method that changes something returns only
//! after its transaction is on disk, unless its documentation says otherwise,
//! and runs to its end even if the caller stops waiting.
//!
//! Time is an argument, never read from the clock here, so that tests and
//! recovery decide what "now" is.

mod api_key;
mod binding;
mod error;
mod event;
mod function;
mod ids;
mod job;
mod metering;
mod object;
mod secret;
mod store;
mod user;

pub use api_key::ApiKey;
pub use binding::{ActiveRefresh, FailedRefresh, RefreshHistory};
pub use error::{CatalogError, EntityKind, Result};
pub use event::{JobChange, JobEvent, NewEvent};
pub use function::{FailedPlace, FailedRow, FunctionVersion, PartFailures, RowFailure};
pub use ids::{AttemptEpoch, GatewayId, InvalidId, JobId, TableId};
pub use job::{
    CancelOutcome, Control, Failure, IllegalTransition, Job, JobCursor, JobFilter, JobKind, JobState, JobSummary,
    NewJob, PauseOutcome, Receipt, ResumeOutcome, Status, Trigger, transition,
};
pub use metering::MeteredRefresh;
pub use object::{Database, Namespace, ObjectChange, Properties, Table, TableChange, TableKind, TableName};
pub use secret::{Sealed, SecretName, SecretRecord};
pub use store::{Catalog, ChildEnd, Drawn, RetentionPolicy, Swept};
pub use user::{NewUser, User, UserChange};

/// A point in time, stored with microseconds.
pub type Timestamp = chrono::DateTime<chrono::Utc>;
