//! Certificates for tests, made by `openssl`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Files, key};
use crate::harness::{Gateway, text};
use crate::wire::raw::{Raw, ssl_request};

/// An authority, and what it has signed: `<name>.crt` with `<name>.key`.
pub(crate) struct Pki {
    files: Files,
}

impl Pki {
    /// Makes an authority `ca` with a certificate `server` for this machine.
    pub(crate) fn new() -> Self {
        let pki = Self { files: Files::new() };
        pki.authority("ca");
        pki.files.write("server.ext", "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n");
        pki.sign("server", "/CN=localhost", "server.ext", &["-days", "30"]);
        pki
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.path(name)
    }

    /// Makes another authority.
    pub(crate) fn authority(&self, name: &str) {
        let (key, crt) = (format!("{name}.key"), format!("{name}.crt"));
        self.key(&key);
        let extensions = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"];
        self.openssl(
            &[
                &["req", "-x509", "-new", "-key", &key, "-subj", "/CN=Test CA", "-days", "30", "-out", &crt],
                &extensions[..],
            ]
            .concat(),
        );
    }

    /// Makes a certificate of a client.
    pub(crate) fn client(&self, name: &str, subject: &str, extensions: &str, more: &[&str]) {
        self.files.write(&format!("{name}.ext"), &format!("extendedKeyUsage=clientAuth\n{extensions}\n"));
        self.sign(name, subject, &format!("{name}.ext"), if more.is_empty() { &["-days", "30"] } else { more });
    }

    pub(crate) fn sign(&self, name: &str, subject: &str, extensions: &str, more: &[&str]) {
        let (key, csr, crt) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.crt"));
        self.key(&key);
        self.openssl(&["req", "-new", "-key", &key, "-subj", subject, "-out", &csr]);
        let sign = ["x509", "-req", "-in", &csr, "-extfile", extensions, "-out", &crt];
        let by =
            if more.contains(&"-CA") { &[][..] } else { &["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"] };
        self.openssl(&[&sign, by, more].concat());
    }

    /// Writes a list of revoked certificates with one of them.
    pub(crate) fn revoke(&self, name: &str) -> PathBuf {
        self.files.write("index.txt", "");
        self.files.write("crlnumber", "01\n");
        let config = "[ca]\ndefault_ca = d\n[d]\ndatabase = index.txt\ncrlnumber = crlnumber\ndefault_md = sha256\n";
        self.files.write("ca.conf", config);
        let by = ["ca", "-config", "ca.conf", "-cert", "ca.crt", "-keyfile", "ca.key"];
        self.openssl(&[&by[..], &["-revoke", &format!("{name}.crt")]].concat());
        self.openssl(&[&by[..], &["-gencrl", "-crldays", "30", "-out", "ca.crl"]].concat());
        self.path("ca.crl")
    }

    fn key(&self, name: &str) {
        self.openssl(&["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", name]);
        // libpq wants keys that nobody else reads, in a form that rustls reads as well.
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn openssl(&self, arguments: &[&str]) {
        let folder = self.files.0.path();
        let output = Command::new("openssl").args(arguments).current_dir(folder).stdin(Stdio::null()).output();
        let output =
            output.unwrap_or_else(|error| panic!("openssl cannot be started ({error}); `make test` installs it"));
        assert!(output.status.success(), "openssl {arguments:?}: {}", text(&output));
    }

    /// Returns the keys of `[pg]` that serve TLS.
    pub(crate) fn server(&self) -> String {
        format!("{}{}", key("tls_cert", &self.path("server.crt")), key("tls_key", &self.path("server.key")))
    }

    /// Returns what a client of TLS trusts, with the certificate that it shows.
    pub(crate) fn client_config(&self, shows: Option<&str>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        match shows {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let file = |end: &str| self.path(&format!("{name}.{end}"));
                let chain = vec![CertificateDer::from_pem_file(file("crt")).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(file("key")).unwrap()).unwrap()
            }
        }
    }

    /// Opens a connection through TLS and says nothing on it yet.
    pub(crate) async fn secure(&self, gateway: &Gateway) -> Raw<TlsStream<TcpStream>> {
        Raw::over(secured(gateway, self.client_config(None)).await.unwrap())
    }
}

/// Asks for TLS and shakes hands.
pub(crate) async fn secured(gateway: &Gateway, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    use tokio::io::AsyncReadExt as _;
    let mut raw = Raw::open(gateway.pg_addr()).await;
    raw.send(&ssl_request()).await;
    assert_eq!(raw.stream.read_u8().await.unwrap(), b'S');
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(ServerName::try_from("localhost").unwrap(), raw.stream).await
}

/// Returns whether a file is there and has something in it.
pub(crate) fn is_written(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}
