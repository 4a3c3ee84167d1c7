//! UUIDs, bytea and JSON where text meets them: sixteen bytes, bytes and text in a
//! table, text in SQL.
//!
//! Arrow casts text to bytes by its bytes, so a comparison of a UUID column with
//! a string would silently never hold, and `'\x00'::bytea` would be four characters.
//! Before types are coerced, every place where text meets one of them is given
//! the conversion that PostgreSQL makes.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use bytes::BytesMut;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use lancegate_wire::decode::decode_parameter;
use lancegate_wire::types::{NUMERIC, PG_TYPE_KEY, pg_type};
use lancegate_wire::{Format, FormatSettings, RowEncoder};
use sqlparser::ast::{DataType as SqlType, ObjectName, TimezoneInfo};

use crate::error::{Result, SqlError};
use crate::sql::coerce::{self, Coercions};
use crate::sql::functions::json;
use crate::sql::functions::udf::{RowFunction, text, utf8};
use crate::sql::literals;
use crate::sql::types::{ARROW_UUID, EXTENSION_NAME};
use crate::sqlstate::SqlState;

/// How many bytes a UUID has.
const BYTES: i32 = 16;
/// What stands before the first field of a DataRow message.
const DATA_ROW_HEAD: usize = 1 + 4 + 2 + 4;
const UUID: DataType = DataType::FixedSizeBinary(BYTES);

/// Type names in casts that DataFusion has no type for.
#[derive(Debug, Default)]
pub(crate) struct PostgresTypes {
    oids: PgOidTypePlanner,
    /// What a time with a zone is marked with.
    time_zone: Option<Arc<str>>,
}

impl PostgresTypes {
    /// Returns the names in a session.
    pub(crate) fn of(state: &SessionState) -> Self {
        let time_zone = state.config_options().execution.time_zone.as_deref().map(Arc::from);
        Self { oids: PgOidTypePlanner, time_zone }
    }
}

impl TypePlanner for PostgresTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> datafusion::common::Result<Option<FieldRef>> {
        Ok(match sql_type {
            SqlType::Uuid => Some(marked(UUID, EXTENSION_NAME, ARROW_UUID)),
            // Microseconds, as in tables: nanoseconds hold three centuries only.
            SqlType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
                Some(plain(DataType::Timestamp(TimeUnit::Microsecond, None)))
            }
            SqlType::Timestamp(None, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
                Some(plain(DataType::Timestamp(TimeUnit::Microsecond, self.time_zone.clone())))
            }
            SqlType::JSON | SqlType::JSONB => Some(marked(DataType::Utf8, PG_TYPE_KEY, "json")),
            SqlType::Custom(name, arguments) if arguments.is_empty() => match text_type(name) {
                Some(name) => Some(marked(DataType::Utf8, PG_TYPE_KEY, name)),
                None => self.oids.plan_type_field(sql_type)?,
            },
            other => self.oids.plan_type_field(other)?,
        })
    }
}

/// Returns a type of PostgreSQL's own catalogs whose values are text here.
fn text_type(name: &ObjectName) -> Option<&'static str> {
    let name = name.0.last()?.as_ident()?;
    ["name", "bpchar", "char", "unknown"].into_iter().find(|known| name.value.eq_ignore_ascii_case(known))
}

fn plain(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("", data_type, true))
}

fn marked(data_type: DataType, key: &str, value: &str) -> FieldRef {
    let metadata = HashMap::from([(key.to_owned(), value.to_owned())]);
    Arc::new(Field::new("", data_type, true).with_metadata(metadata))
}

/// Puts the conversions between text and these types into a bound plan.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn coerce(plan: LogicalPlan, settings: &FormatSettings, state: &SessionState) -> Result<LogicalPlan> {
    let conversions = Conversions::new(settings);
    let coercions = Coercions::new(settings, state);
    let (mut any, mut queries) = (false, false);
    let coerced = plan.transform_up_with_subqueries(|node| {
        let inputs: Vec<&LogicalPlan> = node.inputs();
        let schema = merge_schema(&inputs);
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| {
                queries |= coerce::holds_query(&expr);
                let converted = conversions.convert(expr, &schema);
                if converted.transformed { Ok(converted) } else { coercions.expression(converted.data, &schema) }
            })?;
            Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
        })?;
        let changed = changed.transform_data(|node| coerce::node(&coercions, node))?;
        any |= changed.transformed;
        // A column that has another type now changes the schemas of all nodes above it.
        if any { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })?;
    if any && queries { Ok(literals::settle(coerced.data, &[])?) } else { Ok(coerced.data) }
}

/// The functions that convert.
struct Conversions {
    uuid_in: Arc<ScalarUDF>,
    uuid_out: Arc<ScalarUDF>,
    bytea_in: Arc<ScalarUDF>,
    bytea_out: Arc<ScalarUDF>,
    json_in: Arc<ScalarUDF>,
    value_out: Arc<ScalarUDF>,
    /// As `value_out`, in the time zone of the session.
    instant_out: Arc<ScalarUDF>,
}

impl Conversions {
    fn new(settings: &FormatSettings) -> Self {
        Self {
            uuid_in: Arc::new(uuid_in()),
            uuid_out: Arc::new(uuid_out()),
            bytea_in: Arc::new(bytea_in()),
            bytea_out: Arc::new(bytea_out()),
            json_in: Arc::new(json_in()),
            value_out: Arc::new(value_out("value_out", Volatility::Immutable, FormatSettings::default())),
            instant_out: Arc::new(value_out("instant_out", Volatility::Stable, settings.clone())),
        }
    }

    fn convert(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        let kind = |expr: &Expr| expr.get_type(schema).ok();
        let is_uuid = |expr: &Expr| kind(expr) == Some(UUID);
        let is_text = |expr: &Expr| kind(expr).is_some_and(|kind| kind.is_string());
        let is_open =
            |expr: &Expr| matches!(expr, Expr::Placeholder(_)) || kind(expr).is_none_or(|kind| kind.is_null());
        let parse = |expr: Expr| self.uuid_in.call(vec![expr]);
        match expr {
            Expr::Cast(cast) => self.convert_cast(cast, &is_text, &is_open, &kind),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_uuid(&left) && is_text(&right) => {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(parse(*right)) }))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_text(&left) && is_uuid(&right) => {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: Box::new(parse(*left)), op, right }))
            }
            Expr::InList(mut list) if is_uuid(&list.expr) && list.list.iter().any(is_text) => {
                let values = list.list.into_iter();
                list.list = values.map(|value| if is_text(&value) { parse(value) } else { value }).collect();
                Transformed::yes(Expr::InList(list))
            }
            // `list = '{1,2}'`, `flag = 't'`: a literal takes the type of what it is compared with.
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if compares(op)
                    && matches!((kind(&left), right.as_ref()), (Some(DataType::List(_)), Expr::Literal(..))) =>
            {
                let list = kind(&left).and_then(|data_type| list_in(&right, &data_type));
                let changed = list.is_some();
                let right = list.map_or(right, Box::new);
                let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if compares(op) && kind(&left) == Some(DataType::Boolean) =>
            {
                let (right, changed) = truth(*right);
                let expr = Expr::BinaryExpr(BinaryExpr { left, op, right: Box::new(right) });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if compares(op) && kind(&right) == Some(DataType::Boolean) =>
            {
                let (left, changed) = truth(*left);
                let expr = Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right });
                if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
            }
            Expr::Case(mut case) if case.expr.as_ref().and_then(|expr| kind(expr)) == Some(DataType::Boolean) => {
                let mut any = false;
                for (when, _) in &mut case.when_then_expr {
                    let (value, changed) = truth(when.as_ref().clone());
                    **when = value;
                    any |= changed;
                }
                if any { Transformed::yes(Expr::Case(case)) } else { Transformed::no(Expr::Case(case)) }
            }
            other => Transformed::no(other),
        }
    }

    /// A cast that is written out. A parameter takes the type itself, and keeps it as its own.
    fn convert_cast(
        &self,
        cast: Cast,
        is_text: &impl Fn(&Expr) -> bool,
        is_open: &impl Fn(&Expr) -> bool,
        kind: &impl Fn(&Expr) -> Option<DataType>,
    ) -> Transformed<Expr> {
        let to = cast.field.data_type().clone();
        let is_json = cast.field.metadata().get(PG_TYPE_KEY).is_some_and(|name| name == "json");
        let text = is_text(&cast.expr);
        let call = |function: &Arc<ScalarUDF>, expr: Expr| Transformed::yes(function.call(vec![expr]));
        let from = kind(&cast.expr);
        if let Some(deeper) = from.as_ref().and_then(|from| as_deep(&to, from)) {
            let field = Arc::new(cast.field.as_ref().clone().with_data_type(deeper));
            return Transformed::yes(Expr::Cast(Cast { field, ..cast }));
        }
        match (&to, from) {
            (&UUID, _) if text || is_open(&cast.expr) => call(&self.uuid_in, *cast.expr),
            (&UUID, Some(UUID)) => call(&self.uuid_in, *cast.expr),
            (DataType::Binary, _) if text && !matches!(*cast.expr, Expr::Placeholder(_)) => {
                call(&self.bytea_in, *cast.expr)
            }
            (DataType::Utf8, _) if is_json && (text || is_open(&cast.expr)) => call(&self.json_in, *cast.expr),
            (to, Some(UUID)) if to.is_string() => call(&self.uuid_out, *cast.expr),
            (to, Some(from)) if to.is_string() && from.is_binary() => call(&self.bytea_out, *cast.expr),
            (to, Some(DataType::List(_) | DataType::FixedSizeList(..) | DataType::LargeList(_))) if to.is_string() => {
                call(&self.value_out, *cast.expr)
            }
            (to, Some(DataType::Decimal128(precision, scale))) if to.is_string() && (precision, scale) == NUMERIC => {
                call(&self.value_out, *cast.expr)
            }
            (to, Some(DataType::Timestamp(_, None) | DataType::Interval(_) | DataType::Duration(_)))
                if to.is_string() =>
            {
                call(&self.value_out, *cast.expr)
            }
            (to, Some(DataType::Float32 | DataType::Float64)) if to.is_string() => call(&self.value_out, *cast.expr),
            (to, Some(DataType::Timestamp(_, Some(_)))) if to.is_string() => call(&self.instant_out, *cast.expr),
            _ => Transformed::no(Expr::Cast(cast)),
        }
    }
}

/// Returns the array that a literal is; nothing if it is none of this type.
fn list_in(literal: &Expr, data_type: &DataType) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = literal else { return None };
    let oid = pg_type(&Field::new("", data_type.clone(), true)).oid;
    let value = decode_parameter(oid, Format::Text, Some(text.as_bytes())).ok()?;
    let array = value.to_array(data_type).ok()?;
    Some(Expr::Literal(ScalarValue::try_from_array(&array, 0).ok()?, metadata.clone()))
}

/// An array type of PostgreSQL has any number of dimensions: `to` as deep as what is cast,
/// if that is an array of arrays and `to` one of values.
fn as_deep(to: &DataType, from: &DataType) -> Option<DataType> {
    let (DataType::List(element), DataType::List(inner)) = (to, from) else { return None };
    let DataType::List(_) = inner.data_type() else { return None };
    if element.data_type().is_nested() {
        return None;
    }
    let inner = as_deep(to, inner.data_type()).unwrap_or_else(|| to.clone());
    Some(DataType::List(Arc::new(Field::new_list_field(inner, true))))
}

/// Whether both sides of an operator have one type, which a literal then takes.
fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Makes a truth value of a literal that PostgreSQL reads as one, and tells whether it was.
fn truth(expr: Expr) -> (Expr, bool) {
    let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = &expr else { return (expr, false) };
    let value = match text.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => true,
        "f" | "false" | "n" | "no" | "off" | "0" => false,
        _ => return (expr, false),
    };
    (Expr::Literal(ScalarValue::Boolean(Some(value)), metadata.clone()), true)
}

fn refused(kind: &str, text: &str) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {kind}: \"{text}\""),
    )))
}

/// Reads text; sixteen bytes, such as a parameter's, are passed on.
fn uuid_in() -> ScalarUDF {
    RowFunction::marked("uuid", UUID, (EXTENSION_NAME, ARROW_UUID), |arguments| match arguments.first() {
        Some(ScalarValue::FixedSizeBinary(_, bytes)) => Ok(ScalarValue::FixedSizeBinary(BYTES, bytes.clone())),
        other => match other.and_then(text) {
            None => Ok(ScalarValue::FixedSizeBinary(BYTES, None)),
            Some(text) => match parse_text(&text) {
                Some(bytes) => Ok(ScalarValue::FixedSizeBinary(BYTES, Some(bytes))),
                None => Err(refused("uuid", &text)),
            },
        },
    })
}

fn uuid_out() -> ScalarUDF {
    RowFunction::define("uuid_out", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
        Ok(match arguments.first() {
            Some(ScalarValue::FixedSizeBinary(_, Some(bytes))) => utf8(Some(print_bytes(bytes))),
            _ => ScalarValue::Utf8(None),
        })
    })
}

fn bytea_in() -> ScalarUDF {
    RowFunction::define("bytea_in", &[1], DataType::Binary, Volatility::Immutable, |arguments| {
        let Some(text) = arguments.first().and_then(text) else { return Ok(ScalarValue::Binary(None)) };
        match bytes_of(&text) {
            Some(bytes) => Ok(ScalarValue::Binary(Some(bytes))),
            None => Err(refused("bytea", &text)),
        }
    })
}

fn bytea_out() -> ScalarUDF {
    RowFunction::define("bytea_out", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
        let bytes = match arguments.first() {
            Some(ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes)) => {
                bytes
            }
            _ => &None,
        };
        Ok(utf8(bytes.as_ref().map(|bytes| {
            bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
                // Writing to a String cannot fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
        })))
    })
}

fn json_in() -> ScalarUDF {
    RowFunction::marked("json", DataType::Utf8, (PG_TYPE_KEY, "json"), |arguments| {
        let Some(text) = arguments.first().and_then(text) else { return Ok(ScalarValue::Utf8(None)) };
        json::ensure(&text).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(utf8(Some(text)))
    })
}

/// The text of an array or a time is what the wire has for it.
fn value_out(name: &str, volatility: Volatility, settings: FormatSettings) -> ScalarUDF {
    RowFunction::define(name, &[1], DataType::Utf8, volatility, move |arguments| {
        let Some(value) = arguments.first().filter(|value| !value.is_null()) else {
            return Ok(ScalarValue::Utf8(None));
        };
        let schema = Arc::new(Schema::new(vec![Field::new("", value.data_type(), true)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![value.to_array()?])?;
        let mut row = BytesMut::new();
        RowEncoder::new(&schema, &[], &settings)
            .and_then(|encoder| encoder.encode_rows(&batch, 0..1, &mut row))
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        // DataRow: its letter, its length, one field, the length of that.
        let text = row.get(DATA_ROW_HEAD..).map(String::from_utf8_lossy);
        Ok(utf8(text.map(String::from)))
    })
}

/// PostgreSQL documentation, "Binary Data Types": `\x` and hexadecimal digits, or text in which `\\` is a
/// backslash and `\ooo` a byte.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let (pairs, rest) = digits.as_chunks::<2>();
        if !rest.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        return pairs.iter().map(byte).collect();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
        } else if let Some(after) = after.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
        } else {
            // A sign is no digit.
            let digits = after.get(..3).filter(|digits| digits.iter().all(|byte| (b'0'..=b'7').contains(byte)));
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 8).ok()?);
            rest = &after[3..];
        }
    }
    Some(bytes)
}

/// PostgreSQL reads upper and lower case, with or without braces, and a hyphen
/// after any group of four digits.
fn parse_text(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(&digits).ok()?;
    (0..16).map(|index| u8::from_str_radix(&digits[index * 2..index * 2 + 2], 16).ok()).collect()
}

fn print_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{bytes_of, parse_text, print_bytes};

    #[test]
    fn bytea_is_read_in_both_forms() {
        let cases: [(&str, Option<&[u8]>); 7] = [
            ("\\x00fF 1", None),
            ("\\x00 fF", Some(&[0, 255])),
            ("abc", Some(b"abc")),
            ("a\\\\b\\001", Some(b"a\\b\x01")),
            ("\\9", None),
            ("\\400", None),
            ("", Some(b"")),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes_of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn uuids_are_read_in_every_form_and_written_in_one() {
        let plain = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let forms = [plain, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"];
        for form in forms {
            assert_eq!(parse_text(form).map(|bytes| print_bytes(&bytes)).as_deref(), Some(plain), "{form}");
        }
        for bad in ["", "a0eebc99", "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"] {
            assert_eq!(parse_text(bad), None, "{bad}");
        }
    }
}
