//! Primary keys, which are recorded; and queries in forms that ORMs send.

use crate::harness::Gateway;
use crate::rows::{affected, error, rows, run};

#[tokio::test]
async fn a_primary_key_is_recorded_and_said_not_to_be_enforced() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let output = gateway.psql_with(&["-c", "CREATE TABLE t (id bigint PRIMARY KEY, v text)"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("NOTICE:  the primary key of table \"t\" is recorded and not enforced"), "{said}");
    // What Alembic makes first.
    run(
        &client,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
    )
    .await;
    run(&client, "CREATE TABLE two (a int, b text, c int, PRIMARY KEY (b, a))").await;
    run(&client, "INSERT INTO t VALUES (1, 'x'), (1, 'y')").await;
    for (statement, code) in [
        ("INSERT INTO t (v) VALUES ('z')", "23502: "),
        ("INSERT INTO two (a, c) VALUES (1, 1)", "23502: "),
        ("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", "42P16: column \"id\" is in a primary key"),
        ("CREATE TABLE w (a int PRIMARY KEY, b int, PRIMARY KEY (b))", "42P16: multiple primary keys"),
        ("CREATE TABLE w (a int, PRIMARY KEY (nope))", "42703: column \"nope\" named in key does not exist"),
        ("CREATE TABLE w (a int, PRIMARY KEY (a, a))", "42701: "),
        ("CREATE TABLE w (a int UNIQUE)", "0A000: "),
        ("CREATE TABLE w (a int, UNIQUE (a))", "0A000: "),
        ("CREATE TABLE w (a int REFERENCES t (id))", "0A000: "),
        ("CREATE TABLE w (a int, CHECK (a > 0))", "0A000: "),
    ] {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(code), "{statement}: {refused}");
    }
    // ON CONFLICT without columns means the key, also by PostgreSQL's name for it.
    run(&client, "DELETE FROM t; INSERT INTO t VALUES (1, 'x')").await;
    assert_eq!(affected(&client, "INSERT INTO t VALUES (1, 'y'), (2, 'z') ON CONFLICT DO NOTHING").await, 1);
    let named = "INSERT INTO t VALUES (2, 'q') ON CONFLICT ON CONSTRAINT t_pkey DO UPDATE SET v = excluded.v";
    assert_eq!(affected(&client, named).await, 1);
    assert_eq!(rows(&client, "SELECT * FROM t ORDER BY id").await, ["1|x", "2|q"]);
    run(&client, "INSERT INTO two VALUES (1, 'a', 1)").await;
    assert_eq!(affected(&client, "INSERT INTO two VALUES (1, 'a', 2), (1, 'b', 3) ON CONFLICT DO NOTHING").await, 1);
}

#[tokio::test]
async fn not_null_can_be_dropped() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint NOT NULL)").await;
    assert!(error(&client, "INSERT INTO t VALUES (NULL)").await.starts_with("23502: "));
    run(&client, "ALTER TABLE t ALTER COLUMN id DROP NOT NULL; INSERT INTO t VALUES (NULL)").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE id IS NULL").await, ["1"]);
    assert!(error(&client, "ALTER TABLE t ALTER COLUMN nope DROP NOT NULL").await.starts_with("42703: "));
}

#[tokio::test]
async fn fetch_first_is_limit() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let series = "SELECT i FROM generate_series(1, 9) AS g(i) ORDER BY i";
    assert_eq!(rows(&client, &format!("{series} FETCH FIRST 2 ROWS ONLY")).await, ["1", "2"]);
    assert_eq!(rows(&client, &format!("{series} FETCH NEXT ROW ONLY")).await, ["1"]);
    assert_eq!(rows(&client, &format!("{series} OFFSET 3 ROWS FETCH FIRST 2 ROWS ONLY")).await, ["4", "5"]);
    assert!(error(&client, &format!("{series} FETCH FIRST 2 ROWS WITH TIES")).await.starts_with("0A000: "));
}

#[tokio::test]
async fn d_90_exists_is_a_value() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE a (id bigint); INSERT INTO a VALUES (1), (2), (3); CREATE TABLE b (a_id bigint)").await;
    run(&client, "INSERT INTO b VALUES (1), (1), (3)").await;
    for (query, wanted) in [
        ("SELECT EXISTS (SELECT 1 FROM a)", vec!["t"]),
        ("SELECT EXISTS (SELECT 1 FROM a WHERE id = 9)", vec!["f"]),
        ("SELECT NOT EXISTS (SELECT * FROM a WHERE id = 9) AS none", vec!["t"]),
        ("SELECT EXISTS (SELECT 1 FROM a LIMIT 0)", vec!["f"]),
        ("SELECT EXISTS (SELECT count(*) FROM a WHERE id = 9)", vec!["t"]),
        ("SELECT EXISTS (SELECT id FROM a GROUP BY id HAVING count(*) > 1)", vec!["f"]),
        (
            "SELECT id, EXISTS (SELECT 1 FROM b WHERE b.a_id = a.id) AS has FROM a ORDER BY id",
            vec!["1|t", "2|f", "3|t"],
        ),
        ("SELECT CASE WHEN EXISTS (SELECT 1 FROM b WHERE a_id = 3) THEN 'yes' ELSE 'no' END", vec!["yes"]),
        ("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.a_id = a.id) ORDER BY id", vec!["1", "3"]),
    ] {
        assert_eq!(rows(&client, query).await, wanted, "{query}");
    }
    let statement = client.prepare("SELECT EXISTS (SELECT 1 FROM a WHERE id = $1)").await.unwrap();
    assert_eq!((statement.columns()[0].name(), statement.columns()[0].type_().name()), ("exists", "bool"));
}
