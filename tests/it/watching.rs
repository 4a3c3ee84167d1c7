//! What an operator sees of jobs: why they wait, how far they are, what they used, and news of them.

use std::time::Duration;

use futures::StreamExt;
use tokio_postgres::{AsyncMessage, Client};

use crate::harness::{Gateway, until};
use crate::rows::{error, rows, run, value};

const DOCS: &str = "CREATE TABLE docs (id BIGINT, body TEXT);
     INSERT INTO docs VALUES (1, 'lance'), (2, 'gate');
     ALTER TABLE docs ADD COLUMN words AS (length(body))";

fn with_python(more: &str) -> String {
    let python = std::env::var("LANCEGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    format!("{more}\n[functions]\npython = \"{python}\"\nsandbox = \"require\"\n")
}

async fn submit(client: &Client, refresh: &str) -> String {
    value(client, refresh, "job_id").await.unwrap()
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn prog_06_a_queued_job_says_what_it_waits_for_as_long_as_that_is_so() {
    let gateway = Gateway::start_failing("[jobs]\nmax_active = 1\n", "refresh.planned=hold@1");
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    run(&client, "ALTER TABLE docs ADD COLUMN more AS (id + 1)").await;
    let first = submit(&client, "REFRESH COLUMN words ON docs").await;
    gateway.held("refresh.planned", 1).await;
    let second = submit(&client, "REFRESH COLUMN more ON docs").await;
    let reason = "SELECT job_id, phase, queue_reason FROM system.public.jobs";
    let full = "waiting for executor capacity: 1 worker slot requested, 0 of 1 available";
    assert_eq!(rows(&client, reason).await, [format!("{second}|queued|{full}"), format!("{first}|starting|∅")]);
    rows(&client, &format!("PAUSE JOB '{second}'")).await;
    assert_eq!(rows(&client, reason).await[0], format!("{second}|paused|∅"));
    rows(&client, &format!("RESUME JOB '{second}'")).await;
    gateway.let_all_go("refresh.planned");
    rows(&client, &format!("WAIT JOB '{second}'")).await;
    assert_eq!(rows(&client, reason).await[0], format!("{second}|finished|∅"));
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn prog_06_a_job_that_failed_and_is_tried_again_says_until_when_it_waits() {
    let gateway = Gateway::start_failing("", "publish.before=error@*");
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    let job = submit(&client, "REFRESH COLUMN words ON docs").await;
    let waiting = async || {
        let reason = value(&client, "SELECT queue_reason FROM system.public.jobs", "queue_reason").await?;
        (reason.starts_with("waiting until 20") && reason.ends_with("Z after attempt 3 failed")).then_some(())
    };
    until("the reason of the third wait", waiting).await;
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
}

#[tokio::test]
async fn sdk_01_the_time_that_is_left_follows_from_two_samples_and_is_not_made_up() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE big (id BIGINT, body TEXT);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 300000) AS t(g);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 300000) AS t(g);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 300000) AS t(g);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 300000) AS t(g);
         ALTER TABLE big ADD COLUMN digest AS
             (sha512(sha512(sha512(sha512(sha512(sha512(sha512(sha512(body)))))))))",
    )
    .await;
    let job = submit(&client, "REFRESH COLUMN digest ON big WITH (num_workers = 1)").await;
    let mut samples: Vec<serde_json::Value> = Vec::new();
    let collect = async || {
        let progress = value(&client, "SHOW JOBS", "progress").await?;
        let sample: serde_json::Value = serde_json::from_str(&progress).unwrap();
        assert!(sample.get("estimated_remaining_time_millis").is_none(), "the server keeps no history: {sample}");
        if samples.last().is_none_or(|last| last["sample_at_millis"] != sample["sample_at_millis"]) {
            samples.push(sample);
        }
        let state = value(&client, "SHOW JOBS", "state").await;
        (state.as_deref() == Some("succeeded")).then_some(())
    };
    until("the end of the job", collect).await;
    let accounted = |sample: &serde_json::Value| {
        sample["rows_published"].as_i64().unwrap() + sample["rows_retained"].as_i64().unwrap()
    };
    let usable = samples.windows(2).filter(|pair| {
        pair[0]["execution_epoch"] == pair[1]["execution_epoch"]
            && pair[0]["rows_planned"] == pair[1]["rows_planned"]
            && pair[0]["rows_planned"] == 1_200_000
            && accounted(&pair[1]) > accounted(&pair[0])
    });
    assert!(usable.count() >= 1, "two samples tell how fast it goes: {samples:?}");
    rows(&client, &format!("WAIT JOB '{job}'")).await;
}

#[tokio::test]
async fn prog_02_prog_04_prog_05_a_function_refresh_shows_its_workers_from_their_start() {
    let gateway = Gateway::start_with(&with_python(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1), (2)").await;
    let source = "import time\ntime.sleep(5)\ndef f(x): return 2 * x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    let job = submit(&client, "REFRESH COLUMN y ON n").await;
    let mut samples: Vec<serde_json::Value> = Vec::new();
    let mut phases = Vec::new();
    until("two samples of a worker that is being initialized", async || {
        let row = rows(&client, "SELECT phase, progress FROM system.public.jobs").await.remove(0);
        let (phase, progress) = row.split_once('|').unwrap();
        if phases.last().is_none_or(|last| last != phase) {
            phases.push(phase.to_owned());
        }
        if progress == "∅" {
            return None;
        }
        let sample: serde_json::Value = serde_json::from_str(progress).unwrap();
        if sample["phase"] == "initializing"
            && samples.last().is_none_or(|last| last["sample_at_millis"] != sample["sample_at_millis"])
        {
            assert_eq!(phase, "initializing", "the phase of the job is that of its workers once one is ready");
            samples.push(sample);
        }
        (samples.len() == 2).then_some(())
    })
    .await;
    let apart = samples[1]["sample_at_millis"].as_i64().unwrap() - samples[0]["sample_at_millis"].as_i64().unwrap();
    assert!((500..3_000).contains(&apart), "about a second: {apart} ms");
    assert!(
        ["queued", "starting", "waiting_for_workers", "starting_workers", "initializing"].contains(&phases[0].as_str())
    );
    let fleet = &samples[1]["worker_fleet"];
    for (field, expected) in [
        ("desired", 1),
        ("launched", 1),
        ("pending_workers", 0),
        ("ready", 1),
        ("requested_gpus", 0),
        ("ready_gpus", 0),
    ] {
        assert_eq!(fleet[field], expected, "{field} of {fleet}");
    }
    assert_eq!((&fleet["warm_reused"], &fleet["resource_classes"]), (&false.into(), &serde_json::json!(["default"])));
    assert!(fleet["first_launched_at_millis"].as_i64() <= fleet["first_ready_at_millis"].as_i64(), "{fleet}");
    assert_eq!(fleet["first_ready_at_millis"], fleet["last_ready_at_millis"]);
    assert!(fleet.get("wait_reason").is_none(), "{fleet}");
    assert_eq!((&samples[1]["workers_initializing"], &samples[1]["workers_initialized"]), (&1.into(), &0.into()));
    rows(&client, &format!("WAIT JOB '{job}'")).await;

    run(&client, "INSERT INTO n (x) VALUES (3)").await;
    rows(&client, "REFRESH COLUMN y ON n WAIT").await;
    let last = rows(&client, "SELECT progress FROM system.public.jobs LIMIT 1").await.remove(0);
    let last: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["worker_fleet"]["warm_reused"], true, "the worker of the first refresh serves the second: {last}");
    let expression = "ALTER TABLE n ADD COLUMN z AS (x + 1); REFRESH COLUMN z ON n WAIT";
    run(&client, expression).await;
    let last = rows(&client, "SELECT progress FROM system.public.jobs LIMIT 1").await.remove(0);
    assert!(!last.contains("worker_fleet"), "an expression has no Function workers: {last}");
}

#[tokio::test]
async fn prog_07_a_function_refresh_shows_its_parts_and_they_are_no_jobs_of_their_own() {
    let gateway = Gateway::start_with(&with_python(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    let source = "def f(x):\n  if x == 9: raise ValueError(x)\n  return 2 * x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x); ALTER TABLE n ADD COLUMN z AS (x + 1)").await;
    let job = value(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT", "job_id").await.unwrap();
    let listed = format!("SHOW JOBS FOR JOB '{job}'");
    let child = value(&client, &listed, "job_id").await.unwrap();
    let columns = "kind, state, phase, attempt, rows_planned, rows_computed, rows_remaining, history, error";
    let parts = format!("SELECT {columns} FROM job_children('{job}')");
    assert_eq!(rows(&client, &parts).await, ["refresh_splits|succeeded|finished|1|10|10|0|available|∅"]);
    assert_eq!(rows(&client, &format!("SELECT * FROM job_children('{job}')")).await, rows(&client, &listed).await);
    let told =
        |id: &str| format!("SELECT message FROM system.public.job_events WHERE job_id = '{id}' ORDER BY event_id");
    let events = rows(&client, &told(&child)).await;
    for message in ["created", "queued", "claim", "complete"] {
        assert_eq!(events.iter().filter(|event| *event == message).count(), 1, "{message}: {events:?}");
    }
    let ids = format!("SHOW JOB EVENTS '{job}'");
    assert!(rows(&client, &ids).await.iter().all(|event| !event.contains(child.as_str())));
    assert_eq!(rows(&client, &told(&job)).await.iter().filter(|event| *event == "created").count(), 1);
    assert_eq!(rows(&client, "SELECT job_id FROM system.public.jobs").await, [job.as_str()]);
    assert_eq!(rows(&client, "SHOW JOBS").await.len(), 1);
    for statement in ["PAUSE", "RESUME", "CANCEL"] {
        let refused = error(&client, &format!("{statement} JOB '{child}'")).await;
        assert!(refused.starts_with(&format!("55000: job \"{child}\" is a part of job \"{job}\"")), "{refused}");
    }
    assert_eq!(value(&client, &format!("WAIT JOB '{child}'"), "state").await.as_deref(), Some("succeeded"));

    let failed = error(&client, "REFRESH COLUMN y ON n WHERE true WAIT").await;
    assert!(failed.contains("ValueError"), "{failed}");
    let job = value(&client, "SHOW JOBS LIMIT 1", "job_id").await.unwrap();
    let parts =
        format!("SELECT kind, state, phase, rows_planned, error LIKE '%ValueError%' FROM job_children('{job}')");
    assert_eq!(rows(&client, &parts).await, ["refresh_splits|failed|failed|10|t"]);
    let expression = value(&client, "REFRESH COLUMN z ON n WAIT", "job_id").await.unwrap();
    assert_eq!(rows(&client, &format!("SHOW JOBS FOR JOB '{expression}'")).await, Vec::<String>::new());
    let nobody = error(&client, "SELECT * FROM job_children('job_01ARZ3NDEKTSV4RRFFQ69G5FAV')").await;
    assert!(nobody.starts_with("42704: "), "{nobody}");
}

/// What a crash leaves of a part ends with the attempt that follows.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn prog_07_a_part_of_an_attempt_that_was_lost_is_canceled_and_the_next_attempt_has_its_own() {
    let mut gateway = Gateway::start_failing(&with_python("[jobs]\nlease = \"2s\"\n"), "stage.file=exit@1");
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    run(&client, "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return 2 * x'").await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    let job = submit(&client, "REFRESH COLUMN y ON n").await;
    gateway.wait_for_end();
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(value(&client, &format!("WAIT JOB '{job}'"), "state").await.as_deref(), Some("succeeded"));
    let parts = format!("SELECT kind, state, attempt FROM job_children('{job}') ORDER BY created_at");
    assert_eq!(rows(&client, &parts).await, ["refresh_splits|canceled|1", "refresh_splits|succeeded|2"]);
}

#[tokio::test]
async fn the_rows_of_one_job_are_the_same_in_every_form() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    let jobs = [
        submit(&client, "REFRESH COLUMN words ON docs WAIT").await,
        submit(&client, "REFRESH COLUMN words ON docs WHERE id = 1 WAIT").await,
    ];
    for job in &jobs {
        let shown = rows(&client, &format!("SHOW JOB EVENTS '{job}'")).await;
        let of_relation = format!("SELECT * FROM system.public.job_events WHERE job_id = '{job}'");
        assert_eq!(rows(&client, &of_relation).await, shown);
        let other = format!("SELECT * FROM system.public.job_events WHERE job_id || '' = '{job}'");
        assert_eq!(rows(&client, &other).await, shown, "looking at all jobs finds the same");
        let splits = rows(&client, &format!("SHOW JOB SPLITS '{job}'")).await;
        let of_relation =
            format!("SELECT * FROM system.public.job_splits WHERE '{job}' = job_id AND state = 'completed'");
        assert_eq!(rows(&client, &of_relation).await, splits);
        let one = rows(&client, &format!("SELECT * FROM system.public.jobs WHERE job_id = '{job}'")).await;
        assert!(one.len() == 1 && one[0].starts_with(job.as_str()), "{one:?}");
        let row = client.query("SELECT state FROM system.public.jobs WHERE job_id = $1", &[job]).await.unwrap();
        assert_eq!(row.len(), 1);
        let limited = rows(&client, &format!("SHOW JOB EVENTS '{job}' WHERE state = 'in_progress' LIMIT 1")).await;
        assert!(limited.len() == 1 && limited[0].contains("|in_progress|"), "{limited:?}");
    }
    for id in ["nonsense", "job_01ARZ3NDEKTSV4RRFFQ69G5FAV", ""] {
        for relation in ["jobs", "job_events", "job_splits"] {
            let none = rows(&client, &format!("SELECT * FROM system.public.{relation} WHERE job_id = '{id}'")).await;
            assert_eq!(none, Vec::<String>::new(), "{relation} {id:?}");
        }
    }
    run(&client, "CREATE DATABASE other").await;
}

#[tokio::test]
async fn prog_10_each_succeeded_function_refresh_is_metered() {
    let gateway = Gateway::start_with(&with_python(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    let source = "def f(x):\n  if x == 9: raise ValueError(x)\n  return 2 * x";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x); ALTER TABLE n ADD COLUMN z AS (x + 1)").await;
    let refused = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert!(refused.starts_with("38000: ") || refused.contains("ValueError"), "{refused}");
    let job = value(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT", "job_id").await.unwrap();
    run(&client, "REFRESH COLUMN z ON n WAIT").await;
    let metering =
        "SELECT job_id, database, namespace, \"table\", \"column\", function, function_version, submitted_by,
                    automatic, rows_computed, rows_failed FROM system.public.function_refresh_metering";
    let expected = [format!("{job}|lancegate|public|n|y|f|1|lancegate|f|9|1")];
    assert_eq!(
        rows(&client, metering).await,
        expected,
        "of the three jobs the one that is of a Function and succeeded"
    );
    let times =
        "SELECT wall_millis >= queued_millis + running_splits_millis, planning_millis >= 0, committing_millis >= 0,
                 worker_millis > 0, finished_at > created_at FROM system.public.function_refresh_metering";
    assert_eq!(rows(&client, times).await, ["t|t|t|t|t"]);

    run(
        &client,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON DATABASE lancegate TO USER ann;
         GRANT USAGE ON SCHEMA public TO USER ann",
    )
    .await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    assert!(error(&ann, metering).await.starts_with("42501: "));
    run(&client, "GRANT USAGE ON SYSTEM TO USER ann").await;
    assert_eq!(rows(&ann, metering).await, Vec::<String>::new(), "nor may she read the table");
    run(&client, "GRANT SELECT ON TABLE n TO USER ann").await;
    assert_eq!(rows(&ann, metering).await, expected);
    run(&client, "DROP TABLE n").await;
    assert_eq!(rows(&ann, metering).await, Vec::<String>::new());
    assert_eq!(rows(&client, metering).await, expected, "it outlives the table");
}

/// Connects with the messages that come beside answers.
async fn listener(gateway: &Gateway) -> (Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let mut config = tokio_postgres::Config::new();
    config.host(gateway.pg_addr().ip().to_string()).port(gateway.pg_addr().port());
    config.user("lancegate").password(gateway.password()).dbname("lancegate");
    let (client, mut connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures::stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                assert_eq!(notification.channel(), "lancegate_jobs");
                let _ = tell.send(notification.payload().to_owned());
            }
        }
    });
    (client, told)
}

async fn next(told: &mut tokio::sync::mpsc::UnboundedReceiver<String>) -> String {
    let told = tokio::time::timeout(Duration::from_secs(60), told.recv()).await.expect("a notification comes");
    let told: serde_json::Value = serde_json::from_str(&told.unwrap()).unwrap();
    format!(
        "{} {} {}",
        told["job_id"].as_str().unwrap(),
        told["state"].as_str().unwrap(),
        told["phase"].as_str().unwrap()
    )
}

#[tokio::test]
async fn listen_tells_of_every_change_of_a_job_between_statements() {
    let gateway = Gateway::start();
    let (client, mut told) = listener(&gateway).await;
    let other = gateway.connect().await;
    run(&client, DOCS).await;
    run(&client, "LISTEN lancegate_jobs").await;
    let job = submit(&other, "REFRESH COLUMN words ON docs").await;
    let mut states = Vec::new();
    while states.last().is_none_or(|last: &String| !last.contains("succeeded")) {
        states.push(next(&mut told).await);
    }
    assert_eq!(states.first().unwrap(), &format!("{job} queued queued"));
    assert_eq!(states[1], format!("{job} in_progress starting"));
    assert_eq!(states.last().unwrap(), &format!("{job} succeeded finished"));
    let mut distinct = states.clone();
    distinct.dedup();
    assert_eq!(distinct, states, "nothing is told twice");

    // In a block nothing comes, and what LISTEN and UNLISTEN say holds from its end.
    run(&client, "BEGIN; UNLISTEN lancegate_jobs").await;
    let held = submit(&other, "REFRESH COLUMN words ON docs WHERE id = 1 WAIT").await;
    run(&client, "SELECT 1").await;
    assert!(told.try_recv().is_err());
    run(&client, "ROLLBACK").await;
    let mut last = String::new();
    while !last.contains("succeeded") {
        last = next(&mut told).await;
    }
    assert_eq!(last, format!("{held} succeeded finished"));
    run(&client, "BEGIN; UNLISTEN *; COMMIT").await;
    submit(&other, "REFRESH COLUMN words ON docs WHERE id = 1 WAIT").await;
    run(&client, "BEGIN; LISTEN lancegate_jobs; ROLLBACK").await;
    submit(&other, "REFRESH COLUMN words ON docs WHERE id = 1 WAIT").await;
    run(&client, "LISTEN lancegate_jobs").await;
    let seen = submit(&other, "REFRESH COLUMN words ON docs WHERE id = 1 WAIT").await;
    assert_eq!(next(&mut told).await, format!("{seen} queued queued"), "what happened meanwhile is not told");
}

#[tokio::test]
async fn listen_needs_the_privileges_of_the_registry_also_later() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    run(&client, "CREATE USER ann PASSWORD 'ann has a long password'; GRANT USAGE ON DATABASE lancegate TO USER ann")
        .await;
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    for grant in ["SELECT 1", "GRANT USAGE ON SYSTEM TO USER ann"] {
        run(&client, grant).await;
        assert!(error(&ann, "LISTEN lancegate_jobs").await.starts_with("42501: "), "{grant}");
    }
    run(&client, "GRANT OPERATE ON SYSTEM TO USER ann").await;
    run(&ann, "LISTEN lancegate_jobs; UNLISTEN lancegate_jobs").await;
}

#[tokio::test]
async fn hand_03_j30_a_full_store_makes_a_refresh_synchronous_without_a_word() {
    let gateway = Gateway::start_with("[jobs]\nretained_runs_max = 1\nnotice_interval = \"1s\"\n");
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    run(
        &client,
        "CREATE TABLE big (id BIGINT, body TEXT);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 1000000) AS t(g);
         ALTER TABLE big ADD COLUMN digest AS
             (sha512(sha512(sha512(sha512(sha512(sha512(sha512(sha512(body)))))))));
         ALTER TABLE docs ADD COLUMN bad AS (10 / (id - 1))",
    )
    .await;
    assert_eq!(value(&client, "REFRESH COLUMN words ON docs", "status").await.as_deref(), Some("submitted"));
    emptied(&client).await;
    let slow = submit(&client, "REFRESH COLUMN digest ON big").await;
    let answer = rows(&client, "REFRESH COLUMN words ON docs WHERE id = 1").await.remove(0);
    let fields: Vec<&str> = answer.split('|').collect();
    assert_eq!((fields[2], fields[4], fields[5]), ("succeeded", "1", "0"), "the real outcome: {answer}");
    let failed = error(&client, "REFRESH COLUMN bad ON docs NOWAIT").await;
    assert!(failed.starts_with("22012: division by zero"), "and the real error: {failed}");
    rows(&client, &format!("CANCEL JOB '{slow}'")).await;
    error(&client, &format!("WAIT JOB '{slow}'")).await;
    assert_eq!(value(&client, "REFRESH COLUMN words ON docs", "status").await.as_deref(), Some("submitted"));

    // Long enough for a notice, had there been any.
    emptied(&client).await;
    let slow = submit(&client, "REFRESH COLUMN digest ON big").await;
    run(&client, "ALTER TABLE big ADD COLUMN again AS (sha512(sha512(sha512(sha512(sha512(sha512(sha512(body))))))))")
        .await;
    let told = gateway.psql("REFRESH COLUMN again ON big");
    let told = format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.contains("|succeeded|") && !told.contains("NOTICE"), "{told}");
    assert_ne!(value(&client, &format!("CANCEL JOB '{slow}'"), "status").await, None);
}

/// Waits until no job is unfinished.
async fn emptied(client: &Client) {
    let unfinished = "SELECT 1 FROM system.public.jobs WHERE state IN ('created', 'queued', 'in_progress')";
    until("an empty store", async || rows(client, unfinished).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_user_has_so_many_unfinished_jobs_and_no_more() {
    let gateway = Gateway::start_with("[jobs]\nmax_active = 1\nuser_unfinished_max = 2\n");
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE big (id BIGINT, body TEXT);
         INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 1000000) AS t(g);
         ALTER TABLE big ADD COLUMN digest AS
             (sha512(sha512(sha512(sha512(sha512(sha512(sha512(sha512(body)))))))))",
    )
    .await;
    run(&client, DOCS).await;
    run(&client, "ALTER TABLE docs ADD COLUMN more AS (id + 1); GRANT SELECT, UPDATE ON TABLE docs TO ROLE helpers")
        .await;
    run(
        &client,
        "CREATE USER ann PASSWORD 'ann has a long password'; GRANT ROLE helpers TO USER ann;
         GRANT USAGE ON DATABASE lancegate TO USER ann; GRANT USAGE ON SCHEMA public TO USER ann",
    )
    .await;
    let slow = submit(&client, "REFRESH COLUMN digest ON big").await;
    submit(&client, "REFRESH COLUMN words ON docs").await;
    let refused = error(&client, "REFRESH COLUMN more ON docs").await;
    let expected = [
        "53400: user \"lancegate\" has 2 unfinished jobs already",
        "A user may have 2 unfinished jobs.",
        "Wait for some with WAIT JOB, end some with CANCEL JOB, or raise jobs.user_unfinished_max.",
    ];
    assert_eq!(refused.lines().collect::<Vec<_>>(), expected);
    let ann = gateway.connect_as("ann", "ann has a long password").await.unwrap();
    let (answer, ()) = tokio::join!(value(&ann, "REFRESH COLUMN more ON docs WAIT", "status"), async {
        until("the job of another user", async || {
            (rows(&client, "SELECT 1 FROM system.public.jobs").await.len() == 3).then_some(())
        })
        .await;
        rows(&client, &format!("CANCEL JOB '{slow}'")).await;
    });
    assert_eq!(answer.as_deref(), Some("succeeded"));
}

/// Drivers and tools that wrap a statement – `COPY (…) TO STDOUT (FORMAT binary)`, `SELECT … FROM (…)` – take what SHOW
/// gives from relations and table functions.
const WRAPPED: &str = r#"
import sys
from urllib.parse import quote
import adbc_driver_postgresql.dbapi as adbc
import psycopg

host, port, password, job = sys.argv[2:]
relations = ["system.public.jobs", "system.public.job_events", "system.public.job_splits", "system.public.gpu_classes",
             "system.public.function_errors", "system.public.column_status",
             "system.public.function_refresh_metering", "system.public.functions", "system.public.grants", f"describe_job('{job}')", f"explain_job('{job}')",
             f"job_children('{job}')", "gpu_classes()", "function_errors('n')", "column_status('n')"]
with psycopg.connect(host=host, port=port, user="lancegate", password=password, dbname="lancegate", autocommit=True) as pg, \
        adbc.connect(f"postgresql://lancegate:{quote(password)}@{host}:{port}/lancegate", autocommit=True) as connection:
    for relation in relations:
        query = f"SELECT * FROM {relation}"
        rows = pg.execute(query)
        names = [column.name for column in rows.description]
        rows = rows.fetchall()
        assert [c.name for c in pg.execute(f"SELECT * FROM ({query}) AS wrapped LIMIT 0").description] == names, relation
        with pg.cursor(binary=True) as cursor:
            assert cursor.execute(query).fetchall() == rows, relation
        with pg.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT binary)") as copy:
            copied = b"".join(bytes(data) for data in copy)
        assert copied.startswith(b"PGCOPY\n"), relation
        with connection.cursor() as cursor:
            cursor.execute(query)
            table = cursor.fetch_arrow_table()
            assert (table.column_names, table.num_rows) == (names, len(rows)), (relation, table.schema)
            for name, column in zip(names, table.columns):
                found = [str(value) for value in column.to_pylist() if value is not None]
                at = names.index(name)
                if column.type in ("string", "int64", "double"):
                    assert found == [str(row[at]) for row in rows if row[at] is not None], (relation, name)
        print(relation.replace(job, "id"), len(rows))
    with connection.cursor() as cursor:
        try:
            cursor.execute("SHOW JOBS")
            print("SHOW is wrapped")
        except adbc.Error as error:
            print("42601" in str(error) and "syntax error" in str(error))
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute("SHOW JOBS")
        print("SHOW JOBS", cursor.fetch_arrow_table().num_rows)
"#;

/// Makes a refresh of which one row failed, and returns its job.
async fn one_failed_row(client: &Client) -> String {
    run(client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    let source = "def f(x):\n  if x == 9: raise ValueError(x)\n  return 2 * x";
    run(client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{source}'")).await;
    run(client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    value(client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT", "job_id").await.unwrap()
}

/// Runs a Python program on the gateway and returns what it prints.
async fn told(gateway: &Gateway, program: &[&str], job: &str) -> String {
    let (host, port) = (gateway.pg_addr().ip().to_string(), gateway.pg_addr().port().to_string());
    let mut python = crate::harness::python();
    python.args(program).args([&host, &port, gateway.password(), job]);
    let output = tokio::task::spawn_blocking(move || python.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[tokio::test]
async fn what_show_gives_can_be_wrapped_by_psycopg_and_adbc() {
    let gateway = Gateway::start_with(&with_python(""));
    let client = gateway.connect().await;
    let job = one_failed_row(&client).await;
    let said = told(&gateway, &["-c", WRAPPED, "-"], &job).await;
    let told: Vec<&str> = said.lines().collect();
    assert_eq!(told[0], "system.public.jobs 1");
    for (statement, relation) in [("SHOW FUNCTIONS", "functions"), ("SHOW GRANTS", "grants")] {
        let listed = rows(&client, statement).await;
        assert_eq!(rows(&client, &format!("SELECT * FROM system.public.{relation}")).await, listed);
        assert!(told.contains(&format!("system.public.{relation} {}", listed.len()).as_str()), "{told:?}");
    }
    for line in ["system.public.job_splits 1", "function_errors('n') 1", "job_children('id') 1", "column_status('n') 1"]
    {
        assert!(told.contains(&line), "{line}: {told:?}");
    }
    assert_eq!(told[told.len() - 2..], ["True", "SHOW JOBS 1"], "COPY of SHOW is refused, as PostgreSQL refuses it");
}

#[tokio::test]
async fn what_show_gives_can_be_wrapped_by_pgjdbc() {
    let gateway = Gateway::start_with(&with_python(""));
    let client = gateway.connect().await;
    let job = one_failed_row(&client).await;
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/jdbc.py");
    assert_eq!(told(&gateway, &[program], &job).await.trim(), "ok");
}

#[tokio::test]
async fn the_adbc_driver_learns_the_types_when_it_connects() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    let types = "SELECT oid, typname, typreceive, typbasetype, typrelid, typarray FROM pg_catalog.pg_type
                 WHERE (typreceive != 0 OR typsend != 0) AND typtype != 'r' AND typreceive::TEXT != 'array_recv'";
    let found = rows(&client, types).await;
    assert!(found.iter().any(|row| row.starts_with("20|int8|int8recv|0|0|1016")), "{found:?}");
    assert!(found.iter().all(|row| row.split('|').nth(2) != Some("array_recv")), "{found:?}");
}
