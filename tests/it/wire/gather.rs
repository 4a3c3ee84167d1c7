//! INSERTs that arrive one behind the other become one commit, and nobody can tell from the answers.

use super::raw::{Raw, bind, code, describe, execute, kinds, parse, sync};
use crate::harness::Gateway;

/// The number of versions that table `name` has had.
fn versions(gateway: &Gateway, name: &str) -> usize {
    std::fs::read_dir(gateway.data().join(format!("{name}.lance/_versions"))).unwrap().count()
}

fn cell(gateway: &Gateway, sql: &str) -> String {
    String::from_utf8(gateway.psql_with(&["-Atc", sql]).stdout).unwrap().trim().to_owned()
}

fn insert(statement: &str, parameters: &[&str]) -> Vec<u8> {
    [bind("", statement, parameters), describe(b'P', ""), execute("", 0)].concat()
}

#[tokio::test]
async fn a_thousand_inserts_of_one_pipeline_are_a_few_commits() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("CREATE TABLE t (id serial, n int NOT NULL, s text DEFAULT 'none', twice int)").await;
    let statement = parse("add", "INSERT INTO t (n, twice) VALUES ($1::int, $1::int * 2)");
    let rows = (0..1_000).flat_map(|n| insert("add", &[&n.to_string()]));
    let pipeline: Vec<u8> = statement.into_iter().chain(rows).chain(sync()).collect();
    raw.send(&pipeline).await;
    let replies = raw.until_ready().await;
    assert_eq!(kinds(&replies), format!("1{}Z", "2nC".repeat(1_000)));
    assert!(replies.iter().filter(|reply| reply.kind == 'C').all(|reply| reply.tag() == "INSERT 0 1"));
    let seen = "SELECT count(*), sum(n), sum(twice), count(DISTINCT id), min(id), max(id), min(s) FROM t";
    assert_eq!(cell(&gateway, seen), "1000|499500|999000|1000|1|1000|none");
    assert_eq!(cell(&gateway, "SELECT count(*) FROM t WHERE id <> n + 1"), "0", "numbers are in the order of the rows");
    let commits = versions(&gateway, "t");
    assert!(commits < 200, "{commits} versions");
}

#[tokio::test]
async fn answers_are_the_same_however_the_bytes_arrive() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("CREATE TABLE a (n int NOT NULL)").await;
    raw.query("CREATE TABLE b (n int, s text)").await;
    raw.exchange(&[parse("a", "INSERT INTO a VALUES ($1)"), parse("b", "INSERT INTO b VALUES ($1, 'x')"), sync()])
        .await;
    let pipeline = [
        insert("a", &["1"]),
        insert("a", &["2"]),
        insert("b", &["3"]),
        insert("a", &["4"]),
        parse("", "SELECT count(*) FROM a"),
        bind("", "", &[]),
        execute("", 0),
        insert("b", &["5"]),
        insert("b", &["6"]),
        sync(),
    ]
    .concat();
    for (round, size) in [1, 3, 17, 64, 200, pipeline.len()].into_iter().enumerate() {
        for piece in pipeline.chunks(size) {
            raw.send(piece).await;
            tokio::task::yield_now().await;
        }
        let replies = raw.until_ready().await;
        assert_eq!(kinds(&replies), "2nC2nC2nC2nC12DC2nC2nCZ", "pieces of {size}");
        let count = replies.iter().find(|reply| reply.kind == 'D').unwrap().row();
        assert_eq!(count, [Some(((round + 1) * 3).to_string())], "the query sees what came before it");
    }
    assert_eq!(cell(&gateway, "SELECT count(*), sum(n) FROM a"), "18|42");
    assert_eq!(cell(&gateway, "SELECT count(*), sum(n) FROM b WHERE s = 'x'"), "18|84");
}

#[tokio::test]
async fn a_row_that_cannot_be_written_takes_those_with_it_that_are_not_answered() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("CREATE TABLE t (n int NOT NULL)").await;
    raw.exchange(&[parse("add", "INSERT INTO t VALUES (nullif($1, '')::int)"), sync()]).await;
    let rows = [insert("add", &["1"]), insert("add", &[""]), insert("add", &["3"]), sync()];
    let replies = raw.exchange(&rows).await;
    assert_eq!(code(&replies).as_deref(), Some("23502"), "{replies:?}");
    let complete = replies.iter().filter(|reply| reply.kind == 'C').count();
    assert_eq!(cell(&gateway, "SELECT count(*) FROM t"), complete.to_string(), "what is answered is there");
    let replies = raw.exchange(&[insert("add", &["4"]), sync()]).await;
    assert_eq!(kinds(&replies), "2nCZ");
}

#[tokio::test]
async fn what_comes_before_a_mistake_is_done_and_answered_first() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("CREATE TABLE t (n int)").await;
    raw.exchange(&[parse("add", "INSERT INTO t VALUES ($1)"), sync()]).await;
    let rows = ["1", "2", "x", "3"].map(|n| insert("add", &[n]));
    let replies = raw.exchange(&[rows.concat(), sync()]).await;
    assert_eq!((kinds(&replies).as_str(), code(&replies).as_deref()), ("2nC2nCEZ", Some("22P02")));
    assert_eq!(cell(&gateway, "SELECT sum(n) FROM t"), "3");
}

#[tokio::test]
async fn statements_that_answer_rows_or_read_are_executed_one_by_one() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("CREATE TABLE t (n int)").await;
    let texts = ["INSERT INTO t VALUES ($1) RETURNING n", "INSERT INTO t SELECT $1::int + count(*) FROM t"];
    raw.exchange(&[parse("r", texts[0]), parse("q", texts[1]), sync()]).await;
    let returning = |n| [bind("", "r", &[n]), execute("", 0)].concat();
    let replies = raw.exchange(&[returning("1"), returning("2"), sync()]).await;
    assert_eq!(kinds(&replies), "2DC2DCZ");
    let replies = raw.exchange(&[insert("q", &["10"]), insert("q", &["20"]), sync()]).await;
    assert_eq!(kinds(&replies), "2nC2nCZ");
    assert_eq!(cell(&gateway, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM t"), "1 2 12 23");
}

#[tokio::test]
async fn a_failed_block_takes_no_row() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("CREATE TABLE t (n int)").await;
    raw.exchange(&[parse("add", "INSERT INTO t VALUES ($1)"), sync()]).await;
    raw.query("BEGIN").await;
    raw.query("SELECT 1/0").await;
    let replies = raw.exchange(&[insert("add", &["1"]), insert("add", &["2"]), sync()]).await;
    assert_eq!(code(&replies).as_deref(), Some("25P02"));
    raw.query("ROLLBACK").await;
    assert_eq!(cell(&gateway, "SELECT count(*) FROM t"), "0");
}
