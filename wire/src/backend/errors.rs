//! ErrorResponse and NoticeResponse.
//!
//! Field codes are from
//! <https://www.postgresql.org/docs/current/protocol-error-fields.html>.

use bytes::{BufMut, BytesMut};

use super::{message, put_cstring};
use crate::error::WireError;

/// How bad it is. The first three belong in ErrorResponse, the others in
/// NoticeResponse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The statement failed.
    Error,
    /// The session ends.
    Fatal,
    /// All sessions end.
    Panic,
    /// Something a user should look at.
    Warning,
    /// Something a user may want to know.
    Notice,
    /// For developers.
    Debug,
    /// Something the user asked for.
    Info,
    /// For operators.
    Log,
}

impl Severity {
    /// Returns the word in the `S` and `V` fields.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
            Self::Panic => "PANIC",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Log => "LOG",
        }
    }
}

/// The fields of an error or notice. Build it with [`ErrorFields::new`] and
/// set what is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFields {
    /// Severity, written as `S` and `V`.
    pub severity: Severity,
    /// SQLSTATE of five characters.
    pub code: String,
    /// Primary message.
    pub message: String,
    /// A sentence with more.
    pub detail: Option<String>,
    /// A sentence on what to do.
    pub hint: Option<String>,
    /// Position in the query string, in characters from 1.
    pub position: Option<u32>,
    /// Position in [`ErrorFields::internal_query`].
    pub internal_position: Option<u32>,
    /// A query the server made.
    pub internal_query: Option<String>,
    /// What was going on, one line each.
    pub context: Option<String>,
    /// Schema of the object.
    pub schema: Option<String>,
    /// Table of the object.
    pub table: Option<String>,
    /// Column.
    pub column: Option<String>,
    /// Data type.
    pub data_type: Option<String>,
    /// Constraint.
    pub constraint: Option<String>,
}

impl ErrorFields {
    /// Makes fields with the three that every error has.
    pub fn new(severity: Severity, code: &str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code: code.to_owned(),
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            internal_position: None,
            internal_query: None,
            context: None,
            schema: None,
            table: None,
            column: None,
            data_type: None,
            constraint: None,
        }
    }
}

impl From<&WireError> for ErrorFields {
    /// Makes an ERROR, or a FATAL if the connection must be closed.
    fn from(error: &WireError) -> Self {
        let severity = if error.is_fatal() { Severity::Fatal } else { Severity::Error };
        Self::new(severity, error.sqlstate(), error.to_string())
    }
}

/// Appends ErrorResponse.
pub fn error_response(out: &mut BytesMut, fields: &ErrorFields) {
    message(out, b'E', |out| put_fields(out, fields));
}

/// Appends NoticeResponse.
pub fn notice_response(out: &mut BytesMut, fields: &ErrorFields) {
    message(out, b'N', |out| put_fields(out, fields));
}

fn put_fields(out: &mut BytesMut, fields: &ErrorFields) {
    let position = fields.position.map(|position| position.to_string());
    let internal_position = fields.internal_position.map(|position| position.to_string());
    let severity = fields.severity.as_str();
    let all = [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(fields.code.as_str())),
        (b'M', Some(fields.message.as_str())),
        (b'D', fields.detail.as_deref()),
        (b'H', fields.hint.as_deref()),
        (b'P', position.as_deref()),
        (b'p', internal_position.as_deref()),
        (b'q', fields.internal_query.as_deref()),
        (b'W', fields.context.as_deref()),
        (b's', fields.schema.as_deref()),
        (b't', fields.table.as_deref()),
        (b'c', fields.column.as_deref()),
        (b'd', fields.data_type.as_deref()),
        (b'n', fields.constraint.as_deref()),
    ];
    for (code, value) in all {
        if let Some(value) = value {
            out.put_u8(code);
            put_cstring(out, value);
        }
    }
    out.put_u8(0);
}
