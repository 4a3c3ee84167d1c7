//! TLS of the front door: one certificate, the answer to SSLRequest, and the
//! channel binding that SCRAM-SHA-256-PLUS proves.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The ALPN name of the protocol (PostgreSQL documentation, "SSL Session
/// Encryption").
const ALPN: &[u8] = b"postgresql";

/// A certificate with its key, ready to serve.
#[derive(Clone)]
pub struct PgTls {
    pub(in crate::pg) acceptor: TlsAcceptor,
    /// Data of `tls-server-end-point` (RFC 5929, section 4.1), absent if the
    /// certificate's signature names no hash.
    pub(in crate::pg) end_point: Option<Arc<[u8]>>,
}

impl std::fmt::Debug for PgTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PgTls").field("channel_binding", &self.end_point.is_some()).finish_non_exhaustive()
    }
}

impl PgTls {
    /// Returns what a configuration serves; `leaf` is its own certificate.
    pub fn new(config: Arc<ServerConfig>, leaf: &CertificateDer<'_>) -> Self {
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols = vec![ALPN.to_vec()];
        Self { acceptor: TlsAcceptor::from(Arc::new(config)), end_point: end_point(leaf).map(Arc::from) }
    }
}

/// Returns whether the client named the protocol, which a connection that
/// starts with TLS must do: it keeps other protocols from being talked into
/// speaking to us.
pub(in crate::pg) fn named_protocol(connection: &rustls::ServerConnection) -> bool {
    connection.alpn_protocol() == Some(ALPN)
}

/// A stream in the clear or through TLS.
#[derive(Debug)]
pub(in crate::pg) enum Socket<T> {
    Plain(T),
    Tls(Box<TlsStream<Prefixed<T>>>),
}

impl<T> Socket<T> {
    pub(in crate::pg) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// A stream in front of which bytes that were read already are read again.
#[derive(Debug)]
pub(in crate::pg) struct Prefixed<T> {
    prefix: BytesMut,
    inner: T,
}

impl<T> Prefixed<T> {
    pub(in crate::pg) fn new(prefix: BytesMut, inner: T) -> Self {
        Self { prefix, inner }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Prefixed<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.prefix.is_empty() {
            return Pin::new(&mut self.inner).poll_read(cx, into);
        }
        let count = self.prefix.len().min(into.remaining());
        into.put_slice(&self.prefix[..count]);
        self.prefix.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prefixed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, into),
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, from),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, from),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}

/// Hashes a certificate with the hash of its own signature; MD5 and SHA-1 give
/// way to SHA-256 (RFC 5929).
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let hash = match signature_algorithm(certificate)? {
        // ecdsa-with-SHA256, -SHA384, -SHA512 (RFC 5758).
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, last] => *last,
        // ecdsa-with-SHA1.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] => 2,
        // sha256, sha384, sha512WithRSAEncryption (RFC 4055).
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, last @ 0x0b..=0x0d] => *last - 9,
        // md5 and sha1WithRSAEncryption.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04 | 0x05] => 2,
        _ => return None,
    };
    match hash {
        2 => Some(Sha256::digest(certificate).to_vec()),
        3 => Some(Sha384::digest(certificate).to_vec()),
        4 => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Returns the object identifier of a certificate's signature: the first
/// element of the second element of the outer sequence (RFC 5280, 4.1).
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (body, _) = der_element(certificate, SEQUENCE)?;
    let (_, after_tbs) = der_element(body, SEQUENCE)?;
    let (algorithm, _) = der_element(after_tbs, SEQUENCE)?;
    let (identifier, _) = der_element(algorithm, OBJECT_IDENTIFIER)?;
    Some(identifier)
}

/// Splits off one DER element with the expected tag: its content and the rest.
fn der_element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (*found == tag).then_some(())?;
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate shell: an empty body, an algorithm, an empty signature.
    fn certificate(identifier: &[u8]) -> Vec<u8> {
        let mut algorithm = vec![0x06, identifier.len() as u8];
        algorithm.extend(identifier);
        let mut body = vec![0x30, 0x00, 0x30, algorithm.len() as u8];
        body.extend(algorithm);
        body.extend([0x03, 0x01, 0x00]);
        let mut whole = vec![0x30, 0x81, body.len() as u8];
        whole.extend(body);
        whole
    }

    #[test]
    fn the_binding_uses_the_hash_of_the_signature() {
        let check = |identifier: &[u8], bytes: Option<usize>| {
            assert_eq!(end_point(&certificate(identifier)).map(|hash| hash.len()), bytes);
        };
        check(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], Some(32));
        check(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], Some(48));
        check(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], Some(64));
        check(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05], Some(32));
        // Ed25519 names no hash, so there is no binding to offer.
        check(&[0x2b, 0x65, 0x70], None);
    }

    #[test]
    fn truncated_certificates_have_no_binding() {
        let whole = certificate(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]);
        for end in 0..whole.len() {
            assert_eq!(end_point(&whole[..end]), None);
        }
    }
}
