//! The packets that open a connection; they have no type byte.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{WireError, protocol};
use crate::frontend::Reader;

/// Largest startup packet, with its length word.
pub const STARTUP_BYTES_MAX: usize = 10_000;

const CANCEL_CODE: u32 = 80_877_102;
const SSL_CODE: u32 = 80_877_103;
const GSSENC_CODE: u32 = 80_877_104;
/// First byte of a TLS handshake record (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// Longest cancel key of protocol 3.2.
const SECRET_BYTES_MAX: usize = 256;
/// Prefix of protocol options, which are not settings.
const PROTOCOL_OPTION_PREFIX: &str = "_pq_.";

/// A first packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Startup {
    /// Asks for TLS. The answer is one byte; see [`ensure_nothing_buffered`].
    SslRequest,
    /// Asks for GSSAPI encryption.
    GssEncRequest,
    /// Asks to cancel the statement of another connection.
    CancelRequest {
        /// Process id from BackendKeyData.
        pid: i32,
        /// Key from BackendKeyData: 4 bytes in 3.0, up to 256 in 3.2.
        secret: Vec<u8>,
    },
    /// Opens a session.
    Startup {
        /// Requested major version, always 3.
        major: u16,
        /// Requested minor version; above 2 needs NegotiateProtocolVersion.
        minor: u16,
        /// Settings in the order sent, names unique.
        parameters: Vec<(String, String)>,
        /// Names starting with `_pq_.`; none is known, so all belong in
        /// NegotiateProtocolVersion.
        unknown_protocol_options: Vec<String>,
    },
    /// The client starts TLS without asking (`sslnegotiation=direct`). Nothing
    /// was consumed: the buffered bytes belong to the TLS handshake.
    DirectTls,
}

/// Takes a startup packet of at most `max` bytes out of `buffer`, or returns
/// `None` if more bytes are needed.
///
/// # Errors
///
/// All of them end the connection, also those that are not
/// [`WireError::is_fatal`]: an error before authentication is always FATAL.
pub fn decode_startup(buffer: &mut BytesMut, max: usize) -> Result<Option<Startup>, WireError> {
    if buffer.first() == Some(&TLS_HANDSHAKE) {
        return Ok(Some(Startup::DirectTls));
    }
    let Some(length_bytes) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length_bytes) as usize;
    if length < 8 || length > max {
        return Err(protocol("invalid length of startup packet"));
    }
    if buffer.len() < length {
        return Ok(None);
    }
    let mut packet = buffer.split_to(length);
    packet.advance(4);
    decode_packet(packet.freeze()).map(Some)
}

/// Refuses bytes that arrived in the clear behind a request for encryption.
///
/// Call it before answering the request and again before the handshake: such
/// bytes would be read as if they had come through the encrypted channel.
///
/// # Errors
///
/// [`WireError::Protocol`] if `buffer` is not empty.
pub fn ensure_nothing_buffered(buffer: &[u8], request: &Startup) -> Result<(), WireError> {
    let name = match request {
        Startup::SslRequest => "SSL",
        Startup::GssEncRequest => "GSSAPI encryption",
        Startup::CancelRequest { .. } | Startup::Startup { .. } | Startup::DirectTls => {
            return Ok(());
        }
    };
    if buffer.is_empty() {
        return Ok(());
    }
    Err(protocol(format!("received unencrypted data after {name} request")))
}

fn decode_packet(packet: Bytes) -> Result<Startup, WireError> {
    let mut reader = Reader::new(0, packet);
    let code = reader.u32()?;
    match code {
        SSL_CODE => reader.finish().map(|()| Startup::SslRequest),
        GSSENC_CODE => reader.finish().map(|()| Startup::GssEncRequest),
        CANCEL_CODE => decode_cancel(reader),
        version => decode_session(reader, (version >> 16) as u16, version as u16),
    }
}

fn decode_cancel(mut reader: Reader) -> Result<Startup, WireError> {
    let pid = reader.i32()?;
    let secret = reader.rest().to_vec();
    if secret.len() < 4 || secret.len() > SECRET_BYTES_MAX {
        return Err(protocol("invalid length of cancel request packet"));
    }
    Ok(Startup::CancelRequest { pid, secret })
}

fn decode_session(mut reader: Reader, major: u16, minor: u16) -> Result<Startup, WireError> {
    if major != 3 {
        return Err(WireError::UnsupportedProtocol { major, minor });
    }
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut unknown_protocol_options = Vec::new();
    loop {
        let name = reader.cstring()?;
        if name.is_empty() {
            break;
        }
        let value = reader.cstring()?;
        let known = parameters.iter().map(|(known, _)| known);
        if known.chain(&unknown_protocol_options).any(|known| *known == name) {
            return Err(protocol(format!("duplicate parameter \"{name}\" in startup packet")));
        }
        if name.starts_with(PROTOCOL_OPTION_PREFIX) {
            unknown_protocol_options.push(name);
        } else {
            parameters.push((name, value));
        }
    }
    reader.finish().map_err(|_| protocol("invalid startup packet layout: expected terminator as last byte"))?;
    Ok(Startup::Startup { major, minor, parameters, unknown_protocol_options })
}
