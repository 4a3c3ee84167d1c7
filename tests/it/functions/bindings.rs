//! How Functions are bound to columns: several outputs, constants, fields of structs, other versions.

use lance::Dataset;
use lance::dataset::optimize::{CompactionOptions, compact_files};
use tokio_postgres::Client;

use super::{counts, declare, numbers, values};
use crate::harness::Gateway;
use crate::rows::{error, rows, run, value};

const PAIR: &str = "CREATE FUNCTION g (x int64) RETURNS struct<twice: int64, name: utf8> LANGUAGE python AS \
    'def g(x):\n if x == 3: raise ValueError(x)\n return {\"twice\": 2 * x, \"name\": str(x)} if x % 2 else (2 * x, str(x))'";

async fn dataset(gateway: &Gateway) -> Dataset {
    Dataset::open(gateway.data().join("n.lance").to_str().unwrap()).await.unwrap()
}

async fn pairs(client: &Client) -> String {
    rows(client, "SELECT lo, hi FROM n ORDER BY x").await.join(" ")
}

#[tokio::test]
async fn several_outputs_are_filled_together_and_as_one() {
    let (gateway, client) = numbers().await;
    run(&client, PAIR).await;
    run(&client, "ALTER TABLE n ADD COLUMN (lo, hi) AS g(x)").await;
    let before = dataset(&gateway).await.version_id();
    // The row that still fails is alone in its part the second time.
    let skip = "WITH (error_policy = 'skip', max_failed_rows = 1) WAIT";
    let refresh = |column: &str| format!("REFRESH COLUMN {column} ON n {skip}");
    assert_eq!(value(&client, &refresh("hi"), "rows_assigned").await.as_deref(), Some("9"));
    assert_eq!(pairs(&client).await, "0|0 2|1 4|2 ∅|∅ 8|4 10|5 12|6 14|7 16|8 18|9");
    // One commit of values and one of the record: there is no version with one of the two.
    assert_eq!(dataset(&gateway).await.version_id(), before + 2);
    run(&client, "INSERT INTO n (x) VALUES (10); UPDATE n SET x = 20 WHERE x = 2").await;
    assert_eq!(value(&client, &refresh("lo"), "rows_assigned").await.as_deref(), Some("2"));
    assert_eq!(pairs(&client).await, "0|0 2|1 ∅|∅ 8|4 10|5 12|6 14|7 16|8 18|9 20|10 40|20");
    assert_eq!(rows(&client, "SELECT DISTINCT \"column\" FROM function_errors('n')").await, ["lo"]);
}

#[tokio::test]
async fn several_outputs_survive_a_compaction_and_are_inputs_of_others() {
    let (gateway, client) = numbers().await;
    run(&client, &PAIR.replace("if x == 3: raise ValueError(x)\n", "pass\n")).await;
    run(&client, "ALTER TABLE n ADD COLUMN (lo, hi) AS g(x); ALTER TABLE n ADD COLUMN len AS length(hi)").await;
    let unready = error(&client, "REFRESH COLUMN len ON n WAIT").await;
    assert!(unready.starts_with("55000") && unready.contains("\"lo\""), "{unready}");
    run(&client, "REFRESH COLUMN lo ON n WAIT; REFRESH COLUMN len ON n WAIT").await;
    run(&client, "INSERT INTO n (x) VALUES (10)").await;
    compact_files(&mut dataset(&gateway).await, CompactionOptions::default(), None).await.unwrap();
    assert_eq!(value(&client, "REFRESH COLUMN hi ON n WAIT", "rows_assigned").await.as_deref(), Some("1"));
    assert_eq!(value(&client, "REFRESH COLUMN len ON n WAIT", "rows_assigned").await.as_deref(), Some("1"));
    assert_eq!(rows(&client, "SELECT lo, hi, len FROM n WHERE x >= 9 ORDER BY x").await, ["18|9|1", "20|10|2"]);
}

#[tokio::test]
async fn outputs_go_together_and_the_bindings_follow_their_names() {
    let (gateway, client) = numbers().await;
    run(&client, PAIR).await;
    declare(&client, "def f(x): return x", "").await;
    run(&client, "ALTER TABLE n ADD COLUMN (lo, hi) AS g(x)").await;
    let refused = error(&client, "ALTER TABLE n DROP COLUMN hi").await;
    assert!(refused.starts_with("2BP01") && refused.contains("DROP COLUMN lo, DROP COLUMN hi"), "{refused}");
    run(&client, "ALTER TABLE n RENAME COLUMN hi TO high").await;
    let metadata = dataset(&gateway).await.schema().metadata["lancedb::function_bindings"].clone();
    let bindings: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let binding = &bindings["bindings"][1];
    let outputs: Vec<_> = binding["outputs"].as_array().unwrap().iter().collect();
    let shown = |name: &str| outputs.iter().map(|output| output[name].clone()).collect::<Vec<_>>();
    assert_eq!(shown("output_name"), ["lo", "high"]);
    assert_eq!(shown("result_field"), ["twice", "name"]);
    assert_eq!(shown("output_ordinal"), [0, 1]);
    assert_eq!(binding["inputs"][0]["field_path"], "x");
    run(&client, "ALTER TABLE n DROP COLUMN lo, DROP COLUMN high").await;
    let metadata = dataset(&gateway).await.schema().metadata["lancedb::function_bindings"].clone();
    let bindings: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(bindings["bindings"].as_array().unwrap().len(), 1, "{bindings}");
    assert_eq!(counts(&client, "").await, "10|0|0", "the other binding goes on");
}

#[tokio::test]
async fn outputs_that_do_not_fit_are_refused_by_name() {
    let (_gateway, client) = numbers().await;
    run(&client, PAIR).await;
    for (sql, code, part) in [
        ("ADD COLUMN (a, b, c) AS g(x)", "42P16", "has 2 outputs, not 3"),
        ("ADD COLUMN (a, a) AS g(x)", "42701", "\"a\""),
        ("ADD COLUMN (a, x) AS g(x)", "42701", "\"x\""),
        ("ADD COLUMN (a, b) AS nope(x)", "42883", "\"nope\""),
        ("ADD COLUMN (a, b) AS (x + 1)", "42601", "several columns"),
        ("ADD COLUMN a bigint GENERATED ALWAYS AS (g(x)) STORED", "42601", "the type of its Function"),
    ] {
        let refused = error(&client, &format!("ALTER TABLE n {sql}")).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{sql}\n{refused}");
    }
    // One column takes the whole result.
    run(&client, "ALTER TABLE n ADD COLUMN pair AS g(x)").await;
    run(&client, "REFRESH COLUMN pair ON n WITH (error_policy = 'skip') WAIT").await;
    assert_eq!(rows(&client, "SELECT pair['name'] FROM n WHERE x IN (3, 4) ORDER BY x").await, ["∅", "4"]);
    run(&client, "ALTER TABLE n ADD COLUMN IF NOT EXISTS pair AS g(x)").await;
}

#[tokio::test]
async fn constants_are_arguments_of_every_row() {
    let (_gateway, client) = numbers().await;
    let create =
        "CREATE FUNCTION h (x int64, by int64 NOT NULL, unit utf8, of list<float64>) RETURNS utf8 LANGUAGE python AS";
    run(&client, &format!("{create} 'def h(x, by, unit, of): return f\"{{x * by}} {{unit}} {{of}}\"'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS h(x, 2 + 1, 'it''s', make_array(0.5, 1))").await;
    run(&client, "ALTER TABLE n ADD COLUMN z AS h(x, -1, NULL, NULL)").await;
    run(&client, "REFRESH COLUMN y ON n WAIT; REFRESH COLUMN z ON n WHERE x = 2 WAIT").await;
    assert_eq!(rows(&client, "SELECT y, z FROM n WHERE x = 2").await, ["6 it's [0.5, 1.0]|-2 None None"]);
    assert_eq!(counts(&client, "").await, "0|0|0");
    for (arguments, code, part) in [
        ("x, NULL, 'a', NULL", "22004", "\"by\""),
        ("x, 'three', 'a', NULL", "22P02", ""),
        ("x, x + 1, 'a', NULL", "42703", ""),
        ("x, random(), 'a', NULL", "42P17", ""),
        ("x, 1, 'a'", "42883", "takes 4 arguments, not 3"),
    ] {
        let refused = error(&client, &format!("ALTER TABLE n ADD COLUMN q AS h({arguments})")).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{arguments}\n{refused}");
    }
}

#[tokio::test]
async fn a_field_inside_a_column_is_an_argument() {
    let (_gateway, client) = numbers().await;
    run(&client, "CREATE TABLE m AS SELECT x, named_struct('v', x + 1) AS s FROM n; DROP TABLE n").await;
    run(&client, "ALTER TABLE m RENAME TO n").await;
    run(&client, "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return 2 * x'").await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(s.v)").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "2 4 6 8 10 12 14 16 18 20");
}

#[tokio::test]
async fn altering_a_function_makes_another_version_and_a_disabled_one_is_not_used() {
    let (_gateway, client) = numbers().await;
    declare(&client, "def f(x): return x", "WITH (side_effects = 'none')").await;
    run(&client, "ALTER FUNCTION f SET (mode = 'scalar', result_stability = 'per_call')").await;
    assert_eq!(rows(&client, "SHOW FUNCTIONS").await.len(), 2);
    run(&client, "ALTER FUNCTION f SET (disabled = true, version = '1')").await;
    let refused = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert!(refused.starts_with("55000") && refused.contains("version 1 of function \"f\" is disabled"), "{refused}");
    run(&client, "ALTER TABLE n ADD COLUMN z AS f(x); REFRESH COLUMN z ON n WAIT").await;
    run(&client, "ALTER FUNCTION f SET (disabled = false, version = '1'); REFRESH COLUMN y ON n WAIT").await;
    for (set, code) in
        [("mode = 'fast'", "22023"), ("colour = 'red'", "42601"), ("disabled = true, mode = 'scalar'", "42601")]
    {
        assert!(error(&client, &format!("ALTER FUNCTION f SET ({set})")).await.starts_with(code), "{set}");
    }
    assert!(error(&client, "ALTER FUNCTION nope SET (mode = 'scalar')").await.starts_with("42883"));
    // The number of a dropped version is not used again.
    run(&client, "ALTER TABLE n DROP COLUMN y; ALTER TABLE n DROP COLUMN z").await;
    run(&client, "DROP FUNCTION f WITH (version = '1'); DROP FUNCTION f WITH (version = '2')").await;
    run(&client, "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x'").await;
    assert!(rows(&client, "SHOW FUNCTIONS").await[0].starts_with("[]|f|3|"));
}

#[tokio::test]
async fn vectors_go_in_and_come_out() {
    let (_gateway, client) = numbers().await;
    run(&client, "CREATE TABLE m (x BIGINT, v vector(3), l REAL[])").await;
    run(&client, "INSERT INTO m VALUES (1, '[1,2,3]', '{4,5}'), (2, NULL, '{}'), (3, '[0,0,1]', NULL)").await;
    run(&client, "CREATE FUNCTION g (v fixed_size_list<float32, 3>, l list<float32>) RETURNS fixed_size_list<float32, 2> LANGUAGE python AS 'def g(v, l): return [sum(v), len(l or [])] if v else None'").await;
    run(&client, "ALTER TABLE m ADD COLUMN e AS g(v, l); REFRESH COLUMN e ON m WAIT").await;
    assert_eq!(rows(&client, "SELECT e FROM m ORDER BY x").await, ["{6,2}", "∅", "{1,0}"]);
}

#[tokio::test]
async fn filter_ignore_nulls_and_partition_by_choose_the_rows_of_calls() {
    let (_gateway, client) = numbers().await;
    run(&client, "DROP TABLE n; CREATE TABLE n (x BIGINT, kind TEXT, on_sale BOOLEAN)").await;
    let series = "SELECT x, CASE WHEN x % 3 = 0 THEN 'a' WHEN x % 3 = 1 THEN 'b' END, x % 2 = 0";
    run(
        &client,
        &format!("INSERT INTO n {series} FROM generate_series(0, 9) AS s(x); INSERT INTO n VALUES (NULL, 'a', true)"),
    )
    .await;
    run(&client, "CREATE FUNCTION h (x int64) RETURNS utf8 LANGUAGE python AS 'def h(x): return f\"<{x}>\"'").await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS h(x) FILTER (WHERE on_sale) IGNORE NULLS").await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON n WAIT", "rows_remaining").await.as_deref(), Some("0"));
    let shown = "SELECT y FROM n ORDER BY x";
    assert_eq!(rows(&client, shown).await.join(" "), "<0> ∅ <2> ∅ <4> ∅ <6> ∅ <8> ∅ ∅");
    // A row that passes the filter later is stale, because the filter reads the column.
    run(&client, "UPDATE n SET on_sale = true WHERE x = 1; UPDATE n SET on_sale = false WHERE x = 2").await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON n WAIT", "rows_assigned").await.as_deref(), Some("2"));
    assert_eq!(rows(&client, shown).await.join(" "), "<0> <1> ∅ ∅ <4> ∅ <6> ∅ <8> ∅ ∅");
    let plan = rows(&client, "EXPLAIN REFRESH COLUMN y ON n WHERE x = 0").await.join("\n");
    assert!(plan.contains("h(x) FILTER (WHERE on_sale) IGNORE NULLS as y"), "{plan}");
    let refused = error(&client, "ALTER TABLE n DROP COLUMN on_sale").await;
    assert!(refused.starts_with("2BP01"), "{refused}");
    // No call has rows of two kinds.
    run(
        &client,
        "CREATE FUNCTION k (kind utf8) RETURNS int64 LANGUAGE python AS \
         'def k(kind): return [len(kind) if len(set(kind.to_pylist())) == 1 else -1] * len(kind)' WITH (mode = 'vectorized')",
    )
    .await;
    run(
        &client,
        "ALTER TABLE n ADD COLUMN together AS k(kind) OVER (PARTITION BY kind); REFRESH COLUMN together ON n WAIT",
    )
    .await;
    // Of the first fragment; the row of the second one is alone.
    let together = "SELECT kind, min(together), max(together) FROM n WHERE x <> 1 AND x <> 2 AND x IS NOT NULL GROUP BY 1 ORDER BY 1";
    let together = rows(&client, together).await;
    assert!(together.iter().all(|row| !row.contains('-')), "{together:?}");
    for (clauses, code, part) in [
        ("FILTER (WHERE x + 1)", "42804", "FILTER must be type boolean"),
        ("FILTER (WHERE nope > 1)", "42703", "nope"),
        ("FILTER (WHERE random() < 0.5)", "42P17", "random"),
        ("OVER (PARTITION BY nope)", "42703", "nope"),
    ] {
        let refused = error(&client, &format!("ALTER TABLE n ADD COLUMN z AS h(x) {clauses}")).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{clauses}\n{refused}");
    }
}

#[tokio::test]
async fn a_failing_row_is_named_by_its_place_also_when_calls_are_ordered_otherwise() {
    let (_gateway, client) = numbers().await;
    let source = "def f(x):\n if x == 6: raise ValueError(x)\n return x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN even AS (x % 2)").await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x) FILTER (WHERE x > 1) OVER (PARTITION BY even)").await;
    run(&client, "REFRESH COLUMN even ON n WAIT").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert!(failed.contains("row 6 of fragment 0"), "{failed}");
    assert_eq!(counts(&client, "WITH (error_policy = 'skip')").await, "9|1|1");
    assert_eq!(values(&client).await, "∅ ∅ 2 3 4 5 ∅ 7 8 9");
    assert_eq!(rows(&client, "SELECT row_offset FROM function_errors('n')").await, ["6"]);
}

const SCALE: &str = "CREATE FUNCTION scale (x int64) RETURNS utf8 LANGUAGE python AS \
    'class scale:\n def __init__(self, by, label=\"m\", of=()):\n  self.by, self.label, self.of = by, label, of\n \
     def __call__(self, x): return f\"{x * self.by}{self.label}{list(self.of)}\"' \
    WITH (initialization = '[{\"name\": \"by\", \"arrow_type\": \"float64\", \"nullable\": false}, \
     {\"name\": \"label\", \"arrow_type\": \"utf8\"}, {\"name\": \"of\", \"arrow_type\": \"list<int64>\"}]')";

#[tokio::test]
async fn a_class_is_initialized_with_the_constants_of_each_binding() {
    let (gateway, client) = numbers().await;
    run(&client, SCALE).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS scale(x, by => 0.5)").await;
    run(&client, "ALTER TABLE n ADD COLUMN z AS scale(x, 2, 'km', of => make_array(1, 2))").await;
    run(&client, "ALTER TABLE n ADD COLUMN w AS scale(label => NULL, x => x, by => -1)").await;
    run(&client, "REFRESH COLUMN y ON n WAIT; REFRESH COLUMN z ON n WAIT; REFRESH COLUMN w ON n WAIT").await;
    assert_eq!(rows(&client, "SELECT y, z, w FROM n WHERE x = 3").await, ["1.5m[]|6.0km[1, 2]|-3.0m[]"]);
    let metadata = dataset(&gateway).await.schema().metadata["lancedb::function_bindings"].clone();
    let bindings: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert!(bindings["bindings"][1]["initialization"].as_str().is_some_and(|row| !row.is_empty()), "{bindings}");
    assert_eq!(bindings["bindings"][1]["inputs"].as_array().unwrap().len(), 1, "{bindings}");
    // In queries, too.
    let called = "SELECT scale(3, by => 2), scale(x, 1.5, 'in'), scale(x, 2) FROM n WHERE x = 2";
    assert_eq!(rows(&client, called).await, ["6.0m[]|3.0in[]|4.0m[]"]);
    for (call, code, part) in [
        ("scale(x)", "42883", "needs a value for \"by\""),
        ("scale(x, by => NULL)", "22004", "\"by\" takes no NULL"),
        ("scale(x, by => x)", "42703", "constant"),
        ("scale(x, 1, 'm', NULL, 5)", "42883", "takes 1 arguments"),
        ("scale(x, by => 1, by => 2)", "42601", "more than once"),
        ("scale(x, factor => 1)", "42883", "no parameter \"factor\""),
        ("scale(by => 1, x)", "42601", "cannot follow"),
        ("scale(x, by => 'NaN'::double precision)", "22023", "finite"),
    ] {
        for sql in [format!("ALTER TABLE n ADD COLUMN bad AS {call}"), format!("SELECT {call} FROM n")] {
            let refused = error(&client, &sql).await;
            assert!(refused.starts_with(code) && refused.contains(part), "{sql}\n{refused}");
        }
    }
}

/// Changes the table with the published SDK, which checks the bindings first.
const EVOLVES: &str = r#"
import sys, lancedb
table = lancedb.connect(sys.argv[1]).open_table("n")
table.alter_columns({"path": "plain", "rename": "renamed"})
for forbidden in (["x"], ["lo"]):
    try:
        table.drop_columns(forbidden)
    except Exception as error:
        print(type(error).__name__, error)
    else:
        raise SystemExit(f"{forbidden} was dropped")
table.drop_columns(["lo", "hi"])
"#;

#[tokio::test]
async fn sdk_02_the_published_client_reads_the_bindings_and_keeps_to_them() {
    let (gateway, client) = numbers().await;
    run(&client, PAIR).await;
    run(&client, SCALE).await;
    run(&client, "ALTER TABLE n ADD COLUMN plain BIGINT").await;
    declare(&client, "def f(x): return x", "").await;
    run(&client, "ALTER TABLE n ADD COLUMN (lo, hi) AS g(x) FILTER (WHERE x <> 3) IGNORE NULLS").await;
    run(&client, "ALTER TABLE n ADD COLUMN w AS scale(x, 1) OVER (PARTITION BY x)").await;
    run(&client, "CREATE FUNCTION two (a int64, b int64, c int64) RETURNS list<float32> LANGUAGE python AS 'def two(*a): return a'")
        .await;
    run(&client, "ALTER TABLE n ADD COLUMN v AS two(x, 1, x); REFRESH COLUMN y ON n WAIT").await;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("evolves.py");
    std::fs::write(&script, EVOLVES).unwrap();
    let output = crate::harness::python().arg(&script).arg(gateway.data()).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{failed}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(rows(&client, "SELECT renamed, y FROM n WHERE x = 4").await, ["∅|4"]);
    assert_eq!(value(&client, "REFRESH COLUMN w ON n WAIT", "rows_assigned").await.as_deref(), Some("10"));
}
