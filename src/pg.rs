//! The PostgreSQL front door: sockets, TLS, start-up, authentication and the
//! message loop of protocol 3.
//!
//! This module owns everything between an accepted socket and the engine, and
//! the life of prepared statements and portals. It never interprets a
//! statement: text goes to `lancegate_sql`, statements go to the [`Engine`].
//! Message layouts belong to `lancegate_wire`.
//!
//! Two rules hold everywhere below: before authentication every error is FATAL
//! and closes the socket, and no byte that arrived in the clear is ever read
//! as if it had come through TLS.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::audit::{AuditLog, Login};
use crate::pg::access::Access;
use crate::pg::admission::Admission;
use crate::pg::cancel::CancelRegistry;
use lancegate_engine::error::Result;
use lancegate_engine::exec::Engine;
use lancegate_engine::metrics::Metrics;

mod access;
mod admission;
mod authenticate;
mod cancel;
mod connection;
mod copy;
mod cursor;
mod drive;
mod extended;
mod gather;
mod identity;
mod listener;
mod measure;
mod news;
mod origin;
mod parameters;
mod portal;
mod query;
mod recent;
mod reply;
mod scroll;
mod session_loop;
mod startup;
mod statement;
mod tls;
mod unix;

pub use access::{AccessError, AccessRules};
pub(crate) use drive::cancellable;
pub use identity::Identities;
pub use listener::serve;
pub use tls::PgTls;
pub use unix::UnixSocket;

/// Limits and timeouts of the front door, as plain values.
#[derive(Debug, Clone)]
pub struct PgConfig {
    /// Sessions at once, the reserve included.
    pub connections_max: usize,
    /// Sessions of `connections_max` that only [`PgConfig::bootstrap_user`] may take.
    pub connections_reserved: usize,
    /// The user that can always log in; reported as superuser.
    pub bootstrap_user: String,
    /// Sockets at once that have not authenticated.
    pub unauthenticated_max: usize,
    /// The same from one address.
    pub unauthenticated_per_address_max: usize,
    /// Time from accept to the end of authentication, TLS included.
    pub authentication_timeout: Duration,
    /// Whether a connection may go on without TLS.
    pub allow_plaintext: bool,
    /// Longest Query, Parse, Bind or CopyData message in bytes.
    pub message_bytes_max: usize,
    /// Bounds on one SQL text.
    pub sql_limits: lancegate_sql::Limits,
    /// Prepared statements of one session.
    pub prepared_statements_max: usize,
    /// Open portals and cursors of one session.
    pub portals_max: usize,
    /// How long a client may leave the socket full before it is dropped.
    pub write_timeout: Duration,
    /// How long a cancelled statement may go on before it is dropped.
    pub cancel_grace: Duration,
    /// How long running statements may go on once the gateway is stopping.
    pub shutdown_grace: Duration,
    /// Values that sessions start with, as in `ALTER SYSTEM SET`.
    pub session_defaults: Vec<(String, String)>,
    /// Where statements run; never the runtime that serves sockets.
    pub query_runtime: tokio::runtime::Handle,
}

impl PgConfig {
    /// Returns the defaults, those of the configuration where it has the key,
    /// with statements on `query_runtime`.
    pub fn new(query_runtime: tokio::runtime::Handle) -> Self {
        Self {
            connections_max: 100,
            connections_reserved: 3,
            bootstrap_user: "lancegate".to_owned(),
            unauthenticated_max: 100,
            unauthenticated_per_address_max: 50,
            authentication_timeout: Duration::from_secs(60),
            allow_plaintext: false,
            message_bytes_max: 64 * 1024 * 1024,
            sql_limits: lancegate_sql::Limits::default(),
            prepared_statements_max: 4_096,
            portals_max: 1_024,
            write_timeout: Duration::from_secs(60),
            cancel_grace: Duration::from_secs(5),
            shutdown_grace: Duration::from_secs(10),
            session_defaults: Vec::new(),
            query_runtime,
        }
    }
}

/// What all connections of one gateway share.
#[derive(Debug)]
pub struct PgShared {
    /// Plans and runs statements.
    pub engine: Engine,
    /// Who may log in.
    pub identities: Identities,
    /// Limits and timeouts.
    pub config: PgConfig,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    audit: Option<AuditLog>,
    tls: RwLock<Option<Arc<PgTls>>>,
    access: Access,
    admission: Arc<Admission>,
    cancels: Arc<CancelRegistry>,
}

impl PgShared {
    /// Puts the parts together; `tls` is absent where only plaintext is served.
    pub fn new(
        engine: Engine,
        identities: Identities,
        config: PgConfig,
        (tls, access): (Option<PgTls>, AccessRules),
        (metrics, audit): (Arc<Metrics>, Option<AuditLog>),
    ) -> Self {
        Self {
            audit,
            access: Access::new(access),
            engine,
            identities,
            admission: Arc::new(Admission::new(&config)),
            cancels: Arc::default(),
            config,
            metrics,
            tls: RwLock::new(tls.map(Arc::new)),
        }
    }

    /// Serves another certificate from the next connection on. A certificate
    /// that cannot be loaded never gets here, so the old one stays.
    pub fn replace_tls(&self, tls: PgTls) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tls));
    }

    /// Lets other rules decide from the next connection on. Rules that are not
    /// understood never get here, so the old ones stay.
    pub fn replace_access(&self, access: AccessRules) {
        self.access.replace(access);
    }

    /// Records how a login ended.
    pub(in crate::pg) fn record(&self, login: &Login<'_>) -> Result<()> {
        self.audit.as_ref().map_or(Ok(()), |audit| audit.login(login))
    }

    pub(in crate::pg) fn tls(&self) -> Option<Arc<PgTls>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lancegate_engine::config::{Config, Sources};

    #[tokio::test]
    async fn the_defaults_are_those_of_the_configuration() {
        let flag = ("--data".to_owned(), "data".to_owned(), "d".to_owned());
        let set = Config::load(Sources { flags: vec![flag], ..Sources::default() }).unwrap().pg;
        let defaults = PgConfig::new(tokio::runtime::Handle::current());
        assert_eq!(defaults.connections_max, set.max_connections);
        assert_eq!(defaults.connections_reserved, set.reserved_connections);
        assert_eq!(defaults.authentication_timeout, set.authentication_timeout.get());
        assert_eq!(defaults.write_timeout, set.write_timeout.get());
        assert_eq!(defaults.message_bytes_max, set.message_bytes_max.as_usize());
        assert_eq!(defaults.allow_plaintext, set.allow_plaintext);
    }
}
