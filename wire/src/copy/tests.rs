use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::settings::FormatSettings;

fn options(format: CopyFormat) -> CopyOptions {
    CopyOptions::new(format)
}

fn decode(options: &CopyOptions, data: &[u8], chunk: usize) -> Result<Vec<CopyRow>, WireError> {
    let columns = vec!["a".to_owned(), "b".to_owned()];
    let mut decoder = CopyDecoder::new(options, columns, 1_000)?;
    let mut rows = Vec::new();
    for piece in data.chunks(chunk.max(1)) {
        decoder.push(piece, &mut rows)?;
    }
    decoder.finish(&mut rows)?;
    Ok(rows)
}

fn row(a: Option<&'static str>, b: Option<&'static str>) -> CopyRow {
    [a, b].map(|field| field.map(|text| Bytes::from_static(text.as_bytes()))).to_vec()
}

fn check(options: &CopyOptions, data: &[u8], expected: &[CopyRow]) {
    for chunk in [1, 2, 3, 1_000] {
        assert_eq!(decode(options, data, chunk).as_deref(), Ok(expected), "{data:?}");
    }
}

fn check_error(options: &CopyOptions, data: &[u8], expected: &str) {
    for chunk in [1, 1_000] {
        let error = decode(options, data, chunk).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn text_rows_are_split_and_unescaped() {
    let text = options(CopyFormat::Text);
    check(&text, b"1\tx\n2\t\\N\n", &[row(Some("1"), Some("x")), row(Some("2"), None)]);
    check(&text, b"1\tx", &[row(Some("1"), Some("x"))]);
    check(&text, b"1\tx\r\n2\ty\r\n", &[row(Some("1"), Some("x")), row(Some("2"), Some("y"))]);
    check(&text, b"\\\\N\t\\t\\n\\x41\\101\\q\n", &[row(Some("\\N"), Some("\t\nAAq"))]);
    check(&text, b"a\\\nb\tc\n", &[row(Some("a\nb"), Some("c"))]);
    check(&text, b"1\t\n\\.\nignored", &[row(Some("1"), Some(""))]);
    check(&text, b"", &[]);
    check_error(&text, b"1\n", "missing data for column \"b\"");
    check_error(&text, b"1\t2\t3\n", "extra data after last expected column");
}

#[test]
fn csv_records_are_split_and_unquoted() {
    let csv = options(CopyFormat::Csv);
    check(&csv, b"1,x\n", &[row(Some("1"), Some("x"))]);
    check(&csv, b"\"a,\"\"b\"\"\n\",\"\"\n,x\n", &[row(Some("a,\"b\"\n"), Some("")), row(None, Some("x"))]);
    check(&csv, b"x,\n", &[row(Some("x"), None)]);
    check(&csv, b"a\"b\"c,d\r\n", &[row(Some("abc"), Some("d"))]);
    check_error(&csv, b"\"a,b\n", "unterminated CSV quoted field");
    let mut header = csv.clone();
    header.header = true;
    check(&header, b"a,b\n1,2\n", &[row(Some("1"), Some("2"))]);
    let mut backslash = csv;
    backslash.escape = b'\\';
    check(&backslash, b"\"a\\\"b\",c\n", &[row(Some("a\"b"), Some("c"))]);
}

#[test]
fn a_row_over_the_limit_is_refused() {
    for format in [CopyFormat::Text, CopyFormat::Csv] {
        let error = decode(&options(format), &[b'a'; 2_000], 100).unwrap_err();
        assert_eq!(error.sqlstate(), "54000");
    }
}

#[test]
fn binary_data_must_be_complete() {
    let binary = options(CopyFormat::Binary);
    check_error(&binary, b"", "unexpected EOF in COPY data");
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    check_error(&binary, &data[..15], "unexpected EOF in COPY data");
    check(&binary, &data, &[]);
    data.extend_from_slice(b"\0\x02\0\0\0\x01x\xff\xff\xff\xff");
    check_error(&binary, &data[..data.len() - 1], "unexpected EOF in COPY data");
    // The trailer may be left out.
    check(&binary, &data, &[row(Some("x"), None)]);
    data.extend_from_slice(b"\xff\xff");
    check(&binary, &data, &[row(Some("x"), None)]);
    data.push(0);
    check_error(&binary, &data, "received copy data after EOF marker");
    check_error(&binary, b"PGCOPX", "COPY file signature not recognized");
}

fn bodies(mut out: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while !out.is_empty() {
        assert_eq!(out[0], b'd');
        let length = u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize;
        data.extend_from_slice(&out[5..length + 1]);
        out = &out[length + 1..];
    }
    data
}

fn encode(options: &CopyOptions, texts: &[Option<String>]) -> Vec<u8> {
    let numbers = Int32Array::from_iter_values(0..texts.len() as i32);
    let batch = RecordBatch::try_from_iter([
        ("a", Arc::new(numbers) as _),
        ("b", Arc::new(StringArray::from(texts.to_vec())) as _),
    ])
    .unwrap();
    let mut encoder = CopyEncoder::new(batch.schema_ref(), options, &FormatSettings::default()).unwrap();
    let mut out = BytesMut::new();
    encoder.start(&mut out).unwrap();
    encoder.encode_rows(&batch, 0..texts.len(), &mut out).unwrap();
    encoder.finish(&mut out).unwrap();
    bodies(&out)
}

#[test]
fn rows_are_written_as_postgresql_does() {
    let texts = [Some("a\tb\\".to_owned()), None, Some(String::new()), Some("q\"u,o\n".to_owned())];
    assert_eq!(encode(&options(CopyFormat::Text), &texts), b"0\ta\\tb\\\\\n1\t\\N\n2\t\n3\tq\"u,o\\n\n");
    let mut csv = options(CopyFormat::Csv);
    csv.header = true;
    assert_eq!(encode(&csv, &texts), b"a,b\n0,a\tb\\\n1,\n2,\"\"\n3,\"q\"\"u,o\n\"\n");
}

proptest! {
    #[test]
    fn what_is_written_can_be_read(
        texts in proptest::collection::vec(proptest::option::of("[a-c\\\\\"',\t\n\r\u{b}é.N]{0,8}"), 0..6),
        chunk in 1usize..20,
    ) {
        for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
            let options = options(format);
            let data = encode(&options, &texts);
            let rows = decode(&options, &data, chunk).unwrap();
            let read: Vec<Option<String>> = rows
                .iter()
                .map(|row| row[1].as_ref().map(|field| String::from_utf8(field.to_vec()).unwrap()))
                .collect();
            prop_assert_eq!(&read, &texts);
        }
    }

    #[test]
    fn random_data_never_panics(
        data in proptest::collection::vec(prop_oneof![
            Just(b'\\'), Just(b'"'), Just(b'\n'), Just(b'\t'), Just(b','), Just(b'\r'), Just(b'.'), any::<u8>(),
        ], 0..60),
        chunk in 1usize..20,
    ) {
        for format in [CopyFormat::Text, CopyFormat::Csv] {
            let _ = decode(&options(format), &data, chunk);
        }
        let mut binary = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02".to_vec();
        binary.extend_from_slice(&data);
        let _ = decode(&options(CopyFormat::Binary), &binary, chunk);
        let _ = decode(&options(CopyFormat::Binary), &data, chunk);
    }
}
