//! SQLSTATEs of what binding and running a query reports.
//!
//! DataFusion wraps errors in context, shares them between partitions and says
//! many things in words only; the words that clients act on are recognised here.

use std::io;

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

use super::SqlError;
use super::input;
use super::position;
use crate::sqlstate::SqlState;
use crate::storage::StorageError;

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        from_ref(&error)
    }
}

impl From<ArrowError> for SqlError {
    fn from(error: ArrowError) -> Self {
        arrow(&error)
    }
}

/// Maps an error of the binder and points at the place in `text` it is about.
pub fn in_text(error: &DataFusionError, text: &str) -> SqlError {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let position = span.and_then(|span| {
        let start = span.start;
        position::of(text, start.line, start.column)
    });
    let mapped = from_ref(error);
    if mapped.position.is_some() { mapped } else { mapped.at(position) }
}

fn from_ref(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_ref(inner),
        DataFusionError::Shared(inner) => from_ref(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => from_ref(first),
            None => SqlError::internal("an empty collection of errors"),
        },
        DataFusionError::ArrowError(error, _) => arrow(error),
        DataFusionError::SchemaError(error, _) => schema(error),
        DataFusionError::ParquetError(error) => SqlError::new(SqlState::IO_ERROR, lower(&error.to_string())),
        DataFusionError::ObjectStore(error) => SqlError::new(SqlState::IO_ERROR, lower(&error.to_string())),
        DataFusionError::IoError(error) => io_error(error),
        DataFusionError::SQL(error, _) => SqlError::new(SqlState::SYNTAX_ERROR, lower(&parser_message(error))),
        DataFusionError::NotImplemented(message) => not_implemented(message),
        DataFusionError::Plan(message) => plan(message),
        DataFusionError::Configuration(message) => SqlError::new(SqlState::INVALID_PARAMETER_VALUE, lower(message)),
        DataFusionError::Execution(message) => execution(message),
        DataFusionError::ExecutionJoin(error) => SqlError::internal(error),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::External(error) => external(error.as_ref()),
        DataFusionError::Internal(message) => internal(message),
        DataFusionError::Substrait(message) | DataFusionError::Ffi(message) => SqlError::internal(message),
    }
}

fn not_implemented(message: &str) -> SqlError {
    if message.starts_with("Physical plan does not support logical expression")
        && ["OuterReferenceColumn", "ScalarSubquery", "InSubquery", "Exists", "SetComparison"]
            .iter()
            .any(|kind| message.contains(kind))
    {
        return SqlError::not_supported("this subquery is not supported where it stands")
            .hint("Join with a query in FROM instead.");
    }

    let number = message.starts_with("Decimal ")
        && (message.contains("supported scale") || message.contains("supported precision"));
    let unknown_type = message.strip_prefix("Unsupported SQL type ").filter(|name| {
        // A name that is no keyword of the parser; the others are types that there are, but not here.
        name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.'))
    });
    match (number, unknown_type) {
        (true, _) => SqlError::not_supported("numbers of more than 76 digits are not supported"),
        (false, Some(name)) => SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist")),
        (false, None) => SqlError::not_supported(lower(message)),
    }
}

fn external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> SqlError {
    if let Some(error) = error.downcast_ref::<SqlError>() {
        return error.clone();
    }
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return from_ref(error);
    }
    if let Some(error) = error.downcast_ref::<lance::Error>() {
        return lance_error(error);
    }
    if let Some(StorageError::Lance(error)) = error.downcast_ref::<StorageError>() {
        return lance_error(error);
    }
    if let Some(error) = error.downcast_ref::<ArrowError>() {
        return arrow(error);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return io_error(error);
    }
    let message = error.to_string();
    by_words(&message).unwrap_or_else(|| SqlError::internal(message))
}

/// Maps what Lance reports. An error of a query inside it speaks for itself.
pub(super) fn lance_error(error: &lance::Error) -> SqlError {
    use std::error::Error;
    // It shows what it wraps as itself, so that is not among its causes.
    if let lance::Error::External { source } = error {
        return external(source.as_ref());
    }
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<SqlError>() {
            return error.clone();
        }
        if let Some(error) = inner.downcast_ref::<DataFusionError>() {
            return from_ref(error);
        }
        cause = inner.source();
    }
    by_words(&error.to_string()).unwrap_or_else(|| super::refresh::lance(error))
}

fn schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let missing = match &field.relation {
                Some(relation) => format!("column {}.{} does not exist", relation.table(), field.name),
                None => format!("column \"{}\" does not exist", field.name),
            };
            let near = valid_fields.iter().find(|valid| near(&valid.name, &field.name));
            let mapped = SqlError::new(SqlState::UNDEFINED_COLUMN, missing);
            match near {
                Some(near) => {
                    let qualified = match &near.relation {
                        Some(relation) => format!("{}.{}", relation.table(), near.name),
                        None => near.name.clone(),
                    };
                    mapped.hint(format!("Perhaps you meant to reference the column \"{qualified}\"."))
                }
                None => mapped,
            }
        }
        SchemaError::AmbiguousReference { field } => {
            SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{}\" is ambiguous", field.name))
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once"))
        }
    }
}

/// Names that differ in case or by one letter are worth a hint.
fn near(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    if one == other {
        return true;
    }
    if one.len().abs_diff(other.len()) > 1 || one.len() < 3 {
        return false;
    }
    let prefix = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let suffix = one.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    prefix + suffix + 1 >= one.len().max(other.len())
}

fn plan(message: &str) -> SqlError {
    if let Some(mapped) = by_words(message) {
        return mapped;
    }
    let code = match message {
        text if text.contains("must appear in the GROUP BY clause") || text.contains("must be part of GROUP BY") => {
            SqlState::GROUPING_ERROR
        }
        text if text.contains("Cannot infer common argument type")
            || text.contains("cannot be coerced")
            || text.contains("type_coercion")
            || text.contains("Cannot coerce") =>
        {
            SqlState::DATATYPE_MISMATCH
        }
        text if text.contains("must have the same number of columns") || text.contains("Column count") => {
            SqlState::SYNTAX_ERROR
        }
        text if text.contains("recursion limit") => SqlState::STATEMENT_TOO_COMPLEX,
        _ => SqlState::SYNTAX_ERROR,
    };
    SqlError::new(code, lower(message))
}

fn execution(message: &str) -> SqlError {
    by_words(message).unwrap_or_else(|| SqlError::new(SqlState::DATA_EXCEPTION, lower(message)))
}

fn internal(message: &str) -> SqlError {
    by_words(message).unwrap_or_else(|| SqlError::internal(message))
}

/// Recognises what is reported in words only.
fn by_words(message: &str) -> Option<SqlError> {
    let mapped = |code, text: String| Some(SqlError::new(code, text));
    if message.contains("Divide by zero") || message.contains("DivideByZero") {
        return mapped(SqlState::DIVISION_BY_ZERO, "division by zero".to_owned());
    }
    if let Some(rest) = message.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or_default();
        return Some(SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist")).hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ));
    }
    if let Some(rest) = message.strip_prefix("table function '") {
        let name = rest.split('\'').next().unwrap_or_default();
        return mapped(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"));
    }
    if let Some(rest) = message.strip_prefix("table '") {
        let name = rest.split('\'').next().unwrap_or_default();
        return mapped(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"));
    }
    if message.starts_with("function sum") && message.ends_with("does not exist")
        || message.contains("No function matches the given name and argument types")
        || message.contains("Function '") && message.contains("expects")
        || message.contains("does not support") && message.contains("function")
    {
        return mapped(SqlState::UNDEFINED_FUNCTION, lower(first_line(message)));
    }
    if message.contains("Arithmetic overflow")
        || message.contains("Overflow happened")
        || message.contains("overflow on")
    {
        return Some(overflow(message));
    }
    if let Some(error) = input::not_a_value(message).or_else(|| input::not_an_argument(message)) {
        return Some(error);
    }
    if message.contains("Cannot cast string")
        || message.contains("Error parsing timestamp")
        || message.contains("Cannot parse")
    {
        return mapped(SqlState::INVALID_TEXT_REPRESENTATION, lower(message));
    }
    if let Some((_, narrow)) =
        message.split_once("Can't cast value ").and_then(|(_, rest)| rest.split_once(" to type "))
    {
        return match integer_name(first_part(narrow)) {
            Some(name) => Some(out_of_range(name)),
            None => mapped(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, lower(message)),
        };
    }
    if message.contains("out of range") {
        return mapped(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, lower(message));
    }
    if message.contains("No space left on device") {
        return Some(
            SqlError::new(SqlState::DISK_FULL, "could not write: no space left on device")
                .hint("Free disk space and run the statement again."),
        );
    }
    if message.contains("is declared as non-nullable but contains null values") {
        // VALUES has the columns of the target, under names of its own.
        return mapped(SqlState::NOT_NULL_VIOLATION, "null value violates not-null constraint".to_owned());
    }
    if message.starts_with("Aggregate functions are not allowed in the WHERE clause") {
        return mapped(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in WHERE".to_owned());
    }
    if let Some((_, said)) = message.split_once("regex parse error:") {
        let why = said.rsplit("error: ").next().unwrap_or_default().lines().next().unwrap_or_default().trim();
        if why.contains("look-around") || why.contains("backreferences") {
            let text = "look-around and back references in regular expressions are not supported".to_owned();
            return mapped(SqlState::FEATURE_NOT_SUPPORTED, text);
        }
        return mapped(SqlState::INVALID_REGULAR_EXPRESSION, format!("invalid regular expression: {why}"));
    }
    if message.contains("egular expression did not compile") {
        let why = if message.contains("CompiledTooBig") { "it is too large" } else { "its syntax is wrong" };
        let text = format!("invalid regular expression: {why}");
        return mapped(SqlState::INVALID_REGULAR_EXPRESSION, text);
    }
    if message.starts_with("LIMIT must be >= 0") {
        return mapped(SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, "LIMIT must not be negative".to_owned());
    }
    if let Some(rest) = message.strip_prefix("Order by column out of bounds, specified: ") {
        let position = rest.split(',').next().unwrap_or_default();
        let text = format!("ORDER BY position {position} is not in select list");
        return mapped(SqlState::INVALID_COLUMN_REFERENCE, text);
    }
    if message.contains("more than one row") || message.contains("returned more than 1 row") {
        return mapped(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression".to_owned(),
        );
    }
    None
}

fn arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => overflow(message),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            by_words(message).unwrap_or_else(|| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, lower(message)))
        }
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => {
            by_words(message).unwrap_or_else(|| SqlError::new(SqlState::DATA_EXCEPTION, lower(message)))
        }
        ArrowError::ExternalError(error) => external(error.as_ref()),
        ArrowError::IoError(_, error) => io_error(error),
        ArrowError::NotYetImplemented(message) => SqlError::not_supported(lower(message)),
        ArrowError::MemoryError(message) => SqlError::new(SqlState::OUT_OF_MEMORY, lower(message)),
        other => {
            let message = other.to_string();
            by_words(&message).unwrap_or_else(|| SqlError::internal(message))
        }
    }
}

/// Names the type of an operation that Arrow reports with its operands, as in
/// `Overflow happened on: 9223372036854775807 + 1`; Lance adds a comma and a
/// place in its source. What overflows in a narrow type fits the next one, so
/// the exact result tells the type.
fn overflow(message: &str) -> SqlError {
    let result = message.rsplit_once("Overflow happened on: ").and_then(|(_, operation)| exact(first_part(operation)));
    match result {
        Some(result) if i32::try_from(result).is_ok() => out_of_range("smallint"),
        Some(result) if i64::try_from(result).is_ok() => out_of_range("integer"),
        Some(_) => out_of_range("bigint"),
        None => out_of_range("value"),
    }
}

/// Computes `<integer> <operator> <integer>` without bounds that matter here.
fn exact(operation: &str) -> Option<i128> {
    let mut words = operation.split_whitespace();
    let (left, op, right) = (words.next()?, words.next()?, words.next()?);
    let (left, right): (i128, i128) = (left.parse().ok()?, right.parse().ok()?);
    match (op, words.next()) {
        ("+", None) => left.checked_add(right),
        ("-", None) => left.checked_sub(right),
        ("*", None) => left.checked_mul(right),
        ("/", None) => left.checked_div(right),
        _ => None,
    }
}

fn first_part(text: &str) -> &str {
    text.split(',').next().unwrap_or_default().trim()
}

fn integer_name(arrow: &str) -> Option<&'static str> {
    match arrow {
        "Int16" => Some("smallint"),
        "Int32" => Some("integer"),
        "Int64" => Some("bigint"),
        _ => None,
    }
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

fn io_error(error: &io::Error) -> SqlError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SqlError::new(SqlState::DISK_FULL, "could not write: no space left on device")
                .hint("Free disk space and run the statement again.")
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            SqlError::new(SqlState::DATA_CORRUPTED, lower(&error.to_string()))
        }
        _ => SqlError::new(SqlState::IO_ERROR, lower(&error.to_string())),
    }
}

fn exhausted(message: &str) -> SqlError {
    if message.contains("disk") || message.contains("temp") {
        return SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, "the query spills more than is allowed")
            .detail(first_line(message))
            .hint("Raise the limit on spilling, or let the query sort and group less.");
    }
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
        .detail(first_line(message))
        .hint("Raise the memory limit of queries, or let the query sort and group less.")
}

fn parser_message(error: &datafusion::sql::sqlparser::parser::ParserError) -> String {
    use datafusion::sql::sqlparser::parser::ParserError;
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message.clone(),
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    }
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// PostgreSQL begins messages in lower case; names keep theirs.
fn lower(message: &str) -> String {
    let message = first_line(message).trim_end_matches('.');
    let mut chars = message.chars();
    let Some(first) = chars.next() else { return String::new() };
    let second_is_lower = chars.clone().next().is_some_and(|second| second.is_lowercase() || second == ' ');
    if first.is_uppercase() && second_is_lower {
        first.to_lowercase().chain(chars).collect()
    } else {
        message.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_errors_are_mapped_by_their_cause() {
        let divide = || DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        let cases = [
            divide(),
            DataFusionError::Context("while".into(), Box::new(divide())),
            DataFusionError::Shared(std::sync::Arc::new(divide())),
            DataFusionError::External(Box::new(divide())),
        ];
        for error in cases {
            assert_eq!(SqlError::from(error).code, SqlState::DIVISION_BY_ZERO);
        }
    }

    #[test]
    fn what_is_told_in_words_has_the_code_of_postgresql() {
        let cases = [
            ("Column 'column1' is declared as non-nullable but contains null values", "23502"),
            ("Aggregate functions are not allowed in the WHERE clause. Consider using HAVING instead", "42803"),
            ("LIMIT must be >= 0, '-1' was provided", "2201W"),
            ("Regular expression did not compile: CompiledTooBig(10485760)", "2201B"),
            ("Order by column out of bounds, specified: 5, max: 1", "42P10"),
        ];
        for (message, code) in cases {
            let error = SqlError::from(DataFusionError::Plan(message.to_owned()));
            assert_eq!(error.code.as_str(), code, "{message}");
        }
        let error = SqlError::from(DataFusionError::NotImplemented("Unsupported SQL type nothing".to_owned()));
        assert_eq!((error.code.as_str(), error.message.as_str()), ("42704", "type \"nothing\" does not exist"));
    }

    #[test]
    fn an_error_of_ours_passes_through_as_it_is() {
        let own = SqlError::canceled("user request");
        assert_eq!(SqlError::from(DataFusionError::External(Box::new(own.clone()))), own);
    }

    #[test]
    fn an_overflow_names_the_type_that_its_operands_had() {
        let cases = [
            ("9223372036854775807 + 1", "bigint out of range"),
            ("-9223372036854775808 / -1, /src/utils.rs:51:31", "bigint out of range"),
            ("2147483647 * 2147483647", "integer out of range"),
            ("-32768 - 1", "smallint out of range"),
            ("what", "value out of range"),
        ];
        for (operation, expected) in cases {
            let error = ArrowError::ArithmeticOverflow(format!("Overflow happened on: {operation}"));
            assert_eq!(SqlError::from(error).message, expected, "{operation}");
        }
    }

    #[test]
    fn hints_are_given_for_near_names() {
        for (one, other, expected) in [("body", "bodi", true), ("body", "BODY", true), ("body", "title", false)] {
            assert_eq!(near(one, other), expected, "{one} {other}");
        }
    }
}
