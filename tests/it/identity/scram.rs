//! SCRAM that somebody tampers with, and a start-up that fails half-way.

use std::time::{Duration, Instant};

use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use tokio::io::{AsyncRead, AsyncWrite};

use super::pki::Pki;
use super::{over_tcp, psql};
use crate::harness::{Gateway, PASSWORD};
use crate::rows::run;
use crate::wire::raw::{Raw, USER, message, query, startup};

fn first(mechanism: &str, data: &[u8]) -> Vec<u8> {
    let body = [mechanism.as_bytes(), b"\0", &(data.len() as u32).to_be_bytes(), data].concat();
    message(b'p', &body)
}

/// Begins a start-up and returns the mechanisms that are offered.
async fn offered<S: AsyncRead + AsyncWrite + Unpin>(raw: &mut Raw<S>) -> Vec<String> {
    raw.send(&startup(0, &[("user", USER), ("database", USER)])).await;
    let offer = raw.next().await.unwrap();
    assert_eq!(offer.body[..4], 10_u32.to_be_bytes());
    let names = offer.body[4..].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

#[tokio::test]
async fn a04_binding_is_offered_through_tls_only() {
    let pki = Pki::new();
    let gateway = Gateway::start_with(&format!("[pg]\n{}", pki.server()));
    let mut plain = Raw::open(gateway.pg_addr()).await;
    assert_eq!(offered(&mut plain).await, ["SCRAM-SHA-256"]);
    let mut secure = pki.secure(&gateway).await;
    assert_eq!(offered(&mut secure).await, ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]);
    for mode in ["disable", "require", "require channel_binding=require"] {
        let said = psql(&over_tcp(&gateway, USER, &format!("sslmode={mode}")), PASSWORD, "SELECT 1");
        assert_eq!(said, (true, "1\n".to_owned()), "{mode}");
    }
}

#[tokio::test]
async fn a02_a_binding_that_was_cut_out_or_is_of_another_channel_is_refused() {
    let pki = Pki::new();
    let gateway = Gateway::start_with(&format!("[pg]\n{}", pki.server()));
    for (mechanism, data, code) in [
        // The client could bind and believes that we cannot.
        ("SCRAM-SHA-256", &b"y,,n=,r=nonce"[..], "28000"),
        ("SCRAM-SHA-256", b"p=tls-server-end-point,,n=,r=nonce", "28000"),
        ("SCRAM-SHA-256-PLUS", b"p=tls-unique,,n=,r=nonce", "28000"),
        ("SCRAM-SHA-256-PLUS", b"n,,n=,r=nonce", "28000"),
        ("SCRAM-SHA-256-PLUS", b"y,,n=,r=nonce", "28000"),
        ("SCRAM-SHA-1", b"n,,n=,r=nonce", "08P01"),
        ("SCRAM-SHA-256", b"n,a=other,n=,r=nonce", "28000"),
        ("SCRAM-SHA-256", b"n,,m=ext,n=,r=nonce", "08P01"),
    ] {
        let mut raw = pki.secure(&gateway).await;
        offered(&mut raw).await;
        raw.send(&first(mechanism, data)).await;
        raw.expect_fatal(code).await;
    }
    let mut plain = Raw::open(gateway.pg_addr()).await;
    offered(&mut plain).await;
    plain.send(&first("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=nonce")).await;
    plain.expect_fatal("08P01").await;
    // The data of another certificate.
    let mut raw = pki.secure(&gateway).await;
    offered(&mut raw).await;
    let mut scram = ScramSha256::new(PASSWORD.as_bytes(), ChannelBinding::tls_server_end_point(vec![7; 32]));
    raw.send(&first("SCRAM-SHA-256-PLUS", scram.message())).await;
    scram.update(&raw.next().await.unwrap().body[4..]).unwrap();
    raw.send(&message(b'p', scram.message())).await;
    raw.expect_fatal("28000").await;
}

#[tokio::test]
async fn a03_a_proof_is_that_and_nothing_more() {
    let gateway = Gateway::start();
    type Change = fn(String) -> String;
    let changes: &[(&str, Change)] = &[
        ("a byte behind it", |last| format!("{last}x")),
        ("an attribute behind it", |last| format!("{last},x=y")),
        ("a shorter proof", |last| last[..last.len() - 4].to_owned()),
        ("another nonce", |last| last.replacen(",r=", ",r=x", 1)),
        ("an extension", |last| format!("m=x,{last}")),
        ("no proof", |last| last[..last.find(",p=").unwrap()].to_owned()),
        ("a zero byte", |last| format!("{last}\0")),
    ];
    for (what, change) in changes {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        offered(&mut raw).await;
        let mut scram = ScramSha256::new(PASSWORD.as_bytes(), ChannelBinding::unsupported());
        raw.send(&first("SCRAM-SHA-256", scram.message())).await;
        scram.update(&raw.next().await.unwrap().body[4..]).unwrap();
        let last = change(String::from_utf8(scram.message().to_vec()).unwrap());
        raw.send(&message(b'p', last.as_bytes())).await;
        // Whatever is sent on is not executed.
        raw.send(&query("SELECT 1")).await;
        let mut replies = Vec::new();
        while let Some(reply) = raw.next().await {
            replies.push(reply);
        }
        let end = replies.last().unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!((end.kind, end.field('S').as_deref()), ('E', Some("FATAL")), "{what}: {replies:?}");
        assert!(replies.iter().all(|reply| reply.kind != 'Z'), "{what}: {replies:?}");
    }
}

#[tokio::test]
async fn a13_users_that_are_there_and_those_that_are_not_look_alike() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(
        &admin,
        "CREATE USER known PASSWORD 'a long one'; CREATE USER expired PASSWORD 'a long one' VALID UNTIL '2020-01-01';
                 CREATE USER passwordless",
    )
    .await;
    let mut seen = Vec::new();
    for user in ["known", "unknown", "expired", "passwordless"] {
        let began_at = Instant::now();
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", user), ("database", USER)])).await;
        raw.log_in("wrong").await;
        let mut shape = String::new();
        let mut error = None;
        while let Some(reply) = raw.next().await {
            shape.push(reply.kind);
            error = Some(reply);
        }
        let error = error.unwrap();
        let words = error.field('M').unwrap().replace(user, "X");
        eprintln!("{user}: {:?}", began_at.elapsed());
        seen.push((shape, error.field('C'), words, error.field('D'), error.field('H')));
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
}

/// Returns Welch's t of two samples, each without its slowest tenth: those say what else the machine did.
fn welch(samples: [&mut Vec<f64>; 2]) -> f64 {
    let of = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.truncate(times.len() * 9 / 10);
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean, variance / count)
    };
    let [one, other] = samples.map(of);
    (one.0 - other.0) / (one.1 + other.1).sqrt()
}

/// Compares times, so other work on the machine can fail it: `cargo nextest run --run-ignored all -E 'test(a13_)'`.
#[tokio::test]
#[ignore = "compares times, which takes a machine that does nothing else"]
async fn a13_the_time_of_an_answer_does_not_tell_whether_a_user_is_there() {
    // As many logins of each kind, three by each name: the fourth would be held back.
    const NAMES: usize = 112;
    const KINDS: [&str; 3] = ["known", "absent", "nopass"];
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    for number in 0..NAMES {
        run(&admin, &format!("CREATE USER known{number:03} PASSWORD 'a long one'; CREATE USER nopass{number:03}"))
            .await;
    }
    let none = || [Vec::new(), Vec::new(), Vec::new()];
    let (mut offers, mut challenges, mut refusals) = (none(), none(), none());
    for number in 0..NAMES * 3 {
        for offset in 0..KINDS.len() {
            // None of the kinds comes always first.
            let kind = (number + offset) % KINDS.len();
            let user = format!("{}{:03}", KINDS[kind], number % NAMES);
            let mut raw = Raw::open(gateway.pg_addr()).await;
            let began_at = Instant::now();
            raw.send(&startup(0, &[("user", &user), ("database", USER)])).await;
            raw.next().await.unwrap();
            offers[kind].push(began_at.elapsed().as_secs_f64());
            let mut scram = ScramSha256::new(b"wrong", ChannelBinding::unsupported());
            let began_at = Instant::now();
            raw.send(&first("SCRAM-SHA-256", scram.message())).await;
            let challenge = raw.next().await.unwrap();
            challenges[kind].push(began_at.elapsed().as_secs_f64());
            scram.update(&challenge.body[4..]).unwrap();
            let began_at = Instant::now();
            raw.send(&message(b'p', scram.message())).await;
            raw.expect_fatal("28P01").await;
            refusals[kind].push(began_at.elapsed().as_secs_f64());
        }
    }
    for (what, mut times) in [("offer", offers), ("challenge", challenges), ("refusal", refusals)] {
        let [known, absent, nopass] = &mut times;
        for (name, t) in [
            ("known and absent", welch([&mut known.clone(), &mut absent.clone()])),
            ("known and without a password", welch([known, nopass])),
        ] {
            eprintln!("{what}, {name}: t = {t:.2}");
            assert!(t.abs() < 4.5, "{what}: {name} are told apart: t = {t:.2}");
        }
    }
}

#[tokio::test]
async fn a15_what_a_start_up_asks_for_is_a_setting_and_nothing_runs_before_it() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE kept (id BIGINT)").await;
    for (name, value) in [
        ("search_path", "public; DROP TABLE kept"),
        ("search_path", "pg_catalog'; DROP TABLE kept; --"),
        ("options", "-c search_path=public;DROP\\ TABLE\\ kept"),
        ("application_name", "'; DROP TABLE kept; --"),
        ("session_authorization", "other"),
        ("role", "other"),
        ("options", "-c session_authorization=other"),
        ("options", "-c datafusion.execution.batch_size=1"),
        ("datafusion.execution.batch_size", "1"),
    ] {
        // A wrong password ends before any of it is looked at.
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER), ("database", USER), (name, value)])).await;
        raw.log_in("wrong").await;
        raw.expect_fatal("28P01").await;
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER), ("database", USER), (name, value)])).await;
        raw.log_in(PASSWORD).await;
        let replies = raw.until_ready().await;
        if replies.last().is_some_and(|reply| reply.kind == 'Z') {
            assert_eq!(raw.query("SELECT current_user").await[1].row(), [Some(USER.to_owned())], "{name}={value}");
        }
    }
    assert!(admin.simple_query("SELECT * FROM kept").await.is_ok());
}

#[tokio::test]
async fn p05_a_login_is_quick_while_others_say_nothing() {
    let gateway = Gateway::start_with("[pg]\nauthentication_timeout = \"5s\"\n");
    let mut silent = Vec::new();
    for number in 0..40 {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        if number % 2 == 0 {
            raw.send(&[0]).await;
        }
        silent.push(raw);
    }
    let began_at = Instant::now();
    gateway.connect().await.simple_query("SELECT 1").await.unwrap();
    eprintln!("a login beside 40 silent connections took {:?}", began_at.elapsed());
    // It did not wait for them: they are still there.
    for raw in &mut silent {
        assert!(
            tokio::time::timeout(Duration::from_millis(1), raw.next()).await.is_err(),
            "a silent one was closed first"
        );
    }
    for raw in &mut silent {
        assert!(tokio::time::timeout(Duration::from_secs(20), raw.next()).await.expect("closed in time").is_none());
    }
}
