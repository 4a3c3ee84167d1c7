//! Bytes that no driver sends.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::raw::{Raw, USER, code, gssenc_request, kinds, message, packet, query, ssl_request, startup, sync};
use crate::harness::Gateway;

#[tokio::test]
async fn bytes_behind_an_encryption_request_are_refused() {
    let gateway = Gateway::start();
    for request in [ssl_request(), gssenc_request()] {
        let stuffed = [request, startup(0, &[("user", USER)]), query("SELECT 1")].concat();
        for split in [stuffed.len(), 9, 20] {
            let mut raw = Raw::open(gateway.pg_addr()).await;
            raw.send(&stuffed[..split]).await;
            raw.stream.read_u8().await.expect("an answer");
            raw.expect_closed_after(&stuffed[split..]).await;
        }
    }
}

impl Raw {
    /// Sends the rest, if the server still takes it, and sees the end without
    /// a session having been opened.
    async fn expect_closed_after(&mut self, rest: &[u8]) {
        use tokio::io::AsyncWriteExt;
        let _ = self.stream.write_all(rest).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.stream.read_to_end(&mut answer)).await;
        // A reset is an end as well.
        let _ = read.expect("the server closes");
        assert!(!answer.contains(&b'Z'), "{answer:?}");
    }
}

#[tokio::test]
async fn p04_a_second_encryption_request_of_a_kind_is_refused() {
    let gateway = Gateway::start();
    for request in [ssl_request(), gssenc_request()] {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&request).await;
        assert_eq!(raw.stream.read_u8().await.unwrap(), b'N');
        raw.send(&request).await;
        raw.expect_fatal("08P01").await;
    }
}

#[tokio::test]
async fn p06_malformed_start_up_packets_are_refused() {
    let gateway = Gateway::start();
    let large = "x".repeat(10_001);
    let cases: &[(&str, Vec<u8>, &str)] = &[
        ("no length", 0_u32.to_be_bytes().to_vec(), "08P01"),
        ("only a length", 4_u32.to_be_bytes().to_vec(), "08P01"),
        ("negative length", u32::MAX.to_be_bytes().to_vec(), "08P01"),
        ("too large", startup(0, &[("user", &large)]), "08P01"),
        ("protocol 2", packet(&[0, 2, 0, 0, 0]), "0A000"),
        ("protocol 4", packet(&[0, 4, 0, 0, 0]), "0A000"),
        ("unterminated", packet(b"\0\x03\0\0user\0lancegate"), "08P01"),
        ("duplicate", startup(0, &[("user", "a"), ("user", "b")]), "08P01"),
        ("no user", startup(0, &[("database", "a")]), "28000"),
        ("invalid UTF-8", packet(b"\0\x03\0\0user\0ad\xffmin\0\0"), "22021"),
    ];
    for (name, bytes, code) in cases {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(bytes).await;
        eprintln!("{name}");
        raw.expect_fatal(code).await;
    }
}

#[tokio::test]
async fn nothing_but_a_password_is_read_before_authentication() {
    let gateway = Gateway::start();
    let huge = [b'Q'].into_iter().chain(0x3fff_fff0_u32.to_be_bytes()).collect::<Vec<u8>>();
    let password = [b'p'].into_iter().chain(70_000_u32.to_be_bytes()).collect::<Vec<u8>>();
    for (bytes, code) in [(huge, "08P01"), (password, "08P01"), (query("SELECT 1"), "08P01"), (sync(), "08P01")] {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER)])).await;
        raw.next().await.unwrap();
        raw.send(&bytes).await;
        raw.expect_fatal(code).await;
    }
}

#[tokio::test]
async fn malformed_lengths_end_the_session_with_an_error() {
    let gateway = Gateway::start();
    for kind in *b"QPBDECHSXdcfpF" {
        for length in [0_u32, 1, 3, 0x7fff_ffff, 0xffff_ffff] {
            let mut raw = Raw::session(&gateway).await;
            raw.send(&[&[kind], &length.to_be_bytes()[..], b"\0\0\0\0"].concat()).await;
            // Only these may be large, so only for these there is a limit to name.
            let limited = b"QPBdF".contains(&kind) && length == 0x7fff_ffff;
            let code = if limited { "54000" } else { "08P01" };
            raw.expect_fatal(code).await;
        }
    }
    for kind in [0, b'Z', 0xff] {
        let mut raw = Raw::session(&gateway).await;
        raw.send(&message(kind, b"")).await;
        raw.expect_fatal("08P01").await;
    }
}

#[tokio::test]
async fn p08_p10_malformed_bodies_end_the_session_with_an_error() {
    let gateway = Gateway::start();
    let bodies: &[(u8, &[u8])] = &[
        (b'Q', b"SELECT 1"),
        (b'Q', b"SELECT 1\0more\0"),
        (b'P', b"\0SELECT 1\0\xff\xff"),
        (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
        (b'B', b"\0\0\0\0\0\x01\0\0\0\x09abc\0\0"),
        (b'B', b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"),
        (b'D', b"Xname\0"),
        (b'E', b"\0\0\0"),
        (b'S', b"extra"),
        (b'p', b"password\0"),
    ];
    for (kind, body) in bodies {
        let mut raw = Raw::session(&gateway).await;
        raw.send(&message(*kind, body)).await;
        raw.expect_fatal("08P01").await;
    }
}

#[tokio::test]
async fn invalid_utf_8_is_refused_and_the_session_goes_on() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    for bytes in [&b"SELECT '\xc0\xa7'\0"[..], b"SELECT '\xff'\0", b"SELECT '\xed\xa0\x80'\0"] {
        let replies = raw.exchange(&[message(b'Q', bytes)]).await;
        assert_eq!((kinds(&replies).as_str(), code(&replies).as_deref()), ("EZ", Some("22021")));
        let replies = raw.exchange(&[message(b'P', &[b"\0", bytes, b"\0\0"].concat()), sync()]).await;
        assert_eq!((kinds(&replies).as_str(), code(&replies).as_deref()), ("EZ", Some("22021")));
    }
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
}

#[tokio::test]
async fn silent_connections_do_not_keep_others_out_for_long() {
    let gateway = Gateway::start_with("[pg]\nauthentication_timeout = \"3s\"\n");
    let mut silent = Vec::new();
    for _ in 0..300 {
        if let Ok(stream) = tokio::net::TcpStream::connect(gateway.pg_addr()).await {
            silent.push(stream);
        }
    }
    // All but the cap are told and closed at once; the rest by the deadline.
    for stream in &mut silent {
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer)).await;
        let _ = read.expect("a silent connection is closed");
    }
    gateway.connect().await.simple_query("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn copy_messages_outside_a_copy_are_ignored() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let copies = [message(b'd', b"1\t2\n"), message(b'c', b""), message(b'f', b"no\0"), query("SELECT 1")];
    assert_eq!(kinds(&raw.exchange(&copies).await), "TDCZ");
    let replies = raw.exchange(&[message(b'F', b"\0\0\0\0\0\0\0\0\0\0")]).await;
    assert_eq!((kinds(&replies).as_str(), code(&replies).as_deref()), ("EZ", Some("0A000")));
}
