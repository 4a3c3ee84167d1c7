//! `timezone(zone, moment)`, which `moment AT TIME ZONE zone` is (PostgreSQL documentation, "AT TIME ZONE").
//!
//! A moment with a zone becomes what a clock of that place shows, and what a clock shows becomes the moment. DataFusion
//! gives a moment another zone and leaves it what it was.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;
use lancegate_wire::settings::TimeZone;

use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// What the function is called.
pub(crate) const NAME: &str = "timezone";
const MICROS: i64 = 1_000_000;

/// Returns the function.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(AtZone { signature: Signature::user_defined(Volatility::Immutable) })
}

/// Returns the function of a moment, or of what a clock shows, in one zone.
pub(crate) fn of_session(zone: TimeZone) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfSession { zone, signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AtZone {
    signature: Signature,
}

#[derive(Debug, PartialEq, Eq)]
struct OfSession {
    zone: TimeZone,
    signature: Signature,
}

impl Hash for OfSession {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for OfSession {
    fn name(&self) -> &'static str {
        "timezone_of_session"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(turned(arguments.first()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        with_arrays(&args, |arrays| in_zone(&arrays[0], |_| Ok(Some(self.zone))))
    }
}

/// The type of what a moment or a time without a zone becomes.
fn turned(given: Option<&DataType>) -> DataType {
    match given {
        Some(DataType::Timestamp(_, None)) => zoned(),
        _ => local(),
    }
}

fn with_arrays(args: &ScalarFunctionArgs, body: impl Fn(&[ArrayRef]) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    let scalar = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if scalar { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|argument| argument.to_array(rows)).collect::<Result<Vec<_>>>()?;
    let result = body(&arrays)?;
    Ok(match scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

fn local() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

fn zoned() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC")))
}

impl ScalarUDFImpl for AtZone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [zone, moment] = arguments else { return plan_err!("function {NAME} takes a zone and a moment") };
        let moment = match moment {
            DataType::Timestamp(_, None) => local(),
            // A text that nobody has given a type, and a date, are moments of the session's zone.
            DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Null => zoned(),
            text if text.is_string() => zoned(),
            other => return plan_err!("No function matches the given name and argument types: {NAME}(text, {other})"),
        };
        if !zone.is_string() && !zone.is_null() {
            return plan_err!("No function matches the given name and argument types: the zone is a text");
        }
        Ok(vec![DataType::Utf8, moment])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(turned(arguments.get(1)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        with_arrays(&args, |arrays| at_zone(&arrays[0], &arrays[1]))
    }
}

fn at_zone(zones: &ArrayRef, moments: &ArrayRef) -> Result<ArrayRef> {
    let zones = zones.as_string::<i32>();
    let mut last: Option<(&str, TimeZone)> = None;
    in_zone(moments, |row| {
        if zones.is_null(row) {
            return Ok(None);
        }
        let name = zones.value(row);
        let zone = match last {
            Some((known, zone)) if known == name => zone,
            _ => named(name).map_err(external)?,
        };
        last = Some((name, zone));
        Ok(Some(zone))
    })
}

/// Turns each moment to the clock of a zone, or back; `zone` tells that of a row.
fn in_zone(moments: &ArrayRef, mut zone: impl FnMut(usize) -> Result<Option<TimeZone>>) -> Result<ArrayRef> {
    let is_local = matches!(moments.data_type(), DataType::Timestamp(_, None));
    let moments = cast(moments, &if is_local { local() } else { zoned() })?;
    let moments = moments.as_primitive::<TimestampMicrosecondType>();
    let rows = moments.iter().enumerate().map(|(row, micros)| {
        let (Some(zone), Some(micros)) = (zone(row)?, micros) else { return Ok(None) };
        let seconds = micros.div_euclid(MICROS);
        let shifted = match is_local {
            true => micros.checked_sub(i64::from(zone.offset_of_local(seconds)) * MICROS),
            false => micros.checked_add(i64::from(zone.offset_at(seconds)) * MICROS),
        };
        let out_of_range = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
        shifted.map(Some).ok_or_else(|| external(out_of_range()))
    });
    let shifted = rows.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(if is_local { shifted.with_timezone("UTC") } else { shifted }))
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The sign of an offset is that of POSIX, as in PostgreSQL: `+05` is west of Greenwich.
fn named(name: &str) -> Result<TimeZone, SqlError> {
    let zone = match TimeZone::parse(name.trim()) {
        Some(TimeZone::Fixed(seconds)) => Some(TimeZone::Fixed(-seconds)),
        found => found,
    };
    let unknown = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{name}\" not recognized"));
    zone.ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn a_moment_becomes_a_clock_and_a_clock_a_moment() {
        let zones: ArrayRef = Arc::new(StringArray::from(vec!["America/New_York", "UTC", "+05"]));
        let noon = TimestampMicrosecondArray::from(vec![1_720_000_000 * MICROS; 3]);
        let shown = at_zone(&zones, &(Arc::new(noon.clone().with_timezone("UTC")) as ArrayRef)).unwrap();
        let hours = |array: &ArrayRef| -> Vec<i64> {
            let values = array.as_primitive::<TimestampMicrosecondType>();
            values.values().iter().map(|value| (value / MICROS - 1_720_000_000) / 3_600).collect()
        };
        assert_eq!((shown.data_type(), hours(&shown)), (&local(), vec![-4, 0, -5]));
        let meant = at_zone(&zones, &(Arc::new(noon) as ArrayRef)).unwrap();
        assert_eq!((meant.data_type(), hours(&meant)), (&zoned(), vec![4, 0, 5]));
        assert_eq!(named("nowhere").unwrap_err().message, "time zone \"nowhere\" not recognized");
    }
}
