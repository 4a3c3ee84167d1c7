//! Real processes that end without warning at one named step of a refresh, and
//! what the next start must make of it (feature `failpoints`).

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{Int64Array, RecordBatch, RecordBatchIterator};
use arrow::datatypes::{DataType, Field, Schema};
use lance::Dataset;
use lance::dataset::WriteParams;
use lancegate_catalog::Catalog;
use lancegate_engine::failpoint::PLACES;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::Client;

use crate::faults::{
    CONFIG, FRAGMENTS, ROWS, ensure_right, failing_table, jobs, progress, publications, succeeds, value_commits,
};
use crate::harness::{Gateway, until};
use crate::rows::{rows, run, value};

/// No part is published before all are staged, so that notes come first.
const LATE: &str = "[column_refresh]\npublish_fragments = 100\nworkers = 1\n[jobs]\nlease = \"2s\"\n";

/// Ends a gateway at a place while it refreshes `y`; returns the job and the gateway
/// that runs after it.
async fn killed_at(config: &str, failpoints: &str) -> (Gateway, Client, String) {
    let mut gateway = failing_table(config, failpoints).await;
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    gateway.wait_for_end();
    gateway.restart();
    let client = gateway.connect().await;
    (gateway, client, job)
}

/// What every case ends with: the job has succeeded, the values are those of the
/// expression, no row is there twice, each fragment was published once, and
/// nothing is left to do.
async fn ensure_done(gateway: &Gateway, client: &Client, job: &str, case: &str) {
    succeeds(client, job, case).await;
    ensure_right(client, "y", 1, case).await;
    let counted = rows(client, "SELECT count(*), count(DISTINCT id), count(y) FROM t").await;
    assert_eq!(counted, [format!("{ROWS}|{ROWS}|{ROWS}")], "{case}");
    let published = publications(gateway).await;
    assert_eq!(published.len() as i64, FRAGMENTS, "{case}");
    assert!(published.values().all(|times| *times == 1), "{case}: {published:?}");
    assert_eq!(value(client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("0"), "{case}");
}

/// The names of the files in the data folder.
fn data_files(gateway: &Gateway) -> HashSet<String> {
    let names = std::fs::read_dir(gateway.data().join("t.lance/data")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The names of the files that any version of the table names.
async fn named_files(gateway: &Gateway) -> HashSet<String> {
    let newest = Dataset::open(gateway.data().join("t.lance").to_str().unwrap()).await.unwrap();
    let mut named = HashSet::new();
    for version in newest.versions().await.unwrap() {
        let at = newest.checkout_version(version.version).await.unwrap();
        named.extend(at.iter_fragments().flat_map(|fragment| fragment.files.iter().map(|file| file.path.clone())));
    }
    named
}

/// Makes a file look as if nobody had written to it for eight days.
pub(crate) fn age(path: &Path) {
    let then = SystemTime::now() - Duration::from_secs(8 * 24 * 60 * 60);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

/// Ages what nothing names, starts the gateway again and waits until exactly that is gone.
async fn ensure_orphans_are_collected(gateway: &mut Gateway, orphans: &[PathBuf], case: &str) {
    let others: HashSet<String> = data_files(gateway);
    gateway.restart();
    let client = gateway.connect().await;
    rows(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert_eq!(data_files(gateway), others, "{case}: what is young stays");
    orphans.iter().for_each(|orphan| age(orphan));
    gateway.restart();
    until("no orphan", async || orphans.iter().all(|orphan| !orphan.exists()).then_some(())).await;
    let gone = orphans.iter().map(|orphan| orphan.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(&others - &data_files(gateway), gone, "{case}: and nothing else is gone");
    let client = gateway.connect().await;
    ensure_right(&client, "y", 1, case).await;
}

/// Before the job is on disk there is none; after it, there is one that runs.
#[tokio::test]
async fn j01_a_job_that_was_not_acknowledged_is_not_there_or_runs() {
    for (place, made) in [("submit.before", 0), ("submit.after", 1), ("submit.acknowledge", 1)] {
        let mut gateway = failing_table(CONFIG, &format!("{place}=exit")).await;
        let client = gateway.connect().await;
        let answered = client.simple_query("REFRESH COLUMN y ON t NOWAIT").await;
        assert!(answered.is_err(), "{place}: nothing was acknowledged");
        gateway.wait_for_end();
        gateway.restart();
        let client = gateway.connect().await;
        let found = jobs(&client).await;
        assert_eq!(found.len(), made, "{place}");
        for job in found {
            ensure_done(&gateway, &client, &job, place).await;
        }
    }
}

#[tokio::test]
async fn j02_a_job_that_was_acknowledged_and_not_claimed_runs_after_the_restart() {
    let mut gateway = failing_table(CONFIG, "claim.before=hold@*").await;
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    assert_eq!(value(&client, "SHOW JOBS", "state").await.as_deref(), Some("queued"));
    gateway.restart();
    let client = gateway.connect().await;
    ensure_done(&gateway, &client, &job, "J02").await;
    let attempts =
        format!("SELECT count(*) FROM system.public.job_events WHERE job_id = '{job}' AND message = 'claim'");
    assert_eq!(rows(&client, &attempts).await, ["1"]);
}

/// In each 64 KiB of the part, which are 8,192 values, and after the last: what
/// is half written is no table's, the split is computed again, and the half goes.
#[tokio::test]
async fn j03_a_file_that_was_half_written_is_removed_and_its_split_computed_again() {
    for batch in [1, 3, 5] {
        let case = format!("batch {batch} of 5");
        let mut gateway = Gateway::start_failing(CONFIG, &format!("stage.batch=exit@{batch}"));
        let client = gateway.connect().await;
        run(&client, "CREATE TABLE t (id bigint, x bigint)").await;
        run(&client, "INSERT INTO t SELECT i, i * 3 FROM generate_series(1, 40000) AS s(i)").await;
        run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
        let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
        gateway.wait_for_end();
        let half: Vec<PathBuf> = data_files(&gateway)
            .difference(&named_files(&gateway).await)
            .map(|name| gateway.data().join("t.lance/data").join(name))
            .collect();
        assert!(
            half.len() <= 1 && half.iter().all(|path| !path.to_str().unwrap().ends_with(".lance")),
            "{case}: {half:?}"
        );
        gateway.restart();
        let client = gateway.connect().await;
        succeeds(&client, &job, &case).await;
        ensure_right(&client, "y", 1, &case).await;
        assert_eq!(progress(&client, &job).await["rows_computed"], 40_000, "{case}");
        assert_eq!(rows(&client, "SELECT count(*), count(DISTINCT id) FROM t").await, ["40000|40000"], "{case}");
        if batch == 3 {
            assert_eq!(half.len(), 1, "a file was begun");
            ensure_orphans_are_collected(&mut gateway, &half, &case).await;
        }
    }
}

#[tokio::test]
async fn j04_a_complete_file_without_a_note_is_collected_and_its_split_computed_again() {
    let (mut gateway, client, job) = killed_at(CONFIG, "note.before=exit@2").await;
    ensure_done(&gateway, &client, &job, "J04").await;
    assert_eq!(progress(&client, &job).await["rows_computed"], ROWS * 3 / 4, "one part had been published");
    let named = named_files(&gateway).await;
    let orphans: Vec<PathBuf> =
        data_files(&gateway).difference(&named).map(|name| gateway.data().join("t.lance/data").join(name)).collect();
    assert_eq!(orphans.len(), 1, "{orphans:?}");
    ensure_orphans_are_collected(&mut gateway, &orphans, "J04").await;
}

/// The part is published as it is: the expression is not evaluated again for it.
#[tokio::test]
async fn j05_a_noted_part_is_published_and_not_computed_again() {
    // The first note is made while the second fragment is in work.
    let mut gateway = failing_table(LATE, "stage.batch=hold@2;note.after=exit").await;
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    gateway.wait_for_end();
    let before = data_files(&gateway);
    gateway.restart();
    let client = gateway.connect().await;
    succeeds(&client, &job, "J05").await;
    let shown = progress(&client, &job).await;
    assert_eq!((&shown["rows_computed"], &shown["rows_published"]), (&30.into(), &40.into()), "{shown}");
    let named = named_files(&gateway).await;
    let parts = before.iter().filter(|name| name.ends_with(".lance")).filter(|name| !named.contains(*name));
    assert_eq!(parts.count(), 0, "the file that was there is the one that is shown");
    ensure_done(&gateway, &client, &job, "J05").await;
}

#[tokio::test]
async fn j06_a_kill_right_before_the_commit_leaves_one_commit_per_part() {
    for visit in [1, 3] {
        let case = format!("commit {visit}");
        let (gateway, client, job) = killed_at(CONFIG, &format!("publish.before=exit@{visit}")).await;
        ensure_done(&gateway, &client, &job, &case).await;
        let commits = value_commits(&gateway, "t.lance").await;
        assert_eq!(commits.len() as i64, FRAGMENTS, "{case}: {commits:?}");
    }
}

/// The registry does not know that the commit was made; the table does.
#[tokio::test]
async fn j07_a_kill_right_after_the_commit_rebuilds_the_receipt_from_the_version() {
    for place in ["publish.committed", "publish.after"] {
        let (mut gateway, client, job) = killed_at(CONFIG, &format!("{place}=exit@2")).await;
        ensure_done(&gateway, &client, &job, place).await;
        let commits = value_commits(&gateway, "t.lance").await;
        assert_eq!(commits.len() as i64, FRAGMENTS, "{place}: {commits:?}");
        let shown = progress(&client, &job).await;
        let result = (&shown["rows_computed"], &shown["rows_published"]);
        assert_eq!(result, (&(ROWS / 2).into(), &ROWS.into()), "{place}: two parts were there");
        gateway.stop();
        let catalog = Catalog::open_sqlite(&gateway.data().join("_lancegate/metadata.db")).await.unwrap();
        let receipts = catalog.receipts(job.parse().unwrap()).await.unwrap();
        let published = receipts.iter().filter(|receipt| receipt.key.starts_with("published/")).count();
        assert_eq!((published as i64, receipts.len() as i64), (FRAGMENTS, FRAGMENTS), "{place}");
        catalog.close().await;
    }
}

/// Values without a record: the attempt that goes on writes it, so nothing is
/// computed again; where it is lost for good, all is, and with the same values.
#[tokio::test]
async fn j08_a_kill_between_values_and_record_makes_no_row_wrongly_current() {
    for place in ["record.before", "record.written", "record.committed", "record.after"] {
        let mut gateway = failing_table(CONFIG, &format!("{place}=exit")).await;
        let client = gateway.connect().await;
        let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
        gateway.wait_for_end();
        gateway.restart();
        let client = gateway.connect().await;
        run(&client, "UPDATE t SET x = x + 1000 WHERE id = 7").await;
        succeeds(&client, &job, place).await;
        let again = value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.unwrap();
        assert_eq!(again, "1", "{place}: the row that was changed since");
        ensure_right(&client, "y", 1, place).await;
    }
    let mut gateway = failing_table(CONFIG, "record.before=error@*").await;
    let client = gateway.connect().await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
    let values = rows(&client, "SELECT id, y FROM t ORDER BY id").await;
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
    assert_eq!(rows(&client, "SELECT id, y FROM t ORDER BY id").await, values);
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("0"));
}

/// Kills of J09 where nobody says how many.
const KILLS: usize = 25;
const MANY_FRAGMENTS: usize = 200;
const ROWS_PER_FRAGMENT: usize = 20;

/// A table of many fragments, written as another program would.
async fn many_fragments(data: &Path) {
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("x", DataType::Int64, true)]);
    let ids = Int64Array::from_iter_values(0..(MANY_FRAGMENTS * ROWS_PER_FRAGMENT) as i64);
    let xs: Int64Array = ids.values().iter().map(|id| Some(id * 3)).collect();
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids), Arc::new(xs)]).unwrap();
    let params = WriteParams {
        enable_stable_row_ids: true,
        max_rows_per_file: ROWS_PER_FRAGMENT,
        data_storage_version: Some(lance_file::version::LanceFileVersion::V2_1),
        ..WriteParams::default()
    };
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let dataset = Dataset::write(reader, data.join("t.lance").to_str().unwrap(), Some(params)).await.unwrap();
    assert_eq!(dataset.count_fragments(), MANY_FRAGMENTS);
}

/// One refresh of 200 fragments, killed at random moments and at random places.
/// When it has got through, the next column is refreshed, until all kills are
/// done. `LANCEGATE_KILLS` says how many; the seed is in every message.
#[tokio::test]
async fn j09_random_kills_over_refreshes_of_200_fragments_lose_and_double_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("LANCEGATE_KILLS").map_or(KILLS, |kills| usize::try_from(kills).unwrap());
    let seed = number("LANCEGATE_KILLS_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    let mut random = StdRng::seed_from_u64(seed);
    eprintln!("J09: seed {seed}, {kills} kills");
    let folder = tempfile::tempdir().unwrap();
    many_fragments(folder.path()).await;
    let mut gateway = Gateway::start_in_with(folder.path(), CONFIG);
    let (mut columns, mut job, mut killed, mut lives) = (0, String::new(), 0, HashMap::new());
    while killed < kills {
        // Nothing runs while the test looks.
        gateway.restart_failing("claim.before=hold@*");
        let client = gateway.connect().await;
        let case = format!("seed {seed}, kill {killed}, column y{columns}");
        let ended = format!("SELECT 1 FROM system.public.jobs WHERE job_id = '{job}' AND state = 'succeeded'");
        if job.is_empty() || rows(&client, &ended).await == ["1"] {
            if !job.is_empty() {
                ensure_right(&client, &format!("y{columns}"), columns, &case).await;
            }
            columns += 1;
            run(&client, &format!("ALTER TABLE t ADD COLUMN y{columns} AS x * 2 + {columns}")).await;
            job = value(&client, &format!("REFRESH COLUMN y{columns} ON t NOWAIT"), "job_id").await.unwrap();
        }
        drop(client);
        // Slow enough that no single life gets through.
        let mut failpoints = "stage.batch=delay(2)@*".to_owned();
        if random.random() {
            let places: Vec<_> = PLACES.iter().filter(|place| !place.starts_with("stage.batch")).collect();
            let place = places[random.random_range(0..places.len())];
            failpoints = format!("{failpoints};{place}=exit@{}", random.random_range(1..12));
        }
        if gateway.survives_restart_failing(&failpoints) {
            // The moment of the kill is the random variable of this test.
            tokio::time::sleep(Duration::from_micros(random.random_range(0..150_000))).await;
        }
        gateway.kill9();
        killed += 1;
        *lives.entry(job.clone()).or_insert(0) += 1;
    }
    gateway.restart();
    let client = gateway.connect().await;
    succeeds(&client, &job, &format!("seed {seed}")).await;
    for column in 1..=columns {
        ensure_right(&client, &format!("y{column}"), column, &format!("seed {seed}")).await;
        let again = value(&client, &format!("REFRESH COLUMN y{column} ON t WAIT"), "rows_assigned").await.unwrap();
        assert_eq!(again, "0", "seed {seed}, column y{column}");
    }
    let published = publications(&gateway).await;
    assert_eq!(published.len(), columns * MANY_FRAGMENTS, "seed {seed}: every fragment of every job");
    let twice: Vec<_> = published.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "seed {seed}: {twice:?}");
    // Planned commits are of two fragments, one percent; each life may end with a smaller one.
    let commits = value_commits(&gateway, "t.lance").await;
    for (job, lives) in &lives {
        let made = commits.iter().filter(|(of, _)| of == job).count();
        let planned = MANY_FRAGMENTS / 2;
        // A life takes over what the one before has noted, and makes groups anew.
        assert!(made <= planned + 2 * (lives + 1), "seed {seed}: {made} commits, {planned} planned, {lives} kills");
    }
    eprintln!(
        "J09: seed {seed}: {killed} kills, {columns} columns, {} publications, {} value commits, zero differences",
        published.len(),
        commits.len()
    );
}
