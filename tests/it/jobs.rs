//! Handles, listings and control of jobs, as a client sees them.

use tokio_postgres::Client;

use crate::harness::Gateway;
use crate::rows::{describe, error, rows, run, value};

const DOCS: &str = "CREATE TABLE docs (id BIGINT, body TEXT);
     INSERT INTO docs VALUES (1, 'lance'), (2, 'gate');
     ALTER TABLE docs ADD COLUMN body_len AS (length(body))";

/// A refresh that takes seconds: nothing that a test does meanwhile is slower.
const SLOW: &str = "CREATE TABLE big (id BIGINT, body TEXT);
     INSERT INTO big SELECT g, 'abcdefghij' FROM generate_series(1, 1000000) AS t(g);
     ALTER TABLE big ADD COLUMN digest AS
         (sha512(sha512(sha512(sha512(sha512(sha512(sha512(sha512(body)))))))))";

async fn docs() -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, DOCS).await;
    (gateway, client)
}

async fn submit(client: &Client, refresh: &str) -> String {
    value(client, refresh, "job_id").await.unwrap()
}

/// A user who may refresh `docs` and nothing of the system.
async fn analyst(gateway: &Gateway, admin: &Client) -> Client {
    run(
        admin,
        "CREATE USER ann PASSWORD 'ann has a long password';
         GRANT USAGE ON DATABASE lancegate TO USER ann;
         GRANT USAGE ON SCHEMA public TO USER ann;
         GRANT SELECT, UPDATE ON TABLE docs TO USER ann",
    )
    .await;
    gateway.connect_as("ann", "ann has a long password").await.unwrap()
}

#[tokio::test]
async fn hand_01_a_refresh_returns_its_job_at_once_and_outlives_the_connection() {
    let (gateway, client) = docs().await;
    let submitter = gateway.connect().await;
    let answer = rows(&submitter, "REFRESH COLUMN body_len ON docs").await;
    let job = answer[0].split('|').nth(3).unwrap().to_owned();
    assert_eq!(answer, [format!("refresh_column|body_len|submitted|{job}|∅|∅|∅|∅|∅")]);
    drop(submitter);
    assert_eq!(value(&client, &format!("WAIT JOB '{job}'"), "state").await.as_deref(), Some("succeeded"));
    assert_eq!(rows(&client, "SELECT body_len FROM docs ORDER BY id").await, ["5", "4"]);
}

#[tokio::test]
async fn hand_01_the_setting_and_the_words_decide_who_waits() {
    let (_gateway, client) = docs().await;
    let refresh = "REFRESH COLUMN body_len ON docs WHERE id = 1";
    run(&client, "SET lancegate.early_job_handle = off").await;
    assert_eq!(value(&client, refresh, "status").await.as_deref(), Some("succeeded"));
    let job = submit(&client, &format!("{refresh} NOWAIT")).await;
    rows(&client, &format!("WAIT JOB '{job}'")).await;
    run(&client, "SET lancegate.early_job_handle = on").await;
    assert_eq!(value(&client, &format!("{refresh} WAIT"), "status").await.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn hand_02_without_both_privileges_the_statement_waits_and_shows_no_job() {
    let (gateway, admin) = docs().await;
    let ann = analyst(&gateway, &admin).await;
    for grant in [
        "",
        "GRANT USAGE ON SYSTEM TO USER ann",
        "REVOKE USAGE ON SYSTEM FROM USER ann; GRANT OPERATE ON SYSTEM TO USER ann",
    ] {
        if !grant.is_empty() {
            run(&admin, grant).await;
        }
        let answer = rows(&ann, "REFRESH COLUMN body_len ON docs WHERE id > 0 NOWAIT").await;
        let shown: Vec<_> = answer[0].split('|').take(7).collect();
        assert_eq!(shown, ["refresh_column", "body_len", "succeeded", "∅", "2", "0", "0"], "after {grant:?}");
    }
    run(&admin, "GRANT USAGE ON SYSTEM TO USER ann").await;
    let answer = rows(&ann, "REFRESH COLUMN body_len ON docs").await;
    assert!(answer[0].starts_with("refresh_column|body_len|submitted|job_"), "{answer:?}");
}

#[tokio::test]
async fn hand_02_the_failure_of_the_work_is_the_failure_of_the_statement() {
    let (gateway, admin) = docs().await;
    let ann = analyst(&gateway, &admin).await;
    run(&admin, "ALTER TABLE docs ADD COLUMN inverse AS (1 / (id - 1))").await;
    let failed = error(&ann, "REFRESH COLUMN inverse ON docs").await;
    assert!(failed.starts_with("22012: "), "{failed}");
    assert!(!failed.contains("job_"), "no id for those who may not read the registry: {failed}");
}

#[tokio::test]
async fn hand_03_with_a_full_store_the_refresh_reports_its_real_outcome() {
    let gateway = Gateway::start_with("[jobs]\nretained_runs_max = 1\n");
    let client = gateway.connect().await;
    run(&client, &format!("{SLOW};{DOCS}")).await;
    let slow = submit(&client, "REFRESH COLUMN digest ON big").await;
    assert_eq!(value(&client, "REFRESH COLUMN body_len ON docs", "status").await.as_deref(), Some("succeeded"));
    assert_eq!(value(&client, &format!("CANCEL JOB '{slow}'"), "status").await.as_deref(), Some("canceling"));
}

#[tokio::test]
async fn hand_04_the_registry_needs_both_system_privileges() {
    let (gateway, admin) = docs().await;
    let job = submit(&admin, "REFRESH COLUMN body_len ON docs").await;
    rows(&admin, &format!("WAIT JOB '{job}'")).await;
    let ann = analyst(&gateway, &admin).await;
    let statements = |id: &str| {
        [
            "SHOW JOBS".to_owned(),
            "SHOW JOBS FOR TABLE docs".to_owned(),
            format!("SHOW JOBS FOR JOB '{id}'"),
            format!("SHOW JOB EVENTS '{id}'"),
            format!("SHOW JOB SPLITS '{id}'"),
            format!("DESCRIBE JOB '{id}'"),
            format!("EXPLAIN JOB '{id}'"),
            format!("PAUSE JOB '{id}'"),
            format!("RESUME JOB '{id}'"),
            format!("CANCEL JOB '{id}'"),
            format!("WAIT JOB '{id}'"),
            "SELECT * FROM system.public.jobs".to_owned(),
            "SELECT * FROM system.public.job_events".to_owned(),
            "SELECT * FROM system.public.job_splits".to_owned(),
            format!("SELECT * FROM describe_job('{id}')"),
            format!("SELECT * FROM explain_job('{id}')"),
        ]
    };
    for grant in [
        "SELECT 1",
        "GRANT USAGE ON SYSTEM TO USER ann",
        "REVOKE USAGE ON SYSTEM FROM USER ann; GRANT OPERATE ON SYSTEM TO USER ann",
    ] {
        run(&admin, grant).await;
        for (known, unknown) in statements(&job).iter().zip(statements("job_01ARZ3NDEKTSV4RRFFQ69G5FAV")) {
            let refused = error(&ann, known).await;
            assert!(refused.starts_with("42501: "), "after {grant:?}, {known}: {refused}");
            assert_eq!(error(&ann, &unknown).await, refused, "an unknown id answers alike: {unknown}");
        }
    }
    run(&admin, "GRANT USAGE ON SYSTEM TO USER ann").await;
    for statement in statements(&job) {
        // The job has ended, so there is nothing to pause any more.
        let expected = if statement.starts_with("PAUSE") { "55000" } else { "" };
        let refused = ann.simple_query(&statement).await.err().map(|error| describe(&error)).unwrap_or_default();
        assert!(refused.starts_with(expected) && refused.is_empty() == expected.is_empty(), "{statement}: {refused}");
    }
}

#[tokio::test]
async fn an_unknown_job_does_not_exist() {
    let (_gateway, client) = docs().await;
    for id in ["job_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", ""] {
        for statement in [
            "SHOW JOB EVENTS",
            "SHOW JOB SPLITS",
            "SHOW JOBS FOR JOB",
            "DESCRIBE JOB",
            "EXPLAIN JOB",
            "CANCEL JOB",
            "WAIT JOB",
        ] {
            let refused = error(&client, &format!("{statement} '{id}'")).await;
            assert_eq!(refused, format!("42704: job \"{id}\" does not exist"), "{statement}");
        }
    }
}

#[tokio::test]
async fn prog_01_jobs_are_listed_newest_first_across_tables() {
    let (_gateway, client) = docs().await;
    run(&client, "CREATE TABLE more (a BIGINT); ALTER TABLE more ADD COLUMN b AS (a + 1)").await;
    let first = submit(&client, "REFRESH COLUMN body_len ON docs").await;
    rows(&client, &format!("WAIT JOB '{first}'")).await;
    let second = submit(&client, "REFRESH COLUMN b ON more").await;
    rows(&client, &format!("WAIT JOB '{second}'")).await;
    let listed =
        "SELECT job_id, table_name, job_type, state, phase, submitted_by, queue_reason, error FROM system.public.jobs";
    let expected = [
        format!("{second}|more|computed_refresh|succeeded|finished|lancegate|∅|∅"),
        format!("{first}|docs|computed_refresh|succeeded|finished|lancegate|∅|∅"),
    ];
    assert_eq!(rows(&client, listed).await, expected);
    let shown: Vec<_> =
        rows(&client, "SHOW JOBS").await.iter().map(|row| row.split('|').next().unwrap().to_owned()).collect();
    assert_eq!(shown, [second.clone(), first.clone()]);
    let limited = rows(&client, "SHOW JOBS FOR TABLE docs LIMIT 1").await;
    assert!(limited.len() == 1 && limited[0].starts_with(&first), "{limited:?}");
    let progress = value(&client, "SHOW JOBS FOR TABLE docs", "progress").await.unwrap();
    let progress: serde_json::Value = serde_json::from_str(&progress).unwrap();
    for (field, expected) in [
        ("rows_planned", 2),
        ("rows_computed", 2),
        ("rows_published", 2),
        ("rows_remaining", 0),
        ("rows_failed", 0),
        ("execution_epoch", 1),
    ] {
        assert_eq!(progress[field], expected, "{field} in {progress}");
    }
    assert_eq!(progress["state"], "succeeded");
}

#[tokio::test]
async fn prog_07_the_events_of_a_job_tell_its_life_newest_first() {
    let (_gateway, client) = docs().await;
    let job = submit(&client, "REFRESH COLUMN body_len ON docs").await;
    rows(&client, &format!("WAIT JOB '{job}'")).await;
    let states: Vec<_> = rows(&client, &format!("SHOW JOB EVENTS '{job}' WHERE message <> 'phase'"))
        .await
        .iter()
        .map(|row| row.split('|').nth(3).unwrap().to_owned())
        .collect();
    assert_eq!(states, ["succeeded", "in_progress", "queued", "created"]);
    let newest = rows(&client, &format!("SHOW JOB EVENTS '{job}' LIMIT 1")).await;
    assert!(newest.len() == 1 && newest[0].contains("|succeeded|finished|"), "{newest:?}");
    let refused = error(&client, &format!("SHOW JOB EVENTS '{job}' WHERE nope = 1")).await;
    assert!(refused.starts_with("42703: "), "{refused}");
}

#[tokio::test]
async fn prog_08_a_split_says_what_is_known_and_nothing_else() {
    let (_gateway, client) = docs().await;
    let job = submit(&client, "REFRESH COLUMN body_len ON docs").await;
    rows(&client, &format!("WAIT JOB '{job}'")).await;
    let splits = rows(
        &client,
        &format!("SELECT split_id, fragment_id, worker LIKE 'gw_%/0', row_start, row_end, rows_skipped, attempts, state, error_count, batches, recovered
                  FROM system.public.job_splits WHERE job_id = '{job}'"),
    )
    .await;
    assert_eq!(splits, ["0|0|t|0|2|∅|1|completed|0|1|f"]);
    // The texts of two rows and where they end.
    let read = rows(&client, "SELECT bytes_read > 10, bytes_read < 1000 FROM system.public.job_splits").await;
    assert_eq!(read, ["t|t"]);
    let times = "SELECT started_at <= finished_at, batch_p50_ms > 0, batch_p50_ms <= batch_p95_ms, batch_p95_ms <= batch_p99_ms,
                 batch_p99_ms <= batch_max_ms FROM system.public.job_splits";
    assert_eq!(rows(&client, times).await, ["t|t|t|t|t"]);
    assert_eq!(rows(&client, &format!("SHOW JOB SPLITS '{job}'")).await.len(), 1);
}

#[tokio::test]
async fn prog_09_a_finished_job_tells_where_its_time_went_in_three_forms() {
    let (_gateway, client) = docs().await;
    let job = submit(&client, "REFRESH COLUMN body_len ON docs").await;
    rows(&client, &format!("WAIT JOB '{job}'")).await;
    let text = rows(&client, &format!("DESCRIBE JOB '{job}'")).await;
    assert_eq!(text[0], format!("Job {job}: computed_refresh of docs.body_len, succeeded"));
    for other in [format!("DESC JOB '{job}'"), format!("SHOW JOB SUMMARY '{job}'")] {
        assert_eq!(rows(&client, &other).await, text);
    }
    let typed = rows(&client, &format!("DESCRIBE JOB '{job}' FORMAT TABLE")).await;
    let phases: Vec<_> =
        typed.iter().filter(|row| row.starts_with("timeline|")).map(|row| row.split('|').nth(1).unwrap()).collect();
    assert_eq!(phases[..4], ["queued", "planning", "running splits", "committing"]);
    let components: Vec<_> =
        typed.iter().filter(|row| row.starts_with("workers|")).map(|row| row.split('|').nth(2).unwrap()).collect();
    assert_eq!(components, ["read", "evaluate", "write"]);
    assert_eq!(rows(&client, &format!("SELECT * FROM describe_job('{job}')")).await, typed);
    let document = rows(&client, &format!("DESCRIBE JOB '{job}' FORMAT JSON")).await;
    let document: serde_json::Value = serde_json::from_str(&document[0]).unwrap();
    assert_eq!((&document["job_id"], &document["state"]), (&job.into(), &"succeeded".into()));
}

#[tokio::test]
async fn prog_09_a_running_job_has_no_description_and_a_canceled_one_has() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, SLOW).await;
    let job = submit(&client, "REFRESH COLUMN digest ON big").await;
    assert_eq!(rows(&client, &format!("DESCRIBE JOB '{job}'")).await, Vec::<String>::new());
    assert_eq!(rows(&client, &format!("CANCEL JOB '{job}'")).await, [format!("{job}|canceling")]);
    let ended = error(&client, &format!("WAIT JOB '{job}'")).await;
    assert_eq!(ended, "57014: refresh of column \"digest\" was canceled\nWhat it has published stays.");
    assert_eq!(
        rows(&client, &format!("CANCEL JOB '{job}'")).await,
        [format!("{job}|canceled")],
        "a second cancel changes nothing"
    );
    let text = rows(&client, &format!("DESCRIBE JOB '{job}'")).await;
    assert_eq!(text[0], format!("Job {job}: computed_refresh of big.digest, canceled"));
}

#[tokio::test]
async fn a_second_refresh_of_the_same_column_is_refused_and_another_column_is_not() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, SLOW).await;
    run(&client, "ALTER TABLE big ADD COLUMN next AS (id + 1)").await;
    let job = submit(&client, "REFRESH COLUMN digest ON big").await;
    let refused = error(&client, "REFRESH COLUMN digest ON big WHERE id = 1").await;
    let expected = [
        "55006: column \"digest\" of table \"big\" is already being refreshed".to_owned(),
        format!("Job {job} is active."),
        format!("Wait for it with WAIT JOB '{job}', or end it with CANCEL JOB '{job}'."),
    ];
    assert_eq!(refused.lines().collect::<Vec<_>>(), expected);
    assert_eq!(
        value(&client, "REFRESH COLUMN next ON big WHERE id = 1 WAIT", "status").await.as_deref(),
        Some("succeeded")
    );
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
    error(&client, &format!("WAIT JOB '{job}'")).await;
}

#[tokio::test]
async fn a_queued_job_can_be_parked_resumed_and_canceled() {
    let gateway = Gateway::start_with("[jobs]\nmax_active = 1\n");
    let client = gateway.connect().await;
    run(&client, &format!("{SLOW};{DOCS}")).await;
    let slow = submit(&client, "REFRESH COLUMN digest ON big").await;
    let job = submit(&client, "REFRESH COLUMN body_len ON docs").await;
    let steps = [
        ("PAUSE JOB", "pausing"),
        ("PAUSE JOB", "already_paused"),
        ("RESUME JOB", "resumed"),
        ("RESUME JOB", "not_paused"),
        ("CANCEL JOB", "canceled"),
        ("CANCEL JOB", "canceled"),
    ];
    for (step, status) in steps {
        assert_eq!(rows(&client, &format!("{step} '{job}'")).await, [format!("{job}|{status}")], "{step}");
    }
    assert_eq!(value(&client, "SHOW JOBS FOR TABLE docs", "phase").await.as_deref(), Some("cancelled"));
    rows(&client, &format!("CANCEL JOB '{slow}'")).await;
}

#[tokio::test]
async fn waiting_ends_at_its_timeout_and_the_job_goes_on() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, SLOW).await;
    let job = submit(&client, "REFRESH COLUMN digest ON big").await;
    let ended = error(&client, &format!("WAIT JOB '{job}' TIMEOUT '1 ms'")).await;
    assert!(ended.starts_with("57014: canceling statement due to timeout of WAIT JOB\n"), "{ended}");
    let state = value(&client, "SHOW JOBS", "state").await.unwrap();
    assert!(["queued", "in_progress"].contains(&state.as_str()), "{state}");
    rows(&client, &format!("CANCEL JOB '{job}'")).await;
}

#[tokio::test]
async fn a_cancel_request_on_a_waiting_refresh_cancels_the_job() {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, SLOW).await;
    let cancel = client.cancel_token();
    let (refused, ()) = tokio::join!(error(&client, "REFRESH COLUMN digest ON big WAIT"), async {
        let watcher = gateway.connect().await;
        while rows(&watcher, "SELECT 1 FROM system.public.jobs WHERE state = 'in_progress'").await.is_empty() {}
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    });
    assert_eq!(refused, "57014: canceling statement due to user request");
    assert_eq!(value(&client, "SHOW JOBS", "state").await.as_deref(), Some("canceled"));
}

#[tokio::test]
async fn a_lost_client_does_not_cancel_its_refresh() {
    let (gateway, client) = docs().await;
    let lost = gateway.connect().await;
    {
        let refresh = lost.simple_query("REFRESH COLUMN body_len ON docs WAIT");
        tokio::pin!(refresh);
        tokio::select! {
            biased;
            _ = &mut refresh => {}
            () = async { while rows(&client, "SELECT 1 FROM system.public.jobs").await.is_empty() {} } => {}
        }
    }
    drop(lost);
    let job = value(&client, "SHOW JOBS", "job_id").await.unwrap();
    assert_eq!(value(&client, &format!("WAIT JOB '{job}'"), "state").await.as_deref(), Some("succeeded"));
}

#[tokio::test]
async fn a_job_that_a_crash_interrupts_is_finished_after_the_restart() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, SLOW).await;
    let job = submit(&client, "REFRESH COLUMN digest ON big").await;
    gateway.kill9();
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(value(&client, &format!("WAIT JOB '{job}'"), "state").await.as_deref(), Some("succeeded"));
    assert_eq!(rows(&client, "SELECT count(*) FROM big WHERE digest IS NULL").await, ["0"]);
}

#[tokio::test]
async fn explain_job_shows_the_tree_with_the_registrys_view_on_the_root() {
    let (_gateway, client) = docs().await;
    let job = submit(&client, "REFRESH COLUMN body_len ON docs WITH (num_workers = 2)").await;
    rows(&client, &format!("WAIT JOB '{job}'")).await;
    run(&client, "INSERT INTO docs (id, body) VALUES (3, 'sql')").await;
    let plan = rows(&client, &format!("EXPLAIN JOB '{job}'")).await;
    assert_eq!(plan[0], "logical_plan|RefreshColumn: REFRESH COLUMN body_len ON docs WITH (num_workers = 2)");
    assert!(
        plan[1].starts_with("physical_plan|RefreshJobExec: state=succeeded, progress=2/2, num_workers=2, source="),
        "{plan:?}"
    );
    assert!(plan[1].contains("rows=1,") && plan[1].contains("RefreshStageExec"), "{plan:?}");
    assert_eq!(rows(&client, &format!("SELECT * FROM explain_job('{job}')")).await, plan);
}

#[tokio::test]
async fn an_expression_column_has_no_row_errors() {
    let (_gateway, client) = docs().await;
    assert_eq!(rows(&client, "SHOW ERRORS ON docs").await, Vec::<String>::new());
}

#[tokio::test]
async fn gpu_01_classes_are_listed_default_first_and_need_usage_only() {
    let config = "[[gpu_classes]]\nname = \"h100\"\nresource_name = \"nvidia.com/gpu\"\ngpu_model = \"H100\"\nmax_gpu_count_per_worker = 8\n";
    let gateway = Gateway::start_with(config);
    let admin = gateway.connect().await;
    let expected = ["default|∅|∅|∅|∅|∅|∅|∅", "h100|nvidia.com/gpu|H100|∅|8|∅|∅|∅"];
    for statement in ["SHOW GPU CLASSES", "SELECT * FROM system.public.gpu_classes", "SELECT * FROM gpu_classes()"] {
        assert_eq!(rows(&admin, statement).await, expected, "{statement}");
    }
    run(&admin, "CREATE USER bob PASSWORD 'bob has a long password'; GRANT USAGE ON DATABASE lancegate TO USER bob")
        .await;
    let bob = gateway.connect_as("bob", "bob has a long password").await.unwrap();
    for statement in ["SHOW GPU CLASSES", "SELECT * FROM gpu_classes()"] {
        let refused = error(&bob, statement).await;
        assert!(refused.starts_with("42501: "), "{statement}: {refused}");
    }
    run(&admin, "GRANT USAGE ON SYSTEM TO USER bob").await;
    assert_eq!(rows(&bob, "SHOW GPU CLASSES").await, expected);
}
