//! SQLSTATEs of storage and refresh errors.

use lancegate_functions::ExecutorError;

use super::SqlError;
use crate::refresh::RefreshError;
use crate::refresh::expression::ExpressionError;
use crate::sqlstate::SqlState;
use crate::storage::StorageError;

impl From<StorageError> for SqlError {
    fn from(error: StorageError) -> Self {
        let message = error.to_string();
        match error {
            StorageError::NotFound { .. } => Self::new(SqlState::UNDEFINED_TABLE, message),
            StorageError::Damaged { .. } => Self::new(SqlState::DATA_CORRUPTED, message)
                .hint("Restore the table's folder from a backup, or drop it."),
            StorageError::Scheme { .. } => Self::not_supported(message).hint("Use a folder or an s3:// URI."),
            StorageError::NoColumn { .. } => Self::new(SqlState::UNDEFINED_COLUMN, message),
            StorageError::Cycle { .. } => Self::new(SqlState::INVALID_OBJECT_DEFINITION, message)
                .hint("Drop one of the columns that read each other."),
            StorageError::Conflict(_) => {
                Self::new(SqlState::SERIALIZATION_FAILURE, message).hint("Run the statement again.")
            }
            StorageError::Unsupported { .. } => {
                Self::not_supported(message).hint("The table was declared by newer or other software.")
            }
            StorageError::Lance(error) => super::query::lance_error(&error),
            StorageError::Io { source, .. } => Self::new(io_code(&source), message),
        }
    }
}

/// What Lance's messages begin with; the SQLSTATE says as much.
const PREFIXES: [&str; 4] = ["LanceError(Schema): ", "LanceError(IO): ", "LanceError(Arrow): ", "Invalid user input: "];

/// Maps what Lance reports. Messages of Lance end in the source location that
/// raised them, which is of no use to a client and stays in the log.
pub(super) fn lance(error: &lance::Error) -> SqlError {
    use lance::Error;
    let full = error.to_string();
    tracing::debug!(%full, "storage error");
    let said = full.split(", /").next().unwrap_or(&full).trim_end_matches('.');
    let message = PREFIXES.iter().find_map(|prefix| said.strip_prefix(prefix)).unwrap_or(said).to_owned();
    if full.contains("No space left on device") || full.contains("os error 28") {
        return SqlError::new(SqlState::DISK_FULL, "could not write: no space left on device")
            .hint("Free disk space and run the statement again.");
    }
    if let Some(missing) = said.split("Not found: ").nth(1).and_then(missing_file) {
        return SqlError::new(SqlState::DATA_CORRUPTED, missing);
    }
    if let Some(name) = full.split("Invalid function '").nth(1).and_then(|rest| rest.split('\'').next()) {
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"));
    }
    let code = match error {
        Error::InvalidInput { .. } | Error::Schema { .. } | Error::SchemaMismatch { .. } => {
            SqlState::INVALID_PARAMETER_VALUE
        }
        Error::DatasetAlreadyExists { .. } => SqlState::DUPLICATE_TABLE,
        Error::DatasetNotFound { .. } => SqlState::UNDEFINED_TABLE,
        Error::NotSupported { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        Error::CorruptFile { .. } => SqlState::DATA_CORRUPTED,
        Error::CommitConflict { .. }
        | Error::IncompatibleTransaction { .. }
        | Error::RetryableCommitConflict { .. }
        | Error::TooMuchWriteContention { .. } => SqlState::SERIALIZATION_FAILURE,
        Error::NotFound { .. } | Error::IO { .. } => SqlState::IO_ERROR,
        Error::Arrow { .. } => SqlState::DATA_EXCEPTION,
        _ => SqlState::INTERNAL_ERROR,
    };
    let code = if code == SqlState::IO_ERROR && crate::storage::looks_damaged(&full.to_ascii_lowercase()) {
        SqlState::DATA_CORRUPTED
    } else {
        code
    };
    SqlError::new(code, message)
}

/// Says which file of which table is missing, without where the data are; nothing for what is no file of a table.
fn missing_file(path: &str) -> Option<String> {
    let (folder, file) = path.trim().rsplit_once(".lance/")?;
    let table = folder.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(format!("file \"{file}\" of table folder \"{table}.lance\" is missing"))
}

fn io_code(error: &std::io::Error) -> SqlState {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::InvalidData => SqlState::DATA_CORRUPTED,
        _ => SqlState::IO_ERROR,
    }
}

impl From<ExpressionError> for SqlError {
    fn from(error: ExpressionError) -> Self {
        match error {
            ExpressionError::Invalid(error) => Self::from(error),
            ExpressionError::NotImmutable(_) => {
                Self::new(SqlState::INVALID_OBJECT_DEFINITION, "generation expression is not immutable")
                    .detail(format!("{}.", capitalized(&error.to_string())))
                    .hint("A computed value must depend on the row's own values only.")
            }
            ExpressionError::NotBoolean(_) => Self::new(SqlState::DATATYPE_MISMATCH, error.to_string()),
            ExpressionError::NotScalar(_) => Self::new(SqlState::FEATURE_NOT_SUPPORTED, error.to_string()),
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

impl From<RefreshError> for SqlError {
    fn from(error: RefreshError) -> Self {
        let name = error.error_name();
        let message = error.to_string();
        let mapped = match error {
            RefreshError::Expression { source, .. } => Self { message, ..Self::from(source) },
            RefreshError::Predicate(source) => Self::from(source),
            RefreshError::Evaluate(source) => Self::from(source),
            RefreshError::Function { error, .. } => function(message, &error),
            RefreshError::InputNotRefreshed { input, rows, fragment } => {
                Self::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                    .detail(format!("{rows} rows of fragment {fragment} hold no current value of \"{input}\"."))
                    .hint(format!("Refresh \"{input}\" first."))
            }
            RefreshError::ConcurrentWrite { .. } => {
                Self::new(SqlState::SERIALIZATION_FAILURE, message).hint("Refresh again when the writes have settled.")
            }
            RefreshError::Canceled => Self::canceled("user request"),
            RefreshError::LeaseLost | RefreshError::Worker(_) | RefreshError::Registry(_) => {
                Self::new(SqlState::INTERNAL_ERROR, message)
            }
            RefreshError::Storage(source) => Self::from(source),
        };
        mapped.named(name)
    }
}

fn function(message: String, error: &ExecutorError) -> SqlError {
    let failed = |message| SqlError::new(SqlState::EXTERNAL_ROUTINE_EXCEPTION, message);
    match error {
        ExecutorError::Row { .. } => {
            failed(message).hint("Fix the Function or the row, or refresh WITH (error_policy = 'skip').")
        }
        ExecutorError::Limit(_) => failed(message).hint("SHOW ERRORS lists rows of the published fragments."),
        ExecutorError::Initialization { output, .. } | ExecutorError::Lost { output, .. }
            if output.trim().is_empty() =>
        {
            failed(message)
        }
        ExecutorError::Initialization { output, .. } | ExecutorError::Lost { output, .. } => {
            failed(message).detail(format!("It printed: {}", output.trim()))
        }
        ExecutorError::Contract(_) => SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION_EXCEPTION, message),
    }
}
