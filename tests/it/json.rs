//! JSON operators and functions. Answers were compared with PostgreSQL's.

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

#[tokio::test]
async fn operators_find_parts_as_in_postgresql() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE j (id int, d jsonb)").await;
    run(
        &client,
        r#"INSERT INTO j VALUES (1, '{"a": {"b": [1.50, "x", null, {"c": true}]}, "n": 7}'), (2, '[1, 2]'), (3, NULL)"#,
    )
    .await;
    for (expression, wanted) in [
        ("d -> 'a' -> 'b'", r#"[1.50, "x", null, {"c": true}]"#),
        ("d -> 'a' -> 'b' -> 0", "1.50"),
        ("d -> 'a' -> 'b' ->> 1", "x"),
        ("d -> 'a' -> 'b' -> 1", "\"x\""),
        ("d -> 'a' -> 'b' ->> 2", "∅"),
        ("d -> 'a' -> 'b' -> -1", r#"{"c": true}"#),
        ("d ->> 'n'", "7"),
        ("d -> 'nope'", "∅"),
        ("d -> 0", "∅"),
        ("d #> '{a,b,3}'", r#"{"c": true}"#),
        ("d #>> '{a,b,3,c}'", "true"),
        ("d #>> ARRAY['a', 'b', '1']", "x"),
        ("d @> '{\"n\": 7}'", "t"),
        ("d @> '{\"n\": 8}'", "f"),
        ("'{\"a\": {\"b\": [1.5]}}' <@ d", "t"),
        ("d ? 'a'", "t"),
        ("d ?| ARRAY['x', 'n']", "t"),
        ("d ?& ARRAY['x', 'n']", "f"),
        ("jsonb_typeof(d -> 'a')", "object"),
        ("json_array_length(d -> 'a' -> 'b')", "4"),
        ("jsonb_extract_path_text(d, 'a', 'b', '1')", "x"),
        ("(d ->> 'n')::int + 1", "8"),
    ] {
        assert_eq!(rows(&client, &format!("SELECT {expression} FROM j WHERE id = 1")).await, [wanted], "{expression}");
    }
    assert_eq!(rows(&client, "SELECT id FROM j WHERE d ->> 'n' = '7'").await, ["1"]);
    assert_eq!(rows(&client, "SELECT d -> 'a' FROM j WHERE id = 3").await, ["∅"]);
    assert_eq!(rows(&client, "SELECT d -> 1 FROM j WHERE id = 2").await, ["2"]);
    // Arrays have the operator of the same name.
    assert_eq!(rows(&client, "SELECT ARRAY[1, 2] @> ARRAY[2], ARRAY[1] <@ ARRAY[2]").await, ["t|f"]);
    assert!(error(&client, "SELECT 'nonsense' -> 'a'").await.starts_with("22P02: invalid input syntax for type json"));
    assert!(error(&client, "SELECT json_array_length('{}')").await.starts_with("22023: "));
    let statement = client.prepare("SELECT d -> 'a' AS part FROM j").await.unwrap();
    assert_eq!(statement.columns()[0].type_().name(), "json");
}

#[tokio::test]
async fn functions_build_json_from_values() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, r#"CREATE TABLE j (id int, d json, t text); INSERT INTO j VALUES (1, '{"a": 1}', 'x"y')"#).await;
    let built =
        "SELECT json_build_object('id', id, 'd', d, 't', t, 'none', NULL), json_build_array(id, t), to_json(t) FROM j";
    assert_eq!(
        rows(&client, built).await,
        [r#"{"id" : 1, "d" : {"a": 1}, "t" : "x\"y", "none" : null}|[1, "x\"y"]|"x\"y""#]
    );
    assert!(error(&client, "SELECT json_build_object('a')").await.starts_with("22023: argument list must have even"));
}
