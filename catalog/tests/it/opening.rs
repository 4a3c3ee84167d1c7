//! Opening, closing, and files that must be refused.

use std::fs;
use std::path::Path;

use lancegate_catalog::{Catalog, CatalogError, JobFilter, JobState};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, SqliteConnection};
use tempfile::TempDir;

use crate::support::{Store, at, database, refresh, table};

async fn refusal(path: &Path) -> CatalogError {
    let error = Catalog::open_sqlite(path).await.unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error} must name the file");
    error
}

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).create_if_missing(true).connect().await.unwrap()
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let mut store = Store::new().await;
    let job = store.catalog.submit(refresh("docs"), at(0)).await.unwrap();
    store.catalog.create_database(database("db")).await.unwrap();
    store.catalog.create_table(table("docs")).await.unwrap();
    let secret = store.catalog.get_or_create_secret("scram").await.unwrap();

    store.reopen().await;

    assert_eq!(store.catalog.job(job.id).await.unwrap(), Some(job));
    assert_eq!(store.catalog.databases().await.unwrap(), [database("db")]);
    assert_eq!(store.catalog.tables("db", None).await.unwrap().len(), 1);
    assert_eq!(store.catalog.get_or_create_secret("scram").await.unwrap(), secret);
    assert_ne!(store.catalog.get_or_create_secret("other").await.unwrap(), secret);
}

#[tokio::test]
async fn a_second_opener_is_refused_until_the_first_has_closed() {
    let store = Store::new().await;
    assert!(matches!(refusal(&store.path()).await, CatalogError::InUse { .. }));

    let link = store.folder.path().join("other-name.db");
    std::os::unix::fs::symlink(store.path(), &link).unwrap();
    let error = Catalog::open_sqlite(&link).await.unwrap_err();
    assert!(matches!(error, CatalogError::InUse { .. }), "{error}");

    store.catalog.close().await;
    let second = Catalog::open_sqlite(&store.path()).await.unwrap();
    let error = store.catalog.submit(refresh("docs"), at(0)).await.unwrap_err();
    assert!(matches!(error, CatalogError::Closed), "{error}");
    second.submit(refresh("docs"), at(0)).await.unwrap();
}

#[tokio::test]
async fn closing_waits_for_changes_that_have_begun() {
    let mut store = Store::new().await;
    let catalog = store.catalog.clone();
    let submit = tokio::spawn(async move { catalog.submit(refresh("docs"), at(0)).await });
    // The task runs up to its first wait: the change has been sent.
    tokio::task::yield_now().await;
    store.reopen().await;
    let job = submit.await.unwrap().unwrap();
    assert_eq!(store.state(&job).await, JobState::Queued);
}

#[tokio::test]
async fn a_change_whose_caller_is_gone_is_whole_or_absent() {
    let mut store = Store::new().await;
    for round in 0..50 {
        let mut submit = Box::pin(store.catalog.submit(refresh("docs"), at(round)));
        // Polled a few times, then dropped in the middle.
        for _ in 0..round % 5 {
            let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(submit.as_mut().poll(cx)));
            assert!(poll.await.is_pending());
            tokio::task::yield_now().await;
        }
    }
    store.reopen().await;
    let jobs = store.catalog.jobs(JobFilter::default()).await.unwrap();
    assert!(!jobs.is_empty());
    for job in jobs {
        assert_eq!(job.status.state, JobState::Queued);
        assert_eq!(store.history(&job).await, ["created: created", "queued: queued"]);
    }
}

#[tokio::test]
async fn a_transaction_cut_off_by_a_crash_is_undone() {
    let store = Store::new().await;
    let job = store.catalog.submit(refresh("docs"), at(0)).await.unwrap();
    store.catalog.close().await;
    // What a killed process leaves: the files as they are in the middle.
    let crashed = store.folder.path().join("crashed");
    fs::create_dir(&crashed).unwrap();
    let mut connection = raw(&store.path()).await;
    connection.execute("PRAGMA wal_autocheckpoint = 0").await.unwrap();
    connection.execute("UPDATE jobs SET phase = 'committed'").await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();
    connection.execute("PRAGMA cache_size = 1").await.unwrap();
    connection.execute("UPDATE jobs SET state = 'succeeded'").await.unwrap();
    connection.execute("CREATE TABLE filler AS SELECT zeroblob(1000000) AS bytes").await.unwrap();
    for suffix in ["", "-wal"] {
        let file = format!("catalog.db{suffix}");
        fs::copy(store.folder.path().join(&file), crashed.join(&file)).unwrap();
    }
    connection.close().await.unwrap();

    let catalog = Catalog::open_sqlite(&crashed.join("catalog.db")).await.unwrap();
    let found = catalog.job(job.id).await.unwrap().unwrap();
    assert_eq!((found.status.state, found.phase.as_str()), (JobState::Queued, "committed"));
}

#[tokio::test]
async fn a_log_torn_at_any_byte_keeps_what_was_before() {
    let store = Store::new().await;
    let first = store.catalog.submit(refresh("first"), at(0)).await.unwrap();
    store.catalog.close().await;
    let mut connection = raw(&store.path()).await;
    connection.execute("PRAGMA wal_autocheckpoint = 0").await.unwrap();
    connection.execute("UPDATE jobs SET phase = 'second'").await.unwrap();
    let database = fs::read(store.path()).unwrap();
    let log = fs::read(store.folder.path().join("catalog.db-wal")).unwrap();
    connection.close().await.unwrap();
    assert!(log.len() > 4_096);

    for length in [0, 1, 31, 32, 33, 100, 4_000, log.len() / 2, log.len() - 1, log.len()] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("catalog.db");
        fs::write(&path, &database).unwrap();
        fs::write(folder.path().join("catalog.db-wal"), &log[..length]).unwrap();
        let catalog = Catalog::open_sqlite(&path).await.unwrap();
        let phase = catalog.job(first.id).await.unwrap().unwrap().phase;
        let expected = if length == log.len() { "second" } else { "queued" };
        assert_eq!(phase, expected, "log of {length} bytes");
        catalog.close().await;
    }
}

#[tokio::test]
async fn a_newer_schema_is_read_and_not_written() {
    let mut store = Store::new().await;
    let job = store.catalog.submit(refresh("docs"), at(0)).await.unwrap();
    store.catalog.close().await;
    let mut connection = raw(&store.path()).await;
    connection.execute("INSERT INTO lancegate_schema (version) VALUES (99)").await.unwrap();
    connection.execute("ALTER TABLE jobs ADD COLUMN mood TEXT").await.unwrap();
    connection.execute("UPDATE jobs SET state = 'hibernating'").await.unwrap();
    connection.close().await.unwrap();

    store.reopen().await;
    assert_eq!(store.state(&job).await, JobState::Other("hibernating".to_owned()));
    let error = store.catalog.submit(refresh("docs"), at(0)).await.unwrap_err();
    assert!(matches!(error, CatalogError::NewerSchema { found: 99, .. }), "{error}");
}

/// Migrations of two branches of the software meet in one file in either order.
#[tokio::test]
async fn a_file_gets_the_migration_that_it_lacks_whatever_newer_ones_it_has() {
    let mut store = Store::new().await;
    store.catalog.close().await;
    let mut connection = raw(&store.path()).await;
    connection.execute("DROP INDEX job_receipts_staged").await.unwrap();
    connection.execute("DROP INDEX job_receipts_garbage").await.unwrap();
    connection.execute("DELETE FROM lancegate_schema WHERE version = 2").await.unwrap();
    connection.close().await.unwrap();

    store.reopen().await;
    store.catalog.submit(refresh("docs"), at(0)).await.unwrap();
    store.catalog.close().await;
    let mut connection = raw(&store.path()).await;
    let versions: Vec<i64> = sqlx::query_scalar("SELECT version FROM lancegate_schema ORDER BY version")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert!(versions.contains(&2) && versions.len() > 2, "{versions:?}");
    let indexes: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name LIKE 'job_receipts_%age%'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(indexes, 2);
}

#[tokio::test]
async fn files_that_are_not_ours_are_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("catalog.db");

    let garbage = b"id,name\n1,this is a table of something else entirely\n".repeat(100);
    fs::write(&path, &garbage).unwrap();
    assert!(matches!(refusal(&path).await, CatalogError::NotACatalog { .. }));
    assert_eq!(fs::read(&path).unwrap(), garbage);

    fs::remove_file(&path).unwrap();
    let mut foreign = raw(&path).await;
    foreign.execute("CREATE TABLE jobs (id INTEGER)").await.unwrap();
    foreign.close().await.unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(refusal(&path).await, CatalogError::NotACatalog { .. }));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn damaged_files_are_refused() {
    let store = Store::new().await;
    for number in 0..50 {
        store.catalog.submit(refresh("docs"), at(number)).await.unwrap();
    }
    store.catalog.close().await;
    let whole = fs::read(store.path()).unwrap();

    let mut zeroed = whole.clone();
    zeroed[8_192..].fill(0);
    let cases = [
        ("cut within the header", whole[..60].to_vec()),
        ("cut within the pages", whole[..whole.len() / 2].to_vec()),
        ("overwritten", zeroed),
    ];
    for (case, bytes) in cases {
        fs::write(store.path(), bytes).unwrap();
        let error = refusal(&store.path()).await;
        assert!(matches!(error, CatalogError::Corrupt { .. }), "{case}: {error}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    // Not even the superuser creates files in these.
    for path in ["/proc/self/catalog.db", "/no/such/folder/catalog.db"] {
        let error = Catalog::open_sqlite(Path::new(path)).await.unwrap_err();
        assert!(matches!(&error, CatalogError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains(path), "{error}");
    }
    let folder = TempDir::new().unwrap();
    assert!(matches!(refusal(folder.path()).await, CatalogError::Io { .. }));
}

#[tokio::test]
async fn j20_a_file_that_is_deleted_or_replaced_while_it_is_open_takes_no_more_jobs() {
    for replace in [false, true] {
        let store = Store::new().await;
        let before = store.catalog.submit(refresh("docs"), at(0)).await.unwrap();
        let copy = store.folder.path().join("copy.db");
        fs::copy(store.path(), &copy).unwrap();
        fs::remove_file(store.path()).unwrap();
        if replace {
            fs::rename(&copy, store.path()).unwrap();
        }
        let refused = store.catalog.submit(refresh("docs"), at(1)).await.unwrap_err();
        assert!(matches!(&refused, CatalogError::Gone { path } if *path == store.path()), "{refused}");
        let claim = store.catalog.claim(before.id, &crate::support::gateway(), crate::support::LEASE, at(1)).await;
        assert!(matches!(claim, Err(CatalogError::Gone { .. })), "nor does anything else change");
    }
}

#[tokio::test]
async fn j20_a_file_that_cannot_be_written_is_refused_by_its_name() {
    let store = Store::new().await;
    store.catalog.close().await;
    // A folder in its place cannot be written by anybody, the superuser included.
    fs::remove_file(store.path()).unwrap();
    fs::create_dir(store.path()).unwrap();
    assert!(matches!(refusal(&store.path()).await, CatalogError::Io { .. }));
}
