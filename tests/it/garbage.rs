//! Deleting what refreshes have left: real files, real notes (feature `failpoints`).

use std::collections::BTreeSet;
use std::path::PathBuf;

use chrono::{TimeDelta, Utc};
use lancegate_catalog::{Catalog, GatewayId, NewJob};
use lancegate_engine::jobs::garbage::{Collected, collect};
use lancegate_engine::storage::Store;
use tokio_postgres::Client;

use crate::faults::{completed, ensure_right, failing_table, jobs, progress, succeeds};
use crate::harness::{Gateway, until};
use crate::interop::run_python;
use crate::kills::age;
use crate::rows::{rows, run, value};

/// Nothing is published before all is staged.
const LATE: &str = "[column_refresh]\npublish_fragments = 100\nworkers = 1\n";
/// A job that ended today is older than the grace then.
const LATER: TimeDelta = TimeDelta::days(8);

/// A refresh of `y` that has noted three of four parts and published none, and
/// was asked to end or to pause then.
async fn staged(request: &str) -> (Gateway, Client, String) {
    let gateway = failing_table(LATE, "stage.batch=hold@4").await;
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    completed(&client, &job, 3).await;
    gateway.held("stage.batch", 4).await;
    rows(&client, &format!("{request} JOB '{job}'")).await;
    gateway.told_to_stop().await;
    gateway.let_go("stage.batch", 4);
    let ended = format!("SELECT 1 FROM system.public.jobs WHERE job_id = '{job}' AND state IN ('canceled', 'paused')");
    until("the end of the attempt", async || (rows(&client, &ended).await == ["1"]).then_some(())).await;
    (gateway, client, job)
}

/// The data files of a table.
fn files(gateway: &Gateway) -> BTreeSet<PathBuf> {
    let folder = gateway.data().join("t.lance/data");
    std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// The registry and the tables of a gateway that is stopped.
async fn opened(gateway: &Gateway) -> (Catalog, Store) {
    let catalog = Catalog::open_sqlite(&gateway.data().join("_lancegate/metadata.db")).await.unwrap();
    (catalog, Store::new(gateway.data().to_str().unwrap()).unwrap())
}

/// Collects what a stopped gateway has left, as if it were later.
async fn collected(gateway: &Gateway, later: TimeDelta) -> Collected {
    let (catalog, store) = opened(gateway).await;
    let collected = collect(&catalog, &store, Utc::now() + later).await.unwrap();
    catalog.close().await;
    collected
}

const fn parts(parts: u64) -> Collected {
    Collected { parts, orphans: 0 }
}

const NOTHING: Collected = parts(0);

fn python(gateway: &Gateway, statement: &str) {
    let program = format!("import lance, sys\ntable = lance.dataset(sys.argv[1] + '/t.lance')\n{statement}\n");
    run_python(gateway.data(), &program);
}

#[tokio::test]
async fn rc_11_parts_that_may_still_fit_stay_and_are_reused() {
    let (mut gateway, client, _) = staged("CANCEL").await;
    // A row that moves leaves the others where they are.
    run(&client, "UPDATE t SET x = 0 WHERE id = 1; DELETE FROM t WHERE id = 12").await;
    gateway.stop();
    let before = files(&gateway);
    assert_eq!(collected(&gateway, LATER).await, NOTHING);
    assert_eq!(files(&gateway), before);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("39"));
    let computed = progress(&client, &jobs(&client).await[0]).await["rows_computed"].as_i64().unwrap();
    assert_eq!(computed, 11, "three parts were there");
    ensure_right(&client, "y", 1, "reused").await;
}

/// Each way in which parts can fit no more.
#[tokio::test]
async fn rc_11_parts_that_fit_no_more_are_deleted_and_nothing_else() {
    let compact = "table.optimize.compact_files()";
    let define = "metadata = {k.decode(): v.decode() for k, v in table.schema.field('y').metadata.items()}
metadata['computed_column.expression'] = 'x * 7'
table.replace_field_metadata('y', metadata)";
    let rewrite = "import pyarrow as pa
new = pa.table({'id': list(range(1, 41)), 'x': [i * 3 for i in range(1, 41)]})
table.merge_insert('id').when_matched_update_all().execute(new)";
    for (case, sql, program) in [
        ("the fragments are gone", "SELECT 1", compact),
        ("the rows are elsewhere", "SELECT 1", rewrite),
        ("another definition", "SELECT 1", define),
        ("the column is gone", "ALTER TABLE t DROP COLUMN y", ""),
        ("the column is another", "ALTER TABLE t DROP COLUMN y; ALTER TABLE t ADD COLUMN y AS x * 7", ""),
    ] {
        let (mut gateway, client, _) = staged("CANCEL").await;
        run(&client, sql).await;
        python(&gateway, program);
        gateway.stop();
        let before = files(&gateway);
        assert_eq!(collected(&gateway, TimeDelta::zero()).await, NOTHING, "{case}: too young");
        assert_eq!(files(&gateway), before, "{case}");
        assert_eq!(collected(&gateway, LATER).await, parts(3), "{case}");
        let after = files(&gateway);
        assert!(after.is_subset(&before) && before.len() - after.len() == 3, "{case}: {before:?} {after:?}");
        assert_eq!(collected(&gateway, LATER).await, NOTHING, "{case}: it is done");
        // Every version is still there to be read.
        python(
            &gateway,
            "for v in table.versions():\n    lance.dataset(sys.argv[1] + '/t.lance', version=v['version']).to_table()",
        );
        gateway.restart();
        let client = gateway.connect().await;
        assert_eq!(rows(&client, "SELECT count(*), count(DISTINCT id) FROM t").await, ["40|40"], "{case}");
        if !case.contains("gone") || case.contains("fragments") {
            assert_eq!(
                value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(),
                Some("40"),
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn rc_11_notes_of_a_dropped_table_are_forgotten_with_its_files() {
    let (mut gateway, client, _) = staged("CANCEL").await;
    run(&client, "DROP TABLE t").await;
    gateway.stop();
    assert_eq!(files(&gateway), BTreeSet::new());
    assert_eq!(collected(&gateway, LATER).await, parts(3));
    let (catalog, _) = opened(&gateway).await;
    assert!(catalog.unpublished_files().await.unwrap().is_empty());
    catalog.close().await;
}

/// Parts of a job that is parked are its own, whatever they fit.
#[tokio::test]
async fn rc_11_parts_of_an_unfinished_job_stay() {
    let (mut gateway, _client, job) = staged("PAUSE").await;
    python(&gateway, "table.optimize.compact_files()");
    gateway.stop();
    let before = files(&gateway);
    assert_eq!(collected(&gateway, LATER).await, NOTHING);
    assert_eq!(files(&gateway), before);
    gateway.restart();
    let client = gateway.connect().await;
    rows(&client, &format!("RESUME JOB '{job}'")).await;
    succeeds(&client, &job, "resumed").await;
    ensure_right(&client, "y", 1, "resumed").await;
}

/// What any version names stays, even if the registry has it for garbage: here a
/// published file that another job's note names, and that newer versions do not.
#[tokio::test]
async fn rc_11_a_file_that_a_version_names_is_never_deleted() {
    let mut gateway = failing_table(LATE, "").await;
    let client = gateway.connect().await;
    rows(&client, "REFRESH COLUMN y ON t WAIT").await;
    let first = jobs(&client).await[0].parse().unwrap();
    run(&client, "UPDATE t SET x = x + 1; DELETE FROM t WHERE id > 5").await;
    rows(&client, "REFRESH COLUMN y ON t WAIT").await;
    gateway.stop();
    let (catalog, store) = opened(&gateway).await;
    let published = catalog.receipts(first).await.unwrap();
    let job = catalog.job(first).await.unwrap().unwrap();
    let mut again = NewJob::new(job.kind, &job.database, &job.table_name, "lancegate");
    (again.table_id, again.spec, again.exclusive_key) = (job.table_id, job.spec, job.exclusive_key);
    let again = catalog.submit(again, Utc::now()).await.unwrap().id;
    let other = GatewayId::new(Utc::now());
    let claimed = catalog.claim(again, &other, std::time::Duration::from_secs(60), Utc::now());
    let epoch = claimed.await.unwrap().epoch;
    let notes = published.iter().map(|part| (part.key.replace("published/", ""), part.value.clone())).collect();
    catalog.note_parts(again, epoch, notes).await.unwrap();
    catalog.canceled(again, epoch, None, Utc::now()).await.unwrap();
    let before = files(&gateway);
    assert_eq!(catalog.unpublished_files().await.unwrap().len(), published.len());
    assert_eq!(collect(&catalog, &store, Utc::now() + LATER).await.unwrap(), NOTHING);
    assert_eq!(files(&gateway), before);
    let known = catalog.receipts(again).await.unwrap();
    assert!(known.iter().all(|part| part.key.starts_with("published/")), "the registry knows better now: {known:?}");
    catalog.close().await;
}

/// A sweep while a refresh holds a file that is complete, looks a week old, and
/// is not noted yet: it stays. So does an old file of another program. What a
/// killed refresh of another table has left goes in the same sweep.
#[tokio::test]
async fn rc_11_a_sweep_leaves_the_files_of_a_running_refresh_alone() {
    let config = "[column_refresh]\npublish_fragments = 1\nworkers = 1\n[jobs]\nsweep_interval = \"1s\"\n";
    let gateway = failing_table(config, "note.before=hold@3").await;
    let client = gateway.connect().await;
    // By name, `u` is looked through after `t`.
    run(&client, "CREATE TABLE u (id bigint, x bigint); INSERT INTO u SELECT i, i FROM generate_series(1, 9) AS s(i)")
        .await;
    run(&client, "ALTER TABLE u ADD COLUMN y AS x * 2 + 1").await;
    let folder = |table: &str| gateway.data().join(format!("{table}.lance/data"));
    let plain = std::fs::read_dir(folder("u")).unwrap().next().unwrap().unwrap().path();
    rows(&client, "REFRESH COLUMN y ON u WAIT").await;
    let computed =
        std::fs::read_dir(folder("u")).unwrap().map(|entry| entry.unwrap().path()).find(|path| *path != plain);
    // Visits of the place: one for `u`, one for the first part of `t`.
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    gateway.held("note.before", 3).await;
    let own = files(&gateway);
    own.iter().for_each(|path| age(path));
    let left_by_another = folder("t").join("left-by-a-killed-refresh.lance");
    std::fs::copy(computed.as_ref().unwrap(), &left_by_another).unwrap();
    let foreign = folder("u").join("of-another-program.lance");
    std::fs::copy(&plain, &foreign).unwrap();
    let half = folder("u").join(".tmpAbCdEf");
    std::fs::write(&half, "half").unwrap();
    let young = folder("u").join("young.lance");
    std::fs::copy(computed.as_ref().unwrap(), &young).unwrap();
    [&left_by_another, &foreign, &half].into_iter().for_each(|path| age(path));
    // The second of these goes in a sweep that has begun after the first went, and
    // has passed `t` since all files there were old.
    for name in ["first.lance", "second.lance"] {
        let orphan = folder("u").join(name);
        std::fs::copy(computed.as_ref().unwrap(), &orphan).unwrap();
        age(&orphan);
        until("a sweep", async || (!orphan.exists()).then_some(())).await;
    }
    assert!(!half.exists(), "what is half written goes, too");
    assert!(foreign.exists() && young.exists() && left_by_another.exists());
    assert!(own.is_subset(&files(&gateway)), "{own:?} {:?}", files(&gateway));
    gateway.let_go("note.before", 3);
    succeeds(&client, &job, "after the sweep").await;
    ensure_right(&client, "y", 1, "after the sweep").await;
    until("the next sweep", async || (!left_by_another.exists()).then_some(())).await;
    assert!(own.is_subset(&files(&gateway)), "all of them are named by versions now");
    assert_eq!(rows(&client, "SELECT count(y) FROM u").await, ["9"]);
}
