//! SQLSTATEs of parse errors and of the metadata store.

use lancegate_catalog::{CatalogError, EntityKind};
use lancegate_sql::{ParseError, ParseErrorKind};

use super::SqlError;
use crate::sqlstate::SqlState;

impl From<ParseError> for SqlError {
    fn from(error: ParseError) -> Self {
        let code = match error.kind {
            ParseErrorKind::Syntax | ParseErrorKind::UnknownOption | ParseErrorKind::DuplicateOption => {
                SqlState::SYNTAX_ERROR
            }
            ParseErrorKind::BadOptionValue => SqlState::INVALID_PARAMETER_VALUE,
            ParseErrorKind::NotSupported => SqlState::FEATURE_NOT_SUPPORTED,
            ParseErrorKind::LimitExceeded => SqlState::STATEMENT_TOO_COMPLEX,
        };
        Self { detail: error.detail, hint: error.hint, position: error.position, ..Self::new(code, error.message) }
    }
}

impl From<CatalogError> for SqlError {
    fn from(error: CatalogError) -> Self {
        let message = error.to_string();
        match error {
            CatalogError::NotFound { kind, name } => Self::new(missing(kind), described(kind, &name, "does not exist")),
            CatalogError::AlreadyExists { kind, name } => {
                Self::new(duplicate(kind), described(kind, &name, "already exists"))
            }
            CatalogError::NotEmpty { kind, name } => Self::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop {} {name} because other objects depend on it", word(kind)),
            )
            .hint("Use DROP ... CASCADE to drop what is in it, too."),
            CatalogError::InvalidName { .. } => Self::new(SqlState::INVALID_NAME, message),
            CatalogError::TooManyJobs { max, .. } => Self::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .detail(format!("A user may have {max} unfinished jobs."))
                .hint("Wait for some with WAIT JOB, end some with CANCEL JOB, or raise jobs.user_unfinished_max."),
            CatalogError::Gone { .. } => Self::new(SqlState::IO_ERROR, message)
                .hint("Put the file back and start the gateway again. Until then nothing is accepted."),
            CatalogError::Full { .. } => {
                Self::new(SqlState::DISK_FULL, message).hint("Free disk space and run the statement again.")
            }
            CatalogError::ReadOnly { .. } => Self::new(SqlState::IO_ERROR, message)
                .hint("Make the file and its folder writable for the gateway, and run the statement again."),
            CatalogError::Locked { .. } => Self::new(SqlState::LOCK_NOT_AVAILABLE, message)
                .hint("End whatever has it open, a backup or a SQLite shell, and run the statement again."),
            CatalogError::ChangedMeanwhile { .. } => {
                Self::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update")
                    .detail(format!("Relation {message}."))
                    .hint("Run the transaction again.")
            }
            CatalogError::Busy { .. } => Self::new(SqlState::OBJECT_IN_USE, message),
            CatalogError::IllegalTransition { .. } => Self::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message),
            CatalogError::IdempotencyConflict { .. } => Self::new(SqlState::DUPLICATE_OBJECT, message),
            CatalogError::OwnershipRevoked { .. } => {
                Self::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint("GRANT OWNERSHIP to somebody else instead.")
            }
            other => Self::from_store(other),
        }
    }
}

impl SqlError {
    fn from_store(error: CatalogError) -> Self {
        let message = error.to_string();
        match error {
            CatalogError::Io { .. } => Self::new(SqlState::IO_ERROR, message),
            CatalogError::Corrupt { .. } | CatalogError::DamagedValue { .. } => {
                Self::new(SqlState::DATA_CORRUPTED, message)
            }
            CatalogError::NewerSchema { .. } => Self::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message),
            CatalogError::Closed => Self::new(SqlState::ADMIN_SHUTDOWN, message),
            other => Self::internal(other),
        }
    }
}

fn described(kind: EntityKind, name: &str, what: &str) -> String {
    let (word, name) = match kind {
        EntityKind::Table => ("relation", name.rsplit('.').next().unwrap_or(name)),
        EntityKind::Namespace => ("schema", name.rsplit('.').next().unwrap_or(name)),
        EntityKind::User => ("role", name),
        _ => (word(kind), name),
    };
    format!("{word} \"{name}\" {what}")
}

fn word(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Job => "job",
        EntityKind::Database => "database",
        EntityKind::Namespace => "schema",
        EntityKind::Table => "table",
        EntityKind::Secret => "secret",
        EntityKind::User => "user",
        EntityKind::ApiKey => "API key",
        EntityKind::RoleBinding => "role binding",
        EntityKind::Grant => "grant",
    }
}

fn missing(kind: EntityKind) -> SqlState {
    match kind {
        EntityKind::Database => SqlState::INVALID_CATALOG_NAME,
        EntityKind::Namespace => SqlState::INVALID_SCHEMA_NAME,
        EntityKind::Table => SqlState::UNDEFINED_TABLE,
        EntityKind::Job
        | EntityKind::Secret
        | EntityKind::User
        | EntityKind::ApiKey
        | EntityKind::RoleBinding
        | EntityKind::Grant => SqlState::UNDEFINED_OBJECT,
    }
}

fn duplicate(kind: EntityKind) -> SqlState {
    match kind {
        EntityKind::Database => SqlState::DUPLICATE_DATABASE,
        EntityKind::Namespace => SqlState::DUPLICATE_SCHEMA,
        EntityKind::Table => SqlState::DUPLICATE_TABLE,
        EntityKind::Job
        | EntityKind::Secret
        | EntityKind::User
        | EntityKind::ApiKey
        | EntityKind::RoleBinding
        | EntityKind::Grant => SqlState::DUPLICATE_OBJECT,
    }
}
