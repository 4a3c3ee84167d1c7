//! Databases and nested schemas.

use crate::harness::Gateway;
use crate::rows::{error, rows, run};

#[tokio::test]
async fn nested_schemas_and_databases_hold_tables_of_their_own_and_survive_a_restart() {
    let mut gateway = Gateway::start();
    let client = gateway.connect().await;
    run(&client, "CREATE SCHEMA \"team$ml\"").await;
    run(&client, "CREATE TABLE \"team$ml\".t (id BIGINT, v REAL[3])").await;
    run(&client, "INSERT INTO \"team$ml\".t VALUES (1, '{1,2,3}')").await;
    assert!(error(&client, "SELECT * FROM t").await.starts_with("42P01: relation \"t\" does not exist"));
    run(&client, "CREATE DATABASE analytics").await;
    assert!(error(&client, "CREATE DATABASE analytics").await.starts_with("42P04"));
    drop(client);
    gateway.restart();
    let client = gateway.connect().await;
    assert_eq!(rows(&client, "SELECT * FROM lancegate.\"team$ml\".t").await, ["1|{1,2,3}"]);
    assert_eq!(rows(&client, "SELECT datname FROM pg_database ORDER BY 1").await, ["analytics", "lancegate"]);
}
