//! What a client may ask for, and what becomes of one that asks for more or goes away.

use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt as _;

use super::raw::{Raw, USER, bind, code, kinds, message, parse, query, startup, sync};
use super::session::ENDLESS;
use crate::harness::{Gateway, PASSWORD, until};
use crate::rows::run;

#[tokio::test]
async fn p20_surplus_sessions_are_told_and_the_reserve_is_kept() {
    let gateway = Gateway::start_with("[pg]\nmax_connections = 10\nreserved_connections = 3\n");
    let admin = gateway.connect().await;
    run(&admin, "CREATE USER ann PASSWORD 'a long one'").await;
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", gateway.id())).unwrap().count();
    let before = descriptors();
    let mut sessions = Vec::new();
    let mut refused = 0;
    for _ in 0..30 {
        match gateway.connect_as("ann", "a long one").await {
            Ok(session) => sessions.push(session),
            Err(error) => {
                assert_eq!(error.code().map(|code| code.code()), Some("53300"), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((sessions.len(), refused), (6, 24));
    // The reserve is for who has to look at this.
    let began_at = Instant::now();
    let reserved = [gateway.connect().await, gateway.connect().await];
    eprintln!("a session of the reserve took {:?}", began_at.elapsed());
    drop((sessions, reserved));
    let again = async || gateway.connect_as("ann", "a long one").await.ok().map(drop);
    until("a place", again).await;
    until("the end of all descriptors", async || (descriptors() <= before + 2).then_some(())).await;
}

#[tokio::test]
async fn p13_too_much_is_refused_and_the_session_goes_on() {
    let gateway = Gateway::start_with("[pg]\nmessage_bytes_max = \"1MiB\"\n");
    let mut raw = Raw::session(&gateway).await;
    // 65,535 parameters fit the message, one more has no number.
    let list = |count: usize| (1..=count).map(|n| format!("${n}")).collect::<Vec<_>>().join(",");
    let replies = raw.exchange(&[parse("", &format!("SELECT 1 WHERE 1 IN ({})", list(65_536))), sync()]).await;
    assert_eq!(kinds(&replies), "EZ");
    let refused = code(&replies).unwrap();
    assert!(["54023", "54000", "54001", "42P02"].contains(&refused.as_str()), "{refused}");
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
    // What is longer than a message may be ends the session by its header alone.
    raw.send(&[&b"Q"[..], &(1_048_577_u32 + 4).to_be_bytes()].concat()).await;
    raw.expect_fatal("54000").await;
    let mut raw = Raw::session(&gateway).await;
    raw.exchange(&[parse("s", "SELECT $1::text"), sync()]).await;
    // The header is enough; who sends on may find the connection closed.
    raw.send(&bind("", "s", &[&"x".repeat(1 << 20)])[..4_096]).await;
    raw.expect_fatal("54000").await;
}

#[tokio::test]
async fn p12_invalid_utf_8_is_refused_wherever_text_is() {
    let gateway = Gateway::start();
    run(&gateway.connect().await, "CREATE TABLE t (body TEXT)").await;
    let mut raw = Raw::session(&gateway).await;
    for bytes in [&b"\xc0\xa7"[..], b"\xff", b"\xed\xa0\x80", b"a\xf0\x9f"] {
        raw.exchange(&[parse("s", "SELECT $1::text"), sync()]).await;
        let mut body = b"\0s\0\0\0\0\x01".to_vec();
        body.extend((bytes.len() as u32).to_be_bytes());
        body.extend(bytes);
        body.extend([0, 0]);
        let execute = message(b'E', b"\0\0\0\0\0");
        let replies = raw.exchange(&[message(b'B', &body), execute, sync()]).await;
        assert_eq!(code(&replies).as_deref(), Some("22021"), "{bytes:?}: {replies:?}");
        raw.exchange(&[message(b'C', b"Ss\0"), sync()]).await;
        raw.send(&query("COPY t FROM STDIN")).await;
        assert_eq!(raw.next().await.unwrap().kind, 'G');
        let replies = raw.exchange(&[message(b'd', &[bytes, b"\n"].concat()), message(b'c', b"")]).await;
        assert_eq!(code(&replies).as_deref(), Some("22021"), "{bytes:?}: {replies:?}");
    }
    assert_eq!(raw.query("SELECT count(*) FROM t").await[1].row(), [Some("0".to_owned())]);
    for name in [&b"user\0ad\xffmin\0database\0x\0"[..], b"user\0a\0database\0\xc0\xa7\0"] {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&super::raw::packet(&[b"\0\x03\0\0", name, b"\0"].concat())).await;
        raw.expect_fatal("22021").await;
    }
}

/// Returns how many queries were canceled, once there is one.
pub(crate) async fn canceled(gateway: &Gateway) -> Option<String> {
    let metrics = reqwest::get(gateway.http_url("/metrics")).await.unwrap().text().await.unwrap();
    let line = |name: &str| metrics.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    line("gateway_statements_total{kind=\"query\",outcome=\"canceled\"}")
        .or_else(|| line("gateway_statements_total{outcome=\"canceled\",kind=\"query\"}"))
        .filter(|line| !line.ends_with(" 0"))
}

/// A terabyte, to a client that reads a few bytes each second.
#[tokio::test]
async fn p14_a_client_that_hardly_reads_is_given_up_and_holds_no_memory() {
    let gateway = Gateway::start_with("[pg]\nwrite_timeout = '2s'\n");
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut raw = Raw::over(socket.connect(gateway.pg_addr()).await.unwrap());
    raw.send(&startup(0, &[("user", USER), ("database", USER)])).await;
    raw.log_in(PASSWORD).await;
    raw.until_ready().await;
    let before = gateway.resident_bytes();
    raw.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000000)")).await;
    let began_at = Instant::now();
    let reading = async {
        let mut byte = [0];
        while raw.stream.read_exact(&mut byte).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let mut largest = 0;
    let given_up = until("the end of the statement", async || {
        largest = largest.max(gateway.resident_bytes());
        canceled(&gateway).await
    });
    tokio::select! {
        () = reading => panic!("what was sent is there to be read for longer"),
        _ = given_up => {}
    }
    let (took, grown) = (began_at.elapsed(), largest.saturating_sub(before));
    eprintln!("given up after {took:?}, with {grown} bytes more");
    assert!(took > Duration::from_secs(2) && took < Duration::from_secs(20), "{took:?}");
    // Of a result of a terabyte; the first statement also warms the process up.
    assert!(grown < 192 << 20, "{grown} bytes");
    // The session is over, too: only the one that asks is left.
    let client = gateway.connect().await;
    until("the end of the session", async || {
        let sessions = crate::rows::rows(&client, "SELECT count(*) FROM pg_catalog.pg_stat_activity").await;
        (sessions == ["1"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn p15_a_client_that_is_gone_takes_its_statement_along() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.send(&query(ENDLESS)).await;
    let canceled = async || canceled(&gateway).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began_at = Instant::now();
    drop(raw);
    until("the end of the statement", canceled).await;
    assert!(began_at.elapsed() < Duration::from_secs(10), "{:?}", began_at.elapsed());
}

#[tokio::test]
async fn p18_a_cancel_reaches_neither_the_next_statement_nor_the_next_session() {
    let gateway = Gateway::start();
    let mut first = Raw::session(&gateway).await;
    let key = first.key.clone();
    for _ in 0..20 {
        let mut cancel = Raw::open(gateway.pg_addr()).await;
        cancel.send(&super::raw::cancel_request(&key)).await;
        assert_eq!(cancel.next().await, None);
        assert_eq!(kinds(&first.query("SELECT 1").await), "TDCZ");
    }
    first.send(&message(b'X', b"")).await;
    assert_eq!(first.next().await, None);
    let mut other = Raw::session(&gateway).await;
    other.send(&query("SELECT count(*) FROM generate_series(1, 20000000) AS t (n) WHERE n % 7 = 3")).await;
    for _ in 0..20 {
        let mut cancel = Raw::open(gateway.pg_addr()).await;
        cancel.send(&super::raw::cancel_request(&key)).await;
        assert_eq!(cancel.next().await, None);
    }
    assert_eq!(kinds(&other.until_ready().await), "TDCZ");
}

#[tokio::test]
async fn p09_malformed_lengths_before_a_login_end_it_with_an_error() {
    let gateway = Gateway::start();
    for length in [0_u32, 1, 3, 0x7fff_ffff, 0xffff_ffff] {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER), ("database", USER)])).await;
        raw.next().await.unwrap();
        raw.send(&[&b"p"[..], &length.to_be_bytes(), b"\0\0\0\0"].concat()).await;
        raw.expect_fatal("08P01").await;
    }
    // Lengths within the message that go beyond it.
    for inner in [5_u32, 0x7fff_ffff, 0xffff_fffe, 0x8000_0000] {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER), ("database", USER)])).await;
        raw.next().await.unwrap();
        raw.send(&message(b'p', &[&b"SCRAM-SHA-256\0"[..], &inner.to_be_bytes(), b"n,,"].concat())).await;
        raw.expect_fatal("08P01").await;
    }
    assert!(gateway.connect_as(USER, PASSWORD).await.is_ok());
}
