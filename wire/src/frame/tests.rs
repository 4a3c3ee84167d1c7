use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::frontend::Target;

const READY: Phase = Phase::Ready { message_bytes_max: 1 << 20 };

fn message(message_type: u8, body: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u8(message_type);
    bytes.put_u32(body.len() as u32 + 4);
    bytes.put_slice(body);
    bytes
}

fn startup(version: u32, body: &[u8]) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_u32(body.len() as u32 + 8);
    bytes.put_u32(version);
    bytes.put_slice(body);
    bytes
}

fn decode(message_type: u8, body: &[u8]) -> Result<FrontendMessage, WireError> {
    let mut bytes = message(message_type, body);
    let decoded = decode_frontend(&mut bytes, READY)?;
    assert!(bytes.is_empty());
    Ok(decoded.unwrap())
}

fn code(message_type: u8, body: &[u8]) -> &'static str {
    decode(message_type, body).unwrap_err().sqlstate()
}

#[test]
fn complete_messages_are_decoded() {
    let check = |message_type, body: &[u8], expected| {
        assert_eq!(decode(message_type, body), Ok(expected));
    };
    check(b'Q', b"SELECT 1\0", FrontendMessage::Query("SELECT 1".into()));
    check(
        b'P',
        b"s\0SELECT $1\0\0\x01\0\0\0\x17",
        FrontendMessage::Parse { name: "s".into(), sql: "SELECT $1".into(), parameter_types: vec![23] },
    );
    check(
        b'B',
        b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\x01",
        FrontendMessage::Bind {
            portal: "p".into(),
            statement: "s".into(),
            parameter_formats: vec![1],
            parameters: vec![Some(Bytes::from_static(b"ab")), None],
            result_formats: vec![1],
        },
    );
    check(b'D', b"Sx\0", FrontendMessage::Describe { target: Target::Statement, name: "x".into() });
    check(b'E', b"\0\0\0\0\x05", FrontendMessage::Execute { portal: String::new(), max_rows: 5 });
    check(b'S', b"", FrontendMessage::Sync);
    check(b'd', b"a\tb\n", FrontendMessage::CopyData(Bytes::from_static(b"a\tb\n")));
    check(b'f', b"why\0", FrontendMessage::CopyFail("why".into()));
}

#[test]
fn a_body_that_does_not_fit_its_message_is_a_protocol_violation() {
    let bodies: [(u8, &[u8]); 14] = [
        (b'Q', b"SELECT 1"),
        (b'Q', b"SELECT 1\0more"),
        (b'P', b"s\0SELECT\0\xff\xff"),
        (b'P', b"s\0SELECT\0\0\x01\0\0"),
        (b'P', b"s\0SELECT\0\0\0x"),
        (b'B', b"p\0s\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
        (b'B', b"p\0s\0\0\0\0\x01\0\0\0\x09ab\0\0"),
        (b'B', b"p\0s\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"),
        (b'B', b"p\0s\0\0\0\xff\xff"),
        (b'D', b"Xx\0"),
        (b'D', b""),
        (b'E', b"p\0\0\0"),
        (b'S', b"x"),
        (b'X', b"\0"),
    ];
    for (message_type, body) in bodies {
        assert_eq!(code(message_type, body), "08P01", "{message_type} {body:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_and_the_message_consumed() {
    for bad in [&b"\xc0\xa7\0"[..], b"\xff\0", b"\xed\xa0\x80\0"] {
        let error = decode(b'Q', bad).unwrap_err();
        assert_eq!(error.sqlstate(), "22021");
        assert!(!error.is_fatal());
    }
    assert_eq!(
        decode(b'Q', b"a\xc0\xa7b\0").unwrap_err().to_string(),
        "invalid byte sequence for encoding \"UTF8\": 0xc0 0xa7"
    );
}

#[test]
fn the_header_alone_decides_about_a_length() {
    for message_type in *b"QPBDECHSXdcfpF" {
        for phase in [READY, Phase::Authenticating] {
            for length in [0u32, 1, 3, 0x7fff_ffff, 0xffff_ffff] {
                let mut bytes = BytesMut::new();
                bytes.put_u8(message_type);
                bytes.put_u32(length);
                let error = decode_frontend(&mut bytes, phase).unwrap_err();
                assert!(error.is_fatal(), "{error}");
            }
        }
    }
    let mut bytes = BytesMut::from(&b"Q\x3f\xff\xff\xf0"[..]);
    let error = decode_frontend(&mut bytes, READY).unwrap_err();
    assert_eq!(error.sqlstate(), "54000");
    let mut bytes = BytesMut::from(&b"Q\x3f\xff\xff\xf0"[..]);
    let error = decode_frontend(&mut bytes, Phase::Authenticating).unwrap_err();
    assert_eq!(error.sqlstate(), "08P01");
}

#[test]
fn messages_arrive_in_pieces() {
    let mut whole = message(b'Q', b"SELECT 1\0");
    whole.extend_from_slice(&message(b'S', b""));
    for cut in 0..whole.len() {
        let mut bytes = BytesMut::from(&whole[..cut]);
        let mut decoded = Vec::new();
        for rest in [&whole[cut..], &[]] {
            while let Some(message) = decode_frontend(&mut bytes, READY).unwrap() {
                decoded.push(message);
            }
            bytes.extend_from_slice(rest);
        }
        assert_eq!(decoded.len(), 2, "cut at {cut}");
    }
}

#[test]
fn startup_packets_are_decoded() {
    let mut bytes = startup(3 << 16 | 2, b"user\0ada\0_pq_.x\0on\0database\0d\0\0");
    assert_eq!(
        decode_startup(&mut bytes, STARTUP_BYTES_MAX),
        Ok(Some(Startup::Startup {
            major: 3,
            minor: 2,
            parameters: vec![("user".into(), "ada".into()), ("database".into(), "d".into())],
            unknown_protocol_options: vec!["_pq_.x".into()],
        }))
    );
    let mut bytes = startup(80_877_102, b"\0\0\0\x07\x01\x02\x03\x04");
    assert_eq!(
        decode_startup(&mut bytes, STARTUP_BYTES_MAX),
        Ok(Some(Startup::CancelRequest { pid: 7, secret: vec![1, 2, 3, 4] }))
    );
    let mut bytes = BytesMut::from(&b"\x16\x03\x01"[..]);
    assert_eq!(decode_startup(&mut bytes, 100), Ok(Some(Startup::DirectTls)));
    assert_eq!(bytes.len(), 3);
}

#[test]
fn startup_packets_with_a_wrong_layout_are_refused() {
    let check = |version: u32, body: &[u8], expected: &str| {
        let mut bytes = startup(version, body);
        let error = decode_startup(&mut bytes, STARTUP_BYTES_MAX).unwrap_err();
        assert_eq!(error.sqlstate(), expected, "{body:?}");
    };
    check(3 << 16, b"user\0ada", "08P01");
    check(3 << 16, b"user\0ada\0", "08P01");
    check(3 << 16, b"user\0ada\0\0x", "08P01");
    check(3 << 16, b"user\0ada\0user\0bob\0\0", "08P01");
    check(3 << 16, b"user\0ad\xffmin\0\0", "22021");
    check(2 << 16, b"user\0ada\0\0", "0A000");
    check(4 << 16, b"user\0ada\0\0", "0A000");
    check(80_877_103, b"x", "08P01");
    check(80_877_102, b"\0\0\0\x07\x01", "08P01");
    check(3 << 16, &[b'a'; 10_000], "08P01");
    let mut short = BytesMut::from(&b"\0\0\0\x04"[..]);
    assert!(decode_startup(&mut short, STARTUP_BYTES_MAX).is_err());
}

#[test]
fn bytes_behind_a_request_for_tls_are_refused() {
    let mut bytes = startup(80_877_103, b"");
    bytes.extend_from_slice(b"Q");
    let request = decode_startup(&mut bytes, STARTUP_BYTES_MAX).unwrap().unwrap();
    let error = ensure_nothing_buffered(&bytes, &request).unwrap_err();
    assert_eq!(error.to_string(), "received unencrypted data after SSL request");
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for phase in [READY, Phase::Authenticating] {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = decode_frontend(&mut buffer, phase) {}
        }
        let _ = decode_startup(&mut BytesMut::from(&bytes[..]), STARTUP_BYTES_MAX);
        let _ = crate::frontend::SaslInitialResponse::decode(&Bytes::from(bytes));
    }

    #[test]
    fn random_bodies_never_panic(
        message_type in proptest::sample::select(b"QPBDECHSXdcfpF".to_vec()),
        body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff), any::<u8>()], 0..120),
    ) {
        let _ = decode(message_type, &body);
        let _ = decode_startup(&mut startup(3 << 16, &body), STARTUP_BYTES_MAX);
    }
}
