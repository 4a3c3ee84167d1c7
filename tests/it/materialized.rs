//! Materialized views as a client of SQL sees them.

use tokio_postgres::Client;

use crate::harness::Gateway;
#[cfg(feature = "failpoints")]
use crate::harness::until;
use crate::rows::{error, rows, run, value};

async fn started() -> (Gateway, Client) {
    let gateway = Gateway::start();
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE docs (id BIGINT, body TEXT, price DOUBLE PRECISION);
         INSERT INTO docs VALUES (1, 'lance', 10), (2, 'gate', 20), (3, NULL, 30)",
    )
    .await;
    (gateway, client)
}

/// Refreshes and waits; returns mode and rows written.
async fn refreshed(client: &Client, statement: &str) -> String {
    let answer = rows(client, &format!("{statement} WAIT")).await;
    let cells: Vec<&str> = answer[0].split('|').collect();
    assert_eq!((cells[0], cells[2]), ("refresh_materialized_view", "succeeded"), "{answer:?}");
    assert!(cells[3].starts_with("job_"), "{answer:?}");
    assert!(cells[6..].iter().all(|number| number.parse::<u64>().is_ok()), "all are required: {answer:?}");
    format!("{} {}", cells[4], cells[5])
}

#[tokio::test]
async fn mv_02_creating_a_view_fills_it_and_answers_with_its_job() {
    let (_gateway, client) = started().await;
    let create = "CREATE MATERIALIZED VIEW dear AS SELECT id, price * 2 AS twice FROM docs WHERE price > 10";
    let answer = rows(&client, create).await;
    let job = answer[0].rsplit('|').next().unwrap().to_owned();
    assert_eq!(answer, [format!("create_materialized_view|dear|created|{job}")]);
    let told =
        rows(&client, &format!("SELECT job_type, state, table_name FROM system.public.jobs WHERE job_id = '{job}'"))
            .await;
    assert_eq!(told, ["sql|succeeded|dear"]);
    assert_eq!(rows(&client, "SELECT * FROM dear ORDER BY id").await, ["2|40", "3|60"]);
    assert!(error(&client, create).await.starts_with("42P07: "));
    let skipped = create.replace("VIEW dear", "VIEW IF NOT EXISTS dear");
    assert_eq!(rows(&client, &skipped).await, ["create_materialized_view|dear|exists|∅"]);
}

#[tokio::test]
async fn mv_02_without_data_there_is_no_job_and_no_row() {
    let (_gateway, client) = started().await;
    let answer = rows(&client, "CREATE MATERIALIZED VIEW later AS SELECT id FROM docs WITH NO DATA").await;
    assert_eq!(answer, ["create_materialized_view|later|created|∅"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM later").await, ["0"]);
    let told = "SELECT is_populated, refreshed_at IS NULL FROM system.public.materialized_views";
    assert_eq!(rows(&client, told).await, ["f|t"]);
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW later").await, "rebuild 3");
    assert_eq!(rows(&client, told).await, ["t|f"]);
}

#[tokio::test]
async fn mv_01_a_refresh_shows_what_the_query_gives_now_and_none_is_needed_otherwise() {
    let (_gateway, client) = started().await;
    run(
        &client,
        "CREATE MATERIALIZED VIEW sums AS SELECT body IS NULL AS bare, sum(price) AS total FROM docs GROUP BY 1",
    )
    .await;
    let read = "SELECT * FROM sums ORDER BY bare";
    assert_eq!(rows(&client, read).await, ["f|30", "t|30"]);
    let refresh = "REFRESH MATERIALIZED VIEW sums";
    assert_eq!(refreshed(&client, refresh).await, "no_op 0");
    let versions = value(&client, "SELECT version FROM system.public.materialized_views", "version").await;
    for (change, expected) in [
        ("INSERT INTO docs VALUES (4, 'x', 5)", ["f|35", "t|30"]),
        ("UPDATE docs SET price = 1 WHERE id = 1", ["f|26", "t|30"]),
        ("DELETE FROM docs WHERE id = 2", ["f|6", "t|30"]),
    ] {
        run(&client, change).await;
        assert_ne!(rows(&client, read).await, expected, "a view changes by refreshes only");
        assert_eq!(refreshed(&client, refresh).await, "rebuild 2", "{change}");
        assert_eq!(rows(&client, read).await, expected, "{change}");
    }
    assert_eq!(refreshed(&client, refresh).await, "no_op 0");
    assert_eq!(refreshed(&client, &format!("{refresh} WITH (full = true)")).await, "rebuild 2");
    let after = value(&client, "SELECT version FROM system.public.materialized_views", "version").await;
    let number = |version: Option<String>| version.unwrap().parse::<u64>().unwrap();
    assert_eq!(number(after), number(versions) + 4, "one commit for each that was not a no-op");
}

#[tokio::test]
async fn mv_01_rows_that_nothing_gives_any_more_and_what_changes_by_itself() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE MATERIALIZED VIEW cheap AS SELECT * FROM docs WHERE price < 15").await;
    run(&client, "CREATE MATERIALIZED VIEW stamped AS SELECT id, now() AS at FROM docs").await;
    run(&client, "UPDATE docs SET price = 100").await;
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW cheap").await, "rebuild 0");
    assert_eq!(rows(&client, "SELECT count(*) FROM cheap").await, ["0"]);
    for _ in 0..2 {
        assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW stamped").await, "rebuild 3", "now() changes");
    }
    // The query takes all columns there are when it runs.
    run(&client, "ALTER TABLE docs ADD COLUMN more BIGINT; UPDATE docs SET price = 1, more = 7").await;
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW cheap").await, "rebuild 3");
    assert_eq!(rows(&client, "SELECT DISTINCT price, more FROM cheap").await, ["1|7"]);
}

#[tokio::test]
async fn mv_01_views_over_views_hold_what_those_hold_now() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE VIEW plain AS SELECT id, price FROM docs").await;
    run(&client, "CREATE MATERIALIZED VIEW low AS SELECT id, price FROM plain WHERE price < 25").await;
    run(&client, "CREATE MATERIALIZED VIEW top AS SELECT max(price) AS most FROM low").await;
    run(&client, "UPDATE docs SET price = 24 WHERE id = 2").await;
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW top").await, "no_op 0", "low is as it was");
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW low").await, "rebuild 2", "through the plain view");
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW top").await, "rebuild 1");
    assert_eq!(rows(&client, "SELECT most FROM top").await, ["24"]);
    assert!(error(&client, "REFRESH MATERIALIZED VIEW top CASCADE").await.starts_with("0A000: "));
    run(&client, "DROP MATERIALIZED VIEW low CASCADE").await;
    assert!(error(&client, "SELECT * FROM top").await.starts_with("42P01: "), "it went with what it reads");
}

#[tokio::test]
async fn mv_01_without_its_source_a_view_stays_and_its_refresh_names_what_is_missing() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE MATERIALIZED VIEW kept AS SELECT id FROM docs").await;
    run(&client, "DROP TABLE docs").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM kept").await, ["3"]);
    let job = value(&client, "REFRESH MATERIALIZED VIEW kept NOWAIT", "job_id").await.unwrap();
    let failed = error(&client, &format!("WAIT JOB '{job}'")).await;
    assert!(failed.starts_with("42P01: relation \"docs\" does not exist"), "{failed}");
    assert_eq!(rows(&client, "SELECT count(*) FROM kept").await, ["3"]);
}

#[tokio::test]
async fn mv_02_a_view_is_read_like_a_table_and_written_by_refreshes_only() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE MATERIALIZED VIEW v AS SELECT id, body FROM docs WHERE id < 3").await;
    assert_eq!(
        rows(&client, "SELECT d.price, v.body FROM v JOIN docs d ON d.id = v.id ORDER BY 1").await,
        ["10|lance", "20|gate"]
    );
    assert_eq!(rows(&client, "SHOW MATERIALIZED VIEWS").await, ["[]|v"]);
    assert_eq!(rows(&client, "SHOW TABLES").await, ["[]|docs"]);
    assert_eq!(rows(&client, "DESCRIBE v").await, ["id|bigint|YES", "body|text|YES"]);
    let told = rows(&client, "SELECT matviewname, definition FROM pg_matviews").await;
    assert_eq!(told, ["v|SELECT id, body FROM docs WHERE id < 3"]);
    assert_eq!(rows(&client, "SELECT relkind FROM pg_class WHERE relname = 'v'").await, ["m"]);
    let described = rows(&client, "SELECT name, query, version, \"rows\" FROM system.public.materialized_views").await;
    assert_eq!(described, ["v|SELECT id, body FROM docs WHERE id < 3|2|2"]);
    let one = rows(&client, "DESCRIBE MATERIALIZED VIEW v").await;
    assert!(one.len() == 1 && one[0].starts_with("[]|v|SELECT id, body FROM docs WHERE id < 3|t|2|"), "{one:?}");
    for change in [
        "INSERT INTO v VALUES (9, 'x')",
        "UPDATE v SET body = 'x'",
        "DELETE FROM v",
        "TRUNCATE v",
        "COPY v FROM STDIN",
        "ALTER TABLE v ADD COLUMN c BIGINT",
        "CREATE INDEX ON v (id)",
        "REFRESH COLUMN id ON v",
    ] {
        let refused = error(&client, change).await;
        assert!(refused.starts_with("42809: cannot change materialized view \"v\""), "{change}: {refused}");
    }
    for wrong in ["DROP TABLE v", "DROP VIEW v", "DROP MATERIALIZED VIEW docs", "REFRESH MATERIALIZED VIEW docs"] {
        assert!(error(&client, wrong).await.starts_with("42809: "), "{wrong}");
    }
    let copied = client.copy_out("COPY v TO STDOUT").await.unwrap();
    let copied: Vec<_> = futures::TryStreamExt::try_collect(copied).await.unwrap();
    assert_eq!(copied.concat(), b"1\tlance\n2\tgate\n");
    run(&client, "DROP MATERIALIZED VIEW v; DROP MATERIALIZED VIEW IF EXISTS v").await;
    assert!(error(&client, "SELECT * FROM v").await.starts_with("42P01: "));
    assert!(error(&client, "DROP MATERIALIZED VIEW v").await.starts_with("42P01: "));
    run(&client, "CREATE TABLE v (id BIGINT)").await;
}

#[tokio::test]
async fn mv_02_a_view_that_cannot_be_filled_is_not_left_behind() {
    let (gateway, client) = started().await;
    let create = "CREATE MATERIALIZED VIEW bad AS SELECT 100 / (id - 1) AS share FROM docs";
    assert!(error(&client, create).await.starts_with("22012: "), "division by zero");
    assert_eq!(rows(&client, "SHOW MATERIALIZED VIEWS").await, Vec::<String>::new());
    assert!(!gateway.data().join("bad.lance").exists());
    for (bad, code) in [
        ("CREATE MATERIALIZED VIEW w AS SELECT nothing FROM docs", "42703"),
        ("CREATE MATERIALIZED VIEW w AS SELECT id FROM missing", "42P01"),
        ("CREATE MATERIALIZED VIEW w AS SELECT id, id FROM docs", "42701"),
        ("CREATE MATERIALIZED VIEW w AS SELECT id + 1 FROM docs", "42602"),
        ("CREATE MATERIALIZED VIEW docs AS SELECT 1 AS a", "42P07"),
        ("CREATE MATERIALIZED VIEW w WITH (color = 'red') AS SELECT 1 AS a", "42"),
        ("CREATE MATERIALIZED VIEW w AS DELETE FROM docs", "42601"),
        ("REFRESH MATERIALIZED VIEW w", "42P01"),
        ("ALTER MATERIALIZED VIEW w SET (auto_refresh_enabled = true)", "42P01"),
    ] {
        let refused = error(&client, bad).await;
        assert!(refused.starts_with(code), "{bad}: {refused}");
    }
}

#[tokio::test]
async fn mv_02_options_are_kept_through_refreshes() {
    let (_gateway, client) = started().await;
    run(&client, "CREATE MATERIALIZED VIEW v WITH (auto_refresh_interval_seconds = 0.5) AS SELECT id FROM docs").await;
    let told = "SELECT auto_refresh_enabled, auto_refresh_interval_seconds FROM system.public.materialized_views";
    assert_eq!(rows(&client, told).await, ["∅|0.5"]);
    run(&client, "ALTER MATERIALIZED VIEW v SET (auto_refresh_enabled = true)").await;
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW v").await, "no_op 0");
    assert_eq!(refreshed(&client, "REFRESH MATERIALIZED VIEW v WITH (full = true)").await, "rebuild 3");
    assert_eq!(rows(&client, told).await, ["t|0.5"]);
}

#[tokio::test]
async fn mv_01_views_take_their_own_privileges_and_refresh_with_those_of_the_user() {
    let (gateway, client) = started().await;
    run(
        &client,
        "CREATE USER ada PASSWORD 'secret-of-ada';
         GRANT USAGE ON DATABASE lancegate TO USER ada;
         GRANT USAGE ON SCHEMA public TO USER ada;
         CREATE MATERIALIZED VIEW v AS SELECT id FROM docs",
    )
    .await;
    let ada = gateway.connect_as("ada", "secret-of-ada").await.unwrap();
    let create = "CREATE MATERIALIZED VIEW mine AS SELECT id FROM docs";
    assert!(error(&ada, "SELECT * FROM v").await.starts_with("42501: "));
    assert!(error(&ada, create).await.starts_with("42501: "));
    assert_eq!(rows(&ada, "SELECT name FROM system.public.materialized_views").await, Vec::<String>::new());
    run(&client, "GRANT CREATE MATERIALIZED VIEW ON SCHEMA public TO USER ada").await;
    assert!(error(&ada, create).await.contains("docs"), "the source, too");
    run(&client, "GRANT SELECT ON MATERIALIZED VIEW v TO USER ada").await;
    assert_eq!(rows(&ada, "SELECT count(*) FROM v").await, ["3"], "and nothing on its source");
    assert!(error(&ada, "REFRESH MATERIALIZED VIEW v").await.starts_with("42501: "));
    run(&client, "GRANT UPDATE ON MATERIALIZED VIEW v TO USER ada; INSERT INTO docs VALUES (4, 'd', 4)").await;
    let failed = error(&ada, "REFRESH MATERIALIZED VIEW v").await;
    assert!(failed.starts_with("42501: permission denied for table docs"), "{failed}");
    run(&client, "GRANT SELECT ON TABLE docs TO USER ada").await;
    let answer = rows(&ada, "REFRESH MATERIALIZED VIEW v").await;
    assert!(answer[0].starts_with("refresh_materialized_view|v|succeeded|∅|rebuild|4|"), "{answer:?}");
    assert!(error(&ada, "DROP MATERIALIZED VIEW v").await.starts_with("42501: must be owner"));
    assert!(error(&ada, "ALTER MATERIALIZED VIEW v SET (auto_refresh_enabled = true)").await.starts_with("42501: "));
    assert_eq!(value(&ada, create, "status").await.as_deref(), Some("created"));
    run(&ada, "DROP MATERIALIZED VIEW mine").await;
}

/// The state that a job ends in.
#[cfg(feature = "failpoints")]
async fn ended(client: &Client, job: &str) -> String {
    until("the job has ended", async || {
        let told = rows(client, &format!("SELECT state FROM system.public.jobs WHERE job_id = '{job}'")).await;
        (["succeeded", "failed", "canceled"].contains(&told[0].as_str())).then(|| told[0].clone())
    })
    .await
}

/// Every version of the view by the job that made it.
#[cfg(feature = "failpoints")]
async fn commits(gateway: &Gateway, view: &str) -> Vec<String> {
    let newest = lance::Dataset::open(gateway.data().join(view).to_str().unwrap()).await.unwrap();
    let mut jobs = Vec::new();
    for version in newest.versions().await.unwrap() {
        let dataset = newest.checkout_version(version.version).await.unwrap();
        let Some(transaction) = dataset.read_transaction().await.unwrap() else { continue };
        let Some(properties) = transaction.transaction_properties.as_ref() else { continue };
        jobs.extend(properties.get("lancegate.job_id").cloned());
    }
    jobs
}

/// Killed right before the commit, after it, and before its end is recorded: the rows
/// are written once, by whichever attempt.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn mv_01_a_crash_around_the_commit_writes_the_rows_once() {
    for place in ["publish.before", "publish.committed", "end.before"] {
        let mut gateway = Gateway::start_failing("[jobs]\nlease = \"2s\"\n", &format!("{place}=exit"));
        let client = gateway.connect().await;
        run(
            &client,
            "CREATE TABLE docs (id BIGINT); INSERT INTO docs VALUES (1), (2);
             CREATE MATERIALIZED VIEW v AS SELECT id FROM docs WITH NO DATA",
        )
        .await;
        let job = value(&client, "REFRESH MATERIALIZED VIEW v NOWAIT", "job_id").await.unwrap();
        gateway.wait_for_end();
        gateway.restart();
        let client = gateway.connect().await;
        assert_eq!(ended(&client, &job).await, "succeeded", "{place}");
        assert_eq!(rows(&client, "SELECT id FROM v ORDER BY id").await, ["1", "2"], "{place}");
        assert_eq!(commits(&gateway, "v.lance").await, [job], "{place}");
    }
}

/// While one refresh runs another one is refused; what else was committed to the view
/// meanwhile is not lost, and the refresh is done again over it.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn mv_01_a_view_has_one_refresh_at_a_time() {
    let gateway = Gateway::start_failing("", "publish.before=hold");
    let client = gateway.connect().await;
    run(
        &client,
        "CREATE TABLE docs (id BIGINT); INSERT INTO docs VALUES (1);
         CREATE MATERIALIZED VIEW v AS SELECT id FROM docs WITH NO DATA",
    )
    .await;
    let job = value(&client, "REFRESH MATERIALIZED VIEW v NOWAIT", "job_id").await.unwrap();
    gateway.held("publish.before", 1).await;
    let refused = error(&client, "REFRESH MATERIALIZED VIEW v NOWAIT").await;
    assert!(refused.starts_with("55006: materialized view \"v\" is already being refreshed"), "{refused}");
    assert!(refused.contains(&job), "{refused}");
    run(&client, "ALTER MATERIALIZED VIEW v SET (auto_refresh_enabled = true)").await;
    gateway.let_go("publish.before", 1);
    assert_eq!(ended(&client, &job).await, "succeeded");
    assert_eq!(rows(&client, "SELECT id FROM v").await, ["1"]);
    assert_eq!(rows(&client, "SELECT auto_refresh_enabled FROM system.public.materialized_views").await, ["t"]);
    assert_eq!(commits(&gateway, "v.lance").await, [job]);
}

/// Dropping a view cancels its refresh, and nothing is left in its place.
#[cfg(feature = "failpoints")]
#[tokio::test]
async fn mv_01_dropping_a_view_ends_its_refresh() {
    let gateway = Gateway::start_failing("", "publish.before=hold");
    let client = gateway.connect().await;
    run(&client, "CREATE MATERIALIZED VIEW v AS SELECT 1 AS id WITH NO DATA").await;
    let job = value(&client, "REFRESH MATERIALIZED VIEW v NOWAIT", "job_id").await.unwrap();
    gateway.held("publish.before", 1).await;
    let other = gateway.connect().await;
    let dropping = tokio::spawn(async move { run(&other, "DROP MATERIALIZED VIEW v").await });
    gateway.told_to_stop().await;
    gateway.let_go("publish.before", 1);
    dropping.await.unwrap();
    assert!(["canceled", "succeeded"].contains(&ended(&client, &job).await.as_str()));
    assert!(error(&client, "SELECT * FROM v").await.starts_with("42P01: "));
    assert!(!gateway.data().join("v.lance/_versions").exists());
}
