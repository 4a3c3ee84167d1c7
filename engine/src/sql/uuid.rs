//! UUIDs: sixteen bytes in a table, text in SQL.
//!
//! Arrow casts text to bytes by its bytes, so a comparison of a UUID column with
//! a string would silently never hold. Before types are coerced, every place
//! where text meets a UUID is given the conversion that PostgreSQL makes.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use sqlparser::ast::DataType as SqlType;

use crate::error::{Result, SqlError};
use crate::sql::functions::udf::{RowFunction, text, utf8};
use crate::sql::types::ARROW_UUID;
use crate::sqlstate::SqlState;

/// How many bytes a UUID has.
const BYTES: i32 = 16;

/// Type names in casts that DataFusion has no type for.
#[derive(Debug, Default)]
pub(crate) struct PostgresTypes(PgOidTypePlanner);

impl TypePlanner for PostgresTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> datafusion::common::Result<Option<FieldRef>> {
        Ok(match sql_type {
            SqlType::Uuid => {
                let metadata = HashMap::from([("ARROW:extension:name".to_owned(), ARROW_UUID.to_owned())]);
                Some(Arc::new(Field::new("", DataType::FixedSizeBinary(BYTES), true).with_metadata(metadata)))
            }
            SqlType::JSON | SqlType::JSONB => Some(Arc::new(Field::new("", DataType::Utf8, true))),
            other => self.0.plan_type_field(other)?,
        })
    }
}

/// Puts the conversions between text and UUID into a bound plan.
///
/// # Errors
/// If the plan cannot be rebuilt.
pub(crate) fn coerce(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (parse, print) = (Arc::new(parser()), Arc::new(printer()));
    let coerced = plan.transform_up_with_subqueries(|node| {
        let inputs: Vec<&LogicalPlan> = node.inputs();
        let schema = merge_schema(&inputs);
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| Ok(convert(expr, &schema, &parse, &print)))?;
            Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
        })?;
        if changed.transformed { changed.map_data(LogicalPlan::recompute_schema) } else { Ok(changed) }
    })?;
    Ok(coerced.data)
}

fn convert(expr: Expr, schema: &DFSchema, parse: &Arc<ScalarUDF>, print: &Arc<ScalarUDF>) -> Transformed<Expr> {
    let kind = |expr: &Expr| expr.get_type(schema).ok();
    let is_uuid = |expr: &Expr| kind(expr) == Some(DataType::FixedSizeBinary(BYTES));
    let is_text = |expr: &Expr| kind(expr).is_some_and(|kind| kind.is_string());
    match expr {
        Expr::Cast(cast) if *cast.field.data_type() == DataType::FixedSizeBinary(BYTES) && is_text(&cast.expr) => {
            Transformed::yes(parse.call(vec![*cast.expr]))
        }
        Expr::Cast(cast) if cast.field.data_type().is_string() && is_uuid(&cast.expr) => {
            Transformed::yes(print.call(vec![*cast.expr]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_uuid(&left) && is_text(&right) => {
            let right = Box::new(parse.call(vec![*right]));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_text(&left) && is_uuid(&right) => {
            let left = Box::new(parse.call(vec![*left]));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(mut list) if is_uuid(&list.expr) && list.list.iter().any(is_text) => {
            let values = list.list.into_iter();
            list.list = values.map(|value| if is_text(&value) { parse.call(vec![value]) } else { value }).collect();
            Transformed::yes(Expr::InList(list))
        }
        other => Transformed::no(other),
    }
}

fn parser() -> ScalarUDF {
    let returns = DataType::FixedSizeBinary(BYTES);
    RowFunction::define("uuid_in", &[1], returns, Volatility::Immutable, |arguments| {
        let Some(text) = arguments.first().and_then(text) else {
            return Ok(ScalarValue::FixedSizeBinary(BYTES, None));
        };
        match parse_text(&text) {
            Some(bytes) => Ok(ScalarValue::FixedSizeBinary(BYTES, Some(bytes))),
            None => Err(DataFusionError::External(Box::new(SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type uuid: \"{text}\""),
            )))),
        }
    })
}

fn printer() -> ScalarUDF {
    RowFunction::define("uuid_out", &[1], DataType::Utf8, Volatility::Immutable, |arguments| {
        Ok(match arguments.first() {
            Some(ScalarValue::FixedSizeBinary(_, Some(bytes))) => utf8(Some(print_bytes(bytes))),
            _ => ScalarValue::Utf8(None),
        })
    })
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
    use super::{parse_text, print_bytes};

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
