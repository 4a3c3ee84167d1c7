//! Why a gateway does not start. Each message begins with the configuration
//! key that the trouble is with.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;

use lancegate_catalog::CatalogError;

use crate::admin::AdminError;
use crate::pg::AccessError;
use crate::tls::TlsError;
use lancegate_engine::secrets::key::KeyFileError;

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be had.
    #[error("{key}: cannot listen on {address}: {}", bind_advice(cause))]
    Bind {
        /// The key that holds the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause, which the message tells.
        cause: io::Error,
    },
    /// The data folder cannot be created or written.
    #[error("data: {} cannot be used", path.display())]
    Data {
        /// The folder.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The metadata store does not open.
    #[error("metadata: {}", metadata_advice(.0))]
    Metadata(CatalogError),
    /// The keys of secrets cannot be used.
    #[error("secrets.key_file: {0}")]
    Keys(#[source] KeyFileError),
    /// The first user cannot be created.
    #[error("metadata: the first user cannot be created")]
    FirstUser(#[source] AdminError),
    /// The TLS files cannot be used.
    #[error("pg.{}: {}", .0.file_key(), .0)]
    Tls(#[source] TlsError),
    /// The rules of who may connect cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The Unix socket cannot be made.
    #[error("pg.unix_socket_directory: cannot listen in {}: {cause}", folder.display())]
    UnixSocket {
        /// The folder.
        folder: std::path::PathBuf,
        /// The cause, which the message tells.
        cause: io::Error,
    },
    /// The audit record cannot be written.
    #[error("audit.file: {} cannot be written: {cause}", path.display())]
    Audit {
        /// The file.
        path: std::path::PathBuf,
        /// The cause, which the message tells.
        cause: io::Error,
    },
    /// The keys of identity providers cannot be asked for.
    #[error("jwt_issuers: {0}")]
    Tokens(String),
    /// The TLS files of Flight SQL cannot be used.
    #[error("flight.{}: {}", .0.file_key(), .0)]
    FlightTls(#[source] TlsError),
    /// The data is behind a scheme that is not supported.
    #[error("data: {0}")]
    Store(lancegate_engine::storage::StorageError),
    /// The query engine or the login data cannot be opened.
    #[error("query: {}", .0.message)]
    Engine(lancegate_engine::error::SqlError),
    /// The hub that models come from has no usable address.
    #[error("functions.model_endpoint: {0}")]
    Models(String),
    /// Workers cannot be confined as the configuration wants.
    #[error("functions.sandbox: workers cannot be confined here ({0}); \"prefer\" runs them with what there is")]
    Sandbox(String),
    /// The threads that compute cannot be started.
    #[error("query.threads: the compute threads cannot be started")]
    Compute(#[source] io::Error),
}

fn bind_advice(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use by another program; stop it or choose another port (0 takes a free one)".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; ports below 1024 need a privilege, choose a higher one".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => cause.to_string(),
    }
}

/// Returns the error with its causes, or what to do when another process holds
/// the store.
pub(crate) fn metadata_advice(error: &CatalogError) -> String {
    if let CatalogError::InUse { path } = error {
        return format!("{} is in use by a running gateway; stop it, or use SQL through it instead", path.display());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
