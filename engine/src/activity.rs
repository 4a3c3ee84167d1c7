//! The sessions of PostgreSQL's protocol that are open, for `pg_stat_activity`,
//! `pg_cancel_backend()` and `pg_terminate_backend()`.
//!
//! A session says what it does; others read that and may end it. Statements are kept as they
//! were parsed and print without passwords and values of secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use lancegate_auth::UserName;
use lancegate_sql::ast::Statement;
use tokio_util::sync::CancellationToken;

use crate::session::{CancelReason, Session, StatementContext, TransactionStatus};

pub(crate) mod advisory;

use advisory::{Advisory, Until};

/// Bytes of a statement that are shown, as PostgreSQL's `track_activity_query_size`.
const SHOWN_BYTES_MAX: usize = 1_024;

/// All open sessions of a gateway, and the locks that they hold.
#[derive(Debug, Default)]
pub struct Activity {
    backends: Mutex<BTreeMap<i32, Backend>>,
    advisory: Arc<Advisory>,
}

/// An open session.
#[derive(Debug, Clone)]
pub struct Backend {
    /// What `pg_backend_pid()` answers in it.
    pub pid: i32,
    /// Whose it is.
    pub user: UserName,
    /// The connected database.
    pub database: String,
    /// `application_name`.
    pub application: String,
    /// Where it comes from: an address, or `local`.
    pub origin: Option<String>,
    /// When it was opened.
    pub opened_at: DateTime<Utc>,
    /// Whether a statement is under way.
    pub active: bool,
    /// Between BEGIN and COMMIT or not.
    pub transaction: TransactionStatus,
    /// When the open block was begun.
    pub block_began_at: Option<DateTime<Utc>>,
    /// When the last statement began.
    pub statement_began_at: Option<DateTime<Utc>>,
    /// When `active` changed last.
    pub changed_at: DateTime<Utc>,
    statement: Option<Arc<Statement>>,
    running: Option<StatementContext>,
    ends: CancellationToken,
}

impl Backend {
    /// Returns PostgreSQL's word for what it does.
    pub fn state(&self) -> &'static str {
        match (self.active, self.transaction) {
            (true, _) => "active",
            (false, TransactionStatus::Idle) => "idle",
            (false, TransactionStatus::InBlock) => "idle in transaction",
            (false, TransactionStatus::Failed) => "idle in transaction (aborted)",
        }
    }

    /// Returns the last statement, without what nobody shall see.
    pub fn query(&self) -> String {
        let mut text = self.statement.as_ref().map(|statement| statement.to_string()).unwrap_or_default();
        if text.len() > SHOWN_BYTES_MAX {
            let end = (0..=SHOWN_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            text.truncate(end);
        }
        text
    }
}

impl Activity {
    /// Enters a session, which `ends` ends, until the result is dropped.
    pub fn enter(self: &Arc<Self>, session: &Session, ends: CancellationToken) -> Entered {
        let now = Utc::now();
        let backend = Backend {
            pid: session.id,
            user: session.principal.user.clone(),
            database: session.database.clone(),
            application: session.settings.get("application_name").unwrap_or_default().to_owned(),
            origin: session.origin.clone(),
            opened_at: now,
            active: false,
            transaction: session.transaction,
            block_began_at: None,
            statement_began_at: None,
            changed_at: now,
            statement: None,
            running: None,
            ends,
        };
        self.lock().insert(session.id, backend);
        Entered { pid: session.id, activity: Arc::clone(self) }
    }

    /// Returns the sessions, in order of their numbers.
    pub fn backends(&self) -> Vec<Backend> {
        self.lock().values().cloned().collect()
    }

    /// Returns whose session has a number.
    pub fn user_of(&self, pid: i32) -> Option<UserName> {
        self.lock().get(&pid).map(|backend| backend.user.clone())
    }

    /// Cancels what a session runs. Returns whether there is such a session.
    pub fn cancel(&self, pid: i32) -> bool {
        let backends = self.lock();
        let Some(backend) = backends.get(&pid) else { return false };
        if let Some(running) = &backend.running {
            running.cancel(CancelReason::User);
        }
        true
    }

    /// Ends a session. Returns whether there is one.
    pub fn terminate(&self, pid: i32) -> bool {
        let backends = self.lock();
        let Some(backend) = backends.get(&pid) else { return false };
        if let Some(running) = &backend.running {
            running.cancel(CancelReason::Shutdown);
        }
        backend.ends.cancel();
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Backend>> {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the locks of sessions.
    pub(crate) fn advisory(&self) -> &Arc<Advisory> {
        &self.advisory
    }
}

/// A session's entry; dropping it removes the entry.
#[derive(Debug)]
pub struct Entered {
    pid: i32,
    activity: Arc<Activity>,
}

impl Entered {
    /// A statement begins.
    pub fn begins(&self, statement: &Arc<Statement>) {
        self.change(|backend, now| {
            backend.statement = Some(Arc::clone(statement));
            backend.statement_began_at = Some(now);
            if !backend.active {
                backend.active = true;
                backend.changed_at = now;
            }
        });
    }

    /// What runs now can be cancelled by this.
    pub fn runs(&self, statement: &StatementContext) {
        self.change(|backend, _| backend.running = Some(statement.clone()));
    }

    /// Nothing runs any more.
    pub fn stops(&self) {
        self.change(|backend, _| backend.running = None);
    }

    /// The session waits for its client.
    pub fn waits(&self, session: &Session) {
        let application = session.settings.get("application_name").unwrap_or_default().to_owned();
        let transaction = session.transaction;
        if transaction == TransactionStatus::Idle {
            self.activity.advisory.end(self.pid, Until::Transaction);
        }
        self.change(|backend, now| {
            backend.application = application;
            match transaction {
                TransactionStatus::Idle => backend.block_began_at = None,
                _ if backend.transaction == TransactionStatus::Idle => backend.block_began_at = Some(now),
                _ => {}
            }
            backend.transaction = transaction;
            if backend.active {
                backend.active = false;
                backend.changed_at = now;
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Backend, DateTime<Utc>)) {
        if let Some(backend) = self.activity.lock().get_mut(&self.pid) {
            change(backend, Utc::now());
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.activity.lock().remove(&self.pid);
        self.activity.advisory.end(self.pid, Until::Session);
    }
}
