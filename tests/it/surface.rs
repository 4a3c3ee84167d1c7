//! What a user types about refreshes and jobs: predicates, branches, names,
//! notices and the documented examples.

use std::fs;
use std::path::Path;

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::interop::run_python;
use crate::rows::{error, rows, run, value};

const DOCS: &str = "CREATE TABLE docs (id BIGINT, body TEXT, \"Mixed Case\" BIGINT, ok BOOLEAN);
     INSERT INTO docs VALUES (1, 'lance', 10, true), (2, 'gate', 20, false), (3, NULL, 30, NULL);
     ALTER TABLE docs ADD COLUMN n AS (length(body))";

async fn docs() -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    (gateway, client)
}

async fn assigned(client: &Client, refresh: &str) -> String {
    value(client, &format!("REFRESH COLUMN {refresh} WAIT"), "rows_assigned").await.unwrap()
}

#[tokio::test]
async fn rc_05_a_predicate_takes_any_column_row_ids_and_addresses() {
    let (_gateway, client) = docs().await;
    let ids = rows(&client, "SELECT _rowid FROM docs ORDER BY id").await;
    let cases = [
        ("\"Mixed Case\" = 20".to_owned(), "1"),
        ("ok".to_owned(), "1"),
        ("NOT ok OR ok IS NULL".to_owned(), "2"),
        ("body IN ('lance', 'gate') AND id < 2".to_owned(), "1"),
        (format!("_rowid IN ({}, {})", ids[0], ids[2]), "2"),
        (format!("_rowid = {} AND body = 'gate'", ids[1]), "1"),
        (format!("_rowid = {} AND body = 'lance'", ids[1]), "0"),
        ("_rowaddr IN (0, 1)".to_owned(), "2"),
        ("_rowaddr >= (0 << 32 | 1) AND _rowaddr < 3".to_owned(), "2"),
        ("_rowid = -1".to_owned(), "0"),
        ("n IS NULL AND id = 3".to_owned(), "1"),
        ("NULL".to_owned(), "0"),
    ];
    for (predicate, expected) in cases {
        assert_eq!(assigned(&client, &format!("n ON docs WHERE {predicate}")).await, expected, "{predicate}");
    }
}

#[tokio::test]
async fn rc_05_every_mistake_in_a_predicate_is_refused_before_there_is_a_job() {
    let (_gateway, client) = docs().await;
    let cases = [
        ("nope = 1", "42703", Some("nope")),
        ("id = 1 AND Nope > 2", "42703", Some("Nope")),
        ("id + 1", "42804", None),
        ("body = 1 AND random() < 0.5", "42P17", None),
        ("random() < 0.5", "42P17", None),
        ("count(*) > 1", "42803", None),
        ("row_number() OVER () = 1", "42P20", None),
        ("id IN (SELECT 1)", "0A000", None),
        ("nope(id)", "42883", None),
        ("id = $1", "", None),
        ("id =", "42601", None),
    ];
    for (predicate, code, at) in cases {
        let statement = format!("REFRESH COLUMN n ON docs WHERE {predicate}");
        let failed = client.simple_query(&statement).await.expect_err(&statement);
        let failed = failed.as_db_error().unwrap_or_else(|| panic!("{statement}: {failed}"));
        assert!(failed.code().code().starts_with(code), "{statement}: {failed:?}");
        if let Some(word) = at {
            let expected = u32::try_from(statement.find(word).unwrap() + 1).unwrap();
            let position = failed.position().cloned();
            assert_eq!(position, Some(tokio_postgres::error::ErrorPosition::Original(expected)), "{statement}");
        }
    }
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_branch_is_refreshed_and_main_stays() {
    let folder = tempfile::tempdir().unwrap();
    let create = "
import lance, pyarrow as pa, sys
path = sys.argv[1] + '/docs.lance'
dataset = lance.write_dataset(pa.table({'id': [1, 2], 'body': ['a', 'bb']}), path, enable_stable_row_ids=True)
";
    run_python(folder.path(), create);
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE docs ADD COLUMN n AS (length(body))").await;
    let branch = "
import lance, pyarrow as pa, sys
dataset = lance.dataset(sys.argv[1] + '/docs.lance')
dev = dataset.create_branch('Dev-1')
lance.write_dataset(pa.table({'id': [3], 'body': ['ccc']}), dev, mode='append')
";
    run_python(folder.path(), branch);
    let plan = rows(&client, "EXPLAIN REFRESH COLUMN n ON docs WITH (branch = 'Dev-1')").await;
    assert!(plan[1].contains("rows=3"), "{plan:?}");
    assert_eq!(assigned(&client, "n ON docs WITH (branch = 'Dev-1')").await, "3");
    assert_eq!(assigned(&client, "n ON docs WITH (branch = 'Dev-1')").await, "0");
    let read = "
import lance, sys
dataset = lance.dataset(sys.argv[1] + '/docs.lance')
print(dataset.to_table().column('n').to_pylist(), dataset.checkout_version(('Dev-1', None)).to_table().column('n').to_pylist())
";
    assert_eq!(run_python(folder.path(), read), "[None, None] [1, 2, 3]");
    let job = value(&client, "SHOW JOBS LIMIT 1", "job_id").await.unwrap();
    let plan = rows(&client, &format!("EXPLAIN JOB '{job}'")).await;
    assert!(plan[1].contains("branch=Dev-1, source="), "{plan:?}");
    assert_eq!(rows(&client, "SELECT count(n) FROM docs").await, ["0"]);
    let refused = error(&client, "REFRESH COLUMN n ON docs WITH (branch = 'nope')").await;
    assert_eq!(refused, "42704: branch \"nope\" of table \"docs\" does not exist");
}

#[tokio::test]
async fn quoted_names_are_kept_everywhere() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE SCHEMA \"Team\"; CREATE TABLE \"Team\".\"My-Docs\" (\"The Id\" BIGINT);
         INSERT INTO \"Team\".\"My-Docs\" VALUES (1), (2);
         ALTER TABLE \"Team\".\"My-Docs\" ADD COLUMN \"Twice It\" AS (\"The Id\" * 2)",
    )
    .await;
    let refresh = "REFRESH COLUMN \"Twice It\" ON \"lancegate\".\"Team\".\"My-Docs\" WHERE \"The Id\" > 0";
    let plan = rows(&client, &format!("EXPLAIN {refresh}")).await;
    assert!(plan[0].contains("REFRESH COLUMN \"Twice It\" ON lancegate.\"Team\".\"My-Docs\""), "{plan:?}");
    let job = value(&client, &format!("{refresh} WAIT"), "job_id").await.unwrap();
    for name in ["\"Team\".\"My-Docs\"", "`Team`.`My-Docs`"] {
        let jobs = rows(&client, &format!("SHOW JOBS FOR TABLE {name}")).await;
        assert!(jobs.len() == 1 && jobs[0].starts_with(&format!("{job}|Team.My-Docs|")), "{jobs:?}");
    }
    let described = rows(&client, &format!("DESCRIBE JOB '{job}'")).await;
    assert!(described[0].contains("My-Docs.Twice It, succeeded"), "{described:?}");
    let refused = error(&client, "REFRESH COLUMN twice_it ON \"Team\".\"My-Docs\"").await;
    assert_eq!(refused, "42703: column \"twice_it\" of relation \"My-Docs\" does not exist");
    assert_eq!(rows(&client, "SELECT \"Twice It\" FROM `Team`.`My-Docs` ORDER BY 1").await, ["2", "4"]);
}

#[tokio::test]
async fn columns_that_read_each_other_and_inputs_that_are_gone_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let create = "
import lance, pyarrow as pa, sys, json
def computed(expression, *inputs):
    return {'computed_column': 'true', 'computed_column.kind': 'sql', 'computed_column.expression': expression,
            'computed_column.inputs': json.dumps(inputs), 'computed_refresh.source_signature': '{}'}
number = pa.int64()
schema = pa.schema([pa.field('id', number), pa.field('a', number, metadata=computed('b + 1', 'b')),
                    pa.field('b', number, metadata=computed('a + 1', 'a')),
                    pa.field('c', number, metadata=computed('gone + 1', 'gone'))])
table = pa.table({'id': [1], 'a': [None], 'b': [None], 'c': [None]}, schema=schema)
lance.write_dataset(table, sys.argv[1] + '/docs.lance')
";
    run_python(folder.path(), create);
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    let refused = error(&client, "REFRESH COLUMN a ON docs").await;
    assert!(refused.starts_with("42P17: computed column \"a\" is computed from itself"), "{refused}");
    let refused = error(&client, "REFRESH COLUMN c ON docs").await;
    assert!(refused.starts_with("42703: column \"gone\" of relation \"docs\" does not exist\n"), "{refused}");
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_refresh_in_a_block_says_that_it_stays_and_a_failed_block_takes_none() {
    let (gateway, client) = docs().await;
    let script = "BEGIN; REFRESH COLUMN n ON docs WAIT; ROLLBACK";
    let output = gateway.psql(script);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("NOTICE:  REFRESH COLUMN is not part of the transaction block"), "{said}");
    assert!(said.contains("DETAIL:  It is submitted at once, and ROLLBACK does not undo it."), "{said}");
    let output = gateway.psql(&format!("SET client_min_messages = error; {script}"));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert_eq!(rows(&client, "SELECT count(n) FROM docs").await, ["2"]);
    run(&client, "BEGIN").await;
    error(&client, "SELECT 1 / 0").await;
    let refused = error(&client, "REFRESH COLUMN n ON docs").await;
    assert!(refused.starts_with("25P02: "), "{refused}");
    run(&client, "ROLLBACK").await;
    assert_eq!(rows(&client, "SHOW JOBS").await.len(), 2);
}

/// Notices come while the client waits, as often as the setting says, and not to
/// those who do not want them.
#[tokio::test]
async fn progress_is_told_while_a_refresh_is_waited_for() {
    let gateway = Gateway::start_with("[jobs]\nnotice_interval = \"1s\"\n");
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE big (id BIGINT, body TEXT);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 1000000) AS t(g);
         ALTER TABLE big ADD COLUMN digest AS (sha512(sha512(sha512(sha512(sha512(sha512(sha512(sha512(body)))))))))",
    )
    .await;
    let refresh = "REFRESH COLUMN digest ON big WHERE id > 0 WAIT";
    let said = String::from_utf8(gateway.psql(refresh).stderr).unwrap();
    assert!(said.contains("NOTICE:  refresh of column \"digest\": "), "{said}");
    let quiet = gateway.psql(&format!("SET client_min_messages = warning; {refresh}"));
    assert_eq!(String::from_utf8(quiet.stderr).unwrap(), "");
}

#[tokio::test]
async fn ex_04_z04_a_job_whose_work_is_not_a_plan_is_its_root_alone() {
    let (mut gateway, client) = docs().await;
    run(&client, "ALTER TABLE docs ADD COLUMN m AS (id + 1)").await;
    let job = value(&client, "REFRESH COLUMN n ON docs WITH (num_workers = 2) WAIT", "job_id").await.unwrap();
    let dropped = value(&client, "REFRESH COLUMN m ON docs WAIT", "job_id").await.unwrap();
    run(&client, "ALTER TABLE docs DROP COLUMN m").await;
    let tree = rows(&client, &format!("EXPLAIN VERBOSE JOB '{job}'")).await;
    assert!(tree[1].contains("state=succeeded, progress=3/3, num_workers=2, source="), "{tree:?}");
    assert!(tree[1].contains("workers=2, fragments=0/1, rows=0"), "{tree:?}");
    assert_eq!(tree[2], "fragments|fragment=0, rows=0, of=3");
    let alone = rows(&client, &format!("EXPLAIN JOB '{dropped}'")).await;
    assert_eq!(alone, ["physical_plan|RefreshJobExec: state=succeeded, progress=3/3"]);
    run(
        &client,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE, OPERATE ON SYSTEM TO USER ann;
         GRANT USAGE ON DATABASE lancegate TO USER ann; GRANT USAGE ON SCHEMA public TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    let alone = rows(&ann, &format!("EXPLAIN JOB '{job}'")).await;
    assert_eq!(alone, ["physical_plan|RefreshJobExec: state=succeeded, progress=3/3, num_workers=2"]);
    assert!(gateway.stop().success());
    let program = "
import sqlite3, sys
store = sqlite3.connect(sys.argv[1] + '/_lancegate/metadata.db')
store.execute(\"UPDATE jobs SET kind = 'compact'\")
store.commit()
";
    run_python(gateway.data(), program);
    gateway.restart();
    let client = gateway.connect().await;
    let alone = rows(&client, &format!("EXPLAIN JOB '{job}'")).await;
    assert_eq!(alone, ["physical_plan|JobExec: job_type=compact, state=succeeded, progress=3/3, num_workers=2"]);
    assert_eq!(rows(&client, &format!("SELECT * FROM explain_job('{job}')")).await, alone);
}

#[tokio::test]
async fn ex_01_a_refresh_is_not_analyzed() {
    let (_gateway, client) = docs().await;
    let refused = error(&client, "EXPLAIN ANALYZE REFRESH COLUMN n ON docs").await;
    assert!(refused.starts_with("0A000: ") && refused.contains("DESCRIBE JOB"), "{refused}");
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new());
}

/// Each documented example means something to a gateway: it runs, or says in its
/// own words why not.
#[tokio::test]
async fn the_documented_examples_run_or_are_refused_by_name() {
    let (_gateway, client) = docs().await;
    run(&client, "ALTER TABLE docs ADD COLUMN words AS (length(body))").await;
    let mut found = 0;
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/src/ast")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).unwrap();
            for line in text.lines().filter_map(|line| line.strip_prefix("//! Example: `")) {
                let example = line.strip_suffix('`').unwrap();
                found += 1;
                // COPY would wait for rows.
                if example.starts_with("COPY") {
                    continue;
                }
                if let Err(failed) = client.simple_query(example).await {
                    let failed = failed.as_db_error().unwrap_or_else(|| panic!("{example}: {failed}"));
                    assert!(!["42601", "XX000"].contains(&failed.code().code()), "{example}: {failed:?}");
                }
                client.simple_query("ROLLBACK").await.unwrap();
            }
        }
    }
    assert!(found >= 19, "{found} examples");
}
