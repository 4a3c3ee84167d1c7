//! The messages of the server, appended to a buffer.
//!
//! Each function writes exactly one message. Text is written without zero
//! bytes, whatever the caller passes, so a value can never end a field early.
//! Layouts are from
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>.

mod errors;

use bytes::{BufMut, BytesMut};

use crate::settings::Format;
use crate::types::FieldDescription;

pub use errors::{ErrorFields, Severity, error_response, notice_response};

/// The transaction state in ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionStatus {
    /// Not in a transaction block (`I`).
    Idle,
    /// In a transaction block (`T`).
    InTransaction,
    /// In a failed block (`E`).
    Failed,
}

/// Appends AuthenticationOk.
pub fn authentication_ok(out: &mut BytesMut) {
    authentication(out, 0, |_| {});
}

/// Appends AuthenticationCleartextPassword; only for a channel that is
/// encrypted.
pub fn authentication_cleartext_password(out: &mut BytesMut) {
    authentication(out, 3, |_| {});
}

/// Appends AuthenticationSASL with the mechanisms in order of preference.
pub fn authentication_sasl(out: &mut BytesMut, mechanisms: &[&str]) {
    authentication(out, 10, |out| {
        for mechanism in mechanisms {
            put_cstring(out, mechanism);
        }
        out.put_u8(0);
    });
}

/// Appends AuthenticationSASLContinue.
pub fn authentication_sasl_continue(out: &mut BytesMut, data: &[u8]) {
    authentication(out, 11, |out| out.put_slice(data));
}

/// Appends AuthenticationSASLFinal.
pub fn authentication_sasl_final(out: &mut BytesMut, data: &[u8]) {
    authentication(out, 12, |out| out.put_slice(data));
}

/// Appends NegotiateProtocolVersion: the newest minor version that is spoken,
/// and the protocol options that are not known.
pub fn negotiate_protocol_version(out: &mut BytesMut, minor: u16, unknown_options: &[String]) {
    message(out, b'v', |out| {
        out.put_u32((3 << 16) | u32::from(minor));
        out.put_u32(unknown_options.len() as u32);
        for option in unknown_options {
            put_cstring(out, option);
        }
    });
}

/// Appends ParameterStatus.
pub fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    message(out, b'S', |out| {
        put_cstring(out, name);
        put_cstring(out, value);
    });
}

/// Appends BackendKeyData. The secret has 4 bytes in protocol 3.0 and up to
/// 256 in 3.2.
pub fn backend_key_data(out: &mut BytesMut, pid: i32, secret: &[u8]) {
    message(out, b'K', |out| {
        out.put_i32(pid);
        out.put_slice(secret);
    });
}

/// Appends ReadyForQuery.
pub fn ready_for_query(out: &mut BytesMut, status: TransactionStatus) {
    message(out, b'Z', |out| {
        out.put_u8(match status {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        });
    });
}

/// Appends RowDescription. PostgreSQL has at most 1,664 columns; more than
/// 65,535 cannot be written and are left out.
pub fn row_description(out: &mut BytesMut, fields: &[FieldDescription]) {
    message(out, b'T', |out| {
        let fields = &fields[..fields.len().min(usize::from(u16::MAX))];
        out.put_u16(fields.len() as u16);
        for field in fields {
            put_cstring(out, &field.name);
            out.put_u32(field.table_oid);
            out.put_i16(field.column_id);
            out.put_u32(field.pg_type.oid);
            out.put_i16(field.pg_type.typlen);
            out.put_i32(field.pg_type.typmod);
            out.put_i16(field.format.code());
        }
    });
}

/// Appends ParameterDescription.
pub fn parameter_description(out: &mut BytesMut, oids: &[u32]) {
    message(out, b't', |out| {
        let oids = &oids[..oids.len().min(usize::from(u16::MAX))];
        out.put_u16(oids.len() as u16);
        for oid in oids {
            out.put_u32(*oid);
        }
    });
}

/// Appends NoData.
pub fn no_data(out: &mut BytesMut) {
    message(out, b'n', |_| {});
}

/// Appends ParseComplete.
pub fn parse_complete(out: &mut BytesMut) {
    message(out, b'1', |_| {});
}

/// Appends BindComplete.
pub fn bind_complete(out: &mut BytesMut) {
    message(out, b'2', |_| {});
}

/// Appends CloseComplete.
pub fn close_complete(out: &mut BytesMut) {
    message(out, b'3', |_| {});
}

/// Appends PortalSuspended.
pub fn portal_suspended(out: &mut BytesMut) {
    message(out, b's', |_| {});
}

/// Appends EmptyQueryResponse.
pub fn empty_query_response(out: &mut BytesMut) {
    message(out, b'I', |_| {});
}

/// Appends CommandComplete with a tag such as `SELECT 3`.
pub fn command_complete(out: &mut BytesMut, tag: &str) {
    message(out, b'C', |out| put_cstring(out, tag));
}

/// Appends NotificationResponse.
pub fn notification_response(out: &mut BytesMut, pid: i32, channel: &str, payload: &str) {
    message(out, b'A', |out| {
        out.put_i32(pid);
        put_cstring(out, channel);
        put_cstring(out, payload);
    });
}

/// Appends CopyInResponse; the format holds for all `columns`.
pub fn copy_in_response(out: &mut BytesMut, format: Format, columns: usize) {
    copy_response(out, b'G', format, columns);
}

/// Appends CopyOutResponse; the format holds for all `columns`.
pub fn copy_out_response(out: &mut BytesMut, format: Format, columns: usize) {
    copy_response(out, b'H', format, columns);
}

/// Appends CopyData.
pub fn copy_data(out: &mut BytesMut, data: &[u8]) {
    message(out, b'd', |out| out.put_slice(data));
}

/// Appends CopyDone.
pub fn copy_done(out: &mut BytesMut) {
    message(out, b'c', |_| {});
}

fn copy_response(out: &mut BytesMut, message_type: u8, format: Format, columns: usize) {
    message(out, message_type, |out| {
        let columns = columns.min(usize::from(u16::MAX));
        out.put_u8(format.code() as u8);
        out.put_u16(columns as u16);
        for _ in 0..columns {
            out.put_i16(format.code());
        }
    });
}

fn authentication(out: &mut BytesMut, code: u32, write: impl FnOnce(&mut BytesMut)) {
    message(out, b'R', |out| {
        out.put_u32(code);
        write(out);
    });
}

/// Appends one message; the length is filled in when the body is known.
fn message(out: &mut BytesMut, message_type: u8, write: impl FnOnce(&mut BytesMut)) {
    out.put_u8(message_type);
    let start = out.len();
    out.put_u32(0);
    write(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a zero-terminated string, leaving out zero bytes in it.
fn put_cstring(out: &mut BytesMut, text: &str) {
    for part in text.as_bytes().split(|byte| *byte == 0) {
        out.put_slice(part);
    }
    out.put_u8(0);
}

#[cfg(test)]
mod tests;
