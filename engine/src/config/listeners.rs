//! The sockets: where the gateway listens, who may reach it, and its limits.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::layer::Origins;
use super::problem::Problems;
use super::value::{ByteSize, Duration};

/// `[pg]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PgConfig {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Connections at one time.
    pub max_connections: usize,
    /// Of these, kept for holders of System OPERATE.
    pub reserved_connections: usize,
    /// From accept to ReadyForQuery.
    pub authentication_timeout: Duration,
    /// The longest message after login.
    pub message_bytes_max: ByteSize,
    /// The certificate chain, PEM.
    pub tls_cert: Option<PathBuf>,
    /// The private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Whether other machines may connect without TLS.
    pub allow_plaintext: bool,
}

/// `[http]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Where to answer.
    pub listen: SocketAddr,
    /// Connections at one time.
    pub max_connections: usize,
    /// The longest request body.
    pub body_bytes_max: ByteSize,
    /// The longest body of rows, which are written as they come.
    pub upload_bytes_max: ByteSize,
    /// The longest time of one request; half of the longest silence of a connection.
    pub request_timeout: Duration,
    /// Whether other machines may connect; there is no TLS here.
    pub allow_plaintext: bool,
}

/// `[flight]`, reserved.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlightConfig {
    /// Where Flight SQL will answer.
    pub listen: SocketAddr,
}

impl PgConfig {
    /// Returns the paths of certificate and key, if TLS is configured.
    pub fn tls(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.tls_cert.as_ref().zip(self.tls_key.as_ref())
    }

    pub(super) fn check(&self, origins: &Origins, problems: &mut Problems) {
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => problems.push(origins.problem("pg.tls_key", "is missing; \"pg.tls_cert\" needs it")),
            (None, Some(_)) => problems.push(origins.problem("pg.tls_cert", "is missing; \"pg.tls_key\" needs it")),
            _ => {}
        }
        if self.reserved_connections >= self.max_connections {
            let what = format!("must be less than \"pg.max_connections\", which is {}", self.max_connections);
            problems.push(origins.problem("pg.reserved_connections", what));
        }
        if !self.listen.ip().is_loopback() && self.tls().is_none() && !self.allow_plaintext {
            let what = format!(
                "{} can be reached from other machines, and passwords and rows would cross the network unencrypted; \
                 set \"pg.tls_cert\" and \"pg.tls_key\", or \"pg.allow_plaintext = true\" if that is meant",
                self.listen
            );
            problems.push(origins.problem("pg.listen", what));
        }
    }
}

impl HttpConfig {
    pub(super) fn check(&self, origins: &Origins, problems: &mut Problems) {
        if !self.listen.ip().is_loopback() && !self.allow_plaintext {
            let what = format!(
                "{} can be reached from other machines, and HTTP here has no TLS; set \"http.allow_plaintext = true\" \
                 if that is meant, for example behind a proxy",
                self.listen
            );
            problems.push(origins.problem("http.listen", what));
        }
    }
}
