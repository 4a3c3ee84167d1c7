//! Certificates and keys from files to what a TLS server needs.
//!
//! The wire's own negotiation is elsewhere; this module only reads and checks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};

/// Why the two files do not make a TLS server.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file cannot be read or is not PEM.
    #[error("{} has no readable PEM certificate", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// The certificate file has no certificate.
    #[error("{} contains no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key file cannot be read or has no key.
    #[error("{} has no readable PEM private key", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// Both can be read, but not used together.
    #[error("the certificate and the key do not go together")]
    Mismatch(#[source] rustls::Error),
}

impl TlsError {
    /// Returns the configuration key that names the file.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Certificate { .. } | Self::NoCertificate { .. } => "pg.tls_cert",
            Self::Key { .. } | Self::Mismatch(_) => "pg.tls_key",
        }
    }
}

/// Reads a certificate chain and its key; TLS 1.2 and 1.3, no client certificates.
///
/// # Errors
/// See [`TlsError`].
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = read_chain(certificate)?;
    let private_key =
        PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
    // The provider is named because other crates of the tree may bring theirs.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?
        .with_no_client_auth()
        .with_single_cert(chain, private_key)
        .map_err(TlsError::Mismatch)?;
    Ok(Arc::new(config))
}

/// Reads the certificate that a chain serves, to which logins are bound.
///
/// # Errors
/// See [`TlsError`].
pub fn leaf(certificate: &Path) -> Result<CertificateDer<'static>, TlsError> {
    Ok(read_chain(certificate)?.swap_remove(0))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Certificate { path: path.to_owned(), source };
    let chain: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_file_is_named_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.pem");
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "").unwrap();
        assert_eq!(server_config(&missing, &empty).unwrap_err().key(), "pg.tls_cert");
        assert_eq!(server_config(&empty, &missing).unwrap_err().key(), "pg.tls_cert");
    }
}
