//! Transaction blocks: names change with COMMIT and for everybody at once (decision 39), and
//! a block at REPEATABLE READ reads one version of each table (decision 7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{self, Gateway};
use crate::privileges::user;
use crate::rows::{affected, error, rows, run, value};

/// What others may know of a table: every way to ask for a name.
const LISTINGS: [&str; 3] = [
    "SELECT relname FROM pg_class WHERE relname IN ('t', 'u', 'v', 'w') ORDER BY 1",
    "SELECT table_name FROM information_schema.tables WHERE table_name IN ('t', 'u', 'v', 'w') ORDER BY 1",
    "SELECT tablename FROM pg_tables WHERE tablename IN ('t', 'u', 'v', 'w')
     UNION ALL SELECT viewname FROM pg_views WHERE viewname IN ('t', 'u', 'v', 'w') ORDER BY 1",
];

#[tokio::test]
async fn a_block_alone_sees_its_names_until_commit_shows_all_of_them() {
    let gateway = Gateway::start();
    let (maker, other) = (gateway.connect().await, gateway.connect().await);
    run(&maker, "CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await;
    run(
        &maker,
        "BEGIN; CREATE TABLE w (a int); INSERT INTO w VALUES (2), (3); ALTER TABLE t RENAME TO u;
         CREATE VIEW v AS SELECT a FROM w; CREATE SCHEMA s; CREATE TABLE s.x AS SELECT 7 AS a;
         COMMENT ON TABLE w IS 'made in a block'",
    )
    .await;
    for listing in LISTINGS {
        assert_eq!(rows(&maker, listing).await, ["u", "v", "w"], "{listing}");
        assert_eq!(rows(&other, listing).await, ["t"], "{listing}");
    }
    assert_eq!(rows(&maker, "SELECT u.a, v.a, x.a FROM u, v, s.x ORDER BY 2").await, ["1|2|7", "1|3|7"]);
    assert_eq!(rows(&maker, "SELECT obj_description('w'::regclass)").await, ["made in a block"]);
    assert!(error(&other, "SELECT * FROM w").await.starts_with("42P01: relation \"w\" does not exist"));
    assert!(error(&other, "SELECT * FROM s.x").await.starts_with("42P01: "));
    assert_eq!(rows(&other, "SELECT count(*) FROM pg_namespace WHERE nspname = 's'").await, ["0"]);
    assert_eq!(rows(&other, "SELECT a FROM t").await, ["1"]);
    assert_eq!(affected(&other, "INSERT INTO t VALUES (9)").await, 1, "others write under the old name");
    assert!(error(&maker, "SELECT * FROM t").await.starts_with("42P01: "));
    run(&maker, "ROLLBACK; BEGIN; ALTER TABLE t RENAME TO u; CREATE TABLE t AS SELECT 5 AS a; COMMIT").await;
    for client in [&maker, &other] {
        assert_eq!(rows(client, "SELECT a FROM t").await, ["5"]);
        assert_eq!(rows(client, "SELECT a FROM u ORDER BY a").await, ["1", "9"]);
        assert_eq!(rows(client, LISTINGS[0]).await, ["t", "u"]);
    }
}

/// What dbt does to replace a table: nobody ever finds it missing.
#[tokio::test]
async fn a_table_that_is_swapped_for_another_is_never_missing() {
    let gateway = Gateway::start();
    let swapper = gateway.connect().await;
    run(&swapper, "CREATE TABLE t AS SELECT 0 AS a").await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (reader, stop) = (gateway.connect().await, Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            let (mut last, mut reads) = (0, 0_u64);
            while !stop.load(Ordering::Relaxed) {
                let seen: i64 = rows(&reader, "SELECT a FROM t").await[0].parse().unwrap();
                assert!(seen >= last, "a reader saw {seen} after {last}");
                assert_eq!(rows(&reader, "SELECT count(*) FROM pg_class WHERE relname = 't'").await, ["1"]);
                (last, reads) = (seen, reads + 1);
            }
            reads
        }));
    }
    for round in 1..=20 {
        run(&swapper, &format!("CREATE TABLE t_new AS SELECT {round} AS a")).await;
        run(
            &swapper,
            "BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; COMMIT; DROP TABLE IF EXISTS t_old",
        )
        .await;
    }
    let last = rows(&swapper, "SELECT a FROM t").await;
    stop.store(true, Ordering::Relaxed);
    assert_eq!(last, ["20"]);
    for task in tasks {
        assert!(task.await.unwrap() > 0, "a reader has read");
    }
    assert_eq!(gateway.table_folders().len(), 1, "{:?}", gateway.table_folders());
}

#[tokio::test]
async fn rollback_undoes_every_kind_of_change_of_names() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    let guest = user(&gateway, &client, "guest").await;
    run(&client, "GRANT USAGE ON SCHEMA public TO USER guest").await;
    run(
        &client,
        "CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT a FROM t; CREATE SCHEMA old;
         COMMENT ON TABLE t IS 'as it was'; GRANT SELECT ON TABLE t TO USER guest",
    )
    .await;
    let state = "SELECT relname, relkind, obj_description(oid) FROM pg_class c
        WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname IN ('public', 'old', 'new')) ORDER BY 1, 2";
    let grants = "SHOW GRANTS ON TABLE t";
    let (before, granted) = (rows(&client, state).await, rows(&client, grants).await);
    let folders = gateway.table_folders();
    for change in [
        "CREATE TABLE w (a int, n serial); INSERT INTO w VALUES (1); INSERT INTO w VALUES (2); UPDATE w SET a = 3",
        "CREATE TABLE w AS SELECT a FROM t",
        "CREATE TABLE w (a int); DROP TABLE w; CREATE TABLE w (b text); INSERT INTO w VALUES ('x'); TRUNCATE w",
        "CREATE TABLE w (a int, b int GENERATED ALWAYS AS (a + 1) STORED); INSERT INTO w VALUES (1); DELETE FROM w",
        "CREATE TABLE w (a int); ALTER TABLE w ADD COLUMN b int; ALTER TABLE w RENAME COLUMN a TO c",
        "DROP TABLE t CASCADE",
        "DROP VIEW v",
        "DROP TABLE t CASCADE; CREATE TABLE t AS SELECT 'other' AS b",
        "ALTER TABLE t RENAME TO w; ALTER TABLE w RENAME TO t; ALTER TABLE t RENAME TO w",
        "ALTER VIEW v RENAME TO w",
        "CREATE OR REPLACE VIEW v AS SELECT a + 1 AS a FROM t",
        "CREATE VIEW w AS SELECT 1 AS a",
        "COMMENT ON TABLE t IS 'other'; COMMENT ON COLUMN t.a IS 'other'",
        "GRANT INSERT ON TABLE t TO USER guest; REVOKE SELECT ON TABLE t FROM USER guest",
        "CREATE SCHEMA new; CREATE TABLE new.w (a int); INSERT INTO new.w VALUES (1)",
        "DROP SCHEMA old",
    ] {
        run(&client, &format!("BEGIN; {change}; ROLLBACK")).await;
        assert_eq!(rows(&client, state).await, before, "{change}");
        assert_eq!(rows(&client, grants).await, granted, "{change}");
        assert_eq!(rows(&client, "SELECT a FROM v").await, ["1"], "{change}");
        assert_eq!(rows(&guest, "SELECT a FROM t").await, ["1"], "{change}");
        assert_eq!(rows(&client, "SELECT count(*) FROM pg_namespace WHERE nspname = 'new'").await, ["0"], "{change}");
        assert_eq!(gateway.table_folders(), folders, "{change}");
        // An error in the block undoes the same.
        let failing = format!("BEGIN; {change}; SELECT 1/0");
        assert!(error(&client, &failing).await.starts_with("22012: "), "{change}");
        run(&client, "COMMIT").await;
        assert_eq!(rows(&client, state).await, before, "{change}");
        assert_eq!(gateway.table_folders(), folders, "{change}");
    }
    drop(client);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, state).await, before);
    assert_eq!(gateway.table_folders(), folders);
}

#[tokio::test]
async fn rollback_to_a_savepoint_undoes_what_came_after_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "BEGIN; CREATE TABLE a (x int); INSERT INTO a VALUES (1); SAVEPOINT one;
         CREATE TABLE b (x int); ALTER TABLE a RENAME TO c; SAVEPOINT two; DROP TABLE c; DROP TABLE b",
    )
    .await;
    assert!(error(&client, "SELECT * FROM c").await.starts_with("42P01: "));
    run(&client, "ROLLBACK TO two").await;
    assert_eq!(rows(&client, "SELECT c.x FROM c LEFT JOIN b USING (x)").await, ["1"]);
    run(&client, "ROLLBACK TO one").await;
    assert_eq!(rows(&client, "SELECT x FROM a").await, ["1"]);
    assert_eq!(gateway.table_folders().len(), 1, "the files of b are gone: {:?}", gateway.table_folders());
    run(&client, "CREATE TABLE b (y int); RELEASE one; COMMIT").await;
    let other = gateway.connect().await;
    assert_eq!(rows(&other, "SELECT x, y FROM a LEFT JOIN b ON true").await, ["1|∅"]);
    assert_eq!(gateway.table_folders().len(), 2);
}

#[tokio::test]
async fn of_two_blocks_that_take_one_name_the_second_fails_whole() {
    let gateway = Gateway::start();
    let (one, two) = (gateway.connect().await, gateway.connect().await);
    run(&one, "CREATE TABLE t (a int); CREATE TABLE u (a int)").await;
    for (first, second, expected) in [
        ("CREATE TABLE w (a int)", "CREATE TABLE w (b int)", "42P07: relation \"w\" already exists"),
        ("ALTER TABLE t RENAME TO w", "ALTER TABLE u RENAME TO w", "42P07: relation \"w\" already exists"),
        ("DROP TABLE t", "ALTER TABLE t RENAME TO w", "42P01: relation \"t\" does not exist"),
        ("DROP TABLE t", "DROP TABLE t", "42P01: relation \"t\" does not exist"),
        ("CREATE SCHEMA s", "CREATE SCHEMA s", "42P06: schema \"s\" already exists"),
    ] {
        run(&two, &format!("BEGIN; CREATE TABLE besides (a int); INSERT INTO besides VALUES (1); {second}")).await;
        run(&one, &format!("BEGIN; {first}; COMMIT")).await;
        let refused = error(&two, "COMMIT").await;
        assert!(refused.starts_with(expected), "{second}: {refused}");
        for client in [&one, &two] {
            let all = "SELECT count(*) FROM pg_class WHERE relname = 'besides'";
            assert_eq!(rows(client, all).await, ["0"], "{second}");
        }
        // The session is out of its block.
        assert_eq!(rows(&two, "SELECT 1").await, ["1"]);
        run(&one, "DROP TABLE IF EXISTS t, u, w; DROP SCHEMA IF EXISTS s").await;
        assert!(gateway.table_folders().is_empty(), "{second}: {:?}", gateway.table_folders());
        run(&one, "CREATE TABLE t (a int); CREATE TABLE u (a int)").await;
    }
}

#[tokio::test]
async fn a_block_whose_client_goes_leaves_nothing() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "BEGIN; CREATE TABLE t (a serial); INSERT INTO t VALUES (DEFAULT)").await;
    assert_eq!(gateway.table_folders().len(), 1);
    drop(client);
    harness::until("the end of the files", async || gateway.table_folders().is_empty().then_some(())).await;
    // A crash has nobody who cleans up, so the next start does.
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)").await;
    run(&client, "BEGIN; CREATE TABLE t (a serial); INSERT INTO t VALUES (DEFAULT); DROP TABLE kept").await;
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT a FROM kept").await, ["1"]);
    assert!(error(&client, "SELECT * FROM t").await.starts_with("42P01: "));
    assert_eq!(gateway.table_folders().len(), 1, "{:?}", gateway.table_folders());
}

/// Between COMMIT's transaction and what follows it, and before it.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_crash_in_commit_leaves_all_of_a_block_or_nothing() {
    let mut gateway = Gateway::start();
    for (place, expected) in [("names.marked", "1"), ("drop.named", "2")] {
        gateway.restart();
        let client = gateway.connect().await;
        run(&client, "DROP TABLE IF EXISTS t; CREATE TABLE t AS SELECT 1 AS a").await;
        gateway.restart_failing(&format!("{place}=exit"));
        let client = gateway.connect().await;
        run(&client, "BEGIN; CREATE TABLE next AS SELECT 2 AS a; DROP TABLE t; ALTER TABLE next RENAME TO t").await;
        // After the names have changed the client may have its answer already.
        let answer = client.simple_query("COMMIT").await;
        assert!(answer.is_err() || place == "drop.named", "{place}");
        gateway.wait_for_end();
        gateway.restart();
        let client = gateway.connect().await;
        assert_eq!(rows(&client, "SELECT a FROM t").await, [expected], "{place}");
        assert!(error(&client, "SELECT a FROM next").await.starts_with("42P01: "), "{place}");
        run(&client, "INSERT INTO t VALUES (3)").await;
        assert_eq!(gateway.table_folders().len(), 1, "{place}: {:?}", gateway.table_folders());
    }
}

#[tokio::test]
async fn privileges_change_with_the_block() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let guest = user(&gateway, &admin, "guest").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER guest").await;
    run(&admin, "CREATE TABLE t AS SELECT 1 AS a; GRANT SELECT ON TABLE t TO USER guest").await;
    run(
        &admin,
        "BEGIN; REVOKE SELECT ON TABLE t FROM USER guest; CREATE TABLE u AS SELECT 2 AS a; GRANT SELECT ON TABLE u TO USER guest",
    )
    .await;
    // What it gives on others and takes from them begins with COMMIT.
    assert_eq!(rows(&admin, "SELECT has_table_privilege('guest', 't', 'SELECT')").await, ["t"]);
    assert_eq!(rows(&admin, "SELECT has_table_privilege('guest', 'u', 'SELECT')").await, ["t"]);
    assert_eq!(rows(&guest, "SELECT a FROM t").await, ["1"]);
    assert!(error(&guest, "SELECT a FROM u").await.starts_with("42P01: "));
    run(&admin, "COMMIT").await;
    assert!(error(&guest, "SELECT a FROM t").await.starts_with("42501: permission denied for table t"));
    assert_eq!(rows(&guest, "SELECT a FROM u").await, ["2"]);
    // A block does not lend its rights: who may not create, may not in a block.
    run(&guest, "BEGIN").await;
    assert!(error(&guest, "CREATE TABLE mine (a int)").await.starts_with("42501: "));
    run(&guest, "ROLLBACK; BEGIN").await;
    assert!(error(&guest, "ALTER TABLE u RENAME TO mine").await.starts_with("42501: "));
    run(&guest, "ROLLBACK").await;
    // Rights on what is renamed go with it.
    run(&admin, "BEGIN; ALTER TABLE u RENAME TO w").await;
    assert_eq!(rows(&admin, "SELECT has_table_privilege('guest', 'w', 'SELECT')").await, ["t"]);
    run(&admin, "COMMIT").await;
    assert_eq!(rows(&guest, "SELECT a FROM w").await, ["2"]);
    // Who loses a right while a block is open has lost it in the block, too.
    run(&guest, "BEGIN; SELECT a FROM w").await;
    run(&admin, "REVOKE SELECT ON TABLE w FROM USER guest").await;
    assert!(error(&guest, "SELECT a FROM w").await.starts_with("42501: "));
}

#[tokio::test]
async fn a_refresh_of_a_table_of_the_block_begins_with_its_commit() {
    let gateway = Gateway::start();
    let (client, other) = (gateway.connect().await, gateway.connect().await);
    let made = "BEGIN; CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO t VALUES (1), (2)";
    run(&client, made).await;
    let job = value(&client, "REFRESH COLUMN b ON t", "job_id").await.unwrap();
    let find = format!("SELECT count(*) FROM system.public.jobs WHERE job_id = '{job}'");
    assert_eq!(rows(&other, &find).await, ["0"]);
    assert_eq!(rows(&client, "SELECT a, b FROM t ORDER BY a").await, ["1|∅", "2|∅"]);
    run(&client, "COMMIT").await;
    let status = format!("SELECT state FROM system.public.jobs WHERE job_id = '{job}'");
    harness::until("the job", async || (rows(&other, &status).await == ["succeeded"]).then_some(())).await;
    assert_eq!(rows(&other, "SELECT a, b FROM t ORDER BY a").await, ["1|2", "2|4"]);
    // ROLLBACK forgets it, and nobody can wait for it before COMMIT.
    run(&client, "DROP TABLE t").await;
    run(&client, made).await;
    let job = value(&client, "REFRESH COLUMN b ON t", "job_id").await.unwrap();
    assert!(error(&client, "REFRESH COLUMN b ON t").await.starts_with("55006: "));
    run(&client, "ROLLBACK").await;
    let find = format!("SELECT count(*) FROM system.public.jobs WHERE job_id = '{job}'");
    assert_eq!(rows(&other, &find).await, ["0"]);
    run(&client, made).await;
    let refused = error(&client, "REFRESH COLUMN b ON t WAIT").await;
    assert!(refused.starts_with("25001: cannot wait for a refresh of table \"t\" before COMMIT"), "{refused}");
    assert!(refused.ends_with("Run the statement after COMMIT."), "{refused}");
}

#[tokio::test]
async fn a_repeatable_block_reads_one_version_of_every_table() {
    let gateway = Gateway::start();
    let (reader, writer) = (gateway.connect().await, gateway.connect().await);
    run(&writer, "CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE u AS SELECT 1 AS a").await;
    let both = "SELECT (SELECT sum(a) FROM t), (SELECT sum(a) FROM u)";
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        run(&writer, "UPDATE t SET a = 1; UPDATE u SET a = 1").await;
        run(&reader, &format!("BEGIN ISOLATION LEVEL {level}")).await;
        assert_eq!(rows(&reader, "SELECT sum(a) FROM t").await, ["1"], "{level}");
        run(&writer, "UPDATE t SET a = 2; UPDATE u SET a = 2").await;
        // Also of a table that it reads for the first time after that.
        assert_eq!(rows(&reader, both).await, ["1|1"], "{level}");
        assert_eq!(reader.query_one("SELECT sum(a) FROM t", &[]).await.unwrap().get::<_, i64>(0), 1);
        run(&reader, "COMMIT").await;
        assert_eq!(rows(&reader, both).await, ["2|2"], "{level}");
    }
    run(&reader, "BEGIN").await;
    assert_eq!(rows(&reader, both).await, ["2|2"]);
    run(&writer, "UPDATE t SET a = 3").await;
    assert_eq!(rows(&reader, both).await, ["3|2"], "READ COMMITTED reads what is committed");
    run(&reader, "COMMIT; SET default_transaction_isolation = 'repeatable read'; BEGIN").await;
    assert_eq!(rows(&reader, both).await, ["3|2"]);
    run(&writer, "DELETE FROM t").await;
    assert_eq!(rows(&reader, both).await, ["3|2"]);
    run(&reader, "ROLLBACK").await;
    assert_eq!(rows(&reader, both).await, ["∅|2"]);
    run(&reader, "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT 1").await;
    run(&writer, "INSERT INTO t VALUES (4)").await;
    assert_eq!(rows(&reader, both).await, ["4|2"]);
}

#[tokio::test]
async fn a_repeatable_block_does_not_change_rows_that_others_have_changed() {
    let gateway = Gateway::start();
    let (client, other) = (gateway.connect().await, gateway.connect().await);
    run(&client, "CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 1), (2, 2)").await;
    for change in ["UPDATE t SET b = b + 10 WHERE a = 1", "DELETE FROM t WHERE a = 1", "DELETE FROM t"] {
        run(&client, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM t").await;
        run(&other, "UPDATE t SET b = b + 1 WHERE a = 1").await;
        let before = rows(&other, "SELECT a, b FROM t ORDER BY a").await;
        let refused = error(&client, change).await;
        assert!(
            refused.starts_with("40001: could not serialize access due to concurrent update"),
            "{change}: {refused}"
        );
        assert!(refused.ends_with("Run the transaction again."), "{change}: {refused}");
        assert!(error(&client, "SELECT 1").await.starts_with("25P02: "), "{change}");
        run(&client, "ROLLBACK").await;
        assert_eq!(rows(&other, "SELECT a, b FROM t ORDER BY a").await, before, "{change}");
    }
    // Run again, it sees what the other has done; its own writes it sees at once.
    run(&client, "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE t SET b = 0 WHERE a = 1").await;
    assert_eq!(rows(&client, "SELECT b FROM t ORDER BY a").await, ["0", "2"]);
    run(&client, "INSERT INTO t VALUES (3, 3)").await;
    assert_eq!(rows(&client, "SELECT a FROM t ORDER BY a").await, ["1", "2", "3"]);
    run(&client, "DELETE FROM t WHERE a = 3; COMMIT").await;
    assert_eq!(rows(&other, "SELECT a, b FROM t ORDER BY a").await, ["1|0", "2|2"]);
}

#[tokio::test]
async fn a_rollback_says_what_it_does_not_undo_and_only_that() {
    let gateway = Gateway::start();
    run(&gateway.connect().await, "CREATE TABLE t (a int)").await;
    let said = |script: &str| {
        let output = gateway.psql(script);
        assert!(output.status.success(), "{}", harness::text(&output));
        harness::text(&output)
    };
    let quiet = said("BEGIN; CREATE TABLE u (a int); INSERT INTO u VALUES (1); DROP TABLE t; ROLLBACK");
    assert!(!quiet.contains("WARNING"), "{quiet}");
    let loud = said("BEGIN; CREATE TABLE u (a int); INSERT INTO u VALUES (1); INSERT INTO t VALUES (1); ROLLBACK");
    assert!(loud.contains("WARNING") && loud.contains("\"t\"") && !loud.contains("\"u\""), "{loud}");
    assert_eq!(said("SELECT a FROM t").trim(), "1");
}

/// A block keeps no privilege, name or grant that somebody has taken away meanwhile.
#[tokio::test]
async fn a_block_is_asked_again_at_commit_what_it_may() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let guest = user(&gateway, &admin, "guest").await;
    let twin = gateway.connect_as("guest", "guest has a long password").await.unwrap();
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER guest; CREATE USER third PASSWORD 'a third long password'").await;
    let (give, create) = ("GRANT OWNERSHIP ON TABLE t TO USER lancegate", "CREATE TABLE ON SCHEMA public");
    let listed = "SELECT relname, obj_description(oid) FROM pg_class WHERE relkind = 'r' ORDER BY 1";
    let revoke = format!("REVOKE {create} FROM USER guest");
    // What the guest does in a block, what takes his right to it away, and what COMMIT answers.
    for (change, by_admin, meanwhile, expected) in [
        ("COMMENT ON TABLE t IS 'mine'", false, give, "42501: must be owner of table t"),
        ("ALTER TABLE t RENAME TO w", false, give, "42501: must be owner of table t"),
        ("DROP TABLE t", false, give, "42501: must be owner of table t"),
        ("GRANT SELECT ON TABLE t TO USER third", false, give, "42501: must be owner of table t"),
        (
            "COMMENT ON TABLE t IS 'mine'",
            false,
            "ALTER TABLE t RENAME TO x; CREATE TABLE t AS SELECT 2 AS a",
            "40001: ",
        ),
        ("CREATE TABLE new AS SELECT 1 AS a", true, revoke.as_str(), "42501: permission denied for schema public"),
    ] {
        run(&admin, &format!("GRANT {create} TO USER guest")).await;
        run(&guest, "CREATE TABLE t AS SELECT 1 AS a; GRANT SELECT ON TABLE t TO USER lancegate").await;
        run(&guest, &format!("BEGIN; {change}")).await;
        run(if by_admin { &admin } else { &twin }, meanwhile).await;
        let before = rows(&admin, listed).await;
        let refused = error(&guest, "COMMIT").await;
        assert!(refused.starts_with(expected), "{change}: {refused}");
        assert_eq!(rows(&admin, listed).await, before, "{change}");
        assert_eq!(
            rows(&admin, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'new'").await,
            ["0"]
        );
        let owner = if meanwhile == give { &admin } else { &twin };
        run(owner, "DROP TABLE IF EXISTS t, x").await;
    }
    // A grant of the block gives nothing before its COMMIT.
    run(&admin, &format!("GRANT {create} TO USER guest; CREATE TABLE t AS SELECT 1 AS a")).await;
    run(&admin, "BEGIN; GRANT SELECT ON TABLE t TO USER guest").await;
    assert!(error(&guest, "SELECT a FROM t").await.starts_with("42501: "));
    run(&admin, "ROLLBACK; DROP TABLE t").await;
    // Several changes of one block under its own names are asked for under those of the store.
    run(&guest, "CREATE TABLE t AS SELECT 1 AS a").await;
    run(&guest, "BEGIN; ALTER TABLE t RENAME TO u; COMMENT ON TABLE u IS 'renamed'; CREATE TABLE w AS SELECT a FROM u")
        .await;
    run(&guest, "ALTER TABLE w RENAME TO t; COMMENT ON TABLE t IS 'made'; DROP TABLE u; COMMIT").await;
    assert_eq!(rows(&guest, "SELECT a FROM t").await, ["1"]);
    assert_eq!(rows(&guest, "SELECT obj_description('t'::regclass)").await, ["made"]);
}

#[tokio::test]
async fn a_repeatable_block_that_has_written_beside_others_changes_no_rows_of_theirs() {
    let gateway = Gateway::start();
    let (client, other) = (gateway.connect().await, gateway.connect().await);
    run(&client, "CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 1), (2, 2)").await;
    for (own, change) in [
        ("INSERT INTO t VALUES (3, 3)", "UPDATE t SET b = 0 WHERE a = 1"),
        ("INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE a = 1"),
        ("SELECT 1", "DELETE FROM t WHERE a = 1"),
        ("UPDATE t SET b = b WHERE false", "UPDATE t SET b = 0 WHERE a = 1"),
    ] {
        run(&client, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT b FROM t WHERE a = 1").await;
        run(&other, "UPDATE t SET b = b + 100 WHERE a = 1").await;
        run(&client, own).await;
        let refused = error(&client, change).await;
        assert!(refused.starts_with("40001: "), "{own}; {change}: {refused}");
        run(&client, "ROLLBACK; DELETE FROM t WHERE a = 3").await;
    }
    assert_eq!(rows(&other, "SELECT b FROM t WHERE a = 1").await, ["401"]);
    // Alone it may write as often as it likes, and sees what it wrote while others go on.
    run(
        &client,
        "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE t SET b = 5 WHERE a = 1; UPDATE t SET b = b + 1 WHERE a = 1",
    )
    .await;
    run(&other, "INSERT INTO t VALUES (9, 9)").await;
    assert_eq!(rows(&client, "SELECT a, b FROM t ORDER BY a").await, ["1|6", "2|2"]);
    run(&client, "COMMIT").await;
}

#[tokio::test]
async fn schemas_of_a_block_are_made_and_dropped_in_it() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "BEGIN; CREATE SCHEMA s; CREATE TABLE s.t (a int); DROP TABLE s.t; DROP SCHEMA s; COMMIT").await;
    run(&client, "BEGIN; CREATE SCHEMA s; DROP SCHEMA IF EXISTS s; CREATE SCHEMA s; COMMIT").await;
    run(&client, "BEGIN; DROP SCHEMA s").await;
    assert!(error(&client, "DROP SCHEMA s").await.starts_with("3F000: "));
    run(&client, "ROLLBACK; DROP SCHEMA s; CREATE TABLE t AS SELECT 1 AS a").await;
    assert!(error(&client, "BEGIN; DROP TABLE t, t").await.starts_with("42P01: "));
    run(&client, "ROLLBACK; BEGIN; ALTER TABLE t RENAME TO u").await;
    let refused = error(&client, "CREATE MATERIALIZED VIEW m AS SELECT a FROM u").await;
    assert!(refused.starts_with("25001: "), "{refused}");
    run(&client, "ROLLBACK").await;
    assert_eq!(rows(&client, "SELECT a FROM t").await, ["1"]);
}
