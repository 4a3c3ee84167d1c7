//! What one statement may take of memory, of the disk, of the processors and of time, and what is left for others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::harness::{Gateway, PASSWORD, until};
use crate::identity::{Files, key};
use crate::rest::Rest;
use crate::rows::{describe, error, rows, run};
use crate::wire::limits::canceled;
use crate::wire::raw::{Raw, code, query};
use crate::wire::session::ENDLESS;

/// Returns the most memory that a gateway has held so far, in bytes.
fn peak(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Each function whose result can be far larger than its arguments: a call within its bound and what it gives, and calls
/// beyond it, of constants and of columns.
const BOUNDED: [(&str, &str, [&str; 2]); 9] = [
    (
        "length(repeat('ab', 3))",
        "6",
        ["length(repeat('a', 2147483647))", "max(length(repeat(repeat('a', 100000), CAST(n AS integer))))"],
    ),
    (
        "lpad('a', 3, 'b')",
        "bba",
        ["length(lpad('a', 2147483647, 'b'))", "max(length(lpad('a', CAST(n * 100 AS integer), 'b')))"],
    ),
    (
        "rpad('a', 3, 'b')",
        "abb",
        ["length(rpad('a', 2147483647, 'b'))", "max(length(rpad('a', CAST(n * 100 AS integer), 'b')))"],
    ),
    (
        "replace('aba', 'a', 'cd')",
        "cdbcd",
        [
            "length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))",
            "max(length(replace(repeat('a', 100000), 'a', repeat('b', CAST(n AS integer)))))",
        ],
    ),
    (
        "array_length(array_repeat(7, 3), 1)",
        "3",
        ["array_length(array_repeat(1, 2000000000), 1)", "max(array_length(array_repeat(n, n * 1000), 1))"],
    ),
    (
        "array_length(list_repeat('x', 3), 1)",
        "3",
        ["array_length(list_repeat(repeat('x', 1000), 2000000), 1)", "max(array_length(list_repeat(n, n * 1000), 1))"],
    ),
    (
        "array_length(array_resize(ARRAY[1, 2], 3, 0), 1)",
        "3",
        [
            "array_length(array_resize(ARRAY[1], 2000000000, 0), 1)",
            "max(array_length(array_resize(ARRAY[n], n * 1000, n), 1))",
        ],
    ),
    (
        "array_length(range(1, 4), 1)",
        "3",
        ["array_length(range(1, 1000000000000), 1)", "max(array_length(range(0, n * 1000000), 1))"],
    ),
    (
        "array_length(range(date '2024-01-01', date '2024-01-04', interval '1 day'), 1)",
        "3",
        [
            "array_length(range(date '1900-01-01', date '2200-01-01', interval '1 microsecond'), 1)",
            "max(array_length(range(date '1900-01-01', date '2200-01-01', interval '1 microsecond'), 1) + n)",
        ],
    ),
];

#[tokio::test]
async fn q07_a_value_that_would_be_gigabytes_is_refused_before_it_is_made() {
    let gateway = Gateway::start_with("[query]\nmemory = '256MiB'\n");
    let client = gateway.connect().await;
    run(&client, "SET statement_timeout = '20s'").await;
    let before = peak(&gateway);
    for (small, expected, large) in BOUNDED {
        assert_eq!(rows(&client, &format!("SELECT {small}")).await, [expected], "{small}");
        let [constant, column] = large;
        let many = "FROM generate_series(100000, 100200) AS s(n)";
        for sql in [
            format!("SELECT {constant}"),
            format!("SELECT {column} {many}"),
            format!("SELECT n FROM (SELECT 1 AS n) AS s WHERE {constant} > 0"),
            format!("EXPLAIN SELECT {constant}"),
            format!("CREATE TABLE made AS SELECT {constant} AS x"),
        ] {
            let is_explain = sql.starts_with("EXPLAIN");
            let told = client.simple_query(&sql).await.err().map(|error| describe(&error));
            // A plan may be shown that was not run.
            let refused = told.as_deref().is_some_and(|told| told.starts_with("54000: requested length too large"));
            assert!(refused || (is_explain && told.is_none()), "{sql}: {told:?}");
        }
    }
    assert!(rows(&client, "SHOW TABLES").await.is_empty());
    let grown = peak(&gateway).saturating_sub(before);
    eprintln!("refused values: {} MiB more at most", grown >> 20);
    assert!(grown < 512 << 20, "{grown} bytes");
    // Rows are not made at once: a long series is counted within the same memory, for as long as it may.
    run(&client, "SET statement_timeout = '2s'").await;
    for endless in [
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "SELECT count(*) FROM (SELECT generate_series(1, 1000000000000)) AS s",
        "SELECT count(*) FROM unnest(range(1, 100000000)) AS s(n), generate_series(1, 1000000) AS t(m)",
    ] {
        let told = error(&client, endless).await;
        assert!(["57014", "53200", "54000", "53400"].contains(&&told[..5]), "{endless}: {told}");
    }
    let grown = peak(&gateway).saturating_sub(before);
    eprintln!("and endless series: {} MiB more at most", grown >> 20);
    assert!(grown < 2 << 30, "{grown} bytes");
    assert_eq!(rows(&client, "SELECT 1").await, ["1"]);
}

/// Returns the files below a folder.
fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[tokio::test]
async fn q08_eight_statements_of_four_times_the_memory_spill_or_are_refused_and_others_go_on() {
    const ROWS: usize = 1_000_000;
    let files = Files::new();
    let spill = files.path("spill");
    std::fs::create_dir(&spill).unwrap();
    let gateway = Gateway::start_with(&format!(
        "[query]\nmemory = '64MiB'\nspill_max = '8GiB'\n{}",
        key("spill_directory", &spill)
    ));
    let client = gateway.connect().await;
    // 256 MiB of texts that are all different.
    let text = "repeat(md5(CAST(n AS text)), 8)";
    run(&client, &format!("CREATE TABLE big AS SELECT n, {text} AS s FROM generate_series(1, {ROWS}) AS g(n)")).await;
    let before = peak(&gateway);
    let sort = format!("SELECT n FROM big ORDER BY s OFFSET {}", ROWS - 1);
    let group = "SELECT count(*) FROM (SELECT s, max(n) FROM big GROUP BY s) AS g".to_owned();
    let join = "SELECT count(*) FROM big AS a JOIN big AS b ON a.s = b.s".to_owned();
    let over = Arc::new(AtomicBool::new(false));
    let others = {
        let (client, over) = (gateway.connect().await, Arc::clone(&over));
        tokio::spawn(async move {
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let began_at = Instant::now();
                assert_eq!(rows(&client, "SELECT count(*) FROM big WHERE n = 7").await, ["1"]);
                times.push(began_at.elapsed());
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            times.sort();
            times
        })
    };
    let mut large = JoinSet::new();
    for sql in [&sort, &group, &join, &sort, &group, &join, &sort, &group] {
        let (client, sql) = (gateway.connect().await, sql.clone());
        large.spawn(async move {
            run(&client, "SET statement_timeout = '180s'").await;
            let began_at = Instant::now();
            let told = client.simple_query(&sql).await.map(|_| ()).map_err(|error| describe(&error));
            // The session goes on whatever became of it.
            assert_eq!(rows(&client, "SELECT 1").await, ["1"]);
            (sql, told, began_at.elapsed())
        });
    }
    let mut spilled = 0;
    let mut ended = Vec::new();
    while let Some(done) = tokio::select! {
        done = large.join_next() => done.map(Some),
        () = tokio::time::sleep(Duration::from_millis(50)) => Some(None),
    } {
        spilled = spilled.max(files_below(&spill).len());
        ended.extend(done.map(Result::unwrap));
    }
    over.store(true, Ordering::Relaxed);
    let times = others.await.expect("another session is answered to the end");
    for (sql, told, took) in &ended {
        eprintln!("{sql}: {told:?} in {took:?}");
        let refused = told.as_ref().err().map(|told| told[..5].to_owned());
        assert!(refused.is_none() || refused.as_deref() == Some("53200"), "{sql}: {told:?}");
    }
    let grown = peak(&gateway).saturating_sub(before);
    let slowest = times[times.len() - 1];
    eprintln!("{} MiB more at most, {spilled} spill files, others within {slowest:?}", grown >> 20);
    assert!(grown < 1 << 30, "{grown} bytes");
    assert!(spilled > 0, "nothing was spilled");
    // Alone, each of those that can spill has its memory.
    run(&client, "SET statement_timeout = '180s'").await;
    let last = rows(&client, &sort).await;
    assert_eq!(last.len(), 1);
    assert_eq!(rows(&client, &group).await, [ROWS.to_string()]);
    until("an empty folder", async || files_below(&spill).is_empty().then_some(())).await;
}

/// The refresh is held in the middle, so that nothing but its lease keeps it alive.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn q11_statements_that_compute_hold_up_neither_leases_nor_logins() {
    let config = "[column_refresh]\npublish_fragments = 1\nworkers = 1\n[jobs]\nlease = \"3s\"\n[query]\nthreads = 2\n";
    let gateway = crate::faults::failing_table(config, "stage.batch=hold@1;lease.renew=delay(0)@*").await;
    let client = gateway.connect().await;
    let job = crate::rows::value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    gateway.held("stage.batch", 1).await;
    let mut busy = JoinSet::new();
    for _ in 0..4 {
        let client = gateway.connect().await;
        busy.spawn(async move { client.simple_query(ENDLESS).await.err().map(|error| describe(&error)) });
    }
    let computed = gateway.computed();
    let (mut logins, began_at) = (Vec::new(), Instant::now());
    while began_at.elapsed() < Duration::from_secs(20) {
        let login = Instant::now();
        let other = gateway.connect_as("lancegate", PASSWORD).await.unwrap();
        other.simple_query("SELECT 1").await.unwrap();
        logins.push(login.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let computed = gateway.computed() - computed;
    assert!(busy.try_join_next().is_none(), "a statement has ended");
    assert!(computed > 300, "the statements had {computed} hundredths of a second only");
    logins.sort();
    let slowest = logins[logins.len() - 1];
    // When each renewal began: the next one has not begun before it had ended.
    let log = gateway.log();
    let at = |line: &str| chrono::DateTime::parse_from_rfc3339(line.split_whitespace().next().unwrap()).unwrap();
    let renewals: Vec<_> = log.lines().filter(|line| line.contains("place=\"lease.renew\"")).map(at).collect();
    let mut gaps: Vec<f64> = renewals.windows(2).map(|pair| (pair[1] - pair[0]).as_seconds_f64()).collect();
    gaps.sort_by(f64::total_cmp);
    eprintln!(
        "{} logins within {slowest:?}; {} renewals, at most {:?} s apart",
        logins.len(),
        renewals.len(),
        gaps.last()
    );
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    assert!(gaps.len() >= 5, "{gaps:?}");
    gateway.let_go("stage.batch", 1);
    crate::faults::succeeds(&client, &job, "beside computing statements").await;
    let events =
        format!("SELECT message FROM system.public.job_events WHERE job_id = '{job}' AND message LIKE '%lease%'");
    assert_eq!(rows(&client, &events).await, Vec::<String>::new());
}

/// How long after a second a statement may be told that its time is over, on a machine that
/// has other things to do. What it is on one that has not is printed.
const LATE: Duration = Duration::from_secs(15);

fn in_time(what: &str, took: Duration) {
    eprintln!("{what}: {took:?}");
    assert!(took >= Duration::from_millis(990) && took < Duration::from_secs(1) + LATE, "{what}: {took:?}");
}

async fn timed(client: &Client, what: &str, sql: &str) {
    let began_at = Instant::now();
    let told = error(client, sql).await;
    assert!(told.starts_with("57014: canceling statement due to statement timeout"), "{what}: {told}");
    in_time(what, began_at.elapsed());
    assert_eq!(rows(client, "SELECT 1").await, ["1"]);
}

#[tokio::test]
async fn q12_the_time_of_a_statement_is_over_in_each_of_its_phases() {
    let rest = Rest::start().await;
    let gateway = &rest.gateway;
    let client = gateway.connect().await;
    run(&client, &format!("CREATE VIEW slow AS {ENDLESS}; SET statement_timeout = '1s'")).await;
    timed(&client, "a slow scan", ENDLESS).await;
    timed(&client, "a sort", "SELECT n FROM generate_series(1, 1000000000) AS t(n) ORDER BY n % 7, n DESC LIMIT 1")
        .await;
    timed(&client, "a change", &format!("CREATE TABLE made AS {ENDLESS}")).await;
    timed(&client, "what waits", "SELECT pg_sleep(30)").await;
    // Prepared: from its Execute on.
    let prepared = client.prepare(ENDLESS).await.unwrap();
    let began_at = Instant::now();
    let told = client.query(&prepared, &[]).await.unwrap_err();
    assert!(describe(&told).starts_with("57014"), "{}", describe(&told));
    in_time("a prepared statement", began_at.elapsed());

    // A client that does not read: its statement ends all the same, and once it reads it is told.
    let before = canceled(gateway).await;
    let mut raw = Raw::session(gateway).await;
    raw.query("SET statement_timeout = '1s'").await;
    let began_at = Instant::now();
    raw.send(&query("SELECT repeat('x', 1000) FROM generate_series(1, 1000000000)")).await;
    until("the end of the statement", async || (canceled(gateway).await != before).then_some(())).await;
    in_time("a slow client", began_at.elapsed());
    let replies = raw.until_ready().await;
    assert_eq!(code(&replies).as_deref(), Some("57014"));

    // The same over REST, where the client says how long it waits.
    let began_at = Instant::now();
    let request = rest.request(Method::POST, "/v1/table/slow/query").header("x-request-timeout-ms", "1000");
    let (status, answer) = rest.send(request.json(&json!({ "k": 10 }))).await;
    // What the client retries by itself is told it as 400.
    assert!(status == 400 && answer["code"] == 17, "{status}: {answer}");
    in_time("a request", began_at.elapsed());
    assert_eq!(rows(&client, "SHOW TABLES").await, Vec::<String>::new());
}

#[tokio::test]
async fn q12_the_time_that_the_configuration_sets_is_that_of_requests_too() {
    let rest = Rest::start_with("[query]\nstatement_timeout = '1s'\n").await;
    let client = rest.gateway.connect().await;
    run(&client, &format!("CREATE VIEW slow AS {ENDLESS}")).await;
    timed(&client, "a session", ENDLESS).await;
    // The client is willing to wait for longer.
    for patient in [None, Some("60000")] {
        let request = rest.request(Method::POST, "/v1/table/slow/query").json(&json!({ "k": 10 }));
        let request = patient.into_iter().fold(request, |request, time| request.header("x-request-timeout-ms", time));
        let began_at = Instant::now();
        let (status, answer) = rest.send(request).await;
        // What the client retries by itself is told it as 400.
        assert!(status == 400 && answer["code"] == 17, "{status}: {answer}");
        in_time("a request", began_at.elapsed());
    }
}

#[tokio::test]
async fn q06_views_that_are_nested_too_deeply_are_refused() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE VIEW v0 AS SELECT 1 AS a").await;
    let mut refused = String::new();
    for depth in 1..=200 {
        let statement = format!("CREATE VIEW v{depth} AS SELECT a FROM v{}", depth - 1);
        if let Err(error) = client.batch_execute(&statement).await {
            refused = describe(&error);
            break;
        }
    }
    if refused.is_empty() {
        refused = error(&client, "SELECT a FROM v200").await;
    }
    assert!(refused.starts_with("54001: views are nested too deeply"), "{refused}");
    assert_eq!(rows(&client, "SELECT a FROM v20").await, ["1"]);
}
