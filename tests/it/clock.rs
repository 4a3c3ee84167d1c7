//! A clock that somebody sets while the gateway runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio_postgres::Client;

use crate::faults::{CONFIG, ensure_right, fill, publications, succeeds};
use crate::harness::Gateway;
use crate::rows::{rows, run, value};

const DAY: i64 = 24 * 60 * 60;

/// A clock that can be set, of the processes that are started with its variables.
struct Clock {
    folder: tempfile::TempDir,
}

impl Clock {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clock/set.c");
        let library = folder.path().join("set.so");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).arg("-ldl").output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let clock = Self { folder };
        clock.set(0);
        clock
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("off")
    }

    /// Sets it by so many seconds off.
    fn set(&self, seconds: i64) {
        // In one step: it is read all the time.
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, seconds.to_string()).unwrap();
        std::fs::rename(fresh, self.file()).unwrap();
    }

    fn gateway(&self, config: &str, failpoints: &str) -> Gateway {
        let (library, file) = (self.folder.path().join("set.so"), self.file());
        let variables = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("LANCE_TEST_CLOCK", file.to_str().unwrap()),
            ("LANCEGATE_FAILPOINTS", failpoints),
        ];
        Gateway::start_with_env(config, &variables)
    }
}

/// Seconds since 1970, as the gateway's clock has it.
async fn wall(client: &Client) -> i64 {
    rows(client, "SELECT CAST(extract(epoch FROM now()) AS bigint)").await[0].parse().unwrap()
}

/// How the attempts of a job began.
async fn claims(client: &Client, job: &str) -> Vec<String> {
    let sql = "SELECT message FROM system.public.job_events WHERE message IN ('claim', 'take over') AND job_id = ";
    rows(client, &format!("{sql}'{job}'")).await
}

/// S10: a refresh goes on in one attempt while the clock jumps by days between its steps, and what the registry says of it
/// is in order.
#[tokio::test]
async fn s10_a_clock_that_jumps_costs_no_lease_and_turns_no_time_around() {
    let clock = Clock::new();
    let gateway =
        clock.gateway(CONFIG, "stage.batch=hold@1;publish.before=hold@1;publish.committed=hold@2;end.before=hold@1");
    let client = gateway.connect().await;
    fill(&client).await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
    let began = wall(&client).await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    let jumps = [
        ("stage.batch", 1, DAY),
        ("publish.before", 1, -DAY),
        ("publish.committed", 2, 3 * DAY),
        ("end.before", 1, -2 * DAY),
    ];
    for (place, visit, off) in jumps {
        gateway.held(place, visit).await;
        clock.set(off);
        let told = wall(&client).await - began;
        assert!((told - off).abs() < 120, "{place}: the clock of the gateway is {told} seconds off, not {off}");
        // Longer than a lease (2 s), within which there are several renewals.
        tokio::time::sleep(Duration::from_secs(3)).await;
        gateway.let_go(place, visit);
    }
    succeeds(&client, &job, "after four jumps").await;
    ensure_right(&client, "y", 1, "after four jumps").await;
    assert_eq!(claims(&client, &job).await, ["claim"], "the lease was lost to the clock");
    assert!(publications(&gateway).await.values().all(|times| *times == 1));
    let ordered = "SELECT count(*) FROM system.public.jobs WHERE updated_at < created_at";
    assert_eq!(rows(&client, ordered).await, ["0"]);
    // Newest first.
    let events = rows(&client, &format!("SELECT at FROM system.public.job_events WHERE job_id = '{job}'")).await;
    assert!(events.len() > 3 && events.is_sorted_by(|later, earlier| later >= earlier), "{events:?}");
    // The next one is later, and waits for nothing.
    run(&client, "INSERT INTO t (id, x) VALUES (1000, 3000)").await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("1"));
    let newest = rows(&client, "SELECT job_id FROM system.public.jobs ORDER BY created_at").await;
    assert_eq!((newest.len(), &newest[0]), (2, &job));
}

/// A job that waits to be tried again is not made to wait a day longer by a clock that was set back.
#[tokio::test]
async fn s10_a_delay_is_of_the_time_that_passes() {
    let clock = Clock::new();
    let gateway = clock.gateway(CONFIG, "stage.file=error@1;end.after=hold@1");
    let client = gateway.connect().await;
    fill(&client).await;
    run(&client, "ALTER TABLE t ADD COLUMN y AS x * 2 + 1").await;
    let job = value(&client, "REFRESH COLUMN y ON t NOWAIT", "job_id").await.unwrap();
    // It is to be tried again in a second.
    gateway.held("end.after", 1).await;
    clock.set(-DAY);
    gateway.let_go("end.after", 1);
    succeeds(&client, &job, "tried again").await;
    ensure_right(&client, "y", 1, "tried again").await;
    assert_eq!(claims(&client, &job).await, ["claim", "claim"]);
}
