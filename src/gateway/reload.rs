//! What is read again while the gateway runs: rules and maps, the certificate and
//! who may have signed those of clients, keys of identity providers, and the file of
//! the audit record. The configuration itself is not.
//!
//! Each part is replaced as a whole or stays as it is.

use std::sync::Arc;

use lancegate_engine::config::Config;

use super::{StartError, read_flight_tls, read_tls};
use crate::audit::AuditLog;
use crate::flight::FlightTls;
use crate::pg::{AccessRules, PgShared};

/// What a reload reaches.
#[derive(Debug)]
pub(super) struct Reload {
    pub(super) config: Config,
    pub(super) pg: Arc<PgShared>,
    pub(super) flight: Option<Arc<FlightTls>>,
    pub(super) audit: Option<AuditLog>,
}

impl Reload {
    /// Reads everything again; what is wrong is logged, and its old state stays.
    pub(super) async fn run(&self) {
        // First, so that the rest is recorded in the file that is there now.
        if let Some(audit) = &self.audit {
            let reopened = audit.reopen().map_err(|error| format!("audit.file: {error}"));
            self.tell("audit.file", reopened);
        }
        let rules = AccessRules::load(&self.config).map(|rules| self.pg.replace_access(rules));
        self.tell("pg.hba_file", rules.map_err(|error| error.to_string()));
        let tls = read_tls(&self.config).map(|tls| {
            if let Some(tls) = tls {
                self.pg.replace_tls(tls);
            }
        });
        self.tell("pg.tls_cert", tls.map_err(|error: StartError| error.to_string()));
        if let Some(served) = &self.flight {
            let tls = read_flight_tls(&self.config).map(|tls| tls.map(|tls| served.replace(tls)));
            self.tell("flight.tls_cert", tls.map(drop).map_err(|error| error.to_string()));
        }
        self.pg.identities.tokens().expire().await;
    }

    fn tell(&self, what: &'static str, result: Result<(), String>) {
        match &result {
            Ok(()) => tracing::info!(what, "read again"),
            Err(error) => tracing::error!(what, error, "cannot be read again; the old state stays"),
        }
        if let Some(audit) = &self.audit {
            audit.reloaded(what, result.err().as_deref());
        }
    }
}
