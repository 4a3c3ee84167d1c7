//! Values against the golden table that PostgreSQL 15 wrote; see
//! `golden/generate.py`.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use bytes::BytesMut;
use lancegate_wire::decode::decode_parameter_with;
use lancegate_wire::settings::TimeZone;
use lancegate_wire::types::{PG_TYPE_KEY, array_of, builtin_by_name};
use lancegate_wire::{Format, FormatSettings, ParameterValue, RowEncoder};

struct Case {
    settings: FormatSettings,
    type_name: String,
    input: String,
    text: String,
    binary: Vec<u8>,
}

fn cases() -> Vec<Case> {
    include_str!("golden/values.txt")
        .lines()
        .map(|line| {
            let fields: Vec<String> = line.split('\t').map(unescape).collect();
            let [zone, digits, type_name, input, text, hex] = &fields[..] else {
                panic!("six columns in {line}");
            };
            Case {
                settings: FormatSettings {
                    extra_float_digits: digits.parse().unwrap(),
                    timezone: TimeZone::parse(zone).unwrap(),
                    ..FormatSettings::default()
                },
                type_name: type_name.trim_matches('"').replace("\"[]", "[]"),
                input: input.clone(),
                text: text.clone(),
                binary: (0..hex.len() / 2)
                    .map(|byte| u8::from_str_radix(&hex[byte * 2..byte * 2 + 2], 16).unwrap())
                    .collect(),
            }
        })
        .collect()
}

fn unescape(field: &str) -> String {
    let mut text = String::new();
    let mut chars = field.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (_, true) => match chars.next().unwrap() {
                't' => text.push('\t'),
                'n' => text.push('\n'),
                other => text.push(other),
            },
            (char, false) => text.push(char),
        }
    }
    text
}

fn type_oid(name: &str) -> u32 {
    match name.strip_suffix("[]") {
        Some(element) => array_of(builtin_by_name(element).unwrap().oid).unwrap(),
        None => builtin_by_name(name).unwrap().oid,
    }
}

/// Writes a value as the only column of the only row and returns its bytes.
fn encode(case: &Case, value: &ParameterValue, format: Format) -> Vec<u8> {
    let array = value.to_array(&value.data_type()).unwrap();
    let marker = HashMap::from([(PG_TYPE_KEY.to_owned(), case.type_name.clone())]);
    let field = Field::new("v", array.data_type().clone(), true).with_metadata(marker);
    let schema = Arc::new(Schema::new(vec![field]));
    let batch =
        RecordBatch::try_new_with_options(Arc::clone(&schema), vec![array], &RecordBatchOptions::new()).unwrap();
    let encoder = RowEncoder::new(&schema, &[format.code()], &case.settings).unwrap();
    let mut out = BytesMut::new();
    encoder.encode_rows(&batch, 0..1, &mut out).unwrap();
    assert_eq!(out[0], b'D');
    let length = u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize;
    assert_eq!(length + 1, out.len());
    assert_eq!(out[5..7], [0, 1]);
    let value = u32::from_be_bytes(out[7..11].try_into().unwrap()) as usize;
    assert_eq!(value + 11, out.len());
    out[11..].to_vec()
}

#[test]
fn every_value_is_read_and_written_as_postgresql_does() {
    let mut failures = Vec::new();
    for case in cases() {
        // Arrow decimals have no NaN.
        let oid = type_oid(&case.type_name);
        let from_text = decode_parameter_with(oid, Format::Text, Some(case.input.as_bytes()), &case.settings);
        let from_binary = decode_parameter_with(oid, Format::Binary, Some(&case.binary), &case.settings);
        for (origin, value) in [("text", from_text), ("binary", from_binary)] {
            let value = match value {
                Ok(value) => value,
                Err(error) => {
                    failures.push(format!("{} {:?} from {origin}: {error}", case.type_name, case.input));
                    continue;
                }
            };
            let text = String::from_utf8(encode(&case, &value, Format::Text)).unwrap();
            if text != case.text && !is_json(&case) {
                failures.push(format!(
                    "{} {:?} from {origin}: {text:?} instead of {:?}",
                    case.type_name, case.input, case.text
                ));
            }
            let binary = encode(&case, &value, Format::Binary);
            if binary != case.binary && !(is_json(&case)) {
                failures.push(format!(
                    "{} {:?} from {origin}: {binary:02x?} instead of {:02x?}",
                    case.type_name, case.input, case.binary
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// `jsonb` is printed from its parsed form; here text stays as it was sent.
fn is_json(case: &Case) -> bool {
    case.type_name == "jsonb" && case.input != case.text
}
