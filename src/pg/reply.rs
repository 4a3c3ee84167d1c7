//! Errors, notices and transaction states as the messages of `lancegate_wire`.

use bytes::BytesMut;
use lancegate_wire::WireError;
use lancegate_wire::backend::{self, ErrorFields, Severity};

use lancegate_engine::error::SqlError;
use lancegate_engine::session::{Notice, NoticeSeverity, TransactionStatus};
use lancegate_engine::sqlstate::SqlState;

/// Appends an ERROR: the statement failed, the session goes on.
pub(in crate::pg) fn put_error(out: &mut BytesMut, error: &SqlError) {
    backend::error_response(out, &fields(Severity::Error, error));
}

/// Appends a FATAL: the connection closes.
pub(in crate::pg) fn put_fatal(out: &mut BytesMut, error: &SqlError) {
    backend::error_response(out, &fields(Severity::Fatal, error));
}

/// Appends a notice.
pub(in crate::pg) fn put_notice(out: &mut BytesMut, notice: &Notice) {
    let severity = match notice.severity {
        NoticeSeverity::Debug => Severity::Debug,
        NoticeSeverity::Log => Severity::Log,
        NoticeSeverity::Notice => Severity::Notice,
        NoticeSeverity::Warning => Severity::Warning,
        NoticeSeverity::Info => Severity::Info,
    };
    backend::notice_response(out, &fields(severity, &notice.fields));
}

/// Returns a wire error as everybody else's errors are.
pub(in crate::pg) fn from_wire(error: &WireError) -> SqlError {
    SqlError::new(SqlState::parse(error.sqlstate()), error.to_string())
}

/// Returns the byte of ReadyForQuery as the wire crate names it.
pub(in crate::pg) fn wire_status(status: TransactionStatus) -> backend::TransactionStatus {
    match status {
        TransactionStatus::Idle => backend::TransactionStatus::Idle,
        TransactionStatus::InBlock => backend::TransactionStatus::InTransaction,
        TransactionStatus::Failed => backend::TransactionStatus::Failed,
    }
}

fn fields(severity: Severity, error: &SqlError) -> ErrorFields {
    let mut fields = ErrorFields::new(severity, error.code.as_str(), error.message.clone());
    fields.detail = error.detail.clone();
    fields.hint = error.hint.clone();
    fields.context = error.context.clone();
    fields.position = error.position.and_then(|position| u32::try_from(position).ok());
    fields
}
