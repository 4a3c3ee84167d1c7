//! Gateways that are killed while they refresh.

use std::time::Duration;

use rand::Rng;

use crate::harness::Gateway;

/// Kills of one refresh each, at a random moment of it.
const KILLS: usize = 20;
const ROWS: i64 = 60_000;

/// RC-10: a job survives `kill -9` at any moment: the next start finishes it,
/// nothing is lost and nothing half-done is visible.
#[tokio::test]
async fn rc_10_twenty_kills_at_random_moments_end_in_the_right_table() {
    let config = "[column_refresh]\npublish_fragments = 1\n";
    let mut gateway = Gateway::start_with(config);
    let client = gateway.connect().await;
    client.batch_execute("CREATE TABLE t (id bigint, x bigint)").await.unwrap();
    for part in 0..12 {
        let (first, last) = (part * ROWS / 12 + 1, (part + 1) * ROWS / 12);
        let insert = format!("INSERT INTO t SELECT i, i * 3 FROM generate_series({first}, {last}) AS s(i)");
        client.batch_execute(&insert).await.unwrap();
    }
    drop(client);
    for kill in 0..KILLS {
        let client = gateway.connect().await;
        let column = format!("y{kill}");
        client.batch_execute(&format!("ALTER TABLE t ADD COLUMN {column} AS x * 2 + {kill}")).await.unwrap();
        let submitted = client.query_one(&format!("REFRESH COLUMN {column} ON t NOWAIT"), &[]).await.unwrap();
        assert_eq!(submitted.get::<_, &str>("status"), "submitted");
        let job: String = submitted.get("job_id");
        // The moment of the kill is the random variable of this test.
        let moment = Duration::from_micros(rand::rng().random_range(0..150_000));
        tokio::time::sleep(moment).await;
        gateway.restart();
        let client = gateway.connect().await;
        let states = client.query(&format!("WAIT JOB '{job}' TIMEOUT '60 seconds'"), &[]).await;
        let states = states.unwrap_or_else(|error| panic!("kill {kill} after {moment:?}: {error}"));
        assert_eq!(states[0].get::<_, &str>("state"), "succeeded", "kill {kill} after {moment:?}");
        let check = format!("SELECT count(*), count({column}), sum({column}) FROM t WHERE {column} = x * 2 + {kill}");
        let row = client.query_one(&check, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (ROWS, ROWS), "kill {kill} after {moment:?}");
        let again = client.query_one(&format!("REFRESH COLUMN {column} ON t WAIT"), &[]).await.unwrap();
        assert_eq!(again.get::<_, Option<i64>>("rows_remaining"), Some(0));
    }
}

/// What a client was told is committed is there after a crash.
#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let mut gateway = Gateway::start();
    for round in 1..=5_i64 {
        let client = gateway.connect().await;
        client.batch_execute("CREATE TABLE IF NOT EXISTS t (id bigint)").await.unwrap();
        client.batch_execute(&format!("INSERT INTO t VALUES ({round})")).await.unwrap();
        client.batch_execute(&format!("CREATE USER u{round} PASSWORD 'secret {round}'")).await.unwrap();
        gateway.restart();
        let client = gateway.connect_as(&format!("u{round}"), &format!("secret {round}")).await.unwrap();
        drop(client);
        let client = gateway.connect().await;
        let row = client.query_one("SELECT count(*), max(id) FROM t", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (round, round));
    }
}
