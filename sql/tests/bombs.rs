//! Texts that would overflow a stack, exhaust memory or never end.

use std::time::{Duration, Instant};

use lancegate_sql::{Limits, ParseErrorKind, parse};

/// What threads of the runtime have.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Parses on a small stack, prints, compares and drops; returns the error's kind.
fn survive(sql: String) -> Option<ParseErrorKind> {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let started = Instant::now();
            let kind = match parse(&sql, &Limits::default()) {
                Ok(parsed) => {
                    for statement in &parsed {
                        assert!(!statement.statement.to_string().is_empty(), "it prints");
                    }
                    // The derived code of the native trees takes several times the
                    // stack when it is not optimized, and only then too much.
                    if !cfg!(debug_assertions) {
                        assert!(parsed.clone() == parsed, "a clone is equal");
                        assert!(!format!("{parsed:?}").is_empty(), "it debugs");
                    }
                    None
                }
                Err(error) => Some(error.kind),
            };
            assert!(started.elapsed() < Duration::from_secs(60), "{} took too long", &sql[..60.min(sql.len())]);
            kind
        })
        .expect("a thread starts")
        .join()
        .expect("the parser never panics")
}

fn chain(head: &str, link: &str, terms: usize) -> String {
    format!("{head}{}", link.repeat(terms))
}

#[test]
fn chains_within_the_limit_parse_on_a_small_stack() {
    let terms_max = Limits::default().chain_terms_max;
    for (head, link) in [
        ("SELECT 1", "+1"),
        ("SELECT 1 FROM t WHERE a", " OR a"),
        ("SELECT 1 FROM t WHERE a = 1", " AND b"),
        ("SELECT 1", "::int"),
        ("SELECT a", "[1]"),
        ("SELECT 1", " UNION ALL SELECT 1"),
        ("SELECT 1 FROM t", " JOIN t ON true"),
        ("SELECT a", " IS NULL"),
        ("SELECT a", " || 'x'"),
        ("SELECT a", " AT TIME ZONE 'UTC'"),
        ("REFRESH COLUMN a ON t WHERE a", " OR a"),
    ] {
        let weight = match link {
            " UNION ALL SELECT 1" | " JOIN t ON true" => 4,
            _ => 1,
        };
        let sql = chain(head, link, (terms_max - 2) / weight);
        assert_eq!(survive(sql), None, "{head}{link}…");
    }
}

#[test]
fn chains_beyond_the_limit_are_refused() {
    for (head, link) in [
        ("SELECT 1", "+1"),
        ("SELECT 1 FROM t WHERE a", " OR a"),
        ("SELECT 1", "::int"),
        ("SELECT a", "[1]"),
        ("SELECT 1", " UNION ALL SELECT 1"),
        ("SELECT 1 FROM t", " JOIN t ON true"),
        ("SELECT 1 FROM t", " NATURAL JOIN t"),
        ("SELECT a", " IS NULL"),
        ("SELECT a", " NOT IN (1)"),
        ("SELECT a", " BETWEEN 1 AND 2"),
        ("REFRESH COLUMN a ON t WHERE a", " OR a"),
        ("EXPLAIN SELECT 1", "+1"),
        ("PREPARE p AS SELECT 1", "+1"),
        ("CREATE VIEW v AS SELECT 1", "+1"),
        ("ALTER TABLE t ADD COLUMN c AS 1", "+1"),
    ] {
        let kind = survive(chain(head, link, 60_000));
        assert_eq!(kind, Some(ParseErrorKind::LimitExceeded), "{head}{link}…");
    }
}

#[test]
fn brackets_do_not_hide_a_chain() {
    // Each level alone is short enough; the tree is as high as all of them.
    let level = "+1".repeat(900);
    let sql = format!("SELECT {}1{}", "(".repeat(30), format!("{level})").repeat(30));
    assert_eq!(survive(sql), Some(ParseErrorKind::LimitExceeded));
    for word in ["when", "from", "values", "\"x\" select", "interval where", "distinct from"] {
        let sql = format!("SELECT CASE 1{} END", format!(" + {word}").repeat(60_000));
        survive(sql);
        survive(format!("SELECT 1{}", format!(" IS {word} 1").repeat(60_000)));
    }
}

#[test]
fn long_statements_of_ordinary_shape_stay_possible() {
    let whens = "WHEN a = 1 AND b = 'x' THEN 'y' ".repeat(5_000);
    assert_eq!(survive(format!("SELECT CASE {whens} END")), None);
    let columns = vec!["a + b * c"; 5_000].join(", ");
    assert_eq!(survive(format!("SELECT {columns} FROM t WHERE x = 1")), None);
    let ors = vec!["(a.b = 1 AND c.d = 2)"; 400].join(" OR ");
    assert_eq!(survive(format!("SELECT 1 FROM t WHERE {ors}")), None);
}

#[test]
fn nesting_within_the_limit_parses_quickly() {
    let depth = Limits::default().nesting_depth_max - 1;
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("(SELECT ", "1", ")"),
        ("f(", "1", ")"),
        ("CASE WHEN true THEN ", "1", " END"),
        ("ARRAY[", "1", "]"),
        ("CAST(", "1", " AS int)"),
        ("(a, ", "1", ")"),
        ("coalesce((", "1", "))"),
        ("NOT (", "a", ")"),
        ("EXISTS (SELECT ", "1", ")"),
    ] {
        let depth = if open.matches('(').count() > 1 { depth / 2 } else { depth };
        let sql = format!("SELECT {}{inner}{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(survive(sql), None, "{open}…");
    }
    let from = format!("SELECT * FROM {}t{}", "(".repeat(depth), ")".repeat(depth));
    survive(from);
    let derived = format!("SELECT * FROM {}t{}", "(SELECT * FROM ".repeat(depth), ") x".repeat(depth));
    assert_eq!(survive(derived), None);
}

#[test]
fn nesting_beyond_the_limit_is_refused() {
    for (open, close) in [
        ("(", ")"),
        ("(SELECT ", ")"),
        ("f(", ")"),
        ("CASE WHEN true THEN ", " END"),
        ("ARRAY[", "]"),
        ("CAST(", " AS int)"),
        ("{", "}"),
    ] {
        for depth in [100, 10_000, 100_000] {
            let sql = format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(survive(sql), Some(ParseErrorKind::LimitExceeded), "{open} × {depth}");
            let unclosed = format!("SELECT {}", open.repeat(depth));
            assert_eq!(survive(unclosed), Some(ParseErrorKind::LimitExceeded), "{open} × {depth}");
        }
    }
}

#[test]
fn prefixes_types_and_comments_do_not_overflow() {
    for sql in [
        format!("SELECT {}1", "NOT ".repeat(900)),
        format!("SELECT {}1", "- ".repeat(900)),
        format!("SELECT {}1", "~ ".repeat(900)),
        format!("SELECT {}1", "+".repeat(100_000)),
        format!("SELECT 1::{}int{}", "ARRAY<".repeat(900), ">".repeat(900)),
        format!("SELECT {}1", "INTERVAL ".repeat(50_000)),
        format!("SELECT {}1", "DISTINCT ".repeat(50_000)),
        format!("{}SELECT 1", "EXPLAIN ".repeat(100_000)),
        format!("{}SELECT 1", "PREPARE x AS ".repeat(100_000)),
        format!("{}SELECT 1", "WITH x AS ".repeat(100_000)),
        format!("{}1", "VALUES ".repeat(100_000)),
        format!("{}1", "TABLE ".repeat(100_000)),
        format!("SELECT a{}", ".a".repeat(100_000)),
        format!("SELECT 1{}", " a".repeat(100_000)),
        format!("SELECT * FROM t{}", " LEFT".repeat(100_000)),
        format!("SELECT * FROM t{}", ", t".repeat(100_000)),
        format!("{}SELECT 1", "/*".repeat(100_000)),
        format!("{}{} SELECT 1", "/*".repeat(100_000), "*/".repeat(100_000)),
        format!("CREATE FUNCTION f (x {}int8{}) RETURNS int8", "list<".repeat(99), ">".repeat(99)),
        format!("DELETE FROM t WHERE {}", "EXISTS ".repeat(50_000)),
        format!("SELECT CASE {}", "WHEN a THEN b ".repeat(50_000)),
        format!("SELECT {}", "CASE ".repeat(50_000)),
        format!("SELECT a {}", "ESCAPE 'a' ".repeat(50_000)),
        format!("SELECT {}", "'a' ".repeat(50_000)),
        format!("SELECT {}x", "PRIOR ".repeat(50_000)),
        format!("SELECT {}x", "x -> ".repeat(50_000)),
        format!("SELECT {}x", "x := ".repeat(50_000)),
        format!("SELECT {}x", "x => ".repeat(50_000)),
        format!("SELECT * FROM t {}", "PIVOT ".repeat(50_000)),
        format!("SELECT * FROM t {}", "TABLESAMPLE ".repeat(50_000)),
        format!("MERGE INTO t USING u ON true {}", "WHEN MATCHED THEN DELETE ".repeat(50_000)),
        format!("INSERT INTO t {}", "DEFAULT VALUES ".repeat(50_000)),
        format!("ALTER TABLE t {}", "ADD COLUMN a int, ".repeat(50_000)),
        ";".repeat(100_000),
        "SELECT 1;".repeat(50_000),
        "\u{0}".repeat(1000),
        "$".repeat(10_000),
        "$a".repeat(10_000),
        "'".repeat(10_001),
        "\"".repeat(10_001),
        "`".repeat(10_001),
        "E'\\".repeat(1_000),
        "U&'\\".repeat(1_000),
    ] {
        survive(sql);
    }
}

#[test]
fn long_lists_stay_possible() {
    let list = vec!["1"; 200_000].join(", ");
    assert_eq!(survive(format!("SELECT 1 FROM t WHERE a IN ({list})")), None);
    let rows = vec!["(1, 'a')"; 100_000].join(",");
    assert_eq!(survive(format!("INSERT INTO t VALUES {rows}")), None);
    let text = "x".repeat(15 * 1024 * 1024);
    assert_eq!(survive(format!("SELECT '{text}'")), None);
}

#[test]
fn too_long_texts_are_refused() {
    let limit = Some(ParseErrorKind::LimitExceeded);
    assert_eq!(survive("x".repeat(16 * 1024 * 1024 + 1)), limit);
    assert_eq!(survive("1 ".repeat(8 * 1024 * 1024)), limit);
    assert_eq!(survive(format!("SELECT 1{}", ",1".repeat(4_000_000))), limit);
}
