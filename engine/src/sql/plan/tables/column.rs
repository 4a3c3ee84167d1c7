//! One column of a CREATE TABLE: its type and what is said of it.

use arrow::datatypes::{DataType, Field};
use lancegate_sql::Ident;
use sqlparser::ast::{
    ColumnDef, ColumnOption, DataType as SqlType, Expr, GeneratedAs, SequenceOptions, UnaryOperator, Value,
};

use crate::error::{Result, SqlError};
use crate::sql::types;
use crate::sqlstate::SqlState;
use crate::storage::defaults::{self, Numbering};

/// A column that is declared.
pub(in crate::sql::plan) struct Column {
    pub(in crate::sql::plan) field: Field,
    /// The expression of a generated column.
    pub(super) generated: Option<String>,
    /// Whether it is the primary key.
    pub(super) is_key: bool,
    /// What the key is called, if that is said.
    pub(super) key_name: Option<String>,
    /// What its numbers begin with, unless with 1.
    pub(super) start: Option<i64>,
}

/// Returns a column as it is declared.
///
/// # Errors
/// 42704 for a type that does not exist, 42601 for several defaults, 0A000 for a
/// constraint that is not kept.
pub(in crate::sql::plan) fn of(column: &ColumnDef) -> Result<Column> {
    let name = Ident::from_native(&column.name).into_string();
    let serial = serial(&column.data_type);
    let field = match &serial {
        Some(data_type) => Field::new(&name, data_type.clone(), false),
        None => types::field(&name, &column.data_type, true)?,
    };
    let mut declared = Declared { numbering: serial.map(|_| Numbering::Serial), ..Declared::default() };
    for option in &column.options {
        declared.take(&name, &option.option)?;
        if matches!(option.option, ColumnOption::PrimaryKey(_)) {
            declared.key_name = option.name.as_ref().map(|name| Ident::from_native(name).into_string());
        }
    }
    let mut field = field.with_nullable(declared.nullable.unwrap_or(true));
    if let Some(text) = &declared.default {
        let mut metadata = field.metadata().clone();
        metadata.extend([defaults::default_entry(text)]);
        field = field.with_metadata(metadata);
    }
    if let Some(numbering) = declared.numbering {
        if defaults::number_max(field.data_type()).is_none() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if declared.default.is_some() || declared.generated.is_some() {
            let message = format!("multiple default values specified for column \"{name}\"");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        field = defaults::numbered(field, numbering);
    }
    let Declared { generated, is_key, key_name, start, .. } = declared;
    Ok(Column { field, generated, is_key, key_name, start })
}

#[derive(Default)]
struct Declared {
    nullable: Option<bool>,
    default: Option<String>,
    generated: Option<String>,
    numbering: Option<Numbering>,
    start: Option<i64>,
    is_key: bool,
    key_name: Option<String>,
}

impl Declared {
    fn take(&mut self, name: &str, option: &ColumnOption) -> Result<()> {
        match option {
            ColumnOption::NotNull => self.nullable = Some(false),
            ColumnOption::Null => self.nullable = Some(true),
            ColumnOption::Comment(_) => {}
            ColumnOption::PrimaryKey(_) => self.is_key = true,
            ColumnOption::Default(value) if self.default.is_some() => {
                let message = format!("multiple default values specified for column \"{name}\": {value}");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            // No default is a default of NULL.
            ColumnOption::Default(value) if is_null(value) => {}
            ColumnOption::Default(value) => self.default = Some(default_text(value)?),
            ColumnOption::Generated { generation_expr: Some(expr), .. } => self.generated = Some(expr.to_string()),
            ColumnOption::Generated { generated_as, sequence_options, generation_expr: None, .. } => {
                self.numbering = Some(match generated_as {
                    GeneratedAs::Always => Numbering::Always,
                    GeneratedAs::ByDefault => Numbering::ByDefault,
                    GeneratedAs::ExpStored => return Err(not_supported(option)),
                });
                for option in sequence_options.iter().flatten() {
                    self.start = sequence_option(option)?.or(self.start);
                }
            }
            other => return Err(not_supported(other)),
        }
        Ok(())
    }
}

fn not_supported(option: &ColumnOption) -> SqlError {
    SqlError::not_supported(format!("column option {option} is not supported"))
        .hint("NOT NULL is enforced and a PRIMARY KEY recorded; DEFAULT, serial and identity columns are supported.")
}

/// Returns the text of a default that is recorded.
///
/// # Errors
/// 0A000 for one that draws from a sequence: that is what serial columns are for.
pub(in crate::sql::plan) fn default_text(value: &Expr) -> Result<String> {
    let draws = sqlparser::ast::visit_expressions(value, |expr| match expr {
        Expr::Function(function) if function.name.to_string().to_ascii_lowercase().ends_with("nextval") => {
            std::ops::ControlFlow::Break(())
        }
        _ => std::ops::ControlFlow::Continue(()),
    });
    match draws.is_break() {
        true => Err(SqlError::not_supported("a DEFAULT that calls nextval() is not supported")
            .hint("Declare the column serial, or GENERATED BY DEFAULT AS IDENTITY.")),
        false => Ok(value.to_string()),
    }
}

fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Value(value) => value.value == Value::Null,
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_null(expr),
        _ => false,
    }
}

/// Returns the number that a sequence begins with, if the option says it.
fn sequence_option(option: &SequenceOptions) -> Result<Option<i64>> {
    let refused = || {
        SqlError::not_supported(format!("sequence option{option} is not supported"))
            .hint("Numbers begin where START WITH says and go up by 1.")
    };
    match option {
        SequenceOptions::StartWith(value, _) => whole(value).filter(|start| *start > 0).map(Some).ok_or_else(refused),
        SequenceOptions::IncrementBy(value, _) | SequenceOptions::MinValue(Some(value)) if whole(value) == Some(1) => {
            Ok(None)
        }
        SequenceOptions::MinValue(None)
        | SequenceOptions::MaxValue(None)
        | SequenceOptions::Cache(_)
        | SequenceOptions::Cycle(false) => Ok(None),
        _ => Err(refused()),
    }
}

fn whole(value: &Expr) -> Option<i64> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => whole(expr),
        _ => None,
    }
}

/// Returns whether a column is a serial one.
pub(in crate::sql::plan) fn is_serial(data_type: &SqlType) -> bool {
    serial(data_type).is_some()
}

/// Returns the type of a serial column.
fn serial(data_type: &SqlType) -> Option<DataType> {
    let SqlType::Custom(name, arguments) = data_type else { return None };
    let name = name.0.last().and_then(|part| part.as_ident()).filter(|_| arguments.is_empty())?;
    match name.value.to_ascii_lowercase().as_str() {
        "smallserial" | "serial2" => Some(DataType::Int16),
        "serial" | "serial4" => Some(DataType::Int32),
        "bigserial" | "serial8" => Some(DataType::Int64),
        _ => None,
    }
}
