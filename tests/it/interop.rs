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
