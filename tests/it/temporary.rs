//! Temporary tables: whose they are, and when they are gone.

use crate::harness::{Gateway, until};
use crate::privileges::user;
use crate::rows::{affected, error, rows, run};

/// How many folders of temporary tables there are.
fn folders(gateway: &Gateway) -> usize {
    std::fs::read_dir(gateway.data().join("_lancegate/temp")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_temporary_table_is_found_by_its_session_and_by_no_other() {
    let gateway = Gateway::start();
    let (mine, other) = (gateway.connect().await, gateway.connect().await);
    run(&mine, "CREATE TABLE t (id bigint); INSERT INTO t VALUES (1)").await;
    assert_eq!(affected(&mine, "CREATE TEMPORARY TABLE t AS SELECT 10 AS id, 'x' AS v").await, 1);
    run(&mine, "CREATE TEMP TABLE IF NOT EXISTS e (a int NOT NULL, b text)").await;
    // It comes before the table of the same name, for every kind of statement.
    assert_eq!(rows(&mine, "SELECT * FROM t").await, ["10|x"]);
    assert_eq!(rows(&mine, "SELECT * FROM public.t").await, ["1"]);
    assert_eq!(rows(&mine, "SELECT v FROM pg_temp.t").await, ["x"]);
    run(&mine, "INSERT INTO t SELECT id, 'y' FROM public.t; UPDATE t SET id = id + 1 WHERE v = 'y'").await;
    run(&mine, "MERGE INTO t USING public.t AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'z')").await;
    run(&mine, "DELETE FROM t WHERE v = 'z'; ALTER TABLE t ADD COLUMN n bigint; CREATE INDEX ON t (id)").await;
    assert_eq!(rows(&mine, "SELECT id, v, n FROM t ORDER BY id").await, ["2|y|∅", "10|x|∅"]);
    assert!(error(&mine, "INSERT INTO e VALUES (NULL)").await.starts_with("23502: "));
    assert!(error(&mine, "CREATE TEMP TABLE e (a int)").await.starts_with("42P07: relation \"e\" already exists"));
    assert_eq!(rows(&other, "SELECT * FROM t").await, ["1"]);
    assert!(error(&other, "SELECT * FROM pg_temp.t").await.starts_with("42P01: "));
    assert!(error(&other, "SELECT * FROM e").await.starts_with("42P01: "));
    // DROP takes it first, too; then the name is that of the other one again.
    run(&mine, "DROP TABLE t, e").await;
    assert_eq!(rows(&mine, "SELECT * FROM t").await, ["1"]);
    assert_eq!(folders(&gateway), 0);
}

#[tokio::test]
async fn catalogs_show_a_session_its_own_temporary_tables() {
    let gateway = Gateway::start();
    let (mine, other) = (gateway.connect().await, gateway.connect().await);
    run(&mine, "CREATE TEMP TABLE tt (id bigint, body text)").await;
    let listed = "SELECT c.relname, c.relpersistence, n.nspname LIKE 'pg_temp_%', n.oid = pg_my_temp_schema()
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'tt'";
    assert_eq!(rows(&mine, listed).await, ["tt|t|t|t"]);
    assert!(rows(&other, listed).await.is_empty());
    let columns =
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'tt' ORDER BY ordinal_position";
    assert_eq!(rows(&mine, columns).await, ["id", "body"]);
    assert!(rows(&other, columns).await.is_empty());
    let kind = "SELECT table_type FROM information_schema.tables WHERE table_name = 'tt'";
    assert_eq!(rows(&mine, kind).await, ["LOCAL TEMPORARY"]);
}

#[tokio::test]
async fn on_commit_and_rollback_do_what_they_say() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "BEGIN; CREATE TEMP TABLE d (a int) ON COMMIT DROP; CREATE TEMP TABLE e (a int) ON COMMIT DELETE ROWS",
    )
    .await;
    run(
        &client,
        "CREATE TEMP TABLE p (a int); INSERT INTO d VALUES (1); INSERT INTO e VALUES (1); INSERT INTO p VALUES (1)",
    )
    .await;
    assert_eq!(rows(&client, "SELECT (SELECT count(*) FROM d), (SELECT count(*) FROM e)").await, ["1|1"]);
    run(&client, "COMMIT").await;
    assert!(error(&client, "SELECT * FROM d").await.starts_with("42P01: "));
    assert_eq!(rows(&client, "SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM p)").await, ["0|1"]);
    run(&client, "BEGIN; CREATE TEMP TABLE r AS SELECT 1 AS a; ROLLBACK").await;
    assert!(error(&client, "SELECT * FROM r").await.starts_with("42P01: "));
    run(&client, "CREATE TEMP TABLE gone (a int) ON COMMIT DROP").await;
    assert!(error(&client, "SELECT * FROM gone").await.starts_with("42P01: "), "its transaction was the statement");
    run(&client, "DISCARD TEMP").await;
    assert!(error(&client, "SELECT * FROM p").await.starts_with("42P01: "));
    assert_eq!(folders(&gateway), 0);
}

#[tokio::test]
async fn j14_nothing_is_left_after_a_session_or_a_crash() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TEMP TABLE a AS SELECT 1 AS x; CREATE TEMP TABLE b (x int)").await;
    assert_eq!(folders(&gateway), 2);
    drop(client);
    until("the end of the session's tables", async || (folders(&gateway) == 0).then_some(())).await;
    let client = gateway.connect().await;
    run(&client, "CREATE TEMP TABLE a AS SELECT 1 AS x").await;
    assert_eq!(folders(&gateway), 1);
    gateway.restart();
    assert_eq!(folders(&gateway), 0);
    let client = gateway.connect().await;
    assert!(error(&client, "SELECT * FROM a").await.starts_with("42P01: "));
    assert!(rows(&client, "SHOW TABLES").await.is_empty());
}

#[tokio::test]
async fn what_must_last_cannot_be_temporary() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TEMP TABLE tt (id bigint)").await;
    for (statement, code) in [
        ("CREATE VIEW v AS SELECT id FROM tt", "0A000: views over temporary tables"),
        ("CREATE MATERIALIZED VIEW v AS SELECT id FROM pg_temp.tt", "42P01: "),
        ("ALTER TABLE tt ADD COLUMN twice AS id * 2", "0A000: "),
        ("ALTER TABLE tt RENAME TO other", "0A000: "),
        ("CREATE TEMP TABLE public.x (id int)", "42P16: cannot create temporary relation in non-temporary schema"),
        ("CREATE TABLE x (id int) ON COMMIT DROP", "42P16: ON COMMIT can only be used on temporary tables"),
        ("CREATE SCHEMA pg_temp_7", "42939: "),
        ("COMMENT ON TABLE tt IS 'x'", "0A000: "),
        ("COMMENT ON COLUMN tt.id IS 'x'", "0A000: "),
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(code), "{statement}: {refused}");
    }
    // Whoever may connect may make them; nobody else's rights are asked.
    let ann = user(&gateway, &client, "ann").await;
    run(&ann, "CREATE TEMP TABLE own AS SELECT 1 AS a; UPDATE own SET a = 2; TRUNCATE own; DROP TABLE own").await;
}
