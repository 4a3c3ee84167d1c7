//! Incremental framing of what a client sends.
//!
//! A message is measured by its header, cut out of the buffer, and only then
//! decoded; a decoder never sees a byte of the next message. Layouts are from
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>.

mod startup;

use bytes::{Buf, BytesMut};

use crate::error::{WireError, message_name, protocol};
use crate::frontend::{self, FrontendMessage};

pub use startup::{STARTUP_BYTES_MAX, Startup, decode_startup, ensure_nothing_buffered};

/// Largest message before authentication, without its type byte; PostgreSQL's
/// `PG_MAX_AUTH_TOKEN_LENGTH`.
pub const AUTHENTICATION_BYTES_MAX: usize = 65_535;

/// Largest message of a type that has no reason to be large; PostgreSQL's
/// `PQ_SMALL_MESSAGE_LIMIT`.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;

/// Bytes of a message header: the type and the length.
const HEADER_BYTES: usize = 5;

/// How far a connection has come, which decides what it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The client has not proved who it is: only `p` messages of at most
    /// [`AUTHENTICATION_BYTES_MAX`].
    Authenticating,
    /// Any message of at most this many bytes.
    Ready {
        /// Largest declared length of Query, Parse, Bind and CopyData.
        message_bytes_max: usize,
    },
}

/// Takes the next complete message out of `buffer`, or `None` if more bytes
/// are needed.
///
/// # Errors
///
/// Fatal ones ([`WireError::is_fatal`]) leave the buffer unusable. After
/// [`WireError::MessageText`] the message is consumed and the next one follows.
pub fn decode_frontend(buffer: &mut BytesMut, phase: Phase) -> Result<Option<FrontendMessage>, WireError> {
    let Some(&message_type) = buffer.first() else {
        return Ok(None);
    };
    let limit = message_limit(message_type, phase)?;
    let Some(length_bytes) = buffer.get(1..HEADER_BYTES) else {
        return Ok(None);
    };
    let length = length_bytes.try_into().map(i32::from_be_bytes).map_err(|_| protocol("invalid message length"))?;
    if length < 4 {
        return Err(protocol(format!("invalid length {length} of {}", message_name(message_type))));
    }
    let length = length as usize;
    if length > limit && !is_large(message_type) {
        return Err(protocol(format!("invalid length {length} of {}", message_name(message_type))));
    }
    if length > limit {
        return Err(WireError::TooLarge { message_type, length: length as u64, limit });
    }
    if buffer.len() < length + 1 {
        return Ok(None);
    }
    let mut message = buffer.split_to(length + 1);
    message.advance(HEADER_BYTES);
    frontend::decode_body(message_type, message.freeze()).map(Some)
}

/// Returns the largest declared length of a message type in a phase, and
/// refuses types that do not exist or are not allowed yet.
fn message_limit(message_type: u8, phase: Phase) -> Result<usize, WireError> {
    let message_bytes_max = match phase {
        Phase::Authenticating if message_type == b'p' => return Ok(AUTHENTICATION_BYTES_MAX),
        Phase::Authenticating => {
            return Err(protocol(format!("expected password response, got message type {message_type}")));
        }
        Phase::Ready { message_bytes_max } => message_bytes_max,
    };
    match message_type {
        _ if is_large(message_type) => Ok(message_bytes_max),
        b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'c' | b'f' => {
            Ok(SMALL_MESSAGE_BYTES_MAX.min(message_bytes_max.max(HEADER_BYTES)))
        }
        b'p' => Ok(AUTHENTICATION_BYTES_MAX),
        _ => Err(protocol(format!("invalid frontend message type {message_type}"))),
    }
}

/// Returns whether messages of a type hold what a user writes, so that a long
/// one is a limit reached and not a broken frame.
fn is_large(message_type: u8) -> bool {
    matches!(message_type, b'Q' | b'P' | b'B' | b'F' | b'd')
}

#[cfg(test)]
mod tests;
