//! Parameter types and values between the wire and the engine.

use arrow::datatypes::{DataType, FieldRef};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use lancegate_wire::types::{arrow_type, builtin, element_of, format_type, oid, pg_type};
use lancegate_wire::{Format, FormatSettings};

use crate::pg::reply;
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::sqlstate::SqlState;

/// One parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pg) struct Parameter {
    /// What ParameterDescription says and values are read as.
    pub(in crate::pg) oid: u32,
    /// What the plan takes.
    pub(in crate::pg) data_type: DataType,
}

/// Returns the types that a client declared, where it did.
///
/// # Errors
/// 42704 for an object id that is no type, 0A000 for a type without values here.
pub(in crate::pg) fn declared_types(oids: &[u32]) -> Result<Vec<Option<DataType>>> {
    oids.iter().map(|oid| declared_type(*oid)).collect()
}

fn declared_type(type_oid: u32) -> Result<Option<DataType>> {
    if is_unspecified(type_oid) {
        return Ok(None);
    }
    if let Some(data_type) = arrow_type(type_oid) {
        return Ok(Some(data_type));
    }
    if builtin(type_oid).is_none() && element_of(type_oid).is_none() {
        let message = format!("type with OID {type_oid} does not exist");
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
    }
    let name = format_type(type_oid, -1);
    Err(SqlError::not_supported(format!("parameters of type {name} are not supported")))
}

/// Joins what the client declared with what the planner found. A declared type
/// is told back as it was, so that `varchar` does not become `text`.
pub(in crate::pg) fn resolve(declared: &[u32], planned: &[FieldRef]) -> Vec<Parameter> {
    let declared = declared.iter().copied().chain(std::iter::repeat(0));
    let resolved = planned.iter().zip(declared).map(|(field, declared)| {
        let data_type = field.data_type();
        let oid = match declared {
            // The planner's one use for sixteen bytes.
            declared if is_unspecified(declared) && *data_type == DataType::FixedSizeBinary(16) => oid::UUID,
            declared if is_unspecified(declared) => pg_type(field).oid,
            declared => declared,
        };
        Parameter { oid, data_type: data_type.clone() }
    });
    resolved.collect()
}

/// Reads the values of a Bind message.
///
/// # Errors
/// 08P01 if there are more or fewer values than parameters; what a value is
/// refused with.
pub(in crate::pg) fn read_values(
    parameters: &[Parameter],
    formats: &[i16],
    values: &[Option<Bytes>],
    settings: &FormatSettings,
) -> Result<Vec<ScalarValue>> {
    let formats = Format::spread(formats, values.len()).map_err(|error| reply::from_wire(&error))?;
    let read = parameters.iter().zip(formats).zip(values);
    read.map(|((parameter, format), value)| read_value(parameter, format, value.as_deref(), settings)).collect()
}

/// Reads the text of one value.
///
/// # Errors
/// What a value is refused with.
pub(in crate::pg) fn read_text(parameter: &Parameter, text: &str, settings: &FormatSettings) -> Result<ScalarValue> {
    read_value(parameter, Format::Text, Some(text.as_bytes()), settings)
}

fn read_value(
    parameter: &Parameter,
    format: Format,
    value: Option<&[u8]>,
    settings: &FormatSettings,
) -> Result<ScalarValue> {
    let array = lancegate_wire::decode::decode_parameter_with(parameter.oid, format, value, settings)
        .and_then(|value| value.to_array(&parameter.data_type))
        .map_err(|error| reply::from_wire(&error))?;
    ScalarValue::try_from_array(&array, 0).map_err(SqlError::internal)
}

fn is_unspecified(type_oid: u32) -> bool {
    type_oid == 0 || type_oid == oid::UNKNOWN
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn declared_types_are_told_back_and_others_are_inferred() {
        let field = |data_type| Arc::new(Field::new("", data_type, true));
        let planned = [DataType::Utf8, DataType::Int64, DataType::Utf8].map(field);
        let parameters = resolve(&[oid::VARCHAR, 0], &planned);
        assert_eq!(parameters.iter().map(|parameter| parameter.oid).collect::<Vec<_>>(), [1043, 20, 25]);
    }

    #[test]
    fn values_become_the_type_of_the_plan() {
        let parameters = [
            Parameter { oid: oid::INT4, data_type: DataType::Int64 },
            Parameter { oid: oid::TEXT, data_type: DataType::Utf8 },
            Parameter { oid: oid::INT8, data_type: DataType::Int64 },
        ];
        let values = [Some(Bytes::from_static(b"\0\0\0\x07")), Some(Bytes::from_static(b"x")), None];
        let read = read_values(&parameters, &[1, 0, 0], &values, &FormatSettings::default()).unwrap();
        assert_eq!(read, [ScalarValue::Int64(Some(7)), ScalarValue::from("x"), ScalarValue::Int64(None)]);
    }

    #[test]
    fn a_bad_value_is_refused_as_postgresql_does() {
        let parameters = [Parameter { oid: oid::INT4, data_type: DataType::Int32 }];
        let check = |format: i16, value: &'static [u8], code: &str| {
            let values = [Some(Bytes::from_static(value))];
            let error = read_values(&parameters, &[format], &values, &FormatSettings::default()).unwrap_err();
            assert_eq!(error.code.as_str(), code, "{value:?}");
        };
        check(0, b"seven", "22P02");
        check(0, b"99999999999", "22003");
        check(0, b"\xff", "22021");
        check(1, b"\0\0", "08P01");
        check(7, b"1", "22023");
    }

    #[test]
    fn an_unknown_type_is_named() {
        assert_eq!(declared_types(&[0, 705, 23]).unwrap(), [None, None, Some(DataType::Int32)]);
        assert_eq!(declared_types(&[4_000_000]).unwrap_err().code.as_str(), "42704");
    }
}
