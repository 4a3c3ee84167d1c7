//! Answers of a worker: refused, or arrays of the type and length that were asked for, valid throughout.
#![no_main]

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use lancegate_functions::decode_answer;
use libfuzzer_sys::fuzz_target;

const ROWS: usize = 3;

fn types() -> [DataType; 6] {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    [
        DataType::Utf8,
        DataType::Int64,
        DataType::Boolean,
        DataType::List(item(DataType::Utf8)),
        DataType::FixedSizeList(item(DataType::Float32), 4),
        DataType::Struct(vec![item(DataType::Int32), Arc::new(Field::new("text", DataType::LargeUtf8, true))].into()),
    ]
}

fuzz_target!(
    init: {
        // Arrow may panic on bytes that no writer makes. That is caught where it is read, and no finding.
        std::panic::set_hook(Box::new(|_| {}));
    },
    |input: (u8, &[u8])| {
        let (which, body) = input;
        let types = types();
        let expected = &types[usize::from(which) % types.len()];
        let schema = Arc::new(Schema::new(vec![Field::new("value", expected.clone(), true)]));
        if let Ok(values) = decode_answer(br#"{"id":7,"errors":[]}"#, body, ROWS, &schema) {
            assert_eq!((values.len(), values.data_type()), (ROWS, expected));
            values.to_data().validate_full().expect("what is taken is valid");
        }
    }
);
