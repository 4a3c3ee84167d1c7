//! Plans that are used again: only while they would be made from the same, and
//! never with the privileges of before.

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::rows::{describe, error, rows, run};

const PASSWORD: &str = "ann has a long password";

/// A table, and a user who may read it.
async fn shared_table() -> (Gateway, Client, Client) {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(
        &admin,
        "CREATE TABLE t (x BIGINT);
         INSERT INTO t VALUES (1);
         CREATE USER ann PASSWORD 'ann has a long password';
         GRANT USAGE ON DATABASE lancegate TO USER ann;
         GRANT USAGE ON SCHEMA public TO USER ann;
         GRANT SELECT ON TABLE t TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", PASSWORD).await.unwrap();
    (gateway, admin, ann)
}

async fn executed(client: &Client, statement: &tokio_postgres::Statement) -> Result<Vec<i64>, String> {
    let rows = client.query(statement, &[]).await.map_err(|error| describe(&error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn z07_a_revoked_privilege_is_missed_by_the_next_execute() {
    let (_gateway, admin, ann) = shared_table().await;
    let prepared = ann.prepare("SELECT x FROM t").await.unwrap();
    run(&ann, "PREPARE named AS SELECT x FROM t").await;
    for _ in 0..2 {
        assert_eq!(executed(&ann, &prepared).await, Ok(vec![1]));
        assert_eq!(rows(&ann, "EXECUTE named").await, ["1"]);
        run(&admin, "REVOKE SELECT ON TABLE t FROM USER ann").await;
        let refused = executed(&ann, &prepared).await.unwrap_err();
        assert!(refused.starts_with("42501: permission denied for table t"), "{refused}");
        let refused = error(&ann, "EXECUTE named").await;
        assert!(refused.starts_with("42501: permission denied for table t"), "{refused}");
        run(&admin, "GRANT SELECT ON TABLE t TO USER ann").await;
    }
}

/// What was begun with a privilege goes on with it: a cursor has its snapshot.
#[tokio::test]
async fn z07_a_cursor_that_is_open_reads_to_its_end_and_no_other_is_opened() {
    let (_gateway, admin, ann) = shared_table().await;
    run(&admin, "INSERT INTO t VALUES (2), (3)").await;
    run(&ann, "BEGIN; DECLARE c CURSOR FOR SELECT x FROM t ORDER BY x").await;
    assert_eq!(rows(&ann, "FETCH 1 FROM c").await, ["1"]);
    run(&admin, "REVOKE SELECT ON TABLE t FROM USER ann; INSERT INTO t VALUES (4)").await;
    assert_eq!(rows(&ann, "FETCH ALL FROM c").await, ["2", "3"]);
    let refused = error(&ann, "DECLARE d CURSOR FOR SELECT x FROM t").await;
    assert!(refused.starts_with("42501: permission denied for table t"), "{refused}");
}

/// The privileges of a refresh are those of its begin; its result is its caller's.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn z07_a_refresh_that_is_waited_for_answers_who_has_lost_its_privilege() {
    let mut gateway = Gateway::start();
    gateway.restart_failing("publish.before=hold@1");
    let admin = gateway.connect().await;
    run(
        &admin,
        "CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN y AS (x + 1);
         CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON DATABASE lancegate TO USER ann;
         GRANT USAGE ON SCHEMA public TO USER ann; GRANT SELECT, UPDATE ON TABLE t TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", PASSWORD).await.unwrap();
    let refreshed = tokio::spawn(async move { rows(&ann, "REFRESH COLUMN y ON t WAIT").await });
    gateway.held("publish.before", 1).await;
    run(&admin, "REVOKE SELECT, UPDATE ON TABLE t FROM USER ann").await;
    gateway.let_go("publish.before", 1);
    let answer = refreshed.await.unwrap();
    assert!(answer.len() == 1 && answer[0].contains("succeeded"), "{answer:?}");
    assert_eq!(rows(&admin, "SELECT y FROM t").await, ["2"]);
}

#[tokio::test]
async fn a_prepared_statement_reads_the_newest_version_of_the_table_of_its_name() {
    let (_gateway, admin, _ann) = shared_table().await;
    let prepared = admin.prepare("SELECT x FROM t ORDER BY x").await.unwrap();
    assert_eq!(executed(&admin, &prepared).await, Ok(vec![1]));
    run(&admin, "INSERT INTO t VALUES (2)").await;
    assert_eq!(executed(&admin, &prepared).await, Ok(vec![1, 2]));
    run(&admin, "DELETE FROM t WHERE x = 1").await;
    assert_eq!(executed(&admin, &prepared).await, Ok(vec![2]));
    run(&admin, "DROP TABLE t; CREATE TABLE t (y TEXT, x BIGINT); INSERT INTO t VALUES ('a', 7)").await;
    assert_eq!(executed(&admin, &prepared).await, Ok(vec![7]));
    run(&admin, "ALTER TABLE t RENAME TO u; CREATE TABLE t (x BIGINT); INSERT INTO t VALUES (9)").await;
    assert_eq!(executed(&admin, &prepared).await, Ok(vec![9]));
    run(&admin, "DROP TABLE t; CREATE TABLE t (x TEXT)").await;
    let refused = executed(&admin, &prepared).await.unwrap_err();
    assert!(refused.starts_with("0A000: cached plan must not change result type"), "{refused}");
    run(&admin, "DROP TABLE t").await;
    let refused = executed(&admin, &prepared).await.unwrap_err();
    assert!(refused.starts_with("42P01: relation \"t\" does not exist"), "{refused}");
}

#[tokio::test]
async fn settings_that_change_a_plan_are_noticed() {
    let (_gateway, admin, _ann) = shared_table().await;
    run(&admin, "CREATE SCHEMA other; CREATE TABLE other.t (x BIGINT); INSERT INTO other.t VALUES (5)").await;
    let table = admin.prepare("SELECT x FROM t").await.unwrap();
    let zone = "SELECT CAST(CAST('2024-01-01 00:00:00+00' AS timestamptz) AS text) AS t, current_schema()";
    let here = admin.prepare(zone).await.unwrap();
    let told = async |client: &Client| {
        let simple = rows(client, zone).await;
        let row = client.query_one(&here, &[]).await.unwrap();
        assert_eq!(simple, [format!("{}|{}", row.get::<_, String>(0), row.get::<_, String>(1))]);
        simple.concat()
    };
    let berlin = "SET timezone = 'Europe/Berlin'; SET search_path = other";
    let mut answers = Vec::new();
    for settings in ["", berlin, "RESET ALL", "BEGIN; SET LOCAL search_path = other", "ROLLBACK"] {
        run(&admin, settings).await;
        answers.push((told(&admin).await, executed(&admin, &table).await.unwrap()));
    }
    assert_eq!((&answers[0].1, &answers[1].1), (&vec![1], &vec![5]));
    assert!(answers[0].0.ends_with("|public") && answers[1].0.ends_with("|other"), "{answers:?}");
    assert_ne!(answers[0].0.split('|').next(), answers[1].0.split('|').next(), "the zone is used");
    assert_eq!(answers[2], answers[0]);
    assert_eq!((answers[3].1.as_slice(), answers[3].0.ends_with("|other")), ([5].as_slice(), true));
    assert_eq!(answers[4], answers[0]);
}

#[tokio::test]
async fn the_current_schema_is_the_first_of_the_path_that_exists() {
    let (_gateway, admin, _ann) = shared_table().await;
    let asked = admin.prepare("SELECT current_schema, current_schemas(false)").await.unwrap();
    let told = async || {
        let row = admin.query_one(&asked, &[]).await.unwrap();
        assert_eq!(rows(&admin, "SELECT current_schema()").await, [row.get::<_, Option<&str>>(0).unwrap_or("∅")]);
        (row.get::<_, Option<String>>(0), row.get::<_, Vec<String>>(1))
    };
    let schema = |name: &str| Some(name.to_owned());
    let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(told().await, (schema("public"), path(&["public"])));
    run(&admin, "CREATE SCHEMA lancegate").await;
    assert_eq!(told().await, (schema("lancegate"), path(&["lancegate", "public"])));
    run(&admin, "DROP SCHEMA lancegate").await;
    assert_eq!(told().await, (schema("public"), path(&["public"])));
    run(&admin, "SET search_path = nowhere").await;
    assert_eq!(told().await, (None, path(&[])));
}

#[tokio::test]
async fn sessions_that_send_the_same_text_get_their_own_answers() {
    let (gateway, admin, ann) = shared_table().await;
    let second = gateway.connect_as("ann", PASSWORD).await.unwrap();
    let text = "SELECT current_user, pg_backend_pid()";
    let mut pids = Vec::new();
    for (client, user) in [(&admin, "lancegate"), (&ann, "ann"), (&second, "ann")] {
        let first = rows(client, text).await;
        assert_eq!(rows(client, text).await, first);
        let (name, pid) = first[0].split_once('|').unwrap();
        assert_eq!(name, user);
        pids.push(pid.to_owned());
    }
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[tokio::test]
async fn a_small_query_obeys_a_failed_block() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let prepared = client.prepare("SELECT 1::bigint").await.unwrap();
    for _ in 0..2 {
        assert_eq!(rows(&client, "SELECT 1").await, ["1"]);
        assert_eq!(executed(&client, &prepared).await, Ok(vec![1]));
        run(&client, "BEGIN").await;
        error(&client, "SELECT 1/0").await;
        for refused in [error(&client, "SELECT 1").await, executed(&client, &prepared).await.unwrap_err()] {
            assert!(refused.starts_with("25P02: current transaction is aborted"), "{refused}");
        }
        run(&client, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn small_queries_answer_as_others_do() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    // FROM takes the other way to the same expression.
    for expression in [
        "1 + 2 * 3",
        "7 / 2",
        "-7 % 3",
        "1.5 * 2",
        "NULL",
        "CAST('12' AS integer) + 1",
        "CASE WHEN 1 > 2 THEN 'a' WHEN NULL THEN 'b' ELSE 'c' END",
        "true AND NOT false",
        "date '2024-02-29'",
        "1 = 1.0",
        "NULL IS NULL",
        "current_user",
    ] {
        let alone = rows(&client, &format!("SELECT {expression}")).await;
        let other = rows(&client, &format!("SELECT {expression} FROM (VALUES (1)) AS v(n)")).await;
        assert_eq!(alone, other, "{expression}");
    }
    for expression in ["1 / 0", "9223372036854775807 + 1", "CAST('x' AS integer)", "nothing"] {
        let alone = error(&client, &format!("SELECT {expression}")).await;
        let other = error(&client, &format!("SELECT {expression} FROM (VALUES (1)) AS v(n)")).await;
        assert_eq!(alone, other, "{expression}");
    }
    let sum = client.prepare("SELECT $1::bigint + $2::bigint").await.unwrap();
    for n in 1..4_i64 {
        let row = client.query_one(&sum, &[&n, &10_i64]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), n + 10);
    }
    let full = client.query_one(&sum, &[&i64::MAX, &1_i64]).await.unwrap_err();
    assert!(describe(&full).starts_with("22003: "), "{}", describe(&full));
}

#[tokio::test]
async fn the_time_goes_on_between_executes() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let now = client.prepare("SELECT CAST(now() AS text)").await.unwrap();
    let told = async || client.query_one(&now, &[]).await.unwrap().get::<_, String>(0);
    let first = told().await;
    for _ in 0..10_000 {
        if told().await != first {
            return;
        }
    }
    panic!("now() stays at {first}");
}

#[tokio::test]
async fn deep_texts_stay_refused_and_wide_ones_leave_the_session_alone() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    for _ in 0..2 {
        let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(error(&client, &deep).await.starts_with("54"), "nesting");
        let long = format!("SELECT 1{}", " + 1".repeat(10_000));
        assert!(error(&client, &long).await.starts_with("54"), "a chain");
        let within = format!("SELECT {}1{}", "(".repeat(30), ")".repeat(30));
        assert_eq!(rows(&client, &within).await, ["1"]);
        let chain = format!("SELECT 1{}", " + 1".repeat(900));
        assert_eq!(rows(&client, &chain).await, ["901"]);
        let wide = format!("SELECT {}", vec!["1"; 1_000].join(", "));
        assert_eq!(rows(&client, &wide).await[0].len(), 1_999);
    }
    for n in 0..200 {
        assert_eq!(rows(&client, &format!("SELECT {n}")).await, [n.to_string()]);
    }
}
