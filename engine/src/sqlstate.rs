//! SQLSTATE codes in use (PostgreSQL documentation, Appendix A).

use std::fmt;

/// A five-character SQLSTATE code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    const fn code(text: &str) -> Self {
        let bytes = text.as_bytes();
        assert!(bytes.len() == 5);
        Self([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]])
    }

    /// Returns the five characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("codes are ASCII literals or checked on the way in")
    }

    /// Returns the code spelled by `text`, or XX000 if it is not five ASCII
    /// letters or digits.
    pub fn parse(text: &str) -> Self {
        match text.as_bytes() {
            [a, b, c, d, e] if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Self([*a, *b, *c, *d, *e]),
            _ => Self::INTERNAL_ERROR,
        }
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! codes {
    ($($name:ident $code:literal),* $(,)?) => {
        impl SqlState {
            $(#[doc = concat!("`", $code, "`")] pub const $name: Self = Self::code($code);)*
        }
    };
}

codes! {
    SUCCESSFUL_COMPLETION "00000",
    WARNING "01000",
    NO_DATA "02000",
    FEATURE_NOT_SUPPORTED "0A000",
    CONNECTION_FAILURE "08006",
    PROTOCOL_VIOLATION "08P01",
    CARDINALITY_VIOLATION "21000",
    DATA_EXCEPTION "22000",
    STRING_DATA_RIGHT_TRUNCATION "22001",
    NUMERIC_VALUE_OUT_OF_RANGE "22003",
    NULL_VALUE_NOT_ALLOWED "22004",
    INVALID_ESCAPE_SEQUENCE "22025",
    INVALID_DATETIME_FORMAT "22007",
    DATETIME_FIELD_OVERFLOW "22008",
    DIVISION_BY_ZERO "22012",
    CHARACTER_NOT_IN_REPERTOIRE "22021",
    INVALID_PARAMETER_VALUE "22023",
    INVALID_ROW_COUNT_IN_LIMIT_CLAUSE "2201W",
    INVALID_TEXT_REPRESENTATION "22P02",
    INVALID_BINARY_REPRESENTATION "22P03",
    BAD_COPY_FILE_FORMAT "22P04",
    NOT_NULL_VIOLATION "23502",
    INVALID_CURSOR_STATE "24000",
    INVALID_TRANSACTION_STATE "25000",
    ACTIVE_SQL_TRANSACTION "25001",
    READ_ONLY_SQL_TRANSACTION "25006",
    NO_ACTIVE_SQL_TRANSACTION "25P01",
    IN_FAILED_SQL_TRANSACTION "25P02",
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT "25P03",
    INVALID_SQL_STATEMENT_NAME "26000",
    INVALID_AUTHORIZATION_SPECIFICATION "28000",
    INVALID_PASSWORD "28P01",
    DEPENDENT_OBJECTS_STILL_EXIST "2BP01",
    INVALID_CURSOR_NAME "34000",
    EXTERNAL_ROUTINE_EXCEPTION "38000",
    EXTERNAL_ROUTINE_INVOCATION_EXCEPTION "39000",
    INVALID_CATALOG_NAME "3D000",
    INVALID_SCHEMA_NAME "3F000",
    SERIALIZATION_FAILURE "40001",
    GENERATED_ALWAYS "428C9",
    INSUFFICIENT_PRIVILEGE "42501",
    SYNTAX_ERROR "42601",
    INVALID_NAME "42602",
    NAME_TOO_LONG "42622",
    RESERVED_NAME "42939",
    INVALID_COLUMN_DEFINITION "42611",
    DUPLICATE_COLUMN "42701",
    INVALID_COLUMN_REFERENCE "42P10",
    AMBIGUOUS_COLUMN "42702",
    UNDEFINED_COLUMN "42703",
    UNDEFINED_OBJECT "42704",
    DUPLICATE_OBJECT "42710",
    GROUPING_ERROR "42803",
    WINDOWING_ERROR "42P20",
    DATATYPE_MISMATCH "42804",
    WRONG_OBJECT_TYPE "42809",
    DUPLICATE_FUNCTION "42723",
    AMBIGUOUS_OBJECT "42725",
    UNDEFINED_FUNCTION "42883",
    UNDEFINED_TABLE "42P01",
    UNDEFINED_PARAMETER "42P02",
    DUPLICATE_CURSOR "42P03",
    DUPLICATE_DATABASE "42P04",
    DUPLICATE_PREPARED_STATEMENT "42P05",
    DUPLICATE_SCHEMA "42P06",
    DUPLICATE_TABLE "42P07",
    INVALID_FUNCTION_DEFINITION "42P13",
    INVALID_TABLE_DEFINITION "42P16",
    INVALID_OBJECT_DEFINITION "42P17",
    INDETERMINATE_DATATYPE "42P18",
    DISK_FULL "53100",
    OUT_OF_MEMORY "53200",
    TOO_MANY_CONNECTIONS "53300",
    CONFIGURATION_LIMIT_EXCEEDED "53400",
    PROGRAM_LIMIT_EXCEEDED "54000",
    STATEMENT_TOO_COMPLEX "54001",
    OBJECT_NOT_IN_PREREQUISITE_STATE "55000",
    OBJECT_IN_USE "55006",
    CANT_CHANGE_RUNTIME_PARAM "55P02",
    LOCK_NOT_AVAILABLE "55P03",
    QUERY_CANCELED "57014",
    ADMIN_SHUTDOWN "57P01",
    CANNOT_CONNECT_NOW "57P03",
    IDLE_SESSION_TIMEOUT "57P05",
    IO_ERROR "58030",
    INTERNAL_ERROR "XX000",
    DATA_CORRUPTED "XX001",
}
