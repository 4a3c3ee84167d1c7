//! What one client connection (or one HTTP request) is, independent of how it
//! came in: who, in which database, with which settings and transaction state.
//!
//! The wire loop owns the portals and protocol-level prepared statements; this
//! module never touches a socket.

use std::sync::Arc;
use std::time::Duration;

use lancegate_auth::Principal;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::SqlError;
use crate::exec::numbers::Latest;
use crate::sql::caller::Snapshot;

pub mod names;
pub mod pins;
pub mod settings;
pub mod temp;

pub use names::Names;
pub use pins::Pins;
pub use settings::Settings;
pub use temp::TempTables;

/// Where a session stands between BEGIN and COMMIT (the byte of
/// ReadyForQuery: `I`, `T`, `E`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Outside a block.
    Idle,
    /// Inside a block.
    InBlock,
    /// Inside a block that an error ended; only ROLLBACK and its kin go on.
    Failed,
}

/// The one channel that can be listened to: changes of jobs.
pub const JOBS_CHANNEL: &str = "lancegate_jobs";

/// Whether a session listens to [`JOBS_CHANNEL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Channels {
    listens: bool,
    /// What takes effect when the open block is committed.
    pending: Option<bool>,
}

impl Channels {
    /// Whether it does now.
    pub fn listens(self) -> bool {
        self.listens
    }

    /// Begins or ends to listen: in a block with its COMMIT, otherwise at once.
    pub fn set(&mut self, listens: bool, in_block: bool) {
        match in_block {
            true => self.pending = Some(listens),
            false => self.listens = listens,
        }
    }

    /// Ends a block.
    pub fn end_block(&mut self, committed: bool) {
        let pending = self.pending.take();
        self.listens = pending.filter(|_| committed).unwrap_or(self.listens);
    }

    /// Ends to listen because the caller may not any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A message to the client beside the result: severity, and the fields of an error.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Ordered as `client_min_messages` orders them.
    pub severity: NoticeSeverity,
    /// Code, message, detail, hint.
    pub fields: SqlError,
}

/// PostgreSQL's notice levels, in the order of `client_min_messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are PostgreSQL's own")]
pub enum NoticeSeverity {
    Debug,
    Log,
    Notice,
    Warning,
    Info,
}

/// The receiving end of a session's notices; the wire loop forwards what
/// arrives, also while a statement runs.
pub type NoticeReceiver = mpsc::UnboundedReceiver<Notice>;

/// A point of an open block that ROLLBACK TO goes back to.
#[derive(Debug)]
pub(crate) struct Savepoint {
    pub(crate) name: String,
    /// How far the block had changed names.
    pub(crate) names: names::Mark,
}

/// One authenticated connection or request.
#[derive(Debug)]
pub struct Session {
    /// The number that `pg_backend_pid()` and BackendKeyData show.
    pub id: i32,
    /// Who is asking.
    pub principal: Principal,
    /// The SQL catalog: the `database` of the start-up packet.
    pub database: String,
    /// `SET`/`SHOW` parameters.
    pub settings: Settings,
    /// See [`TransactionStatus`].
    pub transaction: TransactionStatus,
    /// The savepoints of the open block, oldest first.
    pub(crate) savepoints: Vec<Savepoint>,
    /// Names of relations whose rows or columns the open block has changed, and of what else
    /// it has, for the warning of ROLLBACK, which does not undo it.
    pub(crate) written: Vec<String>,
    /// Whether news of jobs are delivered.
    pub channels: Channels,
    /// The version that the last statement committed, if it committed one.
    pub committed: Option<u64>,
    /// What makes a job that is submitted again the same one, where the client
    /// says so; see [`NewJob::idempotency_key`](lancegate_catalog::NewJob).
    pub idempotency_key: Option<String>,
    /// Where it comes from, for the record: an address, or `local`.
    pub origin: Option<String>,
    /// The branch on which tables are read and their rows changed; `None` is main. SQL has no word for it: client
    /// libraries name one with each request.
    pub branch: Option<String>,
    /// What binding made of this session and uses again.
    pub(crate) snapshot: Snapshot,
    /// The temporary tables.
    pub(crate) temp: Arc<TempTables>,
    /// What names stand for.
    pub(crate) names: Arc<Names>,
    /// Which versions of tables are read.
    pub(crate) pins: Arc<Pins>,
    /// What it has drawn from sequences.
    pub(crate) numbers: Arc<Latest>,
    notices: mpsc::UnboundedSender<Notice>,
}

impl Session {
    /// Returns a fresh session and the end that receives its notices.
    pub fn new(id: i32, principal: Principal, database: String, settings: Settings) -> (Self, NoticeReceiver) {
        let (notices, receiver) = mpsc::unbounded_channel();
        let session = Self {
            id,
            principal,
            database,
            settings: settings.own(),
            transaction: TransactionStatus::Idle,
            savepoints: Vec::new(),
            written: Vec::new(),
            channels: Channels::default(),
            committed: None,
            idempotency_key: None,
            origin: None,
            branch: None,
            snapshot: Snapshot::default(),
            temp: Arc::default(),
            names: Arc::default(),
            pins: Arc::default(),
            numbers: Arc::default(),
            notices,
        };
        (session, receiver)
    }

    /// Sends a notice if `client_min_messages` lets it through.
    pub fn notify(&self, severity: NoticeSeverity, fields: SqlError) {
        if severity >= self.settings.client_min_messages() {
            // A closed receiver means the client is gone; the statement ends by itself.
            let _ = self.notices.send(Notice { severity, fields });
        }
    }

    /// Returns a sender that outlives the borrow of the session.
    pub fn notice_sender(&self) -> mpsc::UnboundedSender<Notice> {
        self.notices.clone()
    }
}

/// What ends a statement from outside.
#[derive(Debug, Clone)]
pub struct StatementContext {
    /// Fires on CancelRequest, on a lost client, on shutdown and on timeout.
    pub cancel: CancellationToken,
    /// Why [`Self::cancel`] fired, for the message of the 57014.
    pub reason: Arc<std::sync::OnceLock<CancelReason>>,
}

/// Why a statement was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// CancelRequest: "canceling statement due to user request".
    User,
    /// `statement_timeout` ran out.
    StatementTimeout(Duration),
    /// The client closed the connection; a blocked refresh goes on without it.
    ClientGone,
    /// The gateway is stopping.
    Shutdown,
}

impl StatementContext {
    /// Returns a context that nothing has cancelled yet.
    pub fn new() -> Self {
        Self { cancel: CancellationToken::new(), reason: Arc::default() }
    }

    /// Ends the statement; the first reason stays.
    pub fn cancel(&self, reason: CancelReason) {
        let _ = self.reason.set(reason);
        self.cancel.cancel();
    }

    /// Returns the error that a cancelled statement answers.
    pub fn error(&self) -> SqlError {
        match self.reason.get() {
            Some(CancelReason::User) | None => SqlError::canceled("user request"),
            Some(CancelReason::StatementTimeout(_)) => SqlError::canceled("statement timeout"),
            Some(CancelReason::ClientGone) => {
                SqlError::new(crate::sqlstate::SqlState::CONNECTION_FAILURE, "connection to client lost")
            }
            Some(CancelReason::Shutdown) => SqlError::new(
                crate::sqlstate::SqlState::ADMIN_SHUTDOWN,
                "terminating connection due to administrator command",
            ),
        }
    }
}

impl Default for StatementContext {
    fn default() -> Self {
        Self::new()
    }
}
