//! The errors of the crate and their SQLSTATEs.
//!
//! Messages are those PostgreSQL prints, so a session can put them into an
//! ErrorResponse unchanged. Codes are from
//! <https://www.postgresql.org/docs/current/errcodes-appendix.html>.

use std::fmt::Write;

/// What is wrong with bytes from a client, or with a value that has no
/// PostgreSQL form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes break the protocol. The position in the stream can no longer
    /// be trusted.
    #[error("{0}")]
    Protocol(String),
    /// A message is larger than its limit. Decided by the header alone; the
    /// body was neither waited for nor consumed.
    #[error("{} of {length} bytes exceeds the limit of {limit} bytes", message_name(*message_type))]
    TooLarge {
        /// The first byte of the message, 0 for a startup packet.
        message_type: u8,
        /// The declared length, with its own four bytes.
        length: u64,
        /// The limit in force.
        limit: usize,
    },
    /// A major protocol version that is not spoken here.
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    UnsupportedProtocol {
        /// Requested major version.
        major: u16,
        /// Requested minor version.
        minor: u16,
    },
    /// Text in a protocol message that is not UTF-8. The message was consumed.
    #[error("invalid byte sequence for encoding \"UTF8\": {bytes}")]
    MessageText {
        /// The first byte of the message, 0 for a startup packet.
        message_type: u8,
        /// The offending bytes as PostgreSQL prints them.
        bytes: String,
    },
    /// A text value that is not UTF-8 or holds a zero byte.
    #[error("invalid byte sequence for encoding \"UTF8\": {0}")]
    InvalidUtf8(String),
    /// A text value that its type cannot read.
    #[error("invalid input syntax for type {type_name}: \"{value}\"")]
    InvalidText {
        /// Type as messages name it.
        type_name: &'static str,
        /// The value as sent.
        value: String,
    },
    /// An array literal that cannot be read.
    #[error("malformed array literal: \"{0}\"")]
    MalformedArray(String),
    /// Date or time text that cannot be read.
    #[error("invalid input syntax for type {type_name}: \"{value}\"")]
    InvalidDatetime {
        /// Type as messages name it.
        type_name: &'static str,
        /// The value as sent.
        value: String,
    },
    /// A number outside its type.
    #[error("value \"{value}\" is out of range for type {type_name}")]
    NumberOutOfRange {
        /// Type as messages name it.
        type_name: &'static str,
        /// The value.
        value: String,
    },
    /// A number outside its type, with a message of its own.
    #[error("{0}")]
    OutOfRange(String),
    /// Text that is not JSON.
    #[error("invalid input syntax for type {0}")]
    InvalidJson(&'static str),
    /// A date or time outside its type.
    #[error("{0}")]
    DatetimeOutOfRange(String),
    /// A binary value of the wrong shape.
    #[error("{0}")]
    InvalidBinary(String),
    /// A format code, option or parameter value that is not allowed.
    #[error("{0}")]
    InvalidParameter(String),
    /// An array that PostgreSQL's array types cannot hold.
    #[error("multidimensional arrays must have array expressions with matching dimensions")]
    RaggedArray,
    /// COPY data that does not follow its format.
    #[error("{0}")]
    CopyFormat(String),
    /// A type or combination without a form here.
    #[error("{0}")]
    NotSupported(String),
    /// A row that exceeds what one message can carry.
    #[error("{0}")]
    LimitExceeded(String),
    /// A mistake of the caller, such as a batch of another schema.
    #[error("{0}")]
    Internal(String),
}

impl WireError {
    /// Returns the SQLSTATE.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Self::Protocol(_) => "08P01",
            Self::TooLarge { .. } | Self::LimitExceeded(_) => "54000",
            Self::UnsupportedProtocol { .. } | Self::NotSupported(_) => "0A000",
            Self::MessageText { .. } | Self::InvalidUtf8(_) => "22021",
            Self::InvalidText { .. } | Self::MalformedArray(_) | Self::InvalidJson(_) => "22P02",
            Self::InvalidDatetime { .. } => "22007",
            Self::NumberOutOfRange { .. } | Self::OutOfRange(_) => "22003",
            Self::DatetimeOutOfRange(_) => "22008",
            Self::InvalidBinary(_) => "22P03",
            Self::InvalidParameter(_) => "22023",
            Self::RaggedArray => "2202E",
            Self::CopyFormat(_) => "22P04",
            Self::Internal(_) => "XX000",
        }
    }

    /// Returns whether the connection must be closed after the ErrorResponse,
    /// because the next message cannot be found.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Protocol(_) | Self::TooLarge { .. } | Self::UnsupportedProtocol { .. })
    }
}

/// Returns the name of a frontend message for error texts.
pub(crate) fn message_name(message_type: u8) -> &'static str {
    match message_type {
        0 => "startup packet",
        b'Q' => "Query message",
        b'P' => "Parse message",
        b'B' => "Bind message",
        b'D' => "Describe message",
        b'E' => "Execute message",
        b'C' => "Close message",
        b'H' => "Flush message",
        b'S' => "Sync message",
        b'X' => "Terminate message",
        b'F' => "FunctionCall message",
        b'd' => "CopyData message",
        b'c' => "CopyDone message",
        b'f' => "CopyFail message",
        b'p' => "password message",
        _ => "message",
    }
}

/// Renders the first invalid sequence of `bytes` the way PostgreSQL does:
/// as many bytes as its first byte announces.
pub(crate) fn invalid_sequence(bytes: &[u8], valid_up_to: usize) -> String {
    let rest = bytes.get(valid_up_to..).unwrap_or_default();
    let announced = match rest.first() {
        Some(first) if first & 0xe0 == 0xc0 => 2,
        Some(first) if first & 0xf0 == 0xe0 => 3,
        Some(first) if first & 0xf8 == 0xf0 => 4,
        _ => 1,
    };
    let mut text = String::new();
    for byte in rest.iter().take(announced) {
        let space = if text.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{space}0x{byte:02x}");
    }
    text
}

/// Returns `bytes` as text without zero bytes.
pub(crate) fn strict_text(bytes: &[u8]) -> Result<&str, WireError> {
    if bytes.contains(&0) {
        return Err(WireError::InvalidUtf8("0x00".into()));
    }
    std::str::from_utf8(bytes).map_err(|error| WireError::InvalidUtf8(invalid_sequence(bytes, error.valid_up_to())))
}

pub(crate) fn protocol(text: impl Into<String>) -> WireError {
    WireError::Protocol(text.into())
}
