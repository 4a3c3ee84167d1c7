//! What is refused, with which words and where.

use lancegate_sql::ParseErrorKind::{self, BadOptionValue, DuplicateOption, NotSupported, Syntax, UnknownOption};
use lancegate_sql::{Limits, parse};

fn check(cases: &[(&str, ParseErrorKind, &str, usize)]) {
    for (sql, kind, message, position) in cases {
        let error = parse(sql, &Limits::default()).expect_err(sql);
        assert_eq!((error.message.as_str(), error.position, error.kind), (*message, Some(*position), *kind), "{sql}");
    }
}

#[test]
fn syntax_errors_are_postgres() {
    check(&[
        ("SELEC 1", Syntax, "syntax error at or near \"SELEC\"", 1),
        ("select é, foo bar baz from t", Syntax, "syntax error at or near \"baz\"", 19),
        ("select 1;\n selec 2", Syntax, "syntax error at or near \"selec\"", 12),
        ("SELECT 1 FROM t WHERE ;", Syntax, "syntax error at or near \";\"", 23),
        ("SELECT 1 FROM t WHERE", Syntax, "syntax error at end of input", 22),
        ("REFRESH COLUMN a OM t", Syntax, "syntax error at or near \"OM\"", 18),
        ("REFRESH COLUMN a ON t WHERE", Syntax, "syntax error at end of input", 28),
        ("REFRESH COLUMN a ON t WHERE x = )", Syntax, "syntax error at or near \")\"", 33),
        ("REFRESH COLUMN a ON t WHERE x foo", Syntax, "syntax error at or near \"foo\"", 31),
        ("REFRESH COLUMN where ON t", Syntax, "syntax error at or near \"where\"", 16),
        ("PAUSE JOB 'x' y", Syntax, "syntax error at or near \"y\"", 15),
        ("PAUSE JOB x", Syntax, "syntax error at or near \"x\"", 11),
        ("COPY (SHOW x) TO STDOUT", Syntax, "syntax error at or near \"SHOW\"", 7),
        ("EXPLAIN EXPLAIN SELECT 1", Syntax, "syntax error at or near \"EXPLAIN\"", 9),
        ("select 'abc", Syntax, "unterminated quoted string at or near \"'abc\"", 8),
        ("select \"abc", Syntax, "unterminated quoted identifier at or near \"\"abc\"", 8),
        ("select /* x", Syntax, "unterminated /* comment at or near \"/* x\"", 8),
        ("select $a$ x", Syntax, "unterminated dollar-quoted string at or near \"$a$ x\"", 8),
        ("select \"\"", Syntax, "zero-length delimited identifier at or near \"\"\"\"", 8),
        ("GRANT SELECT ON TABLE t TO u", Syntax, "syntax error at or near \"u\"", 28),
        ("GRANT SELECT ON NAMESPACE a.b TO ROLE r", Syntax, "syntax error at or near \".\"", 28),
        ("DROP TABLE a.b.c.d", Syntax, "improper qualified name (too many dotted names): a.b.c.d", 12),
    ]);
}

#[test]
fn options_are_refused_by_name() {
    check(&[
        ("REFRESH COLUMN a ON t WITH (foo = 1)", UnknownOption, "unrecognized option \"foo\" for REFRESH COLUMN", 29),
        (
            "REFRESH COLUMN a ON t WITH (batch_size = 0)",
            BadOptionValue,
            "invalid value for option \"batch_size\": \"0\"",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (batch_size = 1, BATCH_SIZE = 2)",
            DuplicateOption,
            "option \"batch_size\" specified more than once",
            45,
        ),
        (
            "REFRESH COLUMN a ON t WITH (num_workers = 1025)",
            BadOptionValue,
            "invalid value for option \"num_workers\": \"1025\"",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (num_workers = -1)",
            BadOptionValue,
            "invalid value for option \"num_workers\": \"-1\"",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (gpu_count = 0)",
            BadOptionValue,
            "invalid value for option \"gpu_count\": \"0\"",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (cpu_millis = 1)",
            BadOptionValue,
            "option \"cpu_millis\" needs memory_bytes and gpu_count too",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (gpu_class = 'A100')",
            BadOptionValue,
            "invalid value for option \"gpu_class\": \"A100\"",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (max_failed_fraction = 1.5)",
            BadOptionValue,
            "invalid value for option \"max_failed_fraction\": \"1.5\"",
            29,
        ),
        (
            "REFRESH COLUMN a ON t WITH (error_policy = 'retry')",
            BadOptionValue,
            "invalid value for option \"error_policy\": \"retry\"",
            29,
        ),
        (
            "REFRESH MATERIALIZED VIEW v WITH (num_workers = 1)",
            UnknownOption,
            "unrecognized option \"num_workers\" for REFRESH MATERIALIZED VIEW",
            35,
        ),
        (
            "ALTER TABLE t ALTER COLUMN c SET (version = '1')",
            UnknownOption,
            "unrecognized option \"version\" for ALTER COLUMN",
            35,
        ),
        ("SHOW JOBS FOR JOB 'x' LIMIT 10001", BadOptionValue, "invalid LIMIT \"10001\"", 29),
        ("SHOW ERRORS ON t LIMIT 0", BadOptionValue, "invalid LIMIT \"0\"", 24),
        ("WAIT JOB 'x' TIMEOUT '-3s'", BadOptionValue, "invalid value for TIMEOUT: \"-3s\"", 22),
    ]);
}

#[test]
fn what_is_not_supported_says_so_and_how_else() {
    for sql in [
        "GRANT ALL ON TABLE t TO USER u",
        "GRANT SELECT ON TABLE t TO PUBLIC",
        "GRANT SELECT ON TABLE t TO USER u WITH GRANT OPTION",
        "GRANT ROLE r TO ROLE s",
        "NOTIFY x, 'y'",
        "EXPLAIN ANALYZE REFRESH COLUMN c ON t",
        "REFRESH MATERIALIZED VIEW v CASCADE",
        "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
        "SELECT * FROM (WITH a AS (UPDATE t SET x = 1 RETURNING *) SELECT * FROM a) b",
        "COPY (DELETE FROM t RETURNING *) TO STDOUT",
        "CREATE VIEW v AS WITH a AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM a",
        "SELECT * INTO x FROM t",
        "CREATE ROLE r",
        "CREATE SEQUENCE s",
        "LOCK TABLE t",
        "ALTER TABLE t ADD UNIQUE (a)",
        "ALTER TABLE t ADD COLUMN c int UNIQUE",
        "CREATE FUNCTION f (x int8) RETURNS int8 LANGUAGE sql AS 'x'",
        "PREPARE TRANSACTION 'x'",
    ] {
        let error = parse(sql, &Limits::default()).expect_err(sql);
        assert_eq!(error.kind, NotSupported, "{sql}: {error:?}");
        assert!(error.message.ends_with("is not supported"), "{sql}: {error:?}");
        assert!(error.hint.is_some() && error.position.is_some(), "{sql}: {error:?}");
    }
}

/// The errors of statements that carry a value quote nothing from where it may
/// stand, whatever is wrong with them.
#[test]
fn t47_no_error_quotes_a_password_or_a_secret() {
    for (sql, message) in [
        ("CREATE SECRET s SECRET_STRING 'hunter2'", "syntax error in CREATE SECRET"),
        ("CREATE SECRET s 'hunter2'", "syntax error in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = hunter2", "syntax error in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = \"hunter2\"", "syntax error in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = 'a' 'hunter2'", "syntax error in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = 'it's hunter2", "syntax error in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = 'it's hunter2'", "unterminated quoted string in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = 'hunter2", "unterminated quoted string in CREATE SECRET"),
        ("create secret s secret_string = $t$hunter2$u$", "unterminated dollar-quoted string in CREATE SECRET"),
        ("CREATE SECRET s SECRET_STRING = N'hunter2'", "syntax error in CREATE SECRET"),
        ("ALTER SECRET s SET VALUE = 'hunter2'", "syntax error in ALTER SECRET"),
        ("ALTER SECRET s SECRET_STRING = 'a', 'hunter2'", "syntax error in ALTER SECRET"),
        ("SELECT 1; SECRET s SECRET_STRING = 'hunter2'", "syntax error at or near \"SECRET\""),
        ("CREATE OR REPLACE SECRET s SECRET_STRING = 'hunter2'", "syntax error at or near \"SECRET\""),
        ("EXPLAIN CREATE SECRET s SECRET_STRING = 'hunter2'", ""),
        ("SELECT \"a; CREATE SECRET s SECRET_STRING = 'hunter2'", "unterminated quoted identifier"),
        ("CREATE USER u PASSWORD hunter2", "syntax error in CREATE USER"),
        ("ALTER ROLE u PASSWORD 'a' 'hunter2'", ""),
        ("ALTER USER u PASSWORD 'hunter2", "unterminated quoted string in ALTER USER"),
        (
            "CREATE STORAGE INTEGRATION i STORAGE_PROVIDER = 'S3' KEY 'hunter2'",
            "syntax error in CREATE STORAGE INTEGRATION",
        ),
    ] {
        let error = parse(sql, &Limits::default()).expect_err(sql);
        let shown = format!("{error:?}");
        assert!(!shown.contains("hunter2"), "{sql}: {shown}");
        assert!(message.is_empty() || error.message == message, "{sql}: {}", error.message);
        assert!(error.position.is_some(), "{sql}");
    }
}

#[test]
fn other_errors_quote_their_place_as_before() {
    for (sql, near) in [
        ("SELECT password FROM t WHERE )", ")"),
        ("CREATE USER USER u PASSWORD 'x'", "USER"),
        ("CREATE TABLE secret (a INT,, b INT)", ","),
        ("SELECT 'a", "'a"),
    ] {
        let error = parse(sql, &Limits::default()).expect_err(sql);
        assert!(error.message.ends_with(&format!("at or near \"{near}\"")), "{sql}: {}", error.message);
    }
}
