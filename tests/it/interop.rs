//! Tables that other software wrote, refreshed here and read back there.

use std::path::Path;

use crate::harness::{Gateway, python};

/// Runs a Python program of the test environment on a folder.
pub(crate) fn run_python(folder: &Path, program: &str) -> String {
    let output = python().arg("-c").arg(program).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn refresh_and_change(folder: &Path) {
    let gateway = Gateway::start_in(folder);
    let client = gateway.connect().await;
    let rows = client.query_one("SELECT count(*) FROM docs", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 1000);
    client.batch_execute("ALTER TABLE docs ADD COLUMN body_len AS length(body)").await.unwrap();
    let done = client.query_one("REFRESH COLUMN body_len ON docs WAIT", &[]).await.unwrap();
    assert_eq!(done.get::<_, Option<i64>>("rows_assigned"), Some(1000));
    client.batch_execute("UPDATE docs SET body = 'changed' WHERE id < 10").await.unwrap();
    client.batch_execute("DELETE FROM docs WHERE id >= 990").await.unwrap();
    client.batch_execute("INSERT INTO docs (id, body) VALUES (5000, 'appended')").await.unwrap();
    let done = client.query_one("REFRESH COLUMN body_len ON docs WAIT", &[]).await.unwrap();
    assert_eq!(done.get::<_, Option<i64>>("rows_assigned"), Some(11), "ten changed rows and an appended one");
    assert_eq!(done.get::<_, Option<i64>>("rows_remaining"), Some(0));
    let wrong = client.query_one("SELECT count(*) FROM docs WHERE body_len IS DISTINCT FROM length(body)", &[]).await;
    assert_eq!(wrong.unwrap().get::<_, i64>(0), 0);
}

const READ_WITH_PYLANCE: &str = "
import lance, sys
table = lance.dataset(sys.argv[1] + '/docs.lance').to_table()
names = table.column_names
rows = table.to_pylist()
wrong = [row for row in rows if row['body_len'] != len(row['body'])]
print(names, len(rows), len(wrong))
";

#[tokio::test]
async fn a_table_that_pylance_wrote_is_refreshed_in_place() {
    let folder = tempfile::tempdir().unwrap();
    run_python(
        folder.path(),
        "
import lance, pyarrow as pa, sys
table = pa.table({'id': range(1000), 'body': ['x' * (i % 50) for i in range(1000)]})
lance.write_dataset(table, sys.argv[1] + '/docs.lance', max_rows_per_file=300)
",
    );
    refresh_and_change(folder.path()).await;
    assert_eq!(run_python(folder.path(), READ_WITH_PYLANCE), "['id', 'body', 'body_len'] 991 0");
}

#[tokio::test]
async fn a_table_that_lancedb_wrote_is_refreshed_in_place() {
    let folder = tempfile::tempdir().unwrap();
    run_python(
        folder.path(),
        "
import lancedb, sys
db = lancedb.connect(sys.argv[1])
table = db.create_table('docs', [{'id': i, 'body': 'x' * (i % 50)} for i in range(500)])
table.add([{'id': i, 'body': 'x' * (i % 50)} for i in range(500, 1000)])
",
    );
    refresh_and_change(folder.path()).await;
    assert_eq!(run_python(folder.path(), READ_WITH_PYLANCE), "['id', 'body', 'body_len'] 991 0");
    let read = run_python(
        folder.path(),
        "
import lancedb, sys
table = lancedb.connect(sys.argv[1]).open_table('docs')
rows = table.to_arrow().to_pylist()
print(table.count_rows(), len([row for row in rows if row['body_len'] != len(row['body'])]))
table.add([{'id': 6000, 'body': 'from lancedb'}])
",
    );
    assert_eq!(read, "991 0");
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    let done = client.query_one("REFRESH COLUMN body_len ON docs WAIT", &[]).await.unwrap();
    assert_eq!(done.get::<_, Option<i64>>("rows_assigned"), Some(1), "the row that lancedb appended");
}

/// Refreshes `y` with lancedb; returns how many rows it computed.
fn refresh_there(folder: &Path) -> i64 {
    let program = "
import lancedb, sys
table = lancedb.connect(sys.argv[1]).open_table('docs')
print(table.refresh_column('y').rows_filled)
";
    run_python(folder, program).parse().unwrap()
}

/// Refreshes `y` here; returns how many rows were computed.
async fn refresh_here(client: &tokio_postgres::Client) -> i64 {
    let done = client.query_one("REFRESH COLUMN y ON docs WAIT", &[]).await.unwrap();
    assert_eq!(done.get::<_, Option<i64>>("rows_remaining"), Some(0));
    let wrong = client.query_one("SELECT count(*) FROM docs WHERE y IS DISTINCT FROM x * 2", &[]).await.unwrap();
    assert_eq!(wrong.get::<_, i64>(0), 0);
    done.get::<_, Option<i64>>("rows_assigned").unwrap()
}

fn change_there(folder: &Path, change: &str) {
    let program = format!(
        "
import lancedb, lance, sys
from datetime import timedelta
table = lancedb.connect(sys.argv[1]).open_table('docs')
{change}
"
    );
    run_python(folder, &program);
}

/// Appends, updates, deletes and compactions between refreshes by either side:
/// neither computes what the other has. `moved` is how many rows we compute
/// again after a compaction: none with stable row ids.
async fn refreshed_in_turn(folder: &Path, client: &tokio_postgres::Client, stable: bool) {
    assert_eq!((refresh_there(folder), refresh_here(client).await), (1000, 0), "first filled there");
    assert_eq!((refresh_there(folder), refresh_here(client).await), (0, 0), "nothing changed");
    change_there(folder, "table.add([{'id': i, 'x': float(i)} for i in range(1000, 1100)])");
    assert_eq!((refresh_here(client).await, refresh_there(folder)), (100, 0), "an append filled here");
    change_there(folder, "table.add([{'id': i, 'x': float(i)} for i in range(1100, 1150)])");
    assert_eq!((refresh_there(folder), refresh_here(client).await), (50, 0), "an append filled there");
    client.batch_execute("UPDATE docs SET x = x + 1 WHERE id < 10").await.unwrap();
    assert_eq!((refresh_here(client).await, refresh_there(folder)), (10, 0), "an update recomputed here");
    change_there(folder, "table.update(where='id >= 20 AND id < 27', values={'x': 5.0})");
    assert_eq!((refresh_there(folder), refresh_here(client).await), (7, 0), "an update recomputed there");
    client.batch_execute("DELETE FROM docs WHERE id >= 1140").await.unwrap();
    assert_eq!((refresh_here(client).await, refresh_there(folder)), (0, 0), "a delete");
    change_there(folder, "table.optimize()");
    let moved = if stable { 0 } else { 1140 };
    assert_eq!((refresh_here(client).await, refresh_there(folder)), (moved, 0), "a compaction");
    change_there(folder, "table.add([{'id': i, 'x': float(i)} for i in range(1200, 1220)])\ntable.optimize()");
    let moved = if stable { 20 } else { 1160 };
    assert_eq!((refresh_there(folder), refresh_here(client).await), (20, moved), "filled there after a compaction");
    assert_eq!((refresh_there(folder), refresh_here(client).await), (0, 0), "nothing changed");
    // A value that is written over is computed again, though lancedb trusts it.
    change_there(folder, "lance.dataset(sys.argv[1] + '/docs.lance').update({'y': '0.0'}, where='id = 500')");
    assert_eq!((refresh_here(client).await, refresh_there(folder)), (1, 0), "a value of somebody else");
    assert_eq!((refresh_here(client).await, refresh_there(folder)), (0, 0), "nothing changed");
}

/// RC-09: both records stay true, whoever refreshes.
#[tokio::test]
async fn rc_09_a_column_that_lancedb_declared_is_refreshed_there_and_here_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    run_python(
        folder.path(),
        "
import lancedb, sys
db = lancedb.connect(sys.argv[1])
table = db.create_table('docs', [{'id': i, 'x': float(i)} for i in range(500)])
table.add([{'id': i, 'x': float(i)} for i in range(500, 1000)])
table.add_columns(computed={'y': 'x * 2'})
",
    );
    let gateway = Gateway::start_in(folder.path());
    refreshed_in_turn(folder.path(), &gateway.connect().await, false).await;
}

#[tokio::test]
async fn rc_09_a_column_that_was_declared_here_is_refreshed_there_and_here_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start_in(folder.path());
    let client = gateway.connect().await;
    client.batch_execute("CREATE TABLE docs (id BIGINT, x DOUBLE PRECISION)").await.unwrap();
    for start in [0, 500] {
        let rows = format!("INSERT INTO docs SELECT v, v FROM generate_series({start}, {}) AS s(v)", start + 499);
        client.batch_execute(&rows).await.unwrap();
    }
    client.batch_execute("ALTER TABLE docs ADD COLUMN y AS (x * 2)").await.unwrap();
    refreshed_in_turn(folder.path(), &client, true).await;
}

/// A column that lancedb finds without a record is taken on trust there: its
/// first refresh notes every fragment as fresh. That proves nothing here.
#[tokio::test]
async fn what_lancedb_takes_on_trust_is_computed_here() {
    let folder = tempfile::tempdir().unwrap();
    run_python(
        folder.path(),
        "
import lance, lancedb, pyarrow as pa, sys
db = lancedb.connect(sys.argv[1])
table = db.create_table('docs', [{'id': i, 'x': float(i)} for i in range(100)])
table.add_columns(computed={'y': 'x * 2'})
raw = lance.dataset(sys.argv[1] + '/docs.lance')
raw.update({'y': '1.0'})
raw = lance.dataset(sys.argv[1] + '/docs.lance')
metadata = {key: value for key, value in raw.schema.field('y').metadata.items() if b'computed_refresh' not in key}
raw.replace_field_metadata('y', {key.decode(): value.decode() for key, value in metadata.items()})
",
    );
    assert_eq!(refresh_there(folder.path()), 0, "lancedb trusts the values that it finds");
    let gateway = Gateway::start_in(folder.path());
    assert_eq!(refresh_here(&gateway.connect().await).await, 100);
}
