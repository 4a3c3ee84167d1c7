//! COPY in and out, with psql (simple protocol) and tokio-postgres (extended).

use std::pin::pin;

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::Client;
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::Type;

use crate::harness::Gateway;
use crate::privileges::user;
use crate::rows::{describe, error, rows, run};

const TABLE: &str = "CREATE TABLE t (id bigint, x double precision, s text, on_day date, ok boolean)";

/// Sends chunks as the data of a COPY and returns how many rows were taken.
async fn copy_in(client: &Client, sql: &str, chunks: &[&[u8]]) -> Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in::<_, Bytes>(sql).await?;
    let mut sink = pin!(sink);
    for chunk in chunks {
        sink.send(Bytes::copy_from_slice(chunk)).await?;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, sql: &str) -> String {
    let stream = client.copy_out(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", describe(&error)));
    let chunks: Vec<Bytes> = stream.try_collect().await.unwrap();
    String::from_utf8(chunks.concat()).unwrap()
}

#[tokio::test]
async fn what_copy_to_writes_copy_from_takes() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, TABLE).await;
    run(
        &client,
        "INSERT INTO t VALUES (1, 0.5, 'a' || chr(9) || 'b', DATE '2024-02-29', true), (2, 'NaN', '', NULL, false),
         (3, NULL, NULL, NULL, NULL), (-4, CAST('1e300' AS double precision), 'back\\slash \"quoted\", comma' || chr(10) || 'line', DATE '1969-12-31', true)",
    )
    .await;
    let stored = rows(&client, "SELECT * FROM t ORDER BY id").await;
    for options in [
        "",
        "(FORMAT csv)",
        "(FORMAT csv, HEADER, DELIMITER ';', NULL 'none', FORCE_QUOTE *)",
        "(DELIMITER '|', NULL '')",
    ] {
        let text = copy_out(&client, &format!("COPY t TO STDOUT {options}")).await;
        run(&client, "CREATE TABLE u (id bigint, x double precision, s text, on_day date, ok boolean)").await;
        // Cut anywhere: every byte is a message of its own.
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let options = options.replace(", FORCE_QUOTE *", "");
        assert_eq!(copy_in(&client, &format!("COPY u FROM STDIN {options}"), &bytes).await.unwrap(), 4, "{options}");
        let mut expected = stored.clone();
        if options.contains("NULL ''") {
            // The empty string is this format's NULL.
            expected.iter_mut().for_each(|row| *row = row.replace("|NaN||", "|NaN|∅|"));
        }
        assert_eq!(rows(&client, "SELECT * FROM u ORDER BY id").await, expected, "{options}: {text}");
        run(&client, "DROP TABLE u").await;
    }
    let text = copy_out(&client, "COPY (SELECT id, s FROM t WHERE id > 1 ORDER BY id) TO STDOUT").await;
    assert_eq!(text, "2\t\n3\t\\N\n");
    let csv = copy_out(&client, "COPY t (s, id) TO STDOUT WITH CSV HEADER").await;
    assert!(csv.starts_with("s,id\n") && csv.contains("\"back\\slash \"\"quoted\"\", comma\nline\",-4\n"), "{csv}");
}

#[tokio::test]
async fn the_binary_format_goes_both_ways() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE b (id bigint, x double precision, s text)").await;
    let types = [Type::INT8, Type::FLOAT8, Type::TEXT];
    let sink = client.copy_in("COPY b FROM STDIN (FORMAT binary)").await.unwrap();
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
    for id in 0..20_000_i64 {
        let text = (id % 3 != 0).then(|| format!("row {id}"));
        writer.as_mut().write(&[&id, &(id as f64 / 2.0), &text]).await.unwrap();
    }
    assert_eq!(writer.finish().await.unwrap(), 20_000);
    let counted = "SELECT count(*), sum(id), count(s), max(x) FROM b";
    assert_eq!(rows(&client, counted).await, ["20000|199990000|13333|9999.5"]);
    let stream = client.copy_out("COPY (SELECT * FROM b ORDER BY id) TO STDOUT BINARY").await.unwrap();
    let read: Vec<_> = BinaryCopyOutStream::new(stream, &types).try_collect().await.unwrap();
    assert_eq!((read.len(), read[7].get::<i64>(0), read[7].get::<Option<&str>>(2)), (20_000, 7, Some("row 7")));
    assert_eq!(read[9].get::<Option<&str>>(2), None);
}

#[tokio::test]
async fn psql_copies_files_of_the_client() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, s text)").await;
    let folder = tempfile::tempdir().unwrap();
    let (given, written) = (folder.path().join("in.csv"), folder.path().join("out.csv"));
    let lines: String = (0..100_000).map(|id| format!("{id},\"text, {id}\"\n")).collect();
    std::fs::write(&given, format!("id,s\n{lines}")).unwrap();
    let copy = format!("\\copy t FROM '{}' WITH (FORMAT csv, HEADER true)", given.display());
    let output = gateway.psql_with(&["-c", &copy, "-c", "SELECT count(*), sum(id) FROM t", "-A", "-t"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "COPY 100000\n100000|4999950000\n", "{}", String::from_utf8_lossy(&output.stderr));
    let copy = format!("\\copy (SELECT * FROM t ORDER BY id) TO '{}' csv header", written.display());
    assert!(gateway.psql_with(&["-c", &copy]).status.success());
    assert_eq!(std::fs::read_to_string(&written).unwrap(), std::fs::read_to_string(&given).unwrap());
    // Statements before and behind it in one text.
    let output = gateway.psql("CREATE TABLE u (id int); COPY t (id) TO STDOUT; SELECT 'behind'");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("CREATE TABLE\n0\n1\n") && said.ends_with("\n99999\nbehind\n"), "{}", said.len());
}

/// The session goes on and nothing of the data is there.
#[tokio::test]
async fn bad_data_names_its_line_and_leaves_nothing() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, TABLE).await;
    let good = "1\t0.5\ttext\t2024-01-01\tt\n".repeat(10_000);
    for (bad, expected, context) in [
        (
            "1\tx\ts\t\\N\tt\n",
            "22P02: invalid input syntax for type double precision: \"x\"",
            "COPY t, line 10001, column x: \"x\"",
        ),
        (
            "99999999999999999999\t1\ts\t\\N\tt\n",
            "22003: value \"99999999999999999999\" is out of range for type bigint",
            "COPY t, line 10001, column id: \"99999999999999999999\"",
        ),
        (
            "1\t1\ts\t2023-02-30\tt\n",
            "22008: date/time field value out of range: \"2023-02-30\"",
            "COPY t, line 10001, column on_day: \"2023-02-30\"",
        ),
        ("1\t1\ts\n", "22P04: missing data for column \"on_day\"", "COPY t, line 10001"),
        ("1\t1\ts\t\\N\tt\tmore\n", "22P04: extra data after last expected column", "COPY t, line 10001"),
    ] {
        let behind = good.clone();
        let failed = copy_in(&client, "COPY t FROM STDIN", &[good.as_bytes(), bad.as_bytes(), behind.as_bytes()]).await;
        let failed = failed.unwrap_err();
        assert_eq!(describe(&failed), expected);
        assert_eq!(failed.as_db_error().unwrap().where_(), Some(context));
        assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"], "{expected}");
    }
    // psql sends the line that ends the data, too.
    let failed =
        copy_in(&client, "COPY t FROM STDIN", &[b"1\t1\ts\t\\N\tt\n1\tx\ts\t\\N\tt\n\\.\n"]).await.unwrap_err();
    assert_eq!(failed.as_db_error().unwrap().where_(), Some("COPY t, line 2, column x: \"x\""));
    let text = b"1\t1\t\xff\t\\N\tt\n";
    let failed = copy_in(&client, "COPY t FROM STDIN", &[text]).await.unwrap_err();
    assert!(describe(&failed).starts_with("22021: invalid byte sequence"), "{}", describe(&failed));
    let bytes = good.as_bytes();
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &[&bytes[..bytes.len() - 1]]).await.unwrap(), 10_000);
}

#[tokio::test]
async fn a_client_that_gives_up_has_copied_nothing() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint)").await;
    {
        let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
        let mut sink = pin!(sink);
        sink.send(Bytes::from_static(b"1\n2\n")).await.unwrap();
        // Dropping it sends CopyFail.
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["0"]);
    // One that is gone in the middle.
    let other = gateway.connect().await;
    let sink = other.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
    let mut sink = Box::pin(sink);
    sink.send(Bytes::from_static(b"3\n4\n")).await.unwrap();
    std::mem::forget(sink);
    drop(other);
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &[b"5\n"]).await.unwrap(), 1);
    assert_eq!(rows(&client, "SELECT id FROM t").await, ["5"]);
}

#[tokio::test]
async fn what_cannot_be_copied_is_refused_by_name() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE t (id bigint, x bigint); CREATE VIEW v AS SELECT id FROM t").await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2").await;
    for (sql, expected) in [
        (
            "COPY t (id, y) FROM STDIN",
            "42P10: column \"y\" is a generated column\nGenerated columns cannot be used in COPY.\nCOPY (SELECT ...) TO writes them.",
        ),
        ("COPY t (nope) TO STDOUT", "42703: column \"nope\" of relation \"t\" does not exist"),
        ("COPY t (id, id) TO STDOUT", "42701: column \"id\" specified more than once"),
        ("COPY nope FROM STDIN", "42P01: relation \"nope\" does not exist"),
        ("COPY v TO STDOUT", "42809: cannot copy from view \"v\"\nTry the COPY (SELECT ...) TO variant."),
        ("COPY v FROM STDIN", "42809: cannot copy to view \"v\""),
        (
            "COPY t TO '/tmp/t'",
            "0A000: COPY to a file of the server is not supported\nUse COPY TO STDOUT; psql's \\copy does that with a file of the client.",
        ),
        (
            "COPY t FROM PROGRAM 'id'",
            "0A000: COPY from a program is not supported\nUse COPY FROM STDIN; psql's \\copy does that with a file of the client.",
        ),
        ("COPY t TO STDOUT (FORMAT parquet)", "22023: COPY format \"parquet\" not recognized"),
        ("COPY t TO STDOUT (QUOTE '''')", "22023: COPY QUOTE requires CSV mode"),
        ("COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE (id))", "22023: COPY FORCE_QUOTE cannot be used with COPY FROM"),
        ("COPY t TO STDOUT (FORMAT binary, HEADER)", "42601: cannot specify HEADER in BINARY mode"),
        ("COPY t TO STDOUT (DELIMITER 'ab')", "42601"),
        ("COPY t FROM STDIN (ENCODING 'latin1')", "0A000: encoding \"latin1\" is not supported\nCOPY data is UTF-8."),
    ] {
        let refused = error(&client, sql).await;
        assert!(refused == expected || (expected.len() == 5 && refused.starts_with(expected)), "{sql}: {refused}");
    }
    // Computed columns are left out, and come from a refresh.
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &[b"1\t10\n2\t20\n"]).await.unwrap(), 2);
    assert_eq!(copy_out(&client, "COPY t TO STDOUT").await, "1\t10\n2\t20\n");
    run(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert_eq!(copy_out(&client, "COPY (SELECT * FROM t ORDER BY id) TO STDOUT").await, "1\t10\t20\n2\t20\t40\n");
}

#[tokio::test]
async fn z02_copy_takes_the_rights_of_insert_and_select() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE t (id bigint)").await;
    let ann = user(&gateway, &admin, "ann").await;
    run(&admin, "GRANT USAGE ON SCHEMA public TO USER ann").await;
    run(&admin, "GRANT INSERT ON TABLE t TO USER ann").await;
    let refused = error(&ann, "COPY t TO STDOUT").await;
    assert!(refused.starts_with("42501: permission denied for table t"), "{refused}");
    assert_eq!(copy_in(&ann, "COPY t FROM STDIN", &[b"7\n"]).await.unwrap(), 1);
    run(&admin, "REVOKE INSERT ON TABLE t FROM USER ann; GRANT SELECT ON TABLE t TO USER ann").await;
    assert_eq!(copy_out(&ann, "COPY t TO STDOUT").await, "7\n");
    let refused = copy_in(&ann, "COPY t FROM STDIN", &[b"8\n"]).await.unwrap_err();
    assert!(describe(&refused).starts_with("42501: permission denied for table t"), "{}", describe(&refused));
    run(&admin, "BEGIN READ ONLY").await;
    let refused = copy_in(&admin, "COPY t FROM STDIN", &[b"9\n"]).await.unwrap_err();
    assert!(
        describe(&refused).starts_with("25006: cannot execute COPY FROM in a read-only transaction"),
        "{}",
        describe(&refused)
    );
}
