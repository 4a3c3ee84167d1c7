//! JSON in text: PostgreSQL's operators and the functions behind them.
//!
//! A value of type `json` or `jsonb` is a text here. Both keep the text as it was
//! written; so `jsonb` shows keys in their order and does not drop the earlier of two.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use lancegate_wire::types::PG_TYPE_KEY;
use serde_json::Value;
use sqlparser::ast::BinaryOperator;

use super::udf::{RowFunction, number, text as as_string, utf8};
use crate::error::SqlError;
use crate::sqlstate::SqlState;

mod text;

/// Refuses a text that is no JSON.
///
/// # Errors
/// 22P02.
pub(crate) fn ensure(text: &str) -> Result<(), SqlError> {
    let problem = serde_json::from_str::<serde::de::IgnoredAny>(text).err();
    problem.map_or(Ok(()), |problem| {
        let refused = SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json");
        Err(refused.detail(problem.to_string()))
    })
}

/// Returns the functions.
pub fn functions() -> Vec<ScalarUDF> {
    let mut all = vec![
        json("json_object_field", 2, |value, key| Ok(get(value, key).map(str::to_owned))),
        plain("json_object_field_text", 2, |value, key| Ok(get(value, key).and_then(text::as_text))),
        json("json_extract_path_op", 2, |value, path| {
            Ok(full_path(path)?.and_then(|path| text::at_path(value, &path).map(str::to_owned)))
        }),
        plain("json_extract_path_text_op", 2, |value, path| {
            Ok(full_path(path)?.and_then(|path| text::at_path(value, &path).and_then(text::as_text)))
        }),
        boolean("jsonb_contains", |outer, inner| {
            let inner = as_string(inner).ok_or_else(|| invalid(""))?;
            let inner = text::parse(&inner).ok_or_else(|| invalid(&inner))?;
            Ok(text::contains(&text::parse(outer).ok_or_else(|| invalid(outer))?, &inner))
        }),
        boolean("jsonb_exists", |value, key| Ok(as_string(key).is_some_and(|key| exists(value, &key)))),
        boolean("jsonb_exists_any", |value, keys| Ok(steps(keys)?.iter().any(|key| exists(value, key)))),
        boolean("jsonb_exists_all", |value, keys| Ok(steps(keys)?.iter().all(|key| exists(value, key)))),
    ];
    for prefix in ["json", "jsonb"] {
        all.push(plain(&format!("{prefix}_typeof"), 1, |value, _| Ok(Some(kind(value).to_owned()))));
        all.push(array_length(&format!("{prefix}_array_length")));
        all.push(built(&format!("{prefix}_build_object"), build_object));
        all.push(built(&format!("{prefix}_build_array"), |values| {
            Ok(format!("[{}]", values.iter().map(to_json).collect::<Result<Vec<_>>>()?.join(", ")))
        }));
        all.push(built(&format!("to_{prefix}"), |values| values.first().map_or(Ok("null".to_owned()), to_json)));
        all.push(path_function(&format!("{prefix}_extract_path"), true));
        all.push(path_function(&format!("{prefix}_extract_path_text"), false));
    }
    all
}

/// Plans the operators on text; those on arrays are DataFusion's.
#[derive(Debug)]
pub(crate) struct JsonOperators {
    functions: HashMap<String, Arc<ScalarUDF>>,
}

impl JsonOperators {
    /// Returns the planner of the operators.
    pub(crate) fn new() -> Self {
        let named = functions().into_iter().map(|function| (function.name().to_owned(), Arc::new(function)));
        Self { functions: named.collect() }
    }
}

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (name, swapped) = match expr.op {
            BinaryOperator::Arrow => ("json_object_field", false),
            BinaryOperator::LongArrow => ("json_object_field_text", false),
            BinaryOperator::HashArrow => ("json_extract_path_op", false),
            BinaryOperator::HashLongArrow => ("json_extract_path_text_op", false),
            BinaryOperator::AtArrow => ("jsonb_contains", false),
            BinaryOperator::ArrowAt => ("jsonb_contains", true),
            BinaryOperator::Question => ("jsonb_exists", false),
            BinaryOperator::QuestionPipe => ("jsonb_exists_any", false),
            BinaryOperator::QuestionAnd => ("jsonb_exists_all", false),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_text = |side: &Expr| side.get_type(schema).map_or(true, |kind| kind.is_string() || kind.is_null());
        if !is_text(&expr.left) {
            return Ok(PlannerResult::Original(expr));
        }
        let Some(function) = self.functions.get(name) else { return Ok(PlannerResult::Original(expr)) };
        let arguments = if swapped { vec![expr.right, expr.left] } else { vec![expr.left, expr.right] };
        Ok(PlannerResult::Planned(function.call(arguments)))
    }
}

fn get<'a>(value: &'a str, key: &ScalarValue) -> Option<&'a str> {
    match key {
        ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_) => {
            text::field(value, &as_string(key)?)
        }
        other => text::element(value, number(other)?),
    }
}

fn exists(value: &str, key: &str) -> bool {
    match text::parse(value) {
        Some(Value::Object(members)) => members.contains_key(key),
        Some(Value::Array(elements)) => elements.iter().any(|element| element.as_str() == Some(key)),
        Some(Value::String(own)) => own == key,
        _ => false,
    }
}

fn kind(value: &str) -> &'static str {
    match text::parse(value) {
        Some(Value::Object(_)) => "object",
        Some(Value::Array(_)) => "array",
        Some(Value::String(_)) => "string",
        Some(Value::Number(_)) => "number",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Null) | None => "null",
    }
}

/// Returns the steps of a path; none for one with a NULL in it, which leads nowhere.
fn full_path(path: &ScalarValue) -> Result<Option<Vec<String>>> {
    match path {
        ScalarValue::List(list) if list.value(0).null_count() > 0 => Ok(None),
        path => steps(path).map(Some),
    }
}

/// Returns the texts of an array, or of an array literal; a NULL among them is passed over.
fn steps(path: &ScalarValue) -> Result<Vec<String>> {
    let list = match path {
        ScalarValue::List(list) => list.value(0),
        other => {
            let literal = as_string(other).unwrap_or_default();
            return text::array_literal(&literal).ok_or_else(|| {
                let message = format!("malformed array literal: \"{literal}\"");
                external(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message))
            });
        }
    };
    let values = (0..list.len()).map(|index| ScalarValue::try_from_array(&list, index));
    Ok(values.collect::<Result<Vec<_>>>()?.iter().filter_map(as_string).collect())
}

/// Returns a value as JSON: numbers and booleans as they are, JSON unchanged, which
/// comes as a large text (see [`Marked`]), everything else as a string.
fn to_json(value: &ScalarValue) -> Result<String> {
    let quoted = |text: String| Value::String(text).to_string();
    Ok(match value {
        value if value.is_null() => "null".to_owned(),
        ScalarValue::LargeUtf8(Some(json)) => json.clone(),
        ScalarValue::Boolean(_) => value.to_string(),
        ScalarValue::Float32(Some(number)) if !number.is_finite() => quoted(value.to_string()),
        ScalarValue::Float64(Some(number)) if !number.is_finite() => quoted(value.to_string()),
        value if value.data_type().is_numeric() => as_string(&value.cast_to(&DataType::Utf8)?).unwrap_or_default(),
        ScalarValue::List(_) | ScalarValue::LargeList(_) | ScalarValue::FixedSizeList(_) => {
            let list = value.to_array()?;
            let list = arrow::array::make_array(list.to_data());
            let inner = arrow::compute::cast(&list, &list_of(&value.data_type()))?;
            let inner = arrow::array::AsArray::as_list::<i32>(&inner).value(0);
            let elements = (0..inner.len()).map(|index| to_json(&ScalarValue::try_from_array(&inner, index)?));
            format!("[{}]", elements.collect::<Result<Vec<_>>>()?.join(","))
        }
        ScalarValue::Struct(row) => {
            let members = row.columns().iter().zip(row.fields()).map(|(column, field)| {
                let name = Value::String(field.name().clone());
                Ok(format!("{name}:{}", to_json(&ScalarValue::try_from_array(column, 0)?)?))
            });
            format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(","))
        }
        other => quoted(as_string(&other.cast_to(&DataType::Utf8)?).unwrap_or_default()),
    })
}

fn list_of(data_type: &DataType) -> DataType {
    match data_type {
        DataType::FixedSizeList(item, _) | DataType::LargeList(item) | DataType::List(item) => {
            DataType::List(Arc::clone(item))
        }
        other => other.clone(),
    }
}

fn build_object(values: &[ScalarValue]) -> Result<String> {
    if !values.len().is_multiple_of(2) {
        return Err(external(
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "argument list must have even number of elements")
                .hint("The arguments of json_build_object() must consist of alternating keys and values."),
        ));
    }
    let members = values.chunks(2).map(|pair| {
        let key = as_string(&pair[0]).ok_or_else(|| {
            external(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "null value not allowed for object key"))
        })?;
        Ok(format!("{} : {}", Value::String(key), to_json(&pair[1])?))
    });
    Ok(format!("{{{}}}", members.collect::<Result<Vec<_>>>()?.join(", ")))
}

fn array_length(name: &str) -> ScalarUDF {
    RowFunction::define(name, &[1], DataType::Int32, Volatility::Immutable, |arguments| {
        let Some(value) = arguments.first().and_then(as_string) else { return Ok(ScalarValue::Int32(None)) };
        match text::parse(&value).ok_or_else(|| invalid(&value))? {
            Value::Array(elements) => Ok(ScalarValue::Int32(i32::try_from(elements.len()).ok())),
            Value::Object(_) => Err(unfit("cannot get array length of a non-array")),
            _ => Err(unfit("cannot get array length of a scalar")),
        }
    })
}

fn boolean(name: &str, body: fn(&str, &ScalarValue) -> Result<bool>) -> ScalarUDF {
    RowFunction::define(name, &[2], DataType::Boolean, Volatility::Immutable, move |arguments| {
        let [value, other] = arguments else { return Ok(ScalarValue::Boolean(None)) };
        let Some(value) = as_string(value).filter(|_| !other.is_null()) else { return Ok(ScalarValue::Boolean(None)) };
        Ok(ScalarValue::Boolean(Some(body(&value, other)?)))
    })
}

type Part = fn(&str, &ScalarValue) -> Result<Option<String>>;

/// A function of a JSON value and perhaps one more argument, whose answer is text.
fn plain(name: &str, arguments: usize, part: Part) -> ScalarUDF {
    RowFunction::define(name, &[arguments], DataType::Utf8, Volatility::Immutable, move |arguments| {
        Ok(utf8(part_of(arguments, part)?))
    })
}

/// Such a function whose answer is JSON.
fn json(name: &str, arguments: usize, part: Part) -> ScalarUDF {
    marked(RowFunction::define(name, &[arguments], DataType::Utf8, Volatility::Immutable, move |arguments| {
        Ok(utf8(part_of(arguments, part)?))
    }))
}

fn part_of(arguments: &[ScalarValue], part: Part) -> Result<Option<String>> {
    let Some(value) = arguments.first().and_then(as_string) else { return Ok(None) };
    if text::parse(&value).is_none() {
        return Err(invalid(&value));
    }
    let nothing = ScalarValue::Null;
    match arguments.get(1) {
        Some(argument) if argument.is_null() => Ok(None),
        argument => part(value.trim(), argument.unwrap_or(&nothing)),
    }
}

/// `json_extract_path(json, VARIADIC text)`
fn path_function(name: &str, as_json: bool) -> ScalarUDF {
    let counts: Vec<usize> = (2..=10).collect();
    let function = RowFunction::define(name, &counts, DataType::Utf8, Volatility::Immutable, move |arguments| {
        let Some((value, path)) = arguments.split_first() else { return Ok(ScalarValue::Utf8(None)) };
        let (Some(value), Some(path)) = (as_string(value), path.iter().map(as_string).collect::<Option<Vec<_>>>())
        else {
            return Ok(ScalarValue::Utf8(None));
        };
        if text::parse(&value).is_none() {
            return Err(invalid(&value));
        }
        let found = text::at_path(&value, &path);
        Ok(utf8(if as_json { found.map(str::to_owned) } else { found.and_then(text::as_text) }))
    });
    if as_json { marked(function) } else { function }
}

fn built(name: &str, body: fn(&[ScalarValue]) -> Result<String>) -> ScalarUDF {
    let counts: Vec<usize> = if name.starts_with("to_") { vec![1] } else { (0..=40).collect() };
    marked(RowFunction::define(name, &counts, DataType::Utf8, Volatility::Stable, move |arguments| {
        Ok(utf8(Some(body(arguments)?)))
    }))
}

/// Says of a function that its text is JSON.
fn marked(function: ScalarUDF) -> ScalarUDF {
    ScalarUDF::new_from_impl(Marked(function))
}

/// A function whose text is JSON. What its arguments say of their type is lost in
/// their values, so JSON goes into it as large text and all other text as small.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Marked(ScalarUDF);

impl ScalarUDFImpl for Marked {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let metadata = HashMap::from([(PG_TYPE_KEY.to_owned(), "json".to_owned())]);
        Ok(Arc::new(Field::new(self.name(), DataType::Utf8, true).with_metadata(metadata)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for (argument, field) in args.args.iter_mut().zip(&args.arg_fields) {
            if !field.data_type().is_string() {
                continue;
            }
            let is_json = field.metadata().get(PG_TYPE_KEY).is_some_and(|kind| kind == "json");
            let wanted = if is_json { DataType::LargeUtf8 } else { DataType::Utf8 };
            *argument = argument.cast_to(&wanted, None)?;
        }
        self.0.inner().invoke_with_args(args)
    }
}

fn invalid(value: &str) -> DataFusionError {
    let error = SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json");
    let shown: String = value.chars().take(100).collect();
    external(error.detail(format!("The value is \"{shown}\".")))
}

fn unfit(message: &str) -> DataFusionError {
    external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
