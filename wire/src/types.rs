//! The mapping between Arrow types and PostgreSQL types.
//!
//! [`wire_type`] decides once how a column looks on the wire; the encoder, the
//! row description and the catalog all read that decision. Types are those of
//! <https://www.postgresql.org/docs/current/datatype.html>.

mod mapping;
mod table;

use arrow::datatypes::Schema;

use crate::error::WireError;
use crate::settings::Format;

pub(crate) use mapping::array_wire_type;
pub use mapping::{EXTENSION_NAME_KEY, NUMERIC, PG_TYPE_KEY, WireType, arrow_type, json_extension, pg_type, wire_type};
pub use table::{BuiltinType, array_of, builtin, builtin_by_name, builtins, element_of, format_type, oid};

/// A PostgreSQL type as a column has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PgType {
    /// Object id in `pg_type`.
    pub oid: u32,
    /// Bytes of a value; -1 if they vary, -2 for a C string.
    pub typlen: i16,
    /// Modifier such as the precision of numeric; -1 if there is none.
    pub typmod: i32,
    /// `typname`, for example `int4` or `_float4`.
    pub name: &'static str,
}

/// One column of RowDescription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDescription {
    /// Column name.
    pub name: String,
    /// Table the column comes from, or 0. Drivers look up tables they are told.
    pub table_oid: u32,
    /// Attribute number in that table, or 0.
    pub column_id: i16,
    /// Type.
    pub pg_type: PgType,
    /// Form in which values will be sent.
    pub format: Format,
}

/// Describes the columns of a result. `formats` are the codes of Bind: none,
/// one for all, or one a column; a statement that is only described has none.
///
/// # Errors
///
/// As [`Format::spread`].
pub fn fields(schema: &Schema, formats: &[i16]) -> Result<Vec<FieldDescription>, WireError> {
    let formats = Format::spread(formats, schema.fields().len())?;
    let described = schema.fields().iter().zip(formats);
    Ok(described
        .map(|(field, format)| FieldDescription {
            name: field.name().clone(),
            table_oid: 0,
            column_id: 0,
            pg_type: pg_type(field),
            format,
        })
        .collect())
}

#[cfg(test)]
mod tests;
