//! Requests to jobs in each of their states, and gateways that lose their jobs
//! (feature `failpoints`): J10, J15, J16, J17; and what is seen of a job meanwhile.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::faults::{CONFIG, completed, ensure_right, failing_table, jobs, publications, succeeds, value_commits};
use crate::harness::{Gateway, until};
use crate::rows::{describe, error, rows, run, value};

const REFRESH: &str = "REFRESH COLUMN y ON t NOWAIT";

/// A second user who may do what the first may.
async fn operator(gateway: &Gateway, admin: &Client) -> Client {
    run(
        admin,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON SYSTEM TO USER ann;
         GRANT OPERATE ON SYSTEM TO USER ann; GRANT USAGE ON DATABASE lancegate TO USER ann",
    )
    .await;
    gateway.connect_as("ann", "ann has a long password").await.unwrap()
}

/// Returns the status that a statement about a job answers.
async fn told(client: &Client, statement: &str, job: &str) -> String {
    value(client, &format!("{statement} JOB '{job}'"), "status").await.unwrap()
}

/// Waits until a job is in a state.
async fn in_state(client: &Client, job: &str, state: &str) {
    let is = format!("SELECT 1 FROM system.public.jobs WHERE job_id = '{job}' AND state = '{state}'");
    until(state, async || (rows(client, &is).await == ["1"]).then_some(())).await;
}

/// Waits until a job is in a phase.
async fn in_phase(client: &Client, job: &str, phase: &str) {
    let is = format!("SELECT 1 FROM system.public.jobs WHERE job_id = '{job}' AND phase = '{phase}'");
    until(phase, async || (rows(client, &is).await == ["1"]).then_some(())).await;
}

async fn filled(client: &Client) -> String {
    rows(client, "SELECT count(y) FROM t").await.remove(0)
}

/// One runs, the other is told so; both at once end in the right table.
#[tokio::test]
async fn j15_two_refreshes_of_one_column_at_once() {
    let gateway = failing_table(CONFIG, "refresh.planned=hold@1").await;
    let (first, second) = (gateway.connect().await, gateway.connect().await);
    let running = tokio::spawn(async move { value(&first, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await });
    gateway.held("refresh.planned", 1).await;
    let refused = error(&second, "REFRESH COLUMN y ON t WAIT").await;
    assert!(refused.starts_with("55006: column \"y\" of table \"t\" is already being refreshed"), "{refused}");
    assert!(error(&second, REFRESH).await.starts_with("55006"));
    gateway.let_all_go("refresh.planned");
    assert_eq!(running.await.unwrap().as_deref(), Some("40"));
    assert_eq!(jobs(&second).await.len(), 1, "the refused ones are no jobs");
    for round in 0..5 {
        run(&second, "UPDATE t SET x = x + 1").await;
        let others = [gateway.connect().await, gateway.connect().await];
        let both = others.iter().map(|client| client.simple_query("REFRESH COLUMN y ON t WAIT"));
        let ended: Vec<Result<_, String>> = futures::future::join_all(both)
            .await
            .into_iter()
            .map(|end| end.map_err(|error| describe(&error)))
            .collect();
        assert!(ended.iter().any(Result::is_ok), "round {round}: {ended:?}");
        assert!(
            ended.iter().flat_map(|end| end.as_ref().err()).all(|refused| refused.starts_with("55006")),
            "{ended:?}"
        );
        ensure_right(&second, "y", 1, &format!("round {round}")).await;
    }
    assert!(publications(&gateway).await.values().all(|times| *times == 1));
}

#[tokio::test]
async fn j16_cancel_of_a_queued_job_ends_it_at_once() {
    let config = format!("{CONFIG}max_active = 1\n");
    let gateway = failing_table(&config, "refresh.pinned=hold@1").await;
    let client = gateway.connect().await;
    let ann = operator(&gateway, &client).await;
    run(&client, "ALTER TABLE t ADD COLUMN z AS x * 2 + 2").await;
    let running = value(&client, REFRESH, "job_id").await.unwrap();
    gateway.held("refresh.pinned", 1).await;
    let queued = value(&client, "REFRESH COLUMN z ON t NOWAIT", "job_id").await.unwrap();
    for user in [&client, &ann, &client] {
        assert_eq!(told(user, "CANCEL", &queued).await, "canceled");
    }
    assert!(error(&client, &format!("WAIT JOB '{queued}'")).await.starts_with("57014"));
    let by =
        format!("SELECT emitted_by FROM system.public.job_events WHERE job_id = '{queued}' AND message LIKE 'cancel%'");
    assert_eq!(rows(&client, &by).await, ["lancegate"], "the second cancel is no event");
    gateway.let_all_go("refresh.pinned");
    succeeds(&client, &running, "the other goes on").await;
    assert_eq!(rows(&client, "SELECT count(z) FROM t").await, ["0"]);
    assert_eq!(value(&client, "REFRESH COLUMN z ON t WAIT", "rows_assigned").await.as_deref(), Some("40"));
}

/// Starting, running: it ends at the next boundary, and what is published stays.
#[tokio::test]
async fn j16_cancel_of_a_running_job_ends_it_soon_and_keeps_what_is_published() {
    for (place, visit, published) in [("claim.after", 1, 0), ("refresh.pinned", 1, 0), ("stage.batch", 3, 20)] {
        let gateway = failing_table(CONFIG, &format!("{place}=hold@{visit}")).await;
        let client = gateway.connect().await;
        let ann = operator(&gateway, &client).await;
        let job = value(&client, REFRESH, "job_id").await.unwrap();
        gateway.held(place, visit).await;
        for user in [&client, &ann, &client] {
            assert_eq!(told(user, "CANCEL", &job).await, "canceling", "{place}");
        }
        assert_eq!(told_error(&client, "PAUSE", &job).await, "55000", "{place}");
        gateway.let_go(place, visit);
        in_state(&client, &job, "canceled").await;
        for user in [&client, &ann] {
            assert_eq!(told(user, "CANCEL", &job).await, "canceled", "{place}");
        }
        assert_eq!(filled(&client).await, published.to_string(), "{place}");
        let rest = (40 - published).to_string();
        assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.unwrap(), rest, "{place}");
        ensure_right(&client, "y", 1, place).await;
    }
}

async fn told_error(client: &Client, statement: &str, job: &str) -> String {
    error(client, &format!("{statement} JOB '{job}'")).await[..5].to_owned()
}

/// The commit that is under way is completed, and there is nothing left to cancel.
#[tokio::test]
async fn j16_cancel_of_a_job_that_commits_its_last_part_comes_too_late() {
    let gateway = failing_table(CONFIG, "publish.before=hold@4").await;
    let client = gateway.connect().await;
    let ann = operator(&gateway, &client).await;
    let job = value(&client, REFRESH, "job_id").await.unwrap();
    gateway.held("publish.before", 4).await;
    in_phase(&client, &job, "committing").await;
    for user in [&client, &ann] {
        assert_eq!(told(user, "CANCEL", &job).await, "canceling");
    }
    gateway.let_go("publish.before", 4);
    succeeds(&client, &job, "committing").await;
    for user in [&ann, &client] {
        assert_eq!(told(user, "CANCEL", &job).await, "succeeded", "a finished one");
    }
    ensure_right(&client, "y", 1, "committing").await;
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("0"));
}

#[tokio::test]
async fn j17_a_job_that_commits_cannot_be_paused() {
    let gateway = failing_table(CONFIG, "publish.before=hold@4").await;
    let client = gateway.connect().await;
    let job = value(&client, REFRESH, "job_id").await.unwrap();
    gateway.held("publish.before", 4).await;
    in_phase(&client, &job, "committing").await;
    assert_eq!(told(&client, "PAUSE", &job).await, "committing");
    assert_eq!(told(&client, "RESUME", &job).await, "not_paused");
    gateway.let_go("publish.before", 4);
    succeeds(&client, &job, "it goes on").await;
    ensure_right(&client, "y", 1, "J17").await;
}

/// Resumed too early, parked, restarted while parked, resumed: and nothing that
/// was published or staged before is computed again.
#[tokio::test]
async fn j17_a_parked_job_stays_parked_over_a_restart_until_it_is_resumed() {
    let mut gateway = failing_table(CONFIG, "stage.batch=hold@3").await;
    let client = gateway.connect().await;
    let job = value(&client, REFRESH, "job_id").await.unwrap();
    gateway.held("stage.batch", 3).await;
    assert_eq!(told(&client, "PAUSE", &job).await, "pausing");
    assert_eq!(told(&client, "PAUSE", &job).await, "pausing");
    assert_eq!(told(&client, "RESUME", &job).await, "still_pausing");
    gateway.let_go("stage.batch", 3);
    in_state(&client, &job, "paused").await;
    assert_eq!(told(&client, "PAUSE", &job).await, "already_paused");
    let refused = error(&client, "REFRESH COLUMN y ON t WAIT").await;
    assert!(refused.starts_with("55006"), "a parked job still holds its column: {refused}");
    for end in ["kill", "stop"] {
        if end == "stop" {
            gateway.stop();
        }
        gateway.restart();
        let client = gateway.connect().await;
        // Another job passes by, so the runner has looked for work.
        run(&client, &format!("ALTER TABLE t ADD COLUMN {end}ed AS x + 1")).await;
        rows(&client, &format!("REFRESH COLUMN {end}ed ON t WAIT")).await;
        in_state(&client, &job, "paused").await;
        assert_eq!(filled(&client).await, "20", "after the {end}");
    }
    let client = gateway.connect().await;
    assert_eq!(told(&client, "RESUME", &job).await, "resumed");
    succeeds(&client, &job, "resumed").await;
    ensure_right(&client, "y", 1, "J17").await;
    assert_eq!(publications(&gateway).await.values().filter(|times| **times != 1).count(), 0);
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("0"));
}

/// A gateway that was stopped for longer than its lease, right before a commit,
/// and whose lock did not hold: another has taken its job over and ended it. When
/// it goes on it writes nothing more, neither to the table nor to the registry.
#[tokio::test]
async fn j10_a_gateway_that_lost_its_job_while_it_was_stopped_writes_nothing_more() {
    const LEASE: Duration = Duration::from_secs(1);
    let config = CONFIG.replace("2s", "1s");
    let old = failing_table(&config, "publish.before=hold@2").await;
    let job = value(&old.connect().await, REFRESH, "job_id").await.unwrap();
    old.held("publish.before", 2).await;
    old.signal("STOP");
    let stopped = Instant::now();
    // As on a file system whose locks get lost.
    std::fs::remove_file(old.data().join("_lancegate/metadata.db.lock")).unwrap();
    let new = Gateway::start_in_with(old.data(), &config);
    let client = new.connect().await;
    succeeds(&client, &job, "taken over").await;
    ensure_right(&client, "y", 1, "taken over").await;
    let state = async || {
        let job = rows(&client, "SHOW JOBS FOR TABLE t").await;
        let events = rows(&client, &format!("SHOW JOB EVENTS '{job}'", job = job[0].split('|').next().unwrap())).await;
        let splits = rows(&client, "SELECT * FROM system.public.job_splits").await;
        let versions = std::fs::read_dir(new.data().join("t.lance/_versions")).unwrap().count();
        (job, events, splits, versions)
    };
    let before = state().await;
    tokio::time::sleep((LEASE * 2).saturating_sub(stopped.elapsed())).await;
    old.signal("CONT");
    old.let_all_go("publish.before");
    until("the end of the old attempt", async || old.log().contains("attempt ended").then_some(())).await;
    assert_eq!(state().await, before);
    let commits = value_commits(&new, "t.lance").await;
    assert_eq!(commits.len(), 4, "{commits:?}");
    assert!(publications(&new).await.values().all(|times| *times == 1));
    assert_eq!(value(&client, "REFRESH COLUMN y ON t WAIT", "rows_assigned").await.as_deref(), Some("0"));
}

/// OP-01: as many workers as were asked for are in fragments at once, and no more.
/// PROG-08: the splits that are not complete are listed with their latest task.
#[tokio::test]
async fn op_01_prog_08_as_many_workers_as_asked_for_run_at_once_and_the_rest_is_queued() {
    let gateway = failing_table(CONFIG, "stage.batch=hold@*").await;
    let client = gateway.connect().await;
    let refresh = "REFRESH COLUMN y ON t WHERE id <> 1 WITH (num_workers = 3) NOWAIT";
    let job = value(&client, refresh, "job_id").await.unwrap();
    for visit in 1..=3 {
        gateway.held("stage.batch", visit).await;
    }
    let splits = async || {
        let columns = "split_id, row_start, row_end, parts, bytes_staged, started_at IS NOT NULL, state, recovered,
                       attempts, error_count, bytes_read IS NOT NULL, worker IS NOT NULL";
        rows(&client, &format!("SELECT {columns} FROM system.public.job_splits WHERE job_id = '{job}' ORDER BY 1"))
            .await
    };
    let running = "∅|∅|t|running|f|1|0|t|t";
    let mut expected = vec![
        format!("0|1|10|{running}"),
        format!("1|0|10|{running}"),
        format!("2|0|10|{running}"),
        "3|0|10|∅|∅|f|queued|f|0|0|f|f".to_owned(),
    ];
    assert_eq!(splits().await, expected, "three at once, the fourth waits");
    let shown = rows(&client, &format!("SHOW JOB SPLITS '{job}'")).await;
    let task = |split: usize| shown[split].split('|').nth(1).unwrap().to_owned();
    assert_eq!((shown.len(), task(3)), (4, format!("{job}/1/3")));
    let workers = "SELECT DISTINCT worker FROM system.public.job_splits WHERE worker IS NOT NULL";
    assert_eq!(rows(&client, workers).await.len(), 3, "each has a name of its own");
    gateway.let_go("stage.batch", 1);
    gateway.held("stage.batch", 4).await;
    completed(&client, &job, 1).await;
    let bytes = async |state: &str| {
        let of = format!(
            "SELECT bytes_staged > 0 FROM system.public.job_splits WHERE job_id = '{job}' AND state = '{state}'"
        );
        rows(&client, &of).await
    };
    assert_eq!((bytes("completed").await, bytes("running").await), (vec!["t".to_owned()], vec!["∅".to_owned(); 3]));
    expected[3] = format!("3|0|10|{running}");
    assert_eq!(splits().await.last(), expected.last());
    assert_eq!(rows(&client, workers).await.len(), 3, "the worker that has ended a split goes on with the next");
    told(&client, "PAUSE", &job).await;
    gateway.let_all_go("stage.batch");
    in_state(&client, &job, "paused").await;
    let states = format!("SELECT DISTINCT state FROM system.public.job_splits WHERE job_id = '{job}'");
    assert_eq!(rows(&client, &states).await, ["completed"], "of a job that does not run only what is noted");
    told(&client, "RESUME", &job).await;
    succeeds(&client, &job, "resumed").await;
    let ended =
        rows(&client, &format!("SELECT state, recovered FROM system.public.job_splits WHERE job_id = '{job}'")).await;
    assert_eq!(ended.len(), 4);
    assert!(ended.iter().all(|split| split.starts_with("completed|")), "{ended:?}");
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE id <> 1 AND y = x * 2 + 1").await, ["39"]);
}

/// PROG-08: `attempts` counts the executions of a split over all attempts of the job, `error_count` what workers of this
/// attempt gave up.
#[tokio::test]
async fn prog_08_a_split_counts_how_often_it_was_begun_and_given_up() {
    let mut gateway = failing_table(CONFIG, "stage.batch=exit(1500)@1").await;
    let client = gateway.connect().await;
    let job = value(&client, "REFRESH COLUMN y ON t WITH (num_workers = 1) NOWAIT", "job_id").await.unwrap();
    gateway.wait_for_end();
    gateway.restart_failing("stage.batch=hold@1;stage.file=error@2;record.before=hold@1");
    let client = gateway.connect().await;
    gateway.held("stage.batch", 1).await;
    let splits = format!(
        "SELECT state, attempts, error_count FROM system.public.job_splits WHERE job_id = '{job}' ORDER BY split_id"
    );
    let shown = rows(&client, &splits).await;
    assert_eq!(shown[0], "running|2|0", "the first attempt had begun it: {shown:?}");
    assert_eq!(shown[1..], ["queued|0|0", "queued|0|0", "queued|0|0"]);
    gateway.let_all_go("stage.batch");
    // The second split fails when its file is complete, and the attempt with it.
    gateway.held("record.before", 1).await;
    let shown = rows(&client, &splits).await;
    assert!(shown.contains(&"completed|2|0".to_owned()) && shown.contains(&"failed|1|1".to_owned()), "{shown:?}");
    gateway.let_all_go("record.before");
    succeeds(&client, &job, "tried again").await;
    let shown = rows(&client, &splits).await;
    assert_eq!(shown, ["completed|2|0", "completed|2|0", "completed|1|0", "completed|1|0"]);
}
