//! COMMENT ON and what shows it.

use crate::harness::Gateway;
use crate::privileges::user;
use crate::rows::{error, rows, run};

#[tokio::test]
async fn comments_are_shown_where_postgresql_shows_them() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, body text); CREATE VIEW v AS SELECT id FROM t").await;
    run(&client, "CREATE SCHEMA s; CREATE TABLE s.u (a int)").await;
    run(
        &client,
        "COMMENT ON TABLE t IS 'the documents'; COMMENT ON VIEW v IS 'it''s a view';
         COMMENT ON COLUMN t.body IS 'what it says'; COMMENT ON COLUMN v.id IS 'of the view';
         COMMENT ON COLUMN s.u.a IS 'of another schema'; COMMENT ON SCHEMA s IS 'more';
         COMMENT ON DATABASE lancegate IS 'everything'",
    )
    .await;
    let shown = "SELECT obj_description('t'::regclass, 'pg_class'), col_description('t'::regclass, 1),
                        col_description('t'::regclass, 2), obj_description('v'::regclass)";
    let texts = ["the documents|∅|what it says|it's a view"];
    assert_eq!(rows(&client, shown).await, texts);
    let of_schema = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 's'";
    assert_eq!(rows(&client, of_schema).await, ["more"]);
    let of_database = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'lancegate'";
    assert_eq!(rows(&client, of_database).await, ["everything"]);
    let all = "SELECT c.relname, d.objsubid, d.description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
               WHERE d.classoid = 'pg_class'::regclass ORDER BY 1, 2";
    let listed =
        ["t|0|the documents", "t|2|what it says", "u|1|of another schema", "v|0|it's a view", "v|1|of the view"];
    assert_eq!(rows(&client, all).await, listed);
    // They go with what they are on, wherever it goes.
    run(&client, "ALTER TABLE t RENAME COLUMN body TO text; ALTER TABLE t DROP COLUMN id").await;
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT col_description('t'::regclass, 1)").await, ["what it says"]);
    run(&client, "DROP VIEW v; DROP TABLE s.u; COMMENT ON COLUMN t.text IS NULL; COMMENT ON TABLE t IS ''").await;
    assert!(rows(&client, all).await.is_empty());
    let output = gateway.psql_with(&["-c", "COMMENT ON TABLE t IS 'again'", "-c", "\\dt+ t"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("again"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn z01_a_comment_takes_ownership() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE t (id bigint); CREATE VIEW v AS SELECT id FROM t; CREATE SCHEMA s").await;
    for (statement, code) in [
        ("COMMENT ON TABLE v IS 'x'", "42809: \"v\" is not a table"),
        ("COMMENT ON VIEW t IS 'x'", "42809: \"t\" is not a view"),
        ("COMMENT ON TABLE nope IS 'x'", "42P01: "),
        ("COMMENT ON COLUMN t.nope IS 'x'", "42703: "),
        ("COMMENT ON SCHEMA nope IS 'x'", "3F000: "),
        ("COMMENT ON DATABASE nope IS 'x'", "3D000: "),
        ("COMMENT ON FUNCTION f IS 'x'", "0A000: "),
    ] {
        let refused = error(&admin, statement).await;
        assert!(refused.starts_with(code), "{statement}: {refused}");
    }
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann; GRANT SELECT ON TABLE t TO USER ann").await;
    for target in ["TABLE t", "COLUMN t.id", "SCHEMA s", "DATABASE lancegate"] {
        let refused = error(&ann, &format!("COMMENT ON {target} IS 'x'")).await;
        assert!(refused.starts_with("42501: "), "{target}: {refused}");
    }
}
