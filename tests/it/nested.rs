//! Computed columns that are fields inside a struct column, and inputs that are.

use crate::harness::Gateway;
use crate::interop::run_python;
use crate::rows::{error, rows, run, value};

/// Four rows in two fragments; one row has no struct.
fn folder(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let program = "
import lance, pyarrow as pa, sys
info = pa.struct([('text', pa.string()), ('Mixed', pa.int64())])
rows = [{'text': 'a', 'Mixed': 1}, None, {'text': 'ccc', 'Mixed': 3}, {'text': None, 'Mixed': 4}]
table = pa.table({'id': [1, 2, 3, 4], 'info': pa.array(rows, info)})
lance.write_dataset(table, sys.argv[1] + '/docs.lance', max_rows_per_file=2, data_storage_version='VERSION',
                    enable_stable_row_ids=True)
";
    run_python(folder.path(), &program.replace("VERSION", version));
    folder
}

const READ: &str = "
import lance, sys
dataset = lance.dataset(sys.argv[1] + '/docs.lance')
dataset.validate()
print([row['info'] for row in sorted(dataset.to_table().to_pylist(), key=lambda row: row['id'])])
";

async fn assigned(client: &tokio_postgres::Client, refresh: &str) -> String {
    value(client, &format!("REFRESH COLUMN {refresh} WAIT"), "rows_assigned").await.unwrap()
}

#[tokio::test]
async fn rc_01_a_field_inside_a_column_is_declared_and_filled_and_its_siblings_stay() {
    for version in ["2.1", "2.2"] {
        let folder = folder(version);
        let gateway = Gateway::start_in(folder.path());
        let client = gateway.connect().await;
        run(&client, "ALTER TABLE docs ADD COLUMN info.len AS (length(info.text))").await;
        let inputs = "
import lance, sys
field = lance.dataset(sys.argv[1] + '/docs.lance').schema.field('info').type.field('len')
print(field.metadata[b'computed_column.inputs'].decode())
";
        assert_eq!(run_python(folder.path(), inputs), "[\"info.text\"]");
        let plan = rows(&client, "EXPLAIN REFRESH COLUMN info.len ON docs").await;
        assert!(plan[0].ends_with("REFRESH COLUMN info.len ON docs"), "{plan:?}");
        assert!(plan[1].contains("RefreshStageExec: column=info.len, stored_values=replaced"), "{plan:?}");
        assert!(plan[1].contains("LanceScan: fragment=0, columns=[info.text]"), "{plan:?}");
        let answer = rows(&client, "REFRESH COLUMN info.len ON docs WAIT").await;
        assert!(answer[0].starts_with("refresh_column|info.len|succeeded|job_"), "{answer:?}");
        assert_eq!(value(&client, "REFRESH COLUMN info.len ON docs WAIT", "rows_assigned").await.unwrap(), "0");
        let expected = "[{'text': 'a', 'Mixed': 1, 'len': 1}, None, {'text': 'ccc', 'Mixed': 3, 'len': 3}, \
                        {'text': None, 'Mixed': 4, 'len': None}]";
        assert_eq!(run_python(folder.path(), READ), expected, "{version}");
        // A filtered refresh replaces the leaf again, in one fragment.
        assert_eq!(assigned(&client, "info.len ON docs WHERE info.text = 'ccc'").await, "1");
        assert_eq!(assigned(&client, "`info`.\"len\" ON docs WHERE info.\"Mixed\" < 3").await, "1");
        assert_eq!(run_python(folder.path(), READ), expected, "{version}");
        assert_eq!(rows(&client, "SELECT info['len'] FROM docs ORDER BY id").await, ["1", "∅", "3", "∅"]);
    }
}

#[tokio::test]
async fn rc_03_appended_and_compacted_rows_of_a_field_inside_a_column_are_followed() {
    let folder = folder("2.1");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE docs ADD COLUMN info.len AS (length(info.text))").await;
    assert_eq!(assigned(&client, "info.len ON docs").await, "4");
    let append = "
import lance, pyarrow as pa, sys
path = sys.argv[1] + '/docs.lance'
info = pa.struct([('text', pa.string()), ('Mixed', pa.int64()), ('len', pa.int32())])
table = pa.table({'id': [5], 'info': pa.array([{'text': 'fives', 'Mixed': 5, 'len': None}], info)})
lance.write_dataset(table, path, mode='append')
lance.dataset(path).optimize.compact_files()
";
    run_python(folder.path(), append);
    assert_eq!(assigned(&client, "info.len ON docs").await, "1");
    assert_eq!(assigned(&client, "info.len ON docs").await, "0");
    let read = run_python(folder.path(), READ);
    assert!(read.ends_with("{'text': 'fives', 'Mixed': 5, 'len': 5}]"), "{read}");
}

#[tokio::test]
async fn rc_07_a_field_inside_a_column_can_be_an_input_of_another() {
    let folder = folder("2.1");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE docs ADD COLUMN info.len AS (length(info.text))").await;
    run(&client, "ALTER TABLE docs ADD COLUMN twice AS (info.len * 2), ADD COLUMN info.half AS (info.\"Mixed\" / 2)")
        .await;
    let refused = error(&client, "REFRESH COLUMN twice ON docs WAIT").await;
    assert!(refused.starts_with("55000: computed column \"info.len\" is not refreshed"), "{refused}");
    assert_eq!(assigned(&client, "info.len ON docs").await, "4");
    assert_eq!(assigned(&client, "info.half ON docs").await, "4");
    assert_eq!(assigned(&client, "twice ON docs").await, "4");
    assert_eq!(assigned(&client, "info.len ON docs").await, "0", "the sibling is no input");
    assert_eq!(rows(&client, "SELECT twice FROM docs ORDER BY id").await, ["2", "∅", "6", "∅"]);
    let expected = "[{'text': 'a', 'Mixed': 1, 'len': 1, 'half': 0}, None, \
                    {'text': 'ccc', 'Mixed': 3, 'len': 3, 'half': 1}, {'text': None, 'Mixed': 4, 'len': None, 'half': 2}]";
    assert_eq!(run_python(folder.path(), READ), expected);
}

#[tokio::test]
async fn what_a_field_inside_a_column_cannot_be_is_named() {
    let folder = folder("2.1");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(
        &client,
        "ALTER TABLE docs ADD COLUMN info.len AS (length(info.text)), ADD COLUMN part AS (named_struct('a', id))",
    )
    .await;
    let cases = [
        ("REFRESH COLUMN info.nope ON docs", "42703: column \"info.nope\" of relation \"docs\" does not exist"),
        ("REFRESH COLUMN id.nope ON docs", "42703: column \"id.nope\" of relation \"docs\" does not exist"),
        ("REFRESH COLUMN info.text ON docs", "42809: column \"info.text\" of table \"docs\" is not a computed column"),
        ("REFRESH COLUMN part.a ON docs", "42809: column \"part.a\" of table \"docs\" is not a computed column"),
        (
            "ALTER TABLE docs ADD COLUMN info.len AS (1)",
            "42701: column \"info.len\" of relation \"docs\" already exists",
        ),
        ("ALTER TABLE docs ADD COLUMN nope.len AS (1)", "42703: column \"nope\" of relation \"docs\" does not exist"),
        ("ALTER TABLE docs ADD COLUMN id.len AS (1)", "42809: column \"id\" of table \"docs\" has no fields"),
        ("ALTER TABLE docs ADD COLUMN info.plain text", "0A000: "),
        (
            "ALTER TABLE docs ADD COLUMN info.there AS (info IS NOT NULL)",
            "42P17: column \"info.there\" cannot be computed",
        ),
        ("ALTER TABLE docs DROP COLUMN info.text", "2BP01: "),
        ("ALTER TABLE docs RENAME COLUMN info TO more", "2BP01: "),
    ];
    for (statement, expected) in cases {
        let refused = error(&client, statement).await;
        assert!(refused.starts_with(expected), "{statement}: {refused}");
    }
    let refused = error(&client, "REFRESH COLUMN part.a ON docs").await;
    assert!(refused.ends_with("It is a part of the computed column \"part\". Refresh that."), "{refused}");
    assert_eq!(rows(&client, "SHOW JOBS").await, Vec::<String>::new());
    run(&client, "ALTER TABLE docs ADD COLUMN IF NOT EXISTS info.len AS (1)").await;
    run(&client, "ALTER TABLE docs ALTER COLUMN info.len SET (auto_refresh_enabled = false)").await;
    run(&client, "ALTER TABLE docs DROP COLUMN info.len").await;
    run(&client, "ALTER TABLE docs DROP COLUMN info.text, DROP COLUMN IF EXISTS info.gone").await;
    assert_eq!(run_python(folder.path(), READ), "[{'Mixed': 1}, None, {'Mixed': 3}, {'Mixed': 4}]");
}

#[tokio::test]
async fn rc_15_fields_of_one_column_are_filled_at_the_same_time_and_appended_rows_stay() {
    let folder = tempfile::tempdir().unwrap();
    let create = "
import lance, pyarrow as pa, sys
info = pa.struct([('text', pa.string())])
table = pa.table({'id': range(40000), 'info': pa.array([{'text': str(i)} for i in range(40000)], info)})
lance.write_dataset(table, sys.argv[1] + '/docs.lance', max_rows_per_file=10000, enable_stable_row_ids=True)
";
    run_python(folder.path(), create);
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(
        &client,
        "ALTER TABLE docs ADD COLUMN info.one AS (md5(info.text)), ADD COLUMN info.two AS (length(info.text))",
    )
    .await;
    let one = value(&client, "REFRESH COLUMN info.one ON docs", "job_id").await.unwrap();
    let two = value(&client, "REFRESH COLUMN info.two ON docs", "job_id").await.unwrap();
    run(&client, "INSERT INTO docs (id) VALUES (40000)").await;
    for job in [one, two] {
        assert_eq!(value(&client, &format!("WAIT JOB '{job}'"), "state").await.unwrap(), "succeeded");
    }
    let wrong = "SELECT count(*), count(*) FILTER (WHERE id < 40000 AND
                 ((info['one'] IS DISTINCT FROM md5(id::text)) OR (info['two'] IS DISTINCT FROM length(id::text))
                  OR info['text'] <> id::text)) FROM docs";
    assert_eq!(rows(&client, wrong).await, ["40001|0"]);
}

/// As PostgreSQL refuses a value of a generated column.
#[tokio::test]
async fn a_computed_field_inside_a_column_takes_no_value() {
    let folder = folder("2.1");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE docs ADD COLUMN info.len AS (length(info.text))").await;
    let inserts = ["INSERT INTO docs (id, info.len) VALUES (5, 1)", "INSERT INTO docs (id, info.len) SELECT 5, 1"];
    for insert in inserts {
        let refused = error(&client, insert).await;
        let expected = [
            "428C9: cannot insert a non-DEFAULT value into column \"info.len\"",
            "Column \"info.len\" is a generated column.",
            "REFRESH COLUMN info.len ON docs computes it.",
        ];
        assert_eq!(refused.lines().collect::<Vec<_>>(), expected, "{insert}");
    }
    let refused = error(&client, "INSERT INTO docs (id, info.text) VALUES (5, 'x')").await;
    assert!(refused.starts_with("0A000"), "{refused}");
    let refused = error(&client, "INSERT INTO docs (id, info.nope) VALUES (5, 1)").await;
    assert_eq!(refused, "42703: column \"info.nope\" of relation \"docs\" does not exist");
    assert_eq!(rows(&client, "SELECT count(*) FROM docs").await, ["4"]);
}

/// Rows of a whole column may come with the computed field, but not with a value of it.
#[tokio::test]
async fn an_insert_of_a_whole_column_gives_its_computed_field_no_value() {
    let folder = folder("2.1");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE docs ADD COLUMN info.len AS (length(info.text))").await;
    run(&client, "REFRESH COLUMN info.len ON docs WAIT").await;
    for insert in [
        "INSERT INTO docs (id, info) VALUES (5, named_struct('text', 'five', 'Mixed', 5, 'len', 99))",
        "INSERT INTO docs (id, info) SELECT 5, named_struct('text', 'five', 'Mixed', 5, 'len', 99)",
        "INSERT INTO docs (id, info) SELECT 5, info FROM docs",
    ] {
        let refused = error(&client, insert).await;
        assert!(refused.starts_with("428C9: cannot insert a non-DEFAULT value into column \"info.len\""), "{refused}");
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM docs").await, ["4"]);
    run(&client, "INSERT INTO docs (id, info) VALUES (5, named_struct('text', 'five', 'Mixed', 5, 'len', NULL))").await;
    run(&client, "INSERT INTO docs (id, info) SELECT 6, NULL").await;
    let lengths = "SELECT id, info.text, info.len FROM docs WHERE id > 4 ORDER BY id";
    assert_eq!(rows(&client, lengths).await, ["5|five|∅", "6|∅|∅"]);
    run(&client, "REFRESH COLUMN info.len ON docs WAIT").await;
    assert_eq!(rows(&client, lengths).await, ["5|five|4", "6|∅|∅"]);
}

/// The siblings of a computed field change with the whole column, and the field stays until its refresh.
#[tokio::test]
async fn an_update_of_a_whole_column_leaves_its_computed_field_as_it_is() {
    let folder = folder("2.1");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    run(&client, "ALTER TABLE docs ADD COLUMN info.twice AS (id * 2)").await;
    run(&client, "REFRESH COLUMN info.twice ON docs WAIT").await;
    let values = "SELECT id, info.text, info.twice FROM docs ORDER BY id";
    let before = rows(&client, values).await;
    let refused =
        error(&client, "UPDATE docs SET info = named_struct('text', 'new', 'Mixed', 7, 'twice', 77) WHERE id = 1")
            .await;
    assert!(refused.starts_with("428C9: column \"info.twice\" can only be updated to DEFAULT"), "{refused}");
    run(&client, "UPDATE docs SET info = info").await;
    assert_eq!(rows(&client, values).await, before);
    run(&client, "UPDATE docs SET info = named_struct('text', 'new', 'Mixed', 7, 'twice', NULL) WHERE id = 1").await;
    run(&client, "UPDATE docs SET info = NULL WHERE id = 3").await;
    let updated = values.replace("ORDER", "WHERE id IN (1, 3) ORDER");
    assert_eq!(rows(&client, &updated).await, ["1|new|2", "3|∅|∅"]);
    // What was NULL has no field that could be current.
    run(&client, "UPDATE docs SET info = named_struct('text', 'back', 'Mixed', 8, 'twice', NULL) WHERE id IN (2, 3)")
        .await;
    assert_eq!(assigned(&client, "info.twice ON docs").await, "2");
    let wrong = "SELECT count(*) FROM docs WHERE info.twice IS DISTINCT FROM id * 2";
    assert_eq!(rows(&client, wrong).await, ["0"]);
}
