//! Certificates and keys from files to what a TLS server needs.
//!
//! The wire's own negotiation is elsewhere; this module only reads and checks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Who may have signed the certificates of clients.
#[derive(Debug, Clone, Copy)]
pub struct ClientAuthorities<'a> {
    /// Certificates of the authorities, PEM.
    pub certificates: &'a Path,
    /// What they have revoked, PEM; with it every authority needs a list.
    pub revoked: Option<&'a Path>,
}

/// Why the files do not make a TLS server.
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
    /// The authorities of clients cannot be read, or what they have revoked.
    #[error("{} has no usable PEM {what}", path.display())]
    Authorities {
        /// The key that names the file.
        key: &'static str,
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Both can be read, but not used together.
    #[error("the certificate and the key do not go together")]
    Mismatch(#[source] rustls::Error),
}

impl TlsError {
    /// Returns the configuration key that names the file, without its section.
    pub fn file_key(&self) -> &'static str {
        match self {
            Self::Certificate { .. } | Self::NoCertificate { .. } => "tls_cert",
            Self::Key { .. } | Self::Mismatch(_) => "tls_key",
            Self::Authorities { key, .. } => key,
        }
    }
}

/// Reads a certificate chain and its key; TLS 1.2 and 1.3. With authorities, a client
/// may show a certificate, and one that none of them has signed ends the handshake.
///
/// # Errors
/// See [`TlsError`].
pub fn server_config(
    certificate: &Path,
    key: &Path,
    clients: Option<ClientAuthorities<'_>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = read_chain(certificate)?;
    let private_key =
        PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
    // The provider is named because other crates of the tree may bring theirs.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(client_verifier(clients, provider)?),
    };
    let mut config = builder.with_single_cert(chain, private_key).map_err(TlsError::Mismatch)?;
    if clients.is_some() {
        // A session that is resumed would not look at the client's certificate again.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

fn client_verifier(
    clients: ClientAuthorities<'_>,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let ClientAuthorities { certificates, revoked } = clients;
    let authorities = |source: Box<dyn std::error::Error + Send + Sync>| TlsError::Authorities {
        key: "tls_client_ca",
        what: "certificates of authorities",
        path: certificates.to_owned(),
        source,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(certificates).map_err(|error| authorities(error.into()))? {
        let certificate = certificate.map_err(|error| authorities(error.into()))?;
        roots.add(certificate).map_err(|error| authorities(error.into()))?;
    }
    if roots.is_empty() {
        return Err(authorities("there is none in it".into()));
    }
    let lists = match revoked {
        None => Vec::new(),
        Some(path) => revocation_lists(path)?,
    };
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    // Whether one is needed depends on user and database, which are not known yet.
    let verifier = verifier.with_crls(lists).allow_unauthenticated();
    verifier.build().map_err(|error| match revoked {
        None => authorities(error.into()),
        Some(path) => revocations(path, error.into()),
    })
}

fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let failed = |error: pem::Error| revocations(path, error.into());
    let lists: Vec<_> =
        CertificateRevocationListDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
    if lists.is_empty() {
        return Err(revocations(path, "there is none in it".into()));
    }
    Ok(lists)
}

fn revocations(path: &Path, source: Box<dyn std::error::Error + Send + Sync>) -> TlsError {
    let what = "list of revoked certificates";
    TlsError::Authorities { key: "tls_client_crl", what, path: path.to_owned(), source }
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
        assert_eq!(server_config(&missing, &empty, None).unwrap_err().file_key(), "tls_cert");
        assert_eq!(server_config(&empty, &missing, None).unwrap_err().file_key(), "tls_cert");
    }
}
