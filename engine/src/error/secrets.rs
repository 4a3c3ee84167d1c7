//! SQLSTATEs of secrets.

use super::SqlError;
use crate::secrets::{SealError, SecretError, VALUE_BYTES_MAX};
use crate::sqlstate::SqlState;

impl From<SecretError> for SqlError {
    fn from(error: SecretError) -> Self {
        let message = error.to_string();
        match error {
            SecretError::NotFound(_) => Self::new(SqlState::UNDEFINED_OBJECT, message),
            SecretError::Denied(name) => Self::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                .detail(format!("It takes USAGE on secret {}.", name.name)),
            SecretError::TooLong(_) => Self::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .detail(format!("A value has at most {VALUE_BYTES_MAX} bytes.")),
            SecretError::Nul(_) => Self::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message),
            SecretError::Contended(_) => {
                Self::new(SqlState::SERIALIZATION_FAILURE, message).hint("Run the statement again.")
            }
            SecretError::Seal { name, source } => sealed(&name.name, source),
            SecretError::Catalog(source) => Self::from(source),
        }
    }
}

fn sealed(name: &str, error: SealError) -> SqlError {
    let cannot = |code| SqlError::new(code, format!("secret \"{name}\" cannot be opened"));
    let reason = format!("The reason is that {error}.");
    match error {
        SealError::UnknownKey { .. } => cannot(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE).detail(reason).hint(
            "Add the key to the file of secrets.key_file and restart, or give the secret a value with ALTER SECRET.",
        ),
        SealError::Tampered => {
            cannot(SqlState::DATA_CORRUPTED).detail(reason).hint("Give the secret a value with ALTER SECRET.")
        }
        SealError::NewerForm => cannot(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE).detail(reason),
        SealError::Entropy(source) => SqlError::internal(source),
    }
}
