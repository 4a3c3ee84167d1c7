//! How an Arrow field looks on the wire.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use super::PgType;
use super::table::{self, BuiltinType, oid};

/// Metadata key of Arrow's extension types.
pub const EXTENSION_NAME_KEY: &str = "ARROW:extension:name";

/// Metadata key that names the PostgreSQL type of a field outright, for
/// example `oid`, `jsonb` or `name[]`.
pub const PG_TYPE_KEY: &str = "lancegate:pg_type";

/// The field metadata key by which `datafusion-pg-catalog` marks numbers of objects.
const OID_KEY: &str = "pg.oid_alias";

/// Precision and scale of `numeric` without a modifier. In PostgreSQL each value has its
/// own scale; here zeros at the end of one are not shown.
pub const NUMERIC: (u8, i8) = (38, 10);

/// A type on the wire: an element type, or an array of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireType {
    /// The type, or the type of the elements.
    pub element: &'static BuiltinType,
    /// Whether it is an array of `element`.
    pub array: bool,
    /// Modifier, -1 if there is none.
    pub typmod: i32,
}

impl WireType {
    fn scalar(type_oid: u32) -> Self {
        Self { element: known(type_oid), array: false, typmod: -1 }
    }

    /// Returns the object id.
    pub fn oid(&self) -> u32 {
        if self.array { self.element.array_oid } else { self.element.oid }
    }

    /// Returns the type as RowDescription has it.
    pub fn pg_type(&self) -> PgType {
        PgType {
            oid: self.oid(),
            typlen: if self.array { -1 } else { self.element.typlen },
            typmod: self.typmod,
            name: if self.array { self.element.array_name } else { self.element.name },
        }
    }
}

/// Returns the wire type of a built-in array type.
pub(crate) fn array_wire_type(array_oid: u32) -> Option<WireType> {
    table::element_of(array_oid).map(|element| WireType { element, array: true, typmod: -1 })
}

/// Returns the PostgreSQL type of a field.
pub fn pg_type(field: &Field) -> PgType {
    wire_type(field).pg_type()
}

/// Returns whether an extension name marks JSON.
pub fn json_extension(name: &str) -> bool {
    matches!(name, "arrow.json" | "lance.json")
}

/// Decides how a field looks on the wire.
///
/// A marker in the metadata wins if values of the field can be written as that
/// type; then Arrow's extension name; then the Arrow type.
pub fn wire_type(field: &Field) -> WireType {
    let metadata = field.metadata();
    if let Some(marked) = metadata.get(PG_TYPE_KEY).and_then(|name| marked(field, name)) {
        return marked;
    }
    if metadata.get(OID_KEY).is_some_and(|kind| kind == "oid") && field.data_type().is_integer() {
        return WireType::scalar(oid::OID);
    }
    let text = is_text(field.data_type());
    match metadata.get(EXTENSION_NAME_KEY).map(String::as_str) {
        Some(name) if json_extension(name) && text => return WireType::scalar(oid::JSON),
        Some("arrow.uuid") if is_uuid(field.data_type()) => return WireType::scalar(oid::UUID),
        _ => {}
    }
    if matches!(field.name().as_str(), "_rowid" | "_rowaddr") && field.data_type() == &DataType::UInt64 {
        return WireType::scalar(oid::INT8);
    }
    of_data_type(field.data_type())
}

fn of_data_type(data_type: &DataType) -> WireType {
    match data_type {
        DataType::Boolean => WireType::scalar(oid::BOOL),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => WireType::scalar(oid::INT2),
        DataType::Int32 | DataType::UInt16 => WireType::scalar(oid::INT4),
        DataType::Int64 | DataType::UInt32 => WireType::scalar(oid::INT8),
        DataType::UInt64 => numeric(20, 0),
        DataType::Float16 | DataType::Float32 => WireType::scalar(oid::FLOAT4),
        DataType::Float64 => WireType::scalar(oid::FLOAT8),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => numeric(*precision, *scale),
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => WireType::scalar(oid::TEXT),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            WireType::scalar(oid::BYTEA)
        }
        DataType::Date32 | DataType::Date64 => WireType::scalar(oid::DATE),
        DataType::Time32(_) | DataType::Time64(_) => WireType::scalar(oid::TIME),
        DataType::Timestamp(_, None) => WireType::scalar(oid::TIMESTAMP),
        DataType::Timestamp(_, Some(_)) => WireType::scalar(oid::TIMESTAMPTZ),
        DataType::Interval(_) | DataType::Duration(_) => WireType::scalar(oid::INTERVAL),
        DataType::Dictionary(_, values) => of_data_type(values),
        DataType::RunEndEncoded(_, values) => wire_type(values),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => array_of(item),
        DataType::Struct(_) | DataType::Map(_, _) | DataType::Union(_, _) => WireType::scalar(oid::JSON),
    }
}

/// An array of arrays has the same type as an array; a list of structs is one
/// JSON value, as there is no composite type to name.
fn array_of(item: &Field) -> WireType {
    let element = wire_type(item);
    let composite = matches!(leaf(item).data_type(), DataType::Struct(_) | DataType::Map(_, _) | DataType::Union(_, _));
    if composite || element.element.array_oid == 0 {
        return WireType::scalar(oid::JSON);
    }
    WireType { array: true, ..element }
}

/// Returns the field inside all lists around it.
fn leaf(field: &Field) -> &Field {
    match field.data_type() {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => leaf(item),
        DataType::RunEndEncoded(_, values) => leaf(values),
        _ => field,
    }
}

fn marked(field: &Field, name: &str) -> Option<WireType> {
    let leaf = leaf(field);
    let is_list = !std::ptr::eq(leaf, field) && !matches!(field.data_type(), DataType::RunEndEncoded(_, _));
    let (name, array) = match name.strip_suffix("[]").or_else(|| name.strip_prefix('_')) {
        Some(element) => (element, true),
        None => (name, is_list),
    };
    let element = table::builtin_by_name(name)?;
    // An array marker on text means the text is already an array literal.
    let literal = array && !is_list && is_text(field.data_type());
    let physical = if literal { Some(()) } else { None };
    if physical.is_none() && (array != is_list || !holds(value_type(leaf.data_type()), element.oid)) {
        return None;
    }
    if array && element.array_oid == 0 {
        return None;
    }
    Some(WireType { element, array, typmod: -1 })
}

fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        other => other,
    }
}

/// Returns whether values of an Arrow type can be written as a PostgreSQL type.
fn holds(data_type: &DataType, type_oid: u32) -> bool {
    let integer = data_type.is_integer();
    match type_oid {
        oid::INT2 | oid::INT4 | oid::INT8 => integer,
        oid::OID
        | oid::XID
        | oid::CID
        | oid::REGPROC
        | oid::REGPROCEDURE
        | oid::REGCLASS
        | oid::REGTYPE
        | oid::REGNAMESPACE
        | oid::REGROLE => integer || is_text(data_type),
        oid::TEXT
        | oid::NAME
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::CHAR
        | oid::JSON
        | oid::JSONB
        | oid::PG_NODE_TREE
        | oid::ACLITEM
        | oid::INT2VECTOR
        | oid::OIDVECTOR
        | oid::UNKNOWN
        | oid::VOID => is_text(data_type),
        oid::UUID => is_uuid(data_type) || is_text(data_type),
        _ => of_data_type(data_type).oid() == type_oid,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
}

fn is_uuid(data_type: &DataType) -> bool {
    data_type == &DataType::FixedSizeBinary(16)
}

fn numeric(precision: u8, scale: i8) -> WireType {
    if (precision, scale) == NUMERIC {
        return WireType::scalar(oid::NUMERIC);
    }
    let typmod = (i32::from(precision) << 16 | (i32::from(scale) & 0x7ff)) + 4;
    WireType { typmod, ..WireType::scalar(oid::NUMERIC) }
}

fn known(type_oid: u32) -> &'static BuiltinType {
    table::builtin(type_oid).expect("every constant of the mapping is in the table")
}

/// Returns the Arrow type in which a value of a PostgreSQL type is kept: the
/// type of a parameter or of a new column. `None` for types without one.
///
/// `numeric` without a modifier becomes [`NUMERIC`].
pub fn arrow_type(type_oid: u32) -> Option<DataType> {
    if let Some(element) = table::element_of(type_oid) {
        let item = Field::new("item", arrow_type(element.oid)?, true);
        return Some(DataType::List(item.into()));
    }
    Some(match type_oid {
        oid::BOOL => DataType::Boolean,
        oid::INT2 => DataType::Int16,
        oid::INT4 => DataType::Int32,
        oid::INT8 => DataType::Int64,
        oid::OID
        | oid::XID
        | oid::CID
        | oid::REGPROC
        | oid::REGPROCEDURE
        | oid::REGCLASS
        | oid::REGTYPE
        | oid::REGNAMESPACE
        | oid::REGROLE => DataType::UInt32,
        oid::FLOAT4 => DataType::Float32,
        oid::FLOAT8 => DataType::Float64,
        oid::NUMERIC => DataType::Decimal128(NUMERIC.0, NUMERIC.1),
        oid::TEXT
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::NAME
        | oid::CHAR
        | oid::UNKNOWN
        | oid::JSON
        | oid::JSONB
        | oid::ACLITEM
        | oid::PG_NODE_TREE
        | oid::INT2VECTOR
        | oid::OIDVECTOR => DataType::Utf8,
        oid::BYTEA => DataType::Binary,
        oid::DATE => DataType::Date32,
        oid::TIME => DataType::Time64(TimeUnit::Microsecond),
        oid::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        oid::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        oid::UUID => DataType::FixedSizeBinary(16),
        _ => return None,
    })
}
