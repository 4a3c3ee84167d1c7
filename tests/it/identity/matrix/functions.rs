//! Z01 for statements about Python Functions, in a gateway that runs them.

use super::{Case, Matrix, change, check_in, query, with};

const SOURCE: &str = "(x int64) RETURNS int64 LANGUAGE python AS 'def n(x): return x'";

#[tokio::test]
async fn z01_functions() {
    let matrix = Matrix::with(crate::functions::config).await;
    let leak = |text: String| -> &'static str { text.leak() };
    let cases: Vec<Case> = vec![
        query("SELECT {s}.f(id) FROM {s}.t"),
        query("SELECT id FROM {s}.t WHERE {s}.f(id) = 1"),
        change("UPDATE {s}.t SET id = {s}.f(id)"),
        change("CREATE VIEW {s}.w AS SELECT {s}.f(id) AS y FROM {s}.t"),
        change(leak(format!("CREATE FUNCTION {{s}}.n {SOURCE}"))),
        // Another version of one that is there.
        change(leak(format!("CREATE FUNCTION {{s}}.f {}", SOURCE.replace("def n", "def f")))),
        change("ALTER FUNCTION {s}.f SET (result_stability = 'per_call')"),
        change("ALTER FUNCTION {s}.f SET (disabled = true, version = '1')"),
        change("DESCRIBE FUNCTION {s}.f"),
        change("DROP FUNCTION {s}.f WITH (version = '1')"),
        change("ALTER TABLE {s}.t ADD COLUMN g AS {s}.f(id)"),
        with("ALTER TABLE {s}.t ADD COLUMN g AS {s}.f(id)", "REFRESH COLUMN g ON {s}.t WAIT"),
        with("ALTER TABLE {s}.t ADD COLUMN g AS {s}.f(id)", "EXPLAIN REFRESH COLUMN g ON {s}.t"),
        change("GRANT USAGE ON FUNCTION {s}.f TO ROLE r"),
        with("GRANT USAGE ON FUNCTION {s}.f TO ROLE r", "REVOKE USAGE ON FUNCTION {s}.f FROM ROLE r"),
        change("SHOW GRANTS ON FUNCTION {s}.f"),
    ];
    check_in(matrix, &cases).await;
}
