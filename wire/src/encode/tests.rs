use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Float32Type, Int32Type, TimeUnit};
use bytes::BytesMut;

use super::*;

/// Returns the rows of a column; `None` is NULL.
fn rows(array: ArrayRef, format: Format) -> Result<Vec<Option<Vec<u8>>>, WireError> {
    let count = array.len();
    let schema = Schema::new(vec![Field::new("v", array.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![array]).unwrap();
    let settings = FormatSettings::default();
    let encoder = RowEncoder::new(batch.schema_ref(), &[format.code()], &settings)?;
    let mut out = BytesMut::new();
    // Two calls, as a portal makes them.
    encoder.encode_rows(&batch, 0..count / 2, &mut out)?;
    encoder.encode_rows(&batch, count / 2..count, &mut out)?;
    let mut rest = &out[..];
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
        let value = i32::from_be_bytes(rest[7..11].try_into().unwrap());
        rows.push((value >= 0).then(|| rest[11..length + 1].to_vec()));
        rest = &rest[length + 1..];
    }
    Ok(rows)
}

fn check(array: impl Array + 'static, expected: &[Option<&str>]) {
    let rows = rows(Arc::new(array), Format::Text).unwrap();
    let texts: Vec<_> = rows.into_iter().map(|row| row.map(|row| String::from_utf8(row).unwrap())).collect();
    let texts: Vec<_> = texts.iter().map(Option::as_deref).collect();
    assert_eq!(texts, expected);
}

#[test]
fn arrow_types_without_a_twin_are_written_as_their_nearest() {
    check(Int8Array::from(vec![Some(-1), None]), &[Some("-1"), None]);
    check(UInt64Array::from(vec![u64::MAX]), &[Some("18446744073709551615")]);
    check(NullArray::new(2), &[None, None]);
    check(StringViewArray::from(vec!["a", "longer than twelve bytes"]), &[Some("a"), Some("longer than twelve bytes")]);
    check(Decimal128Array::from(vec![12]).with_precision_and_scale(5, -2).unwrap(), &[Some("1200")]);
    check(Date64Array::from(vec![-1]), &[Some("1969-12-31")]);
    check(TimestampNanosecondArray::from(vec![-1]), &[Some("1969-12-31 23:59:59.999999")]);
    check(DurationSecondArray::from(vec![90_061]), &[Some("1 day 01:01:01")]);
    check(IntervalYearMonthArray::from(vec![14]), &[Some("1 year 2 mons")]);
    let dictionary: DictionaryArray<Int32Type> = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    check(dictionary, &[Some("a"), None, Some("b"), Some("a")]);
    let runs: RunArray<Int32Type> = ["x", "x", "y"].into_iter().collect();
    check(runs, &[Some("x"), Some("x"), Some("y")]);
}

#[test]
fn vectors_are_arrays() {
    let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        [Some(vec![Some(0.5), Some(1.0)]), None, Some(vec![None, Some(-2.5e-7)])],
        2,
    );
    check(vectors.clone(), &[Some("{0.5,1}"), None, Some("{NULL,-2.5e-07}")]);
    let binary = rows(Arc::new(vectors), Format::Binary).unwrap();
    let expected = b"\0\0\0\x01\0\0\0\0\0\0\x02\xbc\0\0\0\x02\0\0\0\x01\0\0\0\x04\x3f\0\0\0\0\0\0\x04\x3f\x80\0\0";
    assert_eq!(binary[0].as_deref(), Some(&expected[..]));
    assert_eq!(binary[2].as_ref().unwrap()[7], 1);
}

#[test]
fn a_ragged_list_has_text_but_no_binary_form() {
    let mut builder = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    builder.values().append_value([Some(1), Some(2)]);
    builder.values().append_value([Some(3)]);
    builder.append(true);
    builder.values().append_value([]);
    builder.append(true);
    let ragged = builder.finish();
    check(ragged.clone(), &[Some("{{1,2},{3}}"), Some("{}")]);
    assert_eq!(rows(Arc::new(ragged), Format::Binary).unwrap_err().sqlstate(), "2202E");
}

#[test]
fn structs_and_maps_are_json() {
    let fields = vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b\"", DataType::Utf8, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), true),
        Field::new("f", DataType::Float64, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![1])),
        Arc::new(StringArray::from(vec!["x\n\"\u{1}"])),
        Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("UTC")),
        Arc::new(Float64Array::from(vec![f64::NAN])),
    ];
    let array = StructArray::new(fields.into(), columns, None);
    check(array, &[Some("{\"a\":1,\"b\\\"\":\"x\\n\\\"\\u0001\",\"t\":\"1970-01-01T00:00:00+00:00\",\"f\":\"NaN\"}")]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("k");
    map.values().append_null();
    map.append(true).unwrap();
    check(map.finish(), &[Some("{\"k\":null}")]);
}

#[test]
fn values_out_of_range_are_errors_and_leave_whole_messages() {
    let array = TimestampMicrosecondArray::from(vec![0, i64::MIN + 1]);
    let schema = Schema::new(vec![Field::new("v", array.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(array)]).unwrap();
    let encoder = RowEncoder::new(batch.schema_ref(), &[], &FormatSettings::default()).unwrap();
    let mut out = BytesMut::new();
    let error = encoder.encode_rows(&batch, 0..2, &mut out).unwrap_err();
    assert_eq!(error.sqlstate(), "22008");
    assert_eq!(out.len(), 11 + "1970-01-01 00:00:00".len());
    assert!(encoder.encode_rows(&batch, 1..3, &mut out).is_err());
}
