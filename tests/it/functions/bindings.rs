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
        [("mode = 'fast'", "22023"), ("colour = 'red'", "0A000"), ("disabled = true, mode = 'scalar'", "42601")]
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
