//! The arguments of a call of a registered Function: what its parameters take, and what its class is made with.
//!
//! Arguments stand in the order of the parameters and of the initialization fields after them, or are named: `f(body,
//! model => 'small')`. What a class is made with is the same for all rows, so it is a constant.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use datafusion::scalar::ScalarValue;
use lancegate_functions::definition::Parameter;
use lancegate_functions::{Definition, encode};
use sqlparser::ast::{self as native, Expr, FunctionArg, FunctionArgExpr};

use super::signature;
use crate::error::{Result, SqlError};
use crate::refresh::function::constant;
use crate::sqlstate::SqlState;
use crate::storage::computed::Initialization;

/// The arguments of a call by what they are for.
#[derive(Debug)]
pub struct CallArguments {
    /// One for each parameter, in order.
    pub parameters: Vec<Expr>,
    /// Those of the initialization fields that are given, in the order of the fields.
    pub initialization: Vec<(Parameter, Expr)>,
}

/// Sorts the arguments of a call of `function`.
///
/// # Errors
/// 42883 for too few, too many and unknown ones; 42601 for one that is there twice.
pub fn arguments(definition: &Definition, function: &str, list: &[FunctionArg]) -> Result<CallArguments> {
    let fields: Vec<&Parameter> = definition.parameters.iter().chain(&definition.initialization).collect();
    let mut given: Vec<Option<Expr>> = vec![None; fields.len()];
    let mut named = false;
    for (index, argument) in list.iter().enumerate() {
        let (place, expression) = match split(argument)? {
            (None, _) if named => {
                let message = "positional argument cannot follow named argument";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            (None, expression) => (index, expression),
            (Some(name), expression) => {
                named = true;
                let place = fields.iter().position(|field| field.name == name);
                let place =
                    place.ok_or_else(|| unfit(definition, function, &format!("has no parameter \"{name}\"")))?;
                (place, expression)
            }
        };
        let Some(slot) = given.get_mut(place) else { return Err(wrong_number(definition, function, list.len())) };
        if slot.replace(expression).is_some() {
            let message = format!("argument name \"{}\" used more than once", fields[place].name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
    }
    let initialization = given.split_off(definition.parameters.len());
    let parameters: Option<Vec<Expr>> = given.into_iter().collect();
    let parameters = parameters.ok_or_else(|| wrong_number(definition, function, list.len()))?;
    let pairs = definition.initialization.iter().zip(initialization);
    let initialization = pairs.filter_map(|(field, given)| Some((field.clone(), given?))).collect();
    Ok(CallArguments { parameters, initialization })
}

fn wrong_number(definition: &Definition, function: &str, given: usize) -> SqlError {
    unfit(definition, function, &format!("takes {} arguments, not {given}", definition.parameters.len()))
}

fn unfit(definition: &Definition, function: &str, what: &str) -> SqlError {
    let mut detail = format!("Its parameters are ({}).", signature(&definition.parameters));
    if !definition.initialization.is_empty() {
        detail.push_str(&format!(" It is initialized with ({}).", signature(&definition.initialization)));
    }
    SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {function} {what}")).detail(detail)
}

/// Returns name and value of an argument.
fn split(argument: &FunctionArg) -> Result<(Option<String>, Expr)> {
    let (name, value) = match argument {
        FunctionArg::Unnamed(value) => (None, value),
        FunctionArg::Named { name, arg, .. } => (Some(name), arg),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => (Some(name), arg),
        FunctionArg::ExprNamed { .. } => return Err(no_expression()),
    };
    match value {
        FunctionArgExpr::Expr(expression) => Ok((name.map(folded), expression.clone())),
        _ => Err(no_expression()),
    }
}

fn no_expression() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "an argument of a Function is an expression, or <name> => <expression>")
}

/// Returns the name that an identifier stands for.
pub fn folded(ident: &native::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// Returns what the instances of a class are made with; `None` for a Function that takes nothing.
///
/// # Errors
/// 42883 for a field without a value that takes no NULL, 22004 for a NULL that it does not take, 22023 for a number that
/// is not finite, and what an expression raises that is no constant.
pub fn initialization(
    definition: &Definition,
    function: &str,
    given: &[(Parameter, Expr)],
) -> Result<Option<Initialization>> {
    if definition.initialization.is_empty() {
        return Ok(None);
    }
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut fields = Vec::new();
    for field in &definition.initialization {
        let value = match given.iter().find(|(of, _)| of.name == field.name) {
            None if !field.nullable => {
                return Err(unfit(definition, function, &format!("needs a value for \"{}\"", field.name)));
            }
            None => ScalarValue::try_from(&field.arrow_type.0)?,
            Some((_, expression)) => {
                fields.push((field.name.clone(), expression.to_string()));
                value(field, expression)?
            }
        };
        columns.push(value.to_array_of_size(1)?);
    }
    let row = RecordBatch::try_new(definition.initialization_schema(), columns)?;
    Ok(Some(Initialization { fields, row: STANDARD.encode(encode(&row)?) }))
}

fn value(field: &Parameter, expression: &Expr) -> Result<ScalarValue> {
    let of_field =
        |error: SqlError| error.detail(format!("It is the value of initialization field \"{}\".", field.name));
    let value = constant(&expression.to_string(), &field.arrow_type.0).map_err(|error| {
        of_field(SqlError::from(error)).hint("All rows share what a class is made with, so it is a constant.")
    })?;
    if value.is_null() && !field.nullable {
        let message = format!("initialization field \"{}\" takes no NULL", field.name);
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
    }
    let finite = match &value {
        ScalarValue::Float64(Some(number)) => number.is_finite(),
        ScalarValue::Float32(Some(number)) => number.is_finite(),
        _ => true,
    };
    if finite {
        Ok(value)
    } else {
        Err(of_field(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the number is not finite")))
    }
}

/// Whether a class can be made with values of a type: what has one spelling in JSON and in SQL.
pub fn initializes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            initializes(item.data_type())
        }
        DataType::Struct(fields) => {
            fields.iter().all(|field: &Arc<arrow::datatypes::Field>| initializes(field.data_type()))
        }
        other => other.is_integer() || other.is_floating(),
    }
}
