//! Interval literals that DataFusion does not read, or reads otherwise: `interval '1 day 02:00:00'`, `'P1Y2M'`,
//! `-interval '1 day 2 hours'`.

use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use sqlparser::ast::{CastKind, DataType, Expr, Interval, Value};

/// Returns the cast of a text that an interval is, unless DataFusion reads it: of a window's frame it takes
/// literals only.
pub(super) fn as_cast(interval: &Interval) -> Option<Expr> {
    let Expr::Value(value) = interval.value.as_ref() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let plain = interval.leading_precision.is_none()
        && interval.last_field.is_none()
        && interval.fractional_seconds_precision.is_none();
    let text = match &interval.leading_field {
        Some(unit) => format!("{text} {unit}"),
        None => text.clone(),
    };
    if !plain || parse_interval_month_day_nano(&text).is_ok() {
        return None;
    }
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(text).with_empty_span())),
        data_type: DataType::Interval { fields: None, precision: None },
        array: false,
        format: None,
    })
}

/// Makes a minus sign that of the whole interval: DataFusion puts it before the text, whose first part it then is.
pub(super) fn set_apart(operand: &mut Box<Expr>) {
    if matches!(operand.as_ref(), Expr::Interval(_)) {
        let interval = std::mem::replace(operand.as_mut(), Expr::Value(Value::Null.with_empty_span()));
        **operand = Expr::Nested(Box::new(interval));
    }
}
