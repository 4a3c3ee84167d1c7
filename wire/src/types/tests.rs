use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};

use super::*;

fn check(data_type: DataType, expected: &str) {
    let wire = pg_type(&Field::new("f", data_type, true));
    assert_eq!(format_type(wire.oid, wire.typmod), expected);
}

fn list(item: DataType) -> DataType {
    DataType::List(Field::new("item", item, true).into())
}

#[test]
fn arrow_types_have_a_postgresql_type() {
    check(DataType::Boolean, "boolean");
    check(DataType::Int8, "smallint");
    check(DataType::UInt16, "integer");
    check(DataType::UInt32, "bigint");
    check(DataType::UInt64, "numeric(20,0)");
    check(DataType::Float16, "real");
    check(DataType::Decimal128(10, 2), "numeric(10,2)");
    check(DataType::Decimal128(10, -2), "numeric(10,-2)");
    check(DataType::Utf8View, "text");
    check(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), "timestamp with time zone");
    check(DataType::Duration(TimeUnit::Second), "interval");
    check(list(DataType::Float32), "real[]");
    check(list(list(DataType::Int64)), "bigint[]");
    check(DataType::Struct(Fields::empty()), "json");
    check(list(DataType::Struct(Fields::empty())), "json");
    check(DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), "text");
    check(DataType::Null, "text");
}

#[test]
fn markers_and_extensions_name_a_type() {
    let name = |data_type, key: &str, value: &str| {
        let metadata = HashMap::from([(key.to_owned(), value.to_owned())]);
        pg_type(&Field::new("f", data_type, true).with_metadata(metadata)).name
    };
    assert_eq!(name(DataType::Utf8, EXTENSION_NAME_KEY, "arrow.json"), "json");
    assert_eq!(name(DataType::LargeBinary, EXTENSION_NAME_KEY, "lance.json"), "bytea");
    assert_eq!(name(DataType::FixedSizeBinary(16), EXTENSION_NAME_KEY, "arrow.uuid"), "uuid");
    assert_eq!(name(DataType::Int64, PG_TYPE_KEY, "oid"), "oid");
    assert_eq!(name(DataType::Utf8, PG_TYPE_KEY, "regclass"), "regclass");
    assert_eq!(name(list(DataType::Utf8), PG_TYPE_KEY, "name[]"), "_name");
    assert_eq!(name(list(DataType::Int64), PG_TYPE_KEY, "oid"), "_oid");
    assert_eq!(name(DataType::Boolean, PG_TYPE_KEY, "uuid"), "bool");
    assert_eq!(name(DataType::Int32, "pg.oid_alias", "oid"), "oid");
    assert_eq!(name(DataType::Int32, "pg.oid_alias", "regproc"), "int4");
    assert_eq!(pg_type(&Field::new("_rowid", DataType::UInt64, true)).name, "int8");
}

#[test]
fn format_codes_are_spread_over_columns() {
    let schema = Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)]);
    let codes = |formats: &[i16]| -> Vec<i16> {
        fields(&schema, formats).unwrap().iter().map(|field| field.format.code()).collect()
    };
    assert_eq!(codes(&[]), [0, 0]);
    assert_eq!(codes(&[1]), [1, 1]);
    assert_eq!(codes(&[0, 1]), [0, 1]);
    assert_eq!(fields(&schema, &[0, 0, 0]).unwrap_err().sqlstate(), "08P01");
    assert_eq!(fields(&schema, &[2]).unwrap_err().sqlstate(), "22023");
}
