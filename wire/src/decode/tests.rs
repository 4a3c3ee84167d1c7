use proptest::prelude::*;

use super::*;
use crate::types::builtins;

fn check_error(type_oid: u32, text: &str, code: &str, message: &str) {
    let error = decode_parameter(type_oid, Format::Text, Some(text.as_bytes())).unwrap_err();
    assert_eq!((error.sqlstate(), error.to_string().as_str()), (code, message));
}

#[test]
fn errors_are_those_of_postgresql() {
    check_error(oid::INT4, "x", "22P02", "invalid input syntax for type integer: \"x\"");
    check_error(oid::INT4, "2147483648", "22003", "value \"2147483648\" is out of range for type integer");
    check_error(oid::INT2, "99999", "22003", "value \"99999\" is out of range for type smallint");
    check_error(oid::BOOL, "o", "22P02", "invalid input syntax for type boolean: \"o\"");
    check_error(oid::FLOAT8, "1e400", "22003", "\"1e400\" is out of range for type double precision");
    check_error(oid::FLOAT8, "1e-400", "22003", "\"1e-400\" is out of range for type double precision");
    check_error(oid::UUID, "a0", "22P02", "invalid input syntax for type uuid: \"a0\"");
    check_error(oid::DATE, "x", "22007", "invalid input syntax for type date: \"x\"");
    check_error(oid::DATE, "2023-02-29", "22008", "date/time field value out of range: \"2023-02-29\"");
    check_error(oid::NUMERIC, "1.2.3", "22P02", "invalid input syntax for type numeric: \"1.2.3\"");
    check_error(oid::JSON, "{", "22P02", "invalid input syntax for type json");
    check_error(oid::INT4_ARRAY, "{1", "22P02", "malformed array literal: \"{1\"");
    check_error(oid::INT4_ARRAY, "{{1},2}", "22P02", "malformed array literal: \"{{1},2}\"");
    check_error(oid::TEXT, "a\0b", "22021", "invalid byte sequence for encoding \"UTF8\": 0x00");
}

#[test]
fn binary_values_of_a_wrong_length_are_refused() {
    let code = |type_oid, bytes: &[u8]| {
        let error = decode_parameter(type_oid, Format::Binary, Some(bytes)).unwrap_err();
        error.sqlstate()
    };
    assert_eq!(code(oid::INT4, &[0; 3]), "08P01");
    assert_eq!(code(oid::INT4, &[0; 5]), "22P03");
    assert_eq!(code(oid::JSONB, &[2, b'1']), "22P03");
    assert_eq!(code(oid::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10]), "22P03");
    let huge = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1];
    assert_eq!(code(oid::INT4_ARRAY, &huge), "08P01");
    assert_eq!(code(oid::TEXT, b"\xff"), "22021");
}

#[test]
fn a_vector_parameter_becomes_a_fixed_size_list() {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Field, Float32Type};
    let value = decode_parameter(oid::FLOAT4_ARRAY, Format::Text, Some(b"{1,2.5,-3}")).unwrap();
    let item = Field::new("item", DataType::Float32, true);
    let array = value.to_array(&DataType::FixedSizeList(item.into(), 3)).unwrap();
    let items = array.as_fixed_size_list().value(0);
    assert_eq!(items.as_primitive::<Float32Type>().values(), &[1.0, 2.5, -3.0]);
    assert_eq!(items.len(), 3);
}

fn all_types() -> Vec<u32> {
    let mut oids: Vec<u32> = builtins().iter().flat_map(|it| [it.oid, it.array_oid]).collect();
    oids.push(999_999);
    oids
}

proptest! {
    #[test]
    fn random_values_never_panic(
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..64),
        text in "[-+0-9a-zA-Z:., {}\"\\\\/\u{e9}]{0,24}",
    ) {
        for type_oid in all_types() {
            for format in [Format::Text, Format::Binary] {
                for bytes in [&bytes[..], text.as_bytes()] {
                    if let Ok(value) = decode_parameter(type_oid, format, Some(bytes)) {
                        value.to_array(&value.data_type()).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn nearly_right_dates_never_panic(text in "[0-9]{1,7}-[0-9]{1,2}-[0-9]{1,2}[ T][0-9]{1,3}:[0-9]{2}(:[0-9]{2})?(\\.[0-9]{0,9})?([+-][0-9:]{1,8}|Z| UTC)?( BC)?") {
        for type_oid in [oid::DATE, oid::TIME, oid::TIMESTAMP, oid::TIMESTAMPTZ] {
            let _ = decode_parameter(type_oid, Format::Text, Some(text.as_bytes()));
        }
    }

    #[test]
    fn nearly_right_intervals_never_panic(text in "P?(-?[0-9]{1,19}(\\.[0-9]{1,7})? ?(year|mon|day|h|s|Y|M|D|mil|T|us)? ?){1,4}") {
        let _ = decode_parameter(oid::INTERVAL, Format::Text, Some(text.as_bytes()));
    }
}
