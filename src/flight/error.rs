//! Errors as gRPC tells them: a code that programs decide by, and a text with all
//! that the wire has in fields of its own.

use lancegate_engine::error::SqlError;
use lancegate_engine::session::{CancelReason, StatementContext};
use lancegate_engine::sqlstate::SqlState;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The result of a call.
pub(super) type Result<T, E = Status> = std::result::Result<T, E>;

/// The trailer that has the SQLSTATE alone.
const STATE: &str = "lancegate-sqlstate";
/// The message travels in a header, and clients bound what those may have.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Returns an error of SQL with its DETAIL and HINT.
pub(super) fn status(error: &SqlError) -> Status {
    with_code(code_of(error.code), error)
}

/// Returns the error of a statement, which says whether a deadline has ended it.
pub(super) fn ended(ctx: &StatementContext, error: &SqlError) -> Status {
    match ctx.reason.get() {
        Some(CancelReason::StatementTimeout(_)) if error.code == SqlState::QUERY_CANCELED => {
            with_code(Code::DeadlineExceeded, error)
        }
        _ => status(error),
    }
}

/// Returns the error of a call that makes no sense.
pub(super) fn invalid(message: impl Into<String>) -> Status {
    status(&SqlError::new(SqlState::PROTOCOL_VIOLATION, message))
}

/// Returns the error of a call that is not served.
pub(super) fn unsupported(message: impl Into<String>) -> Status {
    status(&SqlError::not_supported(message))
}

/// Returns an error that must not happen; its cause goes to the log only.
pub(super) fn internal(cause: impl std::fmt::Display) -> Status {
    status(&SqlError::internal(cause))
}

fn with_code(code: Code, error: &SqlError) -> Status {
    let mut text = error.to_string();
    if let Some(position) = error.position {
        text.push_str(&format!("\nPOSITION:  {position}"));
    }
    for (label, more) in [("DETAIL", &error.detail), ("HINT", &error.hint), ("CONTEXT", &error.context)] {
        if let Some(more) = more {
            text.push_str(&format!("\n{label}:  {more}"));
        }
    }
    if text.len() > MESSAGE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        text.push('…');
    }
    let mut metadata = MetadataMap::new();
    if let Ok(state) = MetadataValue::try_from(error.code.as_str()) {
        metadata.insert(STATE, state);
    }
    Status::with_metadata(code, text, metadata)
}

/// Returns how a SQLSTATE is told: by itself, else by its class (PostgreSQL
/// documentation, Appendix A).
fn code_of(state: SqlState) -> Code {
    match state {
        SqlState::UNDEFINED_TABLE
        | SqlState::UNDEFINED_OBJECT
        | SqlState::INVALID_SCHEMA_NAME
        | SqlState::INVALID_CATALOG_NAME => Code::NotFound,
        SqlState::DUPLICATE_TABLE
        | SqlState::DUPLICATE_OBJECT
        | SqlState::DUPLICATE_SCHEMA
        | SqlState::DUPLICATE_DATABASE => Code::AlreadyExists,
        SqlState::INSUFFICIENT_PRIVILEGE => Code::PermissionDenied,
        SqlState::FEATURE_NOT_SUPPORTED => Code::Unimplemented,
        SqlState::SERIALIZATION_FAILURE => Code::Aborted,
        SqlState::QUERY_CANCELED => Code::Cancelled,
        SqlState::PROTOCOL_VIOLATION => Code::InvalidArgument,
        state => match &state.as_str()[..2] {
            "28" => Code::Unauthenticated,
            // Memory, disk and limits: the same call may pass later.
            "53" => Code::ResourceExhausted,
            "08" | "57" => Code::Unavailable,
            "25" | "2B" | "55" => Code::FailedPrecondition,
            "58" | "XX" => Code::Internal,
            _ => Code::InvalidArgument,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_class_of_a_state_decides_where_no_rule_is_more_exact() {
        let told = |code: &str| code_of(SqlState::parse(code));
        let given = ["42P01", "42601", "42501", "53200", "57P01", "57014", "28P01", "40001", "XX000", "0A000", "55006"];
        let expected = [
            Code::NotFound,
            Code::InvalidArgument,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::Unavailable,
            Code::Cancelled,
            Code::Unauthenticated,
            Code::Aborted,
            Code::Internal,
            Code::Unimplemented,
            Code::FailedPrecondition,
        ];
        assert_eq!(given.map(told), expected);
    }

    #[test]
    fn a_message_has_all_fields_and_an_end() {
        let error =
            SqlError::new(SqlState::UNDEFINED_TABLE, "relation \"t\" does not exist").hint("Make it.").at(Some(15));
        let told = status(&error);
        assert_eq!(told.message(), "relation \"t\" does not exist (42P01)\nPOSITION:  15\nHINT:  Make it.");
        assert_eq!(told.metadata().get(STATE).unwrap(), "42P01");
        let long = status(&SqlError::internal("x").detail("ä".repeat(MESSAGE_BYTES_MAX)));
        assert!(long.message().len() <= MESSAGE_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn a_statement_that_took_too_long_is_told_apart_from_one_that_was_cancelled() {
        let ctx = StatementContext::new();
        ctx.cancel(CancelReason::StatementTimeout(Duration::from_secs(1)));
        assert_eq!(ended(&ctx, &ctx.error()).code(), Code::DeadlineExceeded);
        let ctx = StatementContext::new();
        ctx.cancel(CancelReason::User);
        assert_eq!(ended(&ctx, &ctx.error()).code(), Code::Cancelled);
    }
}
