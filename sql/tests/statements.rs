//! What is understood, as it prints. Whatever prints is read back the same.

use lancegate_sql::ast::VersionReference;
use lancegate_sql::{Limits, Parsed, Statement, parse};

fn read(sql: &str) -> Vec<Parsed> {
    parse(sql, &Limits::default()).unwrap_or_else(|error| panic!("{sql}\n{error:?}"))
}

fn one(sql: &str) -> Statement {
    let mut parsed = read(sql);
    assert_eq!(parsed.len(), 1, "{sql}");
    parsed.remove(0).statement
}

fn check(kind: &str, cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        let statement = one(sql);
        assert_eq!(statement.kind(), kind, "{sql}");
        assert_eq!(statement.to_string(), *expected, "{sql}");
        assert_eq!(one(expected), statement, "{expected} is read back");
    }
}

/// Checks statements that print as they are written.
fn same(kind: &str, cases: &[&str]) {
    let pairs: Vec<_> = cases.iter().map(|sql| (*sql, *sql)).collect();
    check(kind, &pairs);
}

#[test]
fn empty_texts_have_no_statements() {
    for sql in ["", " ", ";", " ; ;; ", "-- only a comment", "/* a /* nested */ one */ ;"] {
        assert!(read(sql).is_empty(), "{sql:?}");
    }
}

#[test]
fn a_script_is_split_outside_of_strings_and_comments() {
    let sql = "/* ; */ SELECT ';', E'a\\';', $a$;$b$;$a$, \";\" -- ;\n ; é; SHOW x";
    let error = parse(sql, &Limits::default()).expect_err("é is no statement");
    assert_eq!(error.message, "syntax error at or near \"é\"");
    let parsed = read(&sql.replace("é", "BEGIN"));
    let texts: Vec<_> = parsed.iter().map(|parsed| parsed.text.as_str()).collect();
    assert_eq!(texts, ["SELECT ';', E'a\\';', $a$;$b$;$a$, \";\"", "BEGIN", "SHOW x"]);
    let sql = sql.replace("é", "BEGIN");
    for statement in &parsed {
        assert!(sql[statement.start..].starts_with(&statement.text));
    }
}

#[test]
fn refreshes() {
    check(
        "refresh_column",
        &[
            ("refresh column Doubled on my_table", "REFRESH COLUMN doubled ON my_table"),
            (
                "/* {\"app\": \"dbt\"} */ -- x\n REFRESH COLUMN `A b`.c ON TABLE \"db\".`team$ml`.T \
             WHERE id > 1 AND (x IS NULL) WITH (NUM_WORKERS = '2', branch = 'b') WAIT",
                "REFRESH COLUMN \"A b\".c ON db.\"team$ml\".t WHERE id > 1 AND (x IS NULL) \
             WITH (num_workers = 2, branch = 'b') WAIT",
            ),
            (
                "REFRESH COLUMN e ON d WITH (gpu_count = 2, memory_bytes = 17179869184, cpu_millis = 8000)",
                "REFRESH COLUMN e ON d WITH (cpu_millis = 8000, memory_bytes = 17179869184, gpu_count = 2)",
            ),
            (
                "REFRESH COLUMN e ON d WITH (error_policy = skip, max_failed_fraction = '0.25')",
                "REFRESH COLUMN e ON d WITH (error_policy = 'skip', max_failed_fraction = 0.25)",
            ),
        ],
    );
    same("refresh_column", &["REFRESH COLUMN c ON t WHERE _rowid IN (1, 2) NOWAIT"]);
    same(
        "refresh_materialized_view",
        &["REFRESH MATERIALIZED VIEW v", "REFRESH MATERIALIZED VIEW s.v WITH (full = true) WAIT"],
    );
    same("explain_refresh", &["EXPLAIN VERBOSE REFRESH COLUMN c ON t WHERE a > 1"]);
    same("explain_job", &["EXPLAIN JOB 'job_1'", "EXPLAIN VERBOSE JOB 'job_1'"]);
}

#[test]
fn an_option_keeps_its_place_and_says_who_refuses_it() {
    let sql = "é; REFRESH COLUMN c ON t WITH (num_workers = 1, batch_size = 2)".replace("é", "BEGIN");
    let Some(Statement::RefreshColumn(refresh)) = read(&sql).pop().map(|parsed| parsed.statement) else {
        panic!("a refresh");
    };
    assert_eq!(refresh.options.function_only(), ["batch_size"]);
    assert_eq!(refresh.options.position_of("batch_size"), sql.find("batch_size").map(|at| at + 1));
}

#[test]
fn jobs() {
    same("show_jobs", &["SHOW JOBS", "SHOW JOBS LIMIT 10", "SHOW JOBS FOR TABLE a.b", "SHOW JOBS FOR JOB 'x' LIMIT 5"]);
    same("show_job_events", &["SHOW JOB EVENTS 'x'", "SHOW JOB EVENTS 'x' WHERE state = 'claim' LIMIT 3"]);
    same("show_job_splits", &["SHOW JOB SPLITS 'x'"]);
    check(
        "describe_job",
        &[
            ("DESC JOB 'x'", "DESCRIBE JOB 'x'"),
            ("SHOW JOB SUMMARY 'x' FORMAT json", "DESCRIBE JOB 'x' FORMAT JSON"),
            ("describe job 'x' format table;", "DESCRIBE JOB 'x' FORMAT TABLE"),
        ],
    );
    same("show_errors", &["SHOW ERRORS ON t", "SHOW ERRORS ON s.t FOR JOB 'x' LIMIT 100000"]);
    same("pause_job", &["PAUSE JOB 'x'"]);
    same("resume_job", &["RESUME JOB 'x'"]);
    same("cancel_job", &["CANCEL JOB 'it''s'"]);
    check(
        "wait_job",
        &[
            ("WAIT JOB 'x'", "WAIT JOB 'x'"),
            ("WAIT JOB 'x' TIMEOUT '1h 30 min 0.5s'", "WAIT JOB 'x' TIMEOUT '5400500 ms'"),
            ("WAIT JOB 'x' TIMEOUT '00:00:10'", "WAIT JOB 'x' TIMEOUT '10000 ms'"),
            ("WAIT JOB 'x' TIMEOUT '5'", "WAIT JOB 'x' TIMEOUT '5000 ms'"),
        ],
    );
    same("show_gpu_classes", &["SHOW GPU CLASSES"]);
}

#[test]
fn columns() {
    same(
        "alter_table",
        &[
            "ALTER TABLE t ADD COLUMN words AS length(body) + 1 WITH (auto_refresh_enabled = true)",
            "ALTER TABLE IF EXISTS s.t ADD COLUMN (a, b) AS f(x, 'y') FILTER (WHERE x > 0) \
         IGNORE NULLS OVER (PARTITION BY c) WITH (version = '2', branch = 'b')",
            "ALTER TABLE t ADD COLUMN c INT GENERATED ALWAYS AS (a + b) STORED",
            "ALTER TABLE t ADD COLUMN a AS f(x) + g(y)",
            "ALTER TABLE t DROP COLUMN a, DROP COLUMN IF EXISTS b CASCADE",
            "ALTER TABLE t RENAME COLUMN a TO \"B\"",
            "ALTER TABLE t RENAME TO \"t$2\"",
            "ALTER TABLE t ALTER COLUMN c TYPE BIGINT USING c::bigint",
            "ALTER TABLE t ALTER COLUMN c SET (auto_refresh_enabled = false, auto_refresh_interval_seconds = 30)",
            "ALTER TABLE t SET UNENFORCED PRIMARY KEY (a, b)",
        ],
    );
    check(
        "alter_table",
        &[
            ("alter table t add c numeric(10, 2)", "ALTER TABLE t ADD COLUMN c NUMERIC(10,2)"),
            ("alter table t alter c set data type text", "ALTER TABLE t ALTER COLUMN c TYPE TEXT"),
            ("alter table t rename a to b", "ALTER TABLE t RENAME COLUMN a TO b"),
        ],
    );
}

#[test]
fn tables_and_views() {
    check(
        "create_table",
        &[
            ("create unlogged table t (a int)", "CREATE TABLE t (a INT)"),
            (
                "CREATE TABLE IF NOT EXISTS s.t (a bigint not null, b varchar(3)) with (fillfactor=100)",
                "CREATE TABLE IF NOT EXISTS s.t (a BIGINT NOT NULL, b VARCHAR(3)) WITH (fillfactor = 100)",
            ),
        ],
    );
    same(
        "create_table_as",
        &["CREATE TEMPORARY TABLE t AS (SELECT 1 AS a)", "CREATE TABLE t AS SELECT 1 WITH NO DATA"],
    );
    check(
        "clone_table",
        &[
            ("CREATE TABLE n CLONE s AT 3", "CREATE TABLE n CLONE s AT VERSION 3"),
            ("CREATE TABLE n CLONE s AT '2026-01-01'", "CREATE TABLE n CLONE s AT TIMESTAMP '2026-01-01'"),
            ("CREATE TABLE IF NOT EXISTS n CLONE s", "CREATE TABLE IF NOT EXISTS n CLONE s"),
        ],
    );
    same("drop_table", &["DROP TABLE IF EXISTS a.b, c CASCADE"]);
    same("drop_view", &["DROP VIEW v RESTRICT"]);
    check(
        "create_view",
        &[
            ("create view \"db\".\"s\".v__tmp as ( select 1 )", "CREATE VIEW \"db\".\"s\".v__tmp AS ( select 1 )"),
            (
                "CREATE OR REPLACE VIEW v (a) AS SELECT x AS y FROM t",
                "CREATE OR REPLACE VIEW v (a) AS SELECT x AS y FROM t",
            ),
            (
                "CREATE VIEW v AS SELECT * FROM t FOR SYSTEM_TIME AS OF VERSION 5 AS d",
                "CREATE VIEW v AS SELECT * FROM t FOR SYSTEM_TIME AS OF VERSION 5 AS d",
            ),
        ],
    );
    same("alter_view", &["ALTER VIEW v RENAME TO w", "ALTER MATERIALIZED VIEW v RENAME TO w"]);
    same(
        "create_materialized_view",
        &[
            "CREATE MATERIALIZED VIEW IF NOT EXISTS v WITH (auto_refresh_enabled = true, \
         auto_refresh_interval_seconds = 0.5) AS SELECT a FROM t",
            "CREATE MATERIALIZED VIEW v AS SELECT a FROM t WITH NO DATA",
        ],
    );
    same("alter_materialized_view", &["ALTER MATERIALIZED VIEW v SET (auto_refresh_enabled = false)"]);
    same("drop_materialized_view", &["DROP MATERIALIZED VIEW IF EXISTS v CASCADE"]);
}

#[test]
fn earlier_versions_are_read() {
    let cases = [
        ("VERSION 5", VersionReference::Version(5)),
        ("TAG 'x'", VersionReference::Tag("x".to_owned())),
        ("TIMESTAMP '2026-01-01'", VersionReference::Timestamp("2026-01-01".to_owned())),
    ];
    for (text, expected) in cases {
        let sql = format!("SELECT * FROM t FOR SYSTEM_TIME AS OF {text} WHERE a = 1");
        let Statement::Query(query) = one(&sql) else { panic!("a query") };
        let sqlparser::ast::Statement::Query(query) = *query else { panic!("a query") };
        let select = query.body.as_select().expect("a select");
        let sqlparser::ast::TableFactor::Table { version: Some(version), .. } = &select.from[0].relation else {
            panic!("a version");
        };
        assert_eq!(VersionReference::from_native(version), Some(expected));
    }
}

#[test]
fn rows() {
    check(
        "insert",
        &[
            (
                "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
                "INSERT INTO t WITH a AS (SELECT 1) SELECT * FROM a",
            ),
            ("insert into t as x (a) values (1) returning *", "INSERT INTO t AS x (a) VALUES (1) RETURNING *"),
        ],
    );
    same("update", &["UPDATE t SET a = 1 FROM u WHERE t.id = u.id RETURNING a"]);
    same("delete", &["DELETE FROM t USING u WHERE t.id = u.id"]);
    same(
        "merge",
        &[
            "MERGE INTO t AS a USING u AS b ON (a.id = b.id) WHEN MATCHED AND b.x > 1 THEN UPDATE SET x = b.x \
             WHEN NOT MATCHED THEN INSERT (id) VALUES (b.id)",
            "MERGE INTO s.t USING (SELECT 1 AS id) AS b ON t.id = b.id WHEN MATCHED THEN DO NOTHING \
             WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
        ],
    );
    check(
        "merge",
        &[(
            "merge into only t using u on true when not matched by target then insert values (1, default)",
            "MERGE INTO t USING u ON true WHEN NOT MATCHED THEN INSERT VALUES (1, default)",
        )],
    );
    same("truncate", &["TRUNCATE a, b"]);
    check(
        "copy",
        &[
            ("copy t from stdin with (freeze on)", "COPY t FROM STDIN (FREEZE)"),
            (
                "COPY t (a) FROM STDIN DELIMITERS E'\\t' WITH NULL AS E'\\\\N'",
                "COPY t (a) FROM STDIN DELIMITER '\t' NULL '\\N'",
            ),
            ("COPY (SELECT 1) TO STDOUT (FORMAT binary)", "COPY (SELECT 1) TO STDOUT (FORMAT binary)"),
            ("COPY t TO STDOUT WITH CSV HEADER", "COPY t TO STDOUT CSV HEADER"),
        ],
    );
    check(
        "explain",
        &[
            ("EXPLAIN ANALYZE VERBOSE SELECT 1", "EXPLAIN (ANALYZE, VERBOSE) SELECT 1"),
            ("EXPLAIN (costs off, format 'json', analyze false) SELECT 1", "EXPLAIN (FORMAT JSON) SELECT 1"),
            ("EXPLAIN (SELECT 1)", "EXPLAIN (SELECT 1)"),
        ],
    );
}

#[test]
fn sessions() {
    check(
        "set",
        &[
            ("SET LOCAL search_path TO \"Team$ml\", public", "SET LOCAL search_path TO \"Team$ml\", \"public\""),
            ("set TimeZone = UTC", "SET timezone TO utc"),
            ("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", "SET timezone TO '+00:00'"),
            ("SET TIME ZONE LOCAL", "SET timezone TO DEFAULT"),
            ("SET NAMES 'UTF8'", "SET client_encoding TO 'UTF8'"),
            ("SET SESSION x.y = on", "SET x.y TO \"on\""),
            ("SET extra_float_digits = -3", "SET extra_float_digits TO -3"),
        ],
    );
    check(
        "show",
        &[
            ("SHOW TIME ZONE", "SHOW timezone"),
            ("show transaction isolation level", "SHOW transaction_isolation"),
            ("SHOW ALL", "SHOW ALL"),
            ("SHOW \"jobs\"", "SHOW \"jobs\""),
        ],
    );
    same("reset", &["RESET ALL", "RESET search_path"]);
    same("discard", &["DISCARD ALL", "DISCARD TEMP"]);
    check(
        "begin",
        &[
            ("begin transaction", "BEGIN"),
            ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
            ("START TRANSACTION READ WRITE, NOT DEFERRABLE", "START TRANSACTION READ WRITE, NOT DEFERRABLE"),
        ],
    );
    check("commit", &[("END WORK", "COMMIT"), ("COMMIT AND CHAIN", "COMMIT AND CHAIN")]);
    check("rollback", &[("ABORT", "ROLLBACK"), ("ROLLBACK AND NO CHAIN", "ROLLBACK")]);
    check("rollback_to", &[("ROLLBACK WORK TO s", "ROLLBACK TO SAVEPOINT s")]);
    check("release", &[("RELEASE s", "RELEASE SAVEPOINT s")]);
    same("savepoint", &["SAVEPOINT \"savepoint\""]);
    same(
        "set_transaction",
        &["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"],
    );
    same("prepare", &["PREPARE p (INT, TEXT) AS SELECT $1, $2"]);
    same("execute", &["EXECUTE p", "EXECUTE p (1, 'a')"]);
    same("deallocate", &["DEALLOCATE ALL", "DEALLOCATE p"]);
    check(
        "declare_cursor",
        &[(
            "DECLARE c INSENSITIVE NO SCROLL CURSOR WITH HOLD FOR select 1",
            "DECLARE c NO SCROLL CURSOR WITH HOLD FOR select 1",
        )],
    );
    check(
        "fetch",
        &[
            ("FETCH c", "FETCH FORWARD 1 FROM c"),
            ("FETCH next", "FETCH FORWARD 1 FROM \"next\""),
            ("FETCH ALL IN c", "FETCH FORWARD ALL FROM c"),
            ("FETCH LAST c", "FETCH ABSOLUTE -1 FROM c"),
            ("FETCH -3 FROM c", "FETCH BACKWARD 3 FROM c"),
            ("FETCH RELATIVE 0 FROM c", "FETCH RELATIVE 0 FROM c"),
        ],
    );
    same("move", &["MOVE BACKWARD ALL FROM c"]);
    same("close_cursor", &["CLOSE c", "CLOSE ALL"]);
    same("listen", &["LISTEN lancegate_jobs"]);
    same("unlisten", &["UNLISTEN *", "UNLISTEN c"]);
    let full = "VACUUM (FULL, VERBOSE, ANALYZE) t";
    check(
        "vacuum",
        &[
            ("vacuum analyze t", "VACUUM (ANALYZE) t"),
            ("ANALYZE", "ANALYZE"),
            ("analyze verbose t (a)", "ANALYZE (VERBOSE) t"),
            ("VACUUM FULL VERBOSE ANALYZE t", full),
            ("VACUUM (full, verbose on, analyze true, parallel 2, truncate off) t", full),
        ],
    );
}

#[test]
fn users_and_grants() {
    check(
        "create_user",
        &[
            (
                "CREATE USER ada WITH PASSWORD NULL CONNECTION LIMIT -1",
                "CREATE USER ada PASSWORD NULL CONNECTION LIMIT -1",
            ),
            ("CREATE USER \"Ada\" VALID UNTIL 'infinity'", "CREATE USER \"Ada\" VALID UNTIL 'infinity'"),
        ],
    );
    same("drop_user", &["DROP USER IF EXISTS a, b"]);
    check(
        "grant",
        &[
            (
                "grant select, create materialized view on schema a to role r, s, user ada, id 'x', group g",
                "GRANT SELECT, CREATE MATERIALIZED VIEW ON SCHEMA a TO ROLE r, ROLE s, USER ada, USER ID 'x', GROUP g",
            ),
            (
                "GRANT CREATE NAMESPACE ON NAMESPACE c IN a$b TO ROLE r",
                "GRANT CREATE SCHEMA ON SCHEMA \"a$b$c\" TO ROLE r",
            ),
            ("GRANT USAGE, OPERATE ON SYSTEM TO USER user1", "GRANT USAGE, OPERATE ON SYSTEM TO USER user1"),
        ],
    );
    same("revoke", &["REVOKE OWNERSHIP ON STORAGE INTEGRATION i FROM GROUP g"]);
    same("grant_role", &["GRANT ROLE r TO USER ada, GROUP g"]);
    same("revoke_role", &["REVOKE ROLE r, s FROM USER ID 'x'"]);
    same("show_grants", &["SHOW GRANTS", "SHOW GRANTS FOR ROLE r", "SHOW GRANTS ON TABLE t"]);
    same("show_roles", &["SHOW ROLES"]);
    same("show_users", &["SHOW USERS"]);
}

#[test]
fn secrets_never_print() {
    for sql in [
        "CREATE USER ada PASSWORD 'hunter2'",
        "ALTER USER ada PASSWORD 'hunter2'",
        "CREATE SECRET s TYPE = GENERIC_STRING SECRET_STRING = 'hunter2'",
        "ALTER SECRET s SET SECRET_STRING = $$hunter2$$",
        "CREATE STORAGE INTEGRATION i STORAGE_PROVIDER = 'S3' STORAGE_PREFIX = 's3://b' \
         AWS_SECRET_ACCESS_KEY = 'hunter2'",
    ] {
        let parsed = &read(sql)[0];
        assert!(!parsed.loggable().contains("hunter2"), "{sql}");
        assert!(!parsed.statement.to_string().contains("hunter2"), "{sql}");
    }
    for sql in ["CREATE USER ada PASSWORD 'hunter2'", "CREATE SECRET s SECRET_STRING = $t$hunter2$t$"] {
        assert!(!format!("{:?}", one(sql)).contains("hunter2"), "{sql}");
    }
}

#[test]
fn catalog_objects() {
    check(
        "catalog_listing",
        &[
            (
                "SHOW TABLES IN team$ml LIKE 'a%' LIMIT 10 FROM 't'",
                "SHOW TABLES IN \"team$ml\" LIKE 'a%' LIMIT 10 FROM 't'",
            ),
            ("SHOW NAMESPACES", "SHOW SCHEMAS"),
            ("SHOW COLUMNS FROM s.t", "SHOW COLUMNS IN s.t"),
            ("SHOW MATERIALIZED VIEWS WHERE name > 'x' LIMIT 5", "SHOW MATERIALIZED VIEWS WHERE name > 'x' LIMIT 5"),
        ],
    );
    check("describe_table", &[("DESC t", "DESCRIBE TABLE t"), ("DESCRIBE index", "DESCRIBE TABLE \"index\"")]);
    check(
        "describe",
        &[("DESCRIBE NAMESPACE c IN s", "DESCRIBE SCHEMA \"s$c\""), ("DESC SECRET s", "DESCRIBE SECRET s")],
    );
    same("create_database", &["CREATE DATABASE IF NOT EXISTS d"]);
    check("attach_database", &[("ATTACH DATABASE d LOCATION = 's3://b'", "ATTACH DATABASE d FROM 's3://b'")]);
    same("drop_database", &["DROP DATABASE IF EXISTS d CASCADE"]);
    check(
        "create_schema",
        &[("CREATE NAMESPACE c IN public WITH ('k' = 'v')", "CREATE SCHEMA c WITH PROPERTIES ('k' = 'v')")],
    );
    same("alter_schema", &["ALTER SCHEMA s SET PROPERTIES ('k' = 'v')"]);
    same("drop_schema", &["DROP SCHEMA a, b RESTRICT"]);
    check(
        "comment",
        &[
            ("COMMENT ON COLUMN s.t.c IS $x$it's$x$", "COMMENT ON COLUMN s.t.c IS 'it''s'"),
            ("comment on view v is null", "COMMENT ON VIEW v IS NULL"),
        ],
    );
    check(
        "create_index",
        &[
            (
                "create index if not exists \"x1\" on t using btree (a, b.c desc)",
                "CREATE INDEX IF NOT EXISTS x1 ON t USING btree (a, b.c)",
            ),
            (
                "CREATE INDEX ON t (a) USING fts WITH (with_position = true)",
                "CREATE INDEX ON t USING fts (a) WITH (with_position = true)",
            ),
        ],
    );
    same("drop_index", &["DROP INDEX IF EXISTS t.i CASCADE"]);
    same(
        "create_function",
        &[
            "CREATE FUNCTION f (x int64 NOT NULL, y list<list<float32>>) RETURNS fixed_size_list<float32, 8> \
         LANGUAGE python AS 'def f(): pass' WITH (pip = 'numpy', mode = 'scalar')",
            "CREATE FUNCTION f FROM '{}'",
        ],
    );
    same("drop_function", &["DROP FUNCTION IF EXISTS f WITH (version = '1', cascade = true)"]);
    same("create_secret", &["CREATE SECRET s TYPE = GENERIC_STRING SECRET_STRING = $1"]);
    same("create_api_key", &["CREATE API KEY k FOR USER u VALID UNTIL '2030-01-01'"]);
    same("show_api_keys", &["SHOW API KEYS"]);
}

#[test]
fn tags_and_transaction_control() {
    for (sql, tag, control) in [
        ("START TRANSACTION", Some("START TRANSACTION"), true),
        ("ROLLBACK TO s", Some("ROLLBACK"), true),
        ("SELECT 1", None, false),
        ("REFRESH COLUMN c ON t", Some("REFRESH COLUMN"), false),
        ("DEALLOCATE ALL", Some("DEALLOCATE ALL"), false),
        ("CREATE USER u", Some("CREATE ROLE"), false),
    ] {
        let statement = one(sql);
        assert_eq!(statement.command_tag(), tag, "{sql}");
        assert_eq!(statement.is_transaction_control(), control, "{sql}");
    }
}
