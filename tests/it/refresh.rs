//! REFRESH COLUMN on expression columns, as a client sees it.

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::rows::{error, rows, run, value};

/// Two rows and a column that is declared and not filled.
const DOCS: &str = "CREATE TABLE docs (id BIGINT, body TEXT);
     INSERT INTO docs VALUES (1, 'lance'), (2, 'gate');
     ALTER TABLE docs ADD COLUMN body_len AS (length(body))";

async fn docs() -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    (gateway, client)
}

/// Refreshes and waits; returns how many rows got a value.
async fn assigned(client: &Client, refresh: &str) -> String {
    value(client, &format!("{refresh} WAIT"), "rows_assigned").await.unwrap()
}

#[tokio::test]
async fn rc_01_a_declared_column_is_empty_until_a_refresh_fills_it() {
    let (_gateway, client) = docs().await;
    assert_eq!(rows(&client, "SELECT * FROM docs ORDER BY id").await, ["1|lance|∅", "2|gate|∅"]);
    let answer = rows(&client, "REFRESH COLUMN body_len ON docs WAIT").await;
    let job = answer[0].split('|').nth(3).unwrap().to_owned();
    assert!(job.starts_with("job_"), "{answer:?}");
    let source: u64 = answer[0].split('|').nth(7).unwrap().parse().unwrap();
    let published = source + 1;
    assert_eq!(answer, [format!("refresh_column|body_len|succeeded|{job}|2|0|0|{source}|{published}")]);
    assert_eq!(rows(&client, "SELECT * FROM docs ORDER BY id").await, ["1|lance|5", "2|gate|4"]);
}

#[tokio::test]
async fn rc_02_a_second_refresh_computes_nothing_and_commits_nothing() {
    let (_gateway, client) = docs().await;
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs").await, "2");
    let refresh = "REFRESH COLUMN body_len ON docs WAIT";
    let first = rows(&client, refresh).await;
    let second = rows(&client, refresh).await;
    let shape = |row: &str| row.split('|').skip(4).map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = (shape(&first[0]), shape(&second[0]));
    assert_eq!((&first[0], &first[2], &first[4]), (&"0".to_owned(), &"0".to_owned(), &"∅".to_owned()));
    assert_eq!(first, second, "not even a version was added");
}

#[tokio::test]
async fn rc_03_appended_rows_are_filled_by_the_next_refresh_and_no_others() {
    let (_gateway, client) = docs().await;
    assigned(&client, "REFRESH COLUMN body_len ON docs").await;
    run(&client, "INSERT INTO docs (id, body) VALUES (3, 'sql')").await;
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "4", "∅"]);
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs").await, "1");
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "4", "3"]);
}

#[tokio::test]
async fn rc_04_an_update_keeps_the_old_value_until_exactly_its_row_is_recomputed() {
    let (_gateway, client) = docs().await;
    assigned(&client, "REFRESH COLUMN body_len ON docs").await;
    run(&client, "UPDATE docs SET body = 'tables' WHERE id = 2").await;
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "4"]);
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs").await, "1");
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "6"]);
}

#[tokio::test]
async fn rc_05_a_filtered_refresh_recomputes_every_matching_row_current_or_not() {
    let (_gateway, client) = docs().await;
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs WHERE id = 1").await, "1");
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "∅"]);
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs WHERE id >= 1").await, "2");
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs WHERE body_len IS NULL").await, "0");
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs WHERE _rowaddr = 0").await, "1");
}

#[tokio::test]
async fn rc_07_a_refresh_over_an_unfilled_input_fails_and_names_the_input() {
    let (_gateway, client) = docs().await;
    run(&client, "ALTER TABLE docs ADD COLUMN doubled AS (body_len * 2)").await;
    let refused = error(&client, "REFRESH COLUMN doubled ON docs WAIT").await;
    let expected = [
        "55000: computed column \"body_len\" is not refreshed for its current inputs",
        "ComputedInputNotRefreshed: 2 rows of fragment 0 hold no current value of \"body_len\".",
        "Refresh \"body_len\" first.",
    ];
    assert_eq!(refused.lines().collect::<Vec<_>>(), expected);
    assert_eq!(rows(&client, "SELECT doubled FROM docs").await, ["∅", "∅"]);
    assigned(&client, "REFRESH COLUMN body_len ON docs").await;
    assert_eq!(assigned(&client, "REFRESH COLUMN doubled ON docs").await, "2");
    assert_eq!(rows(&client, "SELECT doubled FROM docs ORDER BY id").await, ["10", "8"]);
}

#[tokio::test]
async fn rc_10_a_failed_refresh_leaves_whole_fragments_and_the_next_one_fills_the_rest() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE parts (id BIGINT, divisor BIGINT);
         INSERT INTO parts VALUES (1, 1), (2, 2);
         INSERT INTO parts VALUES (3, 0), (4, 4);
         ALTER TABLE parts ADD COLUMN share AS (100 / divisor)",
    )
    .await;
    let failed = error(&client, "REFRESH COLUMN share ON parts WAIT").await;
    assert!(failed.starts_with("22012: "), "{failed}");
    let shares = rows(&client, "SELECT share FROM parts ORDER BY id").await;
    assert!(shares[..2] == ["100", "50"] || shares[..2] == ["∅", "∅"], "a fragment is published whole: {shares:?}");
    assert_eq!(shares[2..], ["∅", "∅"]);
    run(&client, "UPDATE parts SET divisor = 5 WHERE id = 3").await;
    let filled = shares.iter().filter(|share| *share != "∅").count();
    assert_eq!(assigned(&client, "REFRESH COLUMN share ON parts").await, (4 - filled).to_string());
    assert_eq!(rows(&client, "SELECT share FROM parts ORDER BY id").await, ["100", "50", "20", "25"]);
}

#[tokio::test]
async fn rc_12_a_deleted_row_is_never_sent_to_the_expression() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE parts (divisor BIGINT);
         INSERT INTO parts VALUES (1), (0), (4);
         DELETE FROM parts WHERE divisor = 0;
         ALTER TABLE parts ADD COLUMN share AS (100 / divisor)",
    )
    .await;
    assert_eq!(assigned(&client, "REFRESH COLUMN share ON parts").await, "2");
    assert_eq!(rows(&client, "SELECT share FROM parts ORDER BY divisor").await, ["100", "25"]);
}

#[tokio::test]
async fn rc_14_the_source_version_is_the_one_at_the_start() {
    let (_gateway, client) = docs().await;
    let first = rows(&client, "REFRESH COLUMN body_len ON docs WAIT").await;
    run(&client, "INSERT INTO docs (id, body) VALUES (3, 'sql')").await;
    let plan = rows(&client, "EXPLAIN REFRESH COLUMN body_len ON docs").await;
    let second = rows(&client, "REFRESH COLUMN body_len ON docs WAIT").await;
    let source = |row: &str| row.split('|').nth(7).unwrap().parse::<u64>().unwrap();
    assert!(source(&second[0]) > source(&first[0]));
    let expected = format!("source={},", source(&second[0]));
    assert!(plan[1].contains(&expected), "{plan:?} has no {expected}");
}

#[tokio::test]
async fn ex_01_a_preview_refuses_what_the_refresh_refuses() {
    let (_gateway, client) = docs().await;
    let refreshes = [
        "REFRESH COLUMN nope ON docs",
        "REFRESH COLUMN body ON docs",
        "REFRESH COLUMN body_len ON nope",
        "REFRESH COLUMN body_len ON docs WHERE nope = 1",
        "REFRESH COLUMN body_len ON docs WHERE id + 1",
        "REFRESH COLUMN body_len ON docs WITH (num_workers = 0)",
        "REFRESH COLUMN body_len ON docs WITH (error_policy = 'skip')",
    ];
    for refresh in refreshes {
        let refused = error(&client, refresh).await;
        let explained = error(&client, &format!("EXPLAIN {refresh}")).await;
        assert_eq!(explained, refused, "{refresh}");
    }
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new(), "nothing was submitted");
}

#[tokio::test]
async fn ex_02_the_plan_is_a_job_over_a_stage_over_a_projection_over_the_stale_rows() {
    let (_gateway, client) = docs().await;
    let plan = rows(&client, "EXPLAIN REFRESH COLUMN body_len ON docs WITH (num_workers = 3)").await;
    let statement = "logical_plan|RefreshColumn: REFRESH COLUMN body_len ON docs WITH (num_workers = 3)";
    assert_eq!(plan[0], statement);
    let source: String = plan[1].chars().skip_while(|c| *c != '=').skip(1).take_while(char::is_ascii_digit).collect();
    let expected = format!(
        "physical_plan|RefreshJobExec: source={source}, workers=3, fragments=1/1, rows=2, fragment=0
  RefreshStageExec: column=body_len, stored_values=replaced
    ProjectionExec: expr=[length(body) as body_len]
      StaleRowsExec: rows=2, of=2
        LanceScan: fragment=0, columns=[body]"
    );
    assert_eq!(plan[1], expected);
    assert_eq!(plan.len(), 2);
}

#[tokio::test]
async fn ex_03_a_preview_runs_nothing() {
    let (_gateway, client) = docs().await;
    rows(&client, "EXPLAIN VERBOSE REFRESH COLUMN body_len ON docs").await;
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new());
    assert_eq!(rows(&client, "SELECT body_len FROM docs").await, ["∅", "∅"]);
}

#[tokio::test]
async fn op_01_an_expression_column_takes_a_number_of_workers() {
    let (_gateway, client) = docs().await;
    for workers in ["1", "'2'", "1024"] {
        let refresh = format!("REFRESH COLUMN body_len ON docs WHERE id = 1 WITH (num_workers = {workers})");
        assert_eq!(assigned(&client, &refresh).await, "1");
    }
}

#[tokio::test]
async fn op_05_options_of_functions_are_refused_by_name() {
    let (_gateway, client) = docs().await;
    let options = [
        ("error_policy", "'skip'"),
        ("max_failed_fraction", "0.5"),
        ("max_failed_rows", "3"),
        ("batch_size", "10"),
        ("row_timeout_seconds", "10"),
        ("init_timeout_seconds", "10"),
        ("max_executor_processes_per_worker", "1"),
        ("publication_interval_rows", "10"),
        ("gpu_count", "1"),
    ];
    for (name, value) in options {
        let refused = error(&client, &format!("REFRESH COLUMN body_len ON docs WITH ({name} = {value})")).await;
        let expected = format!(
            "22023: option \"{name}\" is not valid for column \"body_len\"\n\
             The column is computed by a SQL expression; the option applies to columns computed by a Function."
        );
        assert_eq!(refused, expected);
    }
}

#[tokio::test]
async fn op_06_bad_options_are_refused_before_a_job_exists() {
    let (_gateway, client) = docs().await;
    let cases = [
        ("workers = 1", "42601", "workers"),
        ("num_workers = 1, num_workers = 2", "42601", "num_workers"),
        ("num_workers = 0", "22023", "num_workers"),
        ("num_workers = 1025", "22023", "num_workers"),
        ("num_workers = 'many'", "22023", "num_workers"),
        ("branch = 'nope'", "42704", "branch \"nope\" of table \"docs\" does not exist"),
    ];
    for (options, code, named) in cases {
        let refused = error(&client, &format!("REFRESH COLUMN body_len ON docs WITH ({options})")).await;
        assert!(refused.starts_with(code) && refused.contains(named), "{options}: {refused}");
    }
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_refreshed_is_named() {
    let (_gateway, client) = docs().await;
    let cases = [
        ("REFRESH COLUMN nope ON docs", vec!["42703: column \"nope\" of relation \"docs\" does not exist"]),
        (
            "REFRESH COLUMN body ON docs",
            vec![
                "42809: column \"body\" of table \"docs\" is not a computed column",
                "Only computed columns can be refreshed.",
                "Declare it with ALTER TABLE docs ADD COLUMN body AS (<expression>).",
            ],
        ),
        ("REFRESH COLUMN body_len ON nope", vec!["42P01: relation \"nope\" does not exist"]),
    ];
    for (refresh, expected) in cases {
        assert_eq!(error(&client, refresh).await.lines().collect::<Vec<_>>(), expected, "{refresh}");
    }
}

#[tokio::test]
async fn a_refresh_in_a_transaction_block_is_submitted_at_once_and_stays() {
    let (_gateway, client) = docs().await;
    run(&client, "BEGIN").await;
    assert_eq!(assigned(&client, "REFRESH COLUMN body_len ON docs").await, "2");
    run(&client, "ROLLBACK").await;
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "4"]);
}
