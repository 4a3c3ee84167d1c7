//! DROP, CREATE and ALTER TABLE beside statements that write to the table (feature
//! `failpoints`): a dropped table stays dropped, a table has the columns that it has got,
//! and no folder is left that nobody deletes.

use crate::harness::{self, Gateway};
use crate::rows::{affected, error, rows, run};

/// Makes table `t` with a row, in a gateway whose next statements meet failpoints.
async fn prepared(gateway: &mut Gateway, failpoints: &str) {
    gateway.restart();
    let client = gateway.connect().await;
    run(&client, "DROP TABLE IF EXISTS t; CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 1)").await;
    drop(client);
    gateway.restart_failing(failpoints);
}

#[tokio::test]
async fn a_table_that_is_dropped_under_a_write_stays_dropped() {
    let mut gateway = Gateway::start();
    for statement in [
        "INSERT INTO t VALUES (2, 2)",
        "INSERT INTO t VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = 2",
        "UPDATE t SET b = 2",
        "DELETE FROM t WHERE a = 1",
        "DELETE FROM t",
        "TRUNCATE t",
        "MERGE INTO t USING (VALUES (3)) AS s(a) ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a) VALUES (s.a)",
    ] {
        prepared(&mut gateway, "write.computed=hold@1").await;
        let (client, writer) = (gateway.connect().await, gateway.connect().await);
        let written = tokio::spawn(async move { error(&writer, statement).await });
        gateway.held("write.computed", 1).await;
        run(&client, "DROP TABLE t").await;
        gateway.let_go("write.computed", 1);
        let refused = written.await.unwrap();
        assert!(refused.starts_with("42P01: relation \"t\" does not exist"), "{statement}: {refused}");
        assert!(error(&client, "SELECT * FROM t").await.starts_with("42P01: "), "{statement}");
        run(&client, "CREATE TABLE t (a int); INSERT INTO t VALUES (7)").await;
        assert_eq!(rows(&client, "SELECT a FROM t").await, ["7"], "{statement}");
        run(&client, "DROP TABLE t").await;
    }
    gateway.restart();
    assert!(gateway.table_folders().is_empty(), "{:?}", gateway.table_folders());
}

#[tokio::test]
async fn a_drop_waits_for_who_is_committing() {
    let mut gateway = Gateway::start();
    prepared(&mut gateway, "write.entered=hold@1").await;
    let (client, writer, dropper) = (gateway.connect().await, gateway.connect().await, gateway.connect().await);
    let written = tokio::spawn(async move { affected(&writer, "INSERT INTO t VALUES (2, 2)").await });
    gateway.held("write.entered", 1).await;
    let dropped = tokio::spawn(async move { run(&dropper, "DROP TABLE t").await });
    let waits = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'DROP TABLE t'";
    harness::until("the DROP", async || (!rows(&client, waits).await.is_empty()).then_some(())).await;
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["1"], "the name goes when nobody commits");
    gateway.let_go("write.entered", 1);
    assert_eq!(written.await.unwrap(), 1);
    dropped.await.unwrap();
    assert!(error(&client, "SELECT * FROM t").await.starts_with("42P01: "));
    assert!(gateway.table_folders().is_empty(), "{:?}", gateway.table_folders());
}

#[tokio::test]
async fn a_table_that_is_being_made_is_found_when_it_has_its_name() {
    let mut gateway = Gateway::start();
    gateway.restart_failing("create.written=hold@1");
    let (client, maker) = (gateway.connect().await, gateway.connect().await);
    let made = tokio::spawn(async move { run(&maker, "CREATE TABLE t (a int)").await });
    gateway.held("create.written", 1).await;
    assert!(error(&client, "SELECT * FROM t").await.starts_with("42P01: relation \"t\" does not exist"));
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_name = 't'";
    assert_eq!(rows(&client, listed).await, ["0"]);
    gateway.let_go("create.written", 1);
    made.await.unwrap();
    run(&client, "INSERT INTO t VALUES (1)").await;
    assert!(!gateway.data().join("t.lance/.lancegate-dropped").exists());
    // What a crash leaves has no name, and goes.
    gateway.restart_failing("create.written=exit");
    let client = gateway.connect().await;
    assert!(client.simple_query("CREATE TABLE u (a int)").await.is_err());
    gateway.wait_for_end();
    assert_eq!(gateway.table_folders().len(), 2);
    gateway.restart();
    let client = gateway.connect().await;
    assert!(error(&client, "SELECT * FROM u").await.starts_with("42P01: "));
    assert_eq!(rows(&client, "SELECT a FROM t").await, ["1"]);
    assert_eq!(gateway.table_folders(), ["t.lance"]);
}

#[tokio::test]
async fn a_table_that_is_made_while_files_are_deleted_keeps_its_own() {
    let mut gateway = Gateway::start();
    prepared(&mut gateway, "drop.named=hold@1").await;
    let (client, dropper) = (gateway.connect().await, gateway.connect().await);
    let dropped = tokio::spawn(async move { run(&dropper, "DROP TABLE t").await });
    gateway.held("drop.named", 1).await;
    run(&client, "CREATE TABLE t (a int); INSERT INTO t VALUES (7)").await;
    gateway.let_go("drop.named", 1);
    dropped.await.unwrap();
    assert_eq!(rows(&client, "SELECT a FROM t").await, ["7"]);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT a FROM t").await, ["7"]);
    assert_eq!(gateway.table_folders().len(), 1, "{:?}", gateway.table_folders());
}

#[tokio::test]
async fn folders_of_no_table_go_at_the_start_and_those_of_others_stay() {
    let mut gateway = Gateway::start();
    run(&gateway.connect().await, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await;
    let leaks = ["t$01jzzzzzzzzzzzzzzzzzzzzzzz.lance/data", "other.lance/data", "t$x.lance/data"];
    for leak in leaks {
        std::fs::create_dir_all(gateway.data().join(leak)).unwrap();
        std::fs::write(gateway.data().join(leak).join("a.lance"), b"x").unwrap();
    }
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT a FROM t").await, ["1"]);
    assert_eq!(gateway.table_folders(), ["other.lance", "t$x.lance", "t.lance"], "only a name of our own is ours");
}

#[tokio::test]
async fn rows_that_were_made_for_other_columns_are_not_written() {
    let mut gateway = Gateway::start();
    for (statement, alter, expected) in [
        ("INSERT INTO t (a) VALUES (2)", "ADD COLUMN x int NOT NULL DEFAULT 5", "40001: "),
        ("INSERT INTO t (a) VALUES (2)", "ALTER COLUMN a TYPE bigint", "40001: "),
        ("INSERT INTO t (a) VALUES (2)", "ALTER COLUMN b SET NOT NULL", "40001: "),
        ("UPDATE t SET b = 2", "ADD COLUMN x int DEFAULT 2", "40001: "),
        ("UPDATE t SET b = NULL", "ALTER COLUMN b SET NOT NULL", "23502: "),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET b = 2", "ADD COLUMN x int DEFAULT 2", "40001: "),
    ] {
        prepared(&mut gateway, "write.computed=hold@1").await;
        let (client, writer) = (gateway.connect().await, gateway.connect().await);
        let written = tokio::spawn(async move { error(&writer, statement).await });
        gateway.held("write.computed", 1).await;
        run(&client, &format!("ALTER TABLE t {alter}")).await;
        gateway.let_all_go("write.computed");
        let refused = written.await.unwrap();
        assert!(refused.starts_with(expected), "{statement} beside {alter}: {refused}");
        assert_eq!(rows(&client, "SELECT count(*), count(a), count(b) FROM t").await, ["1|1|1"], "{statement}");
    }
}

#[tokio::test]
async fn an_alter_waits_for_writes_and_loses_to_none() {
    let mut gateway = Gateway::start();
    prepared(&mut gateway, "write.entered=hold@1").await;
    let (client, writer, alterer) = (gateway.connect().await, gateway.connect().await, gateway.connect().await);
    let written = tokio::spawn(async move { affected(&writer, "INSERT INTO t VALUES (2, 2)").await });
    gateway.held("write.entered", 1).await;
    let altered = tokio::spawn(async move { run(&alterer, "ALTER TABLE t ADD COLUMN x int DEFAULT 2").await });
    let waits = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'ALTER TABLE t %'";
    harness::until("the ALTER", async || (!rows(&client, waits).await.is_empty()).then_some(())).await;
    gateway.let_go("write.entered", 1);
    assert_eq!(written.await.unwrap(), 1);
    altered.await.unwrap();
    assert_eq!(rows(&client, "SELECT a, x FROM t ORDER BY a").await, ["1|2", "2|2"]);
}

#[tokio::test]
async fn an_alter_that_fails_at_any_action_has_changed_nothing() {
    let mut gateway = Gateway::start();
    for visit in 1..=3 {
        prepared(&mut gateway, &format!("alter.action=error@{visit}")).await;
        let client = gateway.connect().await;
        let alter =
            "ALTER TABLE t ADD COLUMN x int DEFAULT 2, ALTER COLUMN b SET DEFAULT 3, ALTER COLUMN a SET NOT NULL";
        assert!(error(&client, alter).await.starts_with("58030: "), "{visit}");
        let columns = "SELECT column_name, column_default, is_nullable FROM information_schema.columns
            WHERE table_name = 't' ORDER BY ordinal_position";
        assert_eq!(rows(&client, columns).await, ["a|∅|YES", "b|∅|YES"], "{visit}");
        run(&client, alter).await;
        run(&client, "INSERT INTO t (a) VALUES (2)").await;
        assert_eq!(rows(&client, "SELECT * FROM t ORDER BY a").await, ["1|1|2", "2|3|2"], "{visit}");
    }
}
