use bytes::BytesMut;

use super::*;
use crate::types::PgType;

fn written(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out);
    let length = u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize;
    assert_eq!(length + 1, out.len());
    out
}

#[test]
fn messages_have_the_documented_layout() {
    let check = |out: BytesMut, expected: &[u8]| assert_eq!(&out[..], expected);
    check(written(authentication_ok), b"R\0\0\0\x08\0\0\0\0");
    check(written(|out| authentication_sasl(out, &["SCRAM-SHA-256"])), b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
    check(written(|out| ready_for_query(out, TransactionStatus::Failed)), b"Z\0\0\0\x05E");
    check(written(|out| backend_key_data(out, 1, &[9; 4])), b"K\0\0\0\x0c\0\0\0\x01\x09\x09\x09\x09");
    check(written(|out| command_complete(out, "SELECT 3")), b"C\0\0\0\x0dSELECT 3\0");
    check(
        written(|out| negotiate_protocol_version(out, 2, &["_pq_.x".into()])),
        b"v\0\0\0\x13\0\x03\0\x02\0\0\0\x01_pq_.x\0",
    );
    check(written(|out| copy_out_response(out, Format::Binary, 2)), b"H\0\0\0\x0b\x01\0\x02\0\x01\0\x01");
    check(written(|out| parameter_description(out, &[23])), b"t\0\0\0\x0a\0\x01\0\0\0\x17");
    let field = FieldDescription {
        name: "a".into(),
        table_oid: 0,
        column_id: 0,
        pg_type: PgType { oid: 23, typlen: 4, typmod: -1, name: "int4" },
        format: Format::Text,
    };
    check(
        written(|out| row_description(out, &[field])),
        b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
    );
}

#[test]
fn an_error_has_its_severity_twice_and_no_zero_byte() {
    let mut fields = ErrorFields::new(Severity::Error, "42601", "syntax\0 error");
    fields.position = Some(7);
    let out = written(|out| error_response(out, &fields));
    assert_eq!(&out[5..], b"SERROR\0VERROR\0C42601\0Msyntax error\0P7\0\0");
}
