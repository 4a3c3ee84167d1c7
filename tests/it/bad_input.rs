//! Mistakes and damage: each is a clear error with its code, and nothing is lost.

use std::fs;

use crate::harness::Gateway;

/// The code and the message of a statement that fails.
async fn failure(client: &tokio_postgres::Client, sql: &str) -> (String, String) {
    match client.simple_query(sql).await {
        Ok(_) => panic!("no error: {sql}"),
        Err(error) => {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
            (error.code().code().to_owned(), error.message().to_owned())
        }
    }
}

#[tokio::test]
async fn mistakes_are_named_with_their_code() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    client.batch_execute("CREATE TABLE docs (id bigint, body text)").await.unwrap();
    client.batch_execute("ALTER TABLE docs ADD COLUMN n AS length(body)").await.unwrap();
    let cases = [
        ("SELECT * FROM nope", "42P01", "relation \"nope\" does not exist"),
        ("SELECT nope FROM docs", "42703", "column \"nope\" does not exist"),
        ("SELECT nope(id) FROM docs", "42883", "function nope"),
        ("SELEC 1", "42601", "syntax error at or near \"SELEC\""),
        ("REFRESH COLUMN nope ON docs", "42703", "column \"nope\" of relation \"docs\" does not exist"),
        ("REFRESH COLUMN n ON nope", "42P01", "relation \"nope\" does not exist"),
        ("REFRESH COLUMN body ON docs", "42809", "column \"body\" of table \"docs\" is not a computed column"),
        ("REFRESH COLUMN n ON docs WITH (speed = 11)", "42601", "unrecognized option \"speed\""),
        ("REFRESH COLUMN n ON docs WITH (num_workers = 0)", "22023", "num_workers"),
        ("REFRESH COLUMN n ON docs WHERE nope = 1", "42703", "nope"),
        ("REFRESH COLUMN n ON docs WHERE random() < 0.5", "42P17", "not immutable"),
        (
            "DESCRIBE JOB 'job_01ARZ3NDEKTSV4RRFFQ69G5FAV'",
            "42704",
            "job \"job_01ARZ3NDEKTSV4RRFFQ69G5FAV\" does not exist",
        ),
        ("CANCEL JOB 'no job at all'", "42704", "job \"no job at all\" does not exist"),
        ("ALTER TABLE docs ADD COLUMN bad AS random()", "42P17", "not immutable"),
        ("ALTER TABLE docs ADD COLUMN bad AS nope + 1", "42703", "nope"),
        ("ALTER TABLE docs ADD COLUMN n AS id + 1", "42701", "column \"n\" of relation \"docs\" already exists"),
        ("ALTER TABLE docs DROP COLUMN body", "2BP01", "body"),
        ("INSERT INTO docs (id, n) VALUES (1, 2)", "428C9", "cannot insert a non-DEFAULT value into column \"n\""),
        ("UPDATE docs SET n = 2", "428C9", "column \"n\" can only be updated to DEFAULT"),
        ("CREATE TABLE docs (id bigint)", "42P07", "relation \"docs\" already exists"),
        ("SELECT 1 / 0", "22012", "division by zero"),
    ];
    for (sql, code, message) in cases {
        let (got_code, got_message) = failure(&client, sql).await;
        assert_eq!(got_code, code, "{sql}: {got_message}");
        assert!(got_message.contains(message), "{sql}: {got_message}");
    }
    // The session is as good as before.
    let row = client.query_one("SELECT count(*) FROM docs", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

#[tokio::test]
async fn a_truncated_data_file_is_reported_and_other_tables_go_on() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    client.batch_execute("CREATE TABLE good AS SELECT 1 AS id").await.unwrap();
    client.batch_execute("CREATE TABLE bad AS SELECT i AS id FROM generate_series(1, 10000) AS s(i)").await.unwrap();
    let data = gateway.data().join("bad.lance").join("data");
    for file in fs::read_dir(data).unwrap() {
        let file = fs::File::options().write(true).open(file.unwrap().path()).unwrap();
        let size = file.metadata().unwrap().len();
        file.set_len(size / 2).unwrap();
    }
    let (code, message) = failure(&client, "SELECT sum(id) FROM bad").await;
    assert_eq!(code, "XX001", "{message}");
    client.batch_execute("ALTER TABLE bad ADD COLUMN y AS id * 2").await.unwrap();
    let (code, message) = failure(&client, "REFRESH COLUMN y ON bad WAIT").await;
    assert_eq!(code, "XX001", "{message}");
    let row = client.query_one("SELECT count(*) FROM good", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

/// Manifests and data files as a failing disk leaves them. Each table is damaged while no gateway runs.
#[tokio::test]
async fn s07_damaged_manifests_and_missing_files_are_named_and_other_tables_go_on() {
    type Damage = fn(Vec<u8>) -> Vec<u8>;
    let manifests: [(&str, Damage); 5] = [
        ("half", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("short", |bytes| bytes[..20].to_vec()),
        ("empty", |_| Vec::new()),
        ("zeros", |bytes| vec![0; bytes.len()]),
        ("flipped", |mut bytes| {
            let third = bytes.len() / 3;
            bytes[10..third].iter_mut().for_each(|byte| *byte ^= 0xff);
            bytes
        }),
    ];
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    let names = manifests.iter().map(|(name, _)| *name).chain(["files", "hint", "good"]);
    for name in names {
        let made = format!("CREATE TABLE {name} AS SELECT 1 AS id; INSERT INTO {name} VALUES (2)");
        client.batch_execute(&made).await.unwrap();
    }
    assert!(gateway.stop().success());
    let folder = |name: &str, part: &str| gateway.data().join(format!("{name}.lance")).join(part);
    for (name, damage) in manifests {
        for manifest in fs::read_dir(folder(name, "_versions")).unwrap().map(|entry| entry.unwrap().path()) {
            if manifest.extension().is_some_and(|extension| extension == "manifest") {
                fs::write(&manifest, damage(fs::read(&manifest).unwrap())).unwrap();
            }
        }
    }
    for file in fs::read_dir(folder("files", "data")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    fs::write(folder("hint", "_versions").join("latest_version_hint.json"), "{garbage").unwrap();
    gateway.restart();
    let client = gateway.connect().await;
    for (name, _) in manifests {
        for sql in [format!("SELECT sum(id) FROM {name}"), format!("INSERT INTO {name} VALUES (3)")] {
            let (code, message) = failure(&client, &sql).await;
            assert!(["XX001", "58030"].contains(&code.as_str()), "{sql}: {code} {message}");
            assert!(message.contains(&format!("could not open table \"{name}\"")), "{sql}: {message}");
        }
    }
    let (code, message) = failure(&client, "SELECT sum(id) FROM files").await;
    assert_eq!(code, "XX001", "{message}");
    assert!(message.contains("of table folder \"files.lance\" is missing"), "{message}");
    assert!(!message.contains(gateway.data().to_str().unwrap()), "{message}");
    for name in ["hint", "good"] {
        let row = client.query_one(&format!("SELECT count(*) FROM {name}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 2, "{name}");
    }
    let listed = "SELECT count(*) FROM pg_class WHERE relname IN ('half', 'zeros', 'good')";
    assert_eq!(client.query_one(listed, &[]).await.unwrap().get::<_, i64>(0), 3);
    client
        .batch_execute("DROP TABLE half, short, empty, zeros, flipped, files; INSERT INTO good VALUES (3)")
        .await
        .unwrap();
    assert_eq!(gateway.table_folders(), ["good.lance", "hint.lance"]);
}

/// A data folder on a file system of its own that a test can fill.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mut mount = std::process::Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status().unwrap();
        assert!(status.success(), "mounting a small file system needs root");
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_fails_the_job_by_name_and_loses_nothing() {
    let disk = SmallDisk::mount(48 << 20);
    let gateway = Gateway::start_in(disk.0.path());
    let client = gateway.connect().await;
    client.batch_execute("CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 400000) AS s(i)").await.unwrap();
    client.batch_execute("ALTER TABLE t ADD COLUMN y AS md5(cast(id AS text))").await.unwrap();
    let filler = disk.0.path().join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    let full = std::io::copy(&mut std::io::repeat(1), &mut file);
    assert!(full.is_err(), "the disk is full now");
    // Leave room for the registry's notes, not for the column.
    file.set_len(file.metadata().unwrap().len() - (1 << 20)).unwrap();
    let (code, message) = failure(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert_eq!(code, "53100", "{message}");
    // An open file keeps its space.
    drop(file);
    fs::remove_file(filler).unwrap();
    let row = client.query_one("SELECT count(*), sum(id), count(y) FROM t", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(2)), (400_000, 0));
    let done = client.query_one("REFRESH COLUMN y ON t WAIT", &[]).await.unwrap();
    assert_eq!(done.get::<_, Option<i64>>("rows_assigned"), Some(400_000));
}
