//! DROP … CASCADE and RESTRICT, and new names for views.

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

/// A table, a view of it, a view of that, and a materialized view of both.
async fn started() -> (Gateway, tokio_postgres::Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint); INSERT INTO t VALUES (1); CREATE TABLE u (id bigint)").await;
    run(&client, "CREATE VIEW v AS SELECT id FROM t; CREATE SCHEMA s; CREATE VIEW s.w AS SELECT id FROM public.v")
        .await;
    run(&client, "CREATE MATERIALIZED VIEW m AS SELECT v.id FROM v JOIN t ON t.id = v.id").await;
    run(&client, "CREATE VIEW free AS WITH t AS (SELECT id FROM u) SELECT id FROM t").await;
    (gateway, client)
}

#[tokio::test]
async fn cascade_drops_what_reads_it_and_nothing_else() {
    let (gateway, client) = started().await;
    let output = gateway.psql_with(&["-c", "DROP TABLE t CASCADE"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("drop cascades to 3 other objects"), "{said}");
    for part in ["drop cascades to view v", "drop cascades to view w", "drop cascades to materialized view m"] {
        assert!(said.contains(part), "{said}");
    }
    let left = "SELECT table_name FROM information_schema.tables WHERE table_schema IN ('public', 's') ORDER BY 1";
    assert_eq!(rows(&client, left).await, ["free", "u"], "a name of WITH is not the table");
    assert!(!gateway.data().join("m.lance").exists());
    run(&client, "DROP VIEW free CASCADE; DROP TABLE IF EXISTS nope CASCADE").await;
}

#[tokio::test]
async fn a_schema_goes_with_what_is_in_it_and_what_reads_that() {
    let (gateway, client) = started().await;
    run(&client, "CREATE TABLE s.t (id bigint); CREATE SCHEMA \"s$inner\"; CREATE TABLE \"s$inner\".x (id bigint)")
        .await;
    run(&client, "CREATE TABLE s.kept_serial (id serial); CREATE VIEW reads AS SELECT id FROM s.t").await;
    run(&client, "CREATE USER bob PASSWORD 'a long password'").await;
    for what in ["USAGE ON DATABASE lancegate", "USAGE ON SCHEMA public", "USAGE ON SCHEMA s", "OWNERSHIP ON TABLE s.t"]
    {
        run(&client, &format!("GRANT {what} TO USER bob")).await;
    }
    let bob = gateway.connect_as("bob", "a long password").await.unwrap();
    assert!(error(&bob, "DROP SCHEMA s CASCADE").await.starts_with("42501"));
    let refused = error(&client, "DROP SCHEMA s").await;
    assert!(refused.starts_with("2BP01"), "{refused}");
    assert!(error(&client, "DROP SCHEMA s RESTRICT").await.starts_with("2BP01"));
    let output = gateway.psql_with(&["-c", "DROP SCHEMA s CASCADE"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("drop cascades to"), "{said}");
    let left = "SELECT table_name FROM information_schema.tables WHERE table_schema NOT LIKE 'pg%'
        AND table_schema <> 'information_schema' AND table_catalog = 'lancegate' ORDER BY 1";
    assert_eq!(rows(&client, left).await, ["free", "t", "u", "v"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 's%'").await, ["0"]);
    run(&client, "DROP SCHEMA IF EXISTS s CASCADE; CREATE SCHEMA s; CREATE TABLE s.t (id bigint)").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM s.t").await, ["0"]);
}

#[tokio::test]
async fn restrict_names_what_is_in_the_way() {
    let (_gateway, client) = started().await;
    let refused = error(&client, "DROP TABLE t RESTRICT").await;
    assert!(refused.starts_with("2BP01: cannot drop table t because other objects depend on it"), "{refused}");
    assert!(refused.contains("view v depends on table t"), "{refused}");
    assert!(refused.contains("view w depends on view v"), "{refused}");
    assert!(refused.ends_with("Use DROP ... CASCADE to drop the dependent objects too."), "{refused}");
    assert!(error(&client, "DROP VIEW v RESTRICT").await.starts_with("2BP01: cannot drop view v because"));
    run(&client, "DROP MATERIALIZED VIEW m RESTRICT; DROP VIEW s.w RESTRICT").await;
    // Without a word a view stays, and finds the table that gets the name next.
    run(&client, "DROP TABLE t; CREATE TABLE t (id bigint)").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM v").await, ["0"]);
}

/// How dbt puts a new relation in the place of an old one.
#[tokio::test]
async fn views_get_new_names_as_dbt_gives_them() {
    let (_gateway, client) = started().await;
    run(&client, "COMMENT ON VIEW v IS 'kept'; GRANT SELECT ON VIEW v TO USER lancegate").await;
    run(&client, r#"alter table "lancegate"."public"."v" rename to "v__dbt_backup""#).await;
    run(&client, "CREATE VIEW v__dbt_tmp AS SELECT id + 1 AS id FROM t; ALTER VIEW v__dbt_tmp RENAME TO v").await;
    assert_eq!(rows(&client, "SELECT id FROM v").await, ["2"]);
    assert_eq!(rows(&client, "SELECT id FROM v__dbt_backup").await, ["1"]);
    assert_eq!(rows(&client, "SELECT obj_description('v__dbt_backup'::regclass)").await, ["kept"]);
    run(&client, "DROP VIEW IF EXISTS v__dbt_backup CASCADE; ALTER MATERIALIZED VIEW m RENAME TO m2").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM m2").await, ["1"]);
    run(&client, "ALTER VIEW IF EXISTS nope RENAME TO other").await;
    assert!(error(&client, "ALTER VIEW nope RENAME TO other").await.starts_with("42P01: "));
    assert!(error(&client, "ALTER VIEW t RENAME TO other").await.starts_with("42809: \"t\" is not a view"));
    assert!(error(&client, "ALTER VIEW v RENAME TO u").await.starts_with("42P07: "));
}
