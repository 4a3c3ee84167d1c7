//! Secrets in the environment of Functions: who may bind them, when they are opened, and that nothing shows them.

use super::config;
use crate::harness::Gateway;
use crate::rows::{error, rows, run};

const VALUE: &str = "s3cr3t-of-the-test";
/// Fails with the value in three forms, and prints it.
const LEAKS: &str = "
import base64, os
def f(x):
    value = os.environ[''API_KEY'']
    print(value)
    if x == 3:
        raise ValueError(value + '' '' + base64.b64encode(value.encode()).decode())
    return len(value) + x
";

#[tokio::test]
async fn w14_a_function_reads_its_secret_and_no_message_shows_it() {
    let gateway = Gateway::start_with(&config(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(1, 4)").await;
    let create = format!("CREATE SECRET key TYPE = GENERIC_STRING SECRET_STRING = '{VALUE}'");
    run(&client, &create).await;
    let option = "WITH (secrets = '{\"API_KEY\": \"key\"}')";
    run(&client, &format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS '{LEAKS}' {option}")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert!(failed.contains("<redacted>") && !failed.contains(VALUE), "{failed}");
    run(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    let length = VALUE.len();
    let filled = [length + 1, length + 2, length + 4].map(|value| value.to_string());
    assert_eq!(rows(&client, "SELECT y FROM n WHERE y IS NOT NULL ORDER BY x").await, filled);
    for statement in ["SHOW ERRORS ON n", "SHOW JOBS", "SELECT * FROM system.public.job_events", "DESCRIBE FUNCTION f"]
    {
        let shown = rows(&client, statement).await.join("\n");
        assert!(!shown.contains(VALUE) && !shown.contains("czNjcjN0"), "{statement}: {shown}");
    }
    // Another value is another worker: none that is warm holds the old one.
    run(&client, "ALTER SECRET key SECRET_STRING = 'other'").await;
    run(&client, "REFRESH COLUMN y ON n WHERE x = 1 WAIT").await;
    assert_eq!(rows(&client, "SELECT y FROM n WHERE x = 1").await, ["6"]);
}

#[tokio::test]
async fn binding_needs_usage_on_the_secret_and_a_dropped_one_fails_the_job_by_name() {
    let gateway = Gateway::start_with(&config(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n VALUES (1)").await;
    let create = |secrets: &str| {
        format!(
            "CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x' WITH (secrets = '{secrets}')"
        )
    };
    for (secrets, code, part) in
        [("{\"API_KEY\": \"nope\"}", "42704", "nope"), ("{\"1X\": \"key\"}", "22023", "1X"), ("[]", "22023", "secrets")]
    {
        let refused = error(&client, &create(secrets)).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{refused}");
    }
    run(&client, "CREATE SECRET key TYPE = GENERIC_STRING SECRET_STRING = 'abcdef'").await;
    run(&client, &create("{\"API_KEY\": {\"schema\": \"public\", \"name\": \"key\"}}")).await;
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x); DROP SECRET key").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert!(failed.contains("secret \"key\" does not exist"), "{failed}");
}
