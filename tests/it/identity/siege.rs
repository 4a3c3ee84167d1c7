//! A session that asks on and on while texts and bytes come that are meant to take the
//! gateway down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::wire::raw::{Raw, USER, message, query, startup};

/// Asks every 100 ms and returns how long each answer took.
async fn canary(client: Client, over: Arc<AtomicBool>) -> Vec<Duration> {
    let mut times = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let began_at = Instant::now();
        client.simple_query("SELECT 1").await.expect("the canary lives");
        times.push(began_at.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    times
}

fn repeated(head: &str, piece: &str, times: usize, tail: &str) -> String {
    format!("{head}{}{tail}", piece.repeat(times))
}

/// Texts of section 4.5, Q02 to Q10.
fn bombs() -> Vec<(&'static str, String)> {
    let list = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let values = |n: usize| (0..n).map(|i| format!("({i})")).collect::<Vec<_>>().join(",");
    let joined = (0..30).map(|i| format!("generate_series(1, 100) t{i}")).collect::<Vec<_>>().join(",");
    let sets = (0..12).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
    let columns = (0..12).map(|i| format!("{i} AS c{i}")).collect::<Vec<_>>().join(",");
    vec![
        ("2,000 sums", repeated("SELECT 1", "+1", 2_000, "")),
        ("50,000 sums", repeated("SELECT 1", "+1", 50_000, "")),
        ("200,000 sums", repeated("SELECT 1", "+1", 200_000, "")),
        ("20,000 ORs", repeated("SELECT 1 WHERE true", " OR true", 20_000, "")),
        ("30,000 unions", repeated("SELECT 1", " UNION ALL SELECT 1", 30_000, "")),
        ("50,000 casts", repeated("SELECT 1", "::int", 50_000, "")),
        ("10,000 subscripts", repeated("SELECT a", "[1]", 10_000, " FROM (SELECT ARRAY[1] AS a) t")),
        ("50,000 brackets", format!("SELECT {}1{}", "(".repeat(50_000), ")".repeat(50_000))),
        ("50,000 NOTs", repeated("SELECT ", "NOT ", 50_000, "true")),
        ("10,000 CASEs", format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(10_000), " END".repeat(10_000))),
        ("200,000 in a list", format!("SELECT 1 WHERE 7 IN ({})", list(200_000))),
        ("100,000 rows", format!("SELECT count(*) FROM (VALUES {}) t", values(100_000))),
        ("30 cross joins", format!("SELECT count(*) FROM {joined}")),
        ("4,096 grouping sets", format!("SELECT count(*) FROM (SELECT {columns}) t GROUP BY CUBE ({sets})")),
        ("repeat", "SELECT length(repeat('a', 2147483647))".to_owned()),
        ("repeat of repeat", "SELECT length(repeat(repeat('a', 100000), 100000))".to_owned()),
        ("lpad", "SELECT length(lpad('a', 2147483647, 'b'))".to_owned()),
        ("array_repeat", "SELECT array_length(array_repeat(1, 2000000000))".to_owned()),
        ("an endless series", "SELECT count(*) FROM generate_series(1, 1000000000000)".to_owned()),
        (
            "an endless sort",
            "SELECT * FROM generate_series(1, 1000000000) t (n) ORDER BY n % 7, n DESC LIMIT 1".to_owned(),
        ),
        ("a regular expression", "SELECT 'aaaaaaaa' ~ '(a{1,1000}){1,1000}'".to_owned()),
        ("a nested expression", "SELECT repeat('a', 10000) ~ '(a*)*(a*)*(a*)*b'".to_owned()),
        ("a name of 64 KiB", format!("SELECT 1 AS \"{}\"", "x".repeat(65_536))),
        ("17 MiB of text", format!("SELECT '{}'", "x".repeat(17 << 20))),
    ]
}

/// Runs a text in a session of its own, whose statements have 1 s, and returns the
/// code of its answer.
async fn thrown(gateway: &Gateway, sql: &str) -> String {
    let client = gateway.connect().await;
    client.simple_query("SET statement_timeout = '1s'").await.unwrap();
    match tokio::time::timeout(Duration::from_secs(60), client.simple_query(sql)).await {
        Err(_) => "no answer within a minute".to_owned(),
        Ok(Ok(_)) => "ok".to_owned(),
        Ok(Err(error)) => error.code().map_or_else(|| format!("lost: {error}"), |code| code.code().to_owned()),
    }
}

#[tokio::test]
async fn q02_q10_a_session_is_answered_through_all_bombs() {
    let mut gateway = Gateway::start_with("[query]\nmemory = '256MiB'\nspill_max = '256MiB'\n");
    let over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(canary(gateway.connect().await, Arc::clone(&over)));
    let mut wrong = Vec::new();
    for (name, text) in bombs() {
        // As they are, prepared, explained, and in a view (Q04).
        for (form, sql) in [
            ("", text.clone()),
            ("EXPLAIN ", format!("EXPLAIN {text}")),
            ("CREATE VIEW ", format!("CREATE OR REPLACE VIEW bomb AS {text}")),
        ] {
            let code = thrown(&gateway, &sql).await;
            eprintln!("{form}{name}: {code}");
            // Answered, too much of something, or out of time; never a bug or a lost session.
            let expected = [
                "ok", "54000", "54001", "53200", "53400", "57014", "42601", "42602", "42622", "22023", "2201B", "0A000",
            ];
            if !expected.contains(&code.as_str()) {
                wrong.push(format!("{form}{name}: {code}"));
            }
        }
        assert!(gateway.ended().is_none(), "{name} took the gateway down");
    }
    over.store(true, Ordering::Relaxed);
    let mut times = watching.await.expect("the canary is answered to the end");
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    eprintln!("canary: {} answers, p50 {:?}, p99 {:?}, max {:?}", times.len(), at(50), at(99), at(100));
    assert!(wrong.is_empty(), "{wrong:#?}");
    let metrics = reqwest::get(gateway.http_url("/metrics")).await.unwrap().text().await.unwrap();
    let panics = metrics.lines().find(|line| line.starts_with("gateway_statement_panics_total")).unwrap();
    assert!(panics.ends_with(" 0"), "{panics}");
}

#[tokio::test]
async fn p02_bytes_before_tls_are_refused_wherever_they_are_cut() {
    let pki = super::pki::Pki::new();
    let gateway = Gateway::start_with(&format!("[pg]\n{}", pki.server()));
    let stuffed = [crate::wire::raw::ssl_request(), startup(0, &[("user", USER)]), query("SELECT 1")].concat();
    for split in 8..stuffed.len() {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&stuffed[..split]).await;
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let _ = raw.stream.write_all(&stuffed[split..]).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), raw.stream.read_to_end(&mut answer)).await;
        let _ = read.expect("the server closes");
        assert!(!answer.windows(5).any(|window| window == b"Z\0\0\0\x05"), "{split}: {answer:?}");
    }
}

#[tokio::test]
async fn p03_p17_guesses_and_headers_before_a_login_cost_nothing() {
    let gateway = Gateway::start();
    let rss = || {
        let pid = gateway.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let victim = Raw::session(&gateway).await;
    let before = rss();
    for _ in 0..20 {
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&startup(0, &[("user", USER)])).await;
        raw.next().await.unwrap();
        let header = [&b"Q"[..], &0x3fff_fff0_u32.to_be_bytes()].concat();
        raw.send(&header).await;
        use tokio::io::AsyncWriteExt as _;
        for _ in 0..64 {
            if raw.stream.write_all(&[b'x'; 65_536]).await.is_err() {
                break;
            }
        }
    }
    for guess in 0..1_000_u32 {
        let key = (victim.key.0, guess.to_be_bytes().to_vec());
        let mut raw = Raw::open(gateway.pg_addr()).await;
        raw.send(&crate::wire::raw::cancel_request(&key)).await;
        assert_eq!(raw.next().await, None);
    }
    let grown = rss().saturating_sub(before);
    eprintln!("20 headers of a gigabyte and 1,000 guesses: {grown} KiB more");
    assert!(grown < 64 * 1024, "{grown} KiB more");
    gateway.connect().await.simple_query("SELECT 1").await.unwrap();
}

/// A recorded session, changed in a reproducible way at one place each time.
#[tokio::test]
async fn p11_changed_frames_end_a_session_and_nothing_else() {
    let mut gateway = Gateway::start();
    let frames = [
        query("SELECT 1; SELECT 2"),
        crate::wire::raw::parse("s", "SELECT $1::int"),
        crate::wire::raw::bind("p", "s", &["7"]),
        crate::wire::raw::describe(b'P', "p"),
        crate::wire::raw::execute("p", 0),
        crate::wire::raw::close(b'S', "s"),
        message(b'd', b"1\t2\n"),
        crate::wire::raw::sync(),
    ]
    .concat();
    // xorshift: the same changes in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for number in 0..400 {
        let mut changed = frames.clone();
        for _ in 0..=random(3) {
            let at = random(changed.len());
            match random(4) {
                0 => changed[at] = random(256) as u8,
                1 => changed.truncate(at.max(1)),
                2 => changed.insert(at, random(256) as u8),
                _ => changed[at] ^= 1 << random(8),
            }
        }
        let mut raw = Raw::session(&gateway).await;
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let _ = raw.stream.write_all(&changed).await;
        let _ = raw.stream.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), raw.stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "change {number} hangs: {changed:?}");
    }
    assert!(gateway.ended().is_none());
    gateway.connect().await.simple_query("SELECT 1").await.unwrap();
    let log = gateway.log();
    assert!(!log.contains("panicked"), "{log}");
}
