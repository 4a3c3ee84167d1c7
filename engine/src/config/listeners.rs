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
    /// The longest time in which a client takes nothing of its answer.
    pub write_timeout: Duration,
    /// The longest message after login.
    pub message_bytes_max: ByteSize,
    /// The certificate chain, PEM.
    pub tls_cert: Option<PathBuf>,
    /// The private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Whether other machines may connect without TLS.
    pub allow_plaintext: bool,
    /// The authorities of client certificates, PEM.
    pub tls_client_ca: Option<PathBuf>,
    /// Revoked client certificates, PEM.
    pub tls_client_crl: Option<PathBuf>,
    /// Who may connect how; unset: everybody by password.
    pub hba_file: Option<PathBuf>,
    /// Maps from proved identities to users.
    pub ident_file: Option<PathBuf>,
    /// Where the Unix socket is; unset: there is none.
    pub unix_socket_directory: Option<PathBuf>,
    /// Who may connect to it, in octal.
    unix_socket_permissions: String,
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

/// `[flight]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlightConfig {
    /// Whether there is a listener.
    pub enabled: bool,
    /// Where Flight SQL answers; unset, one port above HTTP.
    pub listen: Option<SocketAddr>,
    /// Connections at one time.
    pub max_connections: usize,
    /// The longest message of a client.
    pub message_bytes_max: ByteSize,
    /// The certificate chain, PEM.
    pub tls_cert: Option<PathBuf>,
    /// The private key, PEM.
    pub tls_key: Option<PathBuf>,
    /// Whether other machines may connect without TLS.
    pub allow_plaintext: bool,
}

impl PgConfig {
    /// Returns the paths of certificate and key, if TLS is configured.
    pub fn tls(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.tls_cert.as_ref().zip(self.tls_key.as_ref())
    }

    /// Returns the permission bits of the Unix socket.
    pub fn unix_socket_mode(&self) -> u32 {
        // The table of keys lets only octal numbers in.
        u32::from_str_radix(&self.unix_socket_permissions, 8).unwrap_or(0o700)
    }

    pub(super) fn check(&self, origins: &Origins, problems: &mut Problems) {
        if self.tls_client_ca.is_some() && self.tls().is_none() {
            let what = "takes TLS; set \"pg.tls_cert\" and \"pg.tls_key\"";
            problems.push(origins.problem("pg.tls_client_ca", what));
        }
        if self.tls_client_crl.is_some() && self.tls_client_ca.is_none() {
            problems.push(origins.problem("pg.tls_client_crl", "takes \"pg.tls_client_ca\""));
        }
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

impl FlightConfig {
    /// Returns the paths of certificate and key, if TLS is configured.
    pub fn tls(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.tls_cert.as_ref().zip(self.tls_key.as_ref())
    }

    pub(super) fn check(&self, http: &HttpConfig, origins: &Origins, problems: &mut Problems) {
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => {
                problems.push(origins.problem("flight.tls_key", "is missing; \"flight.tls_cert\" needs it"));
            }
            (None, Some(_)) => {
                problems.push(origins.problem("flight.tls_cert", "is missing; \"flight.tls_key\" needs it"));
            }
            _ => {}
        }
        if !self.enabled {
            return;
        }
        match self.listen {
            None if http.listen.port() == u16::MAX => {
                let what = "is not set, and there is no port above that of \"http.listen\"";
                problems.push(origins.problem("flight.listen", what));
            }
            Some(listen) if !listen.ip().is_loopback() && self.tls().is_none() && !self.allow_plaintext => {
                let what = format!(
                    "{listen} can be reached from other machines, and keys and rows would cross the network \
                     unencrypted; set \"flight.tls_cert\" and \"flight.tls_key\", or \"flight.allow_plaintext = true\" \
                     if that is meant"
                );
                problems.push(origins.problem("flight.listen", what));
            }
            _ => {}
        }
    }
}
