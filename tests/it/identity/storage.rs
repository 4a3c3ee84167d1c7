//! Names, links and addresses that would lead a statement out of the data folder.

use super::Files;
use crate::harness::Gateway;
use crate::rows::{error, rows, run};

#[tokio::test]
async fn s01_names_that_could_be_paths_are_refused_and_make_nothing() {
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    let before = listed(&gateway);
    for name in
        ["..", ".", "a/../b", "%2e%2e", "a//b", "a b", "\u{430}", "a\\b", "a\u{200b}", "~", "a:b", &"x".repeat(129)]
    {
        for statement in [
            format!("CREATE TABLE \"{name}\" (id BIGINT)"),
            format!("CREATE VIEW \"{name}\" AS SELECT 1 AS a"),
            format!("CREATE SCHEMA \"{name}\""),
            format!("CREATE DATABASE \"{name}\""),
            format!("CREATE SECRET \"{name}\" SECRET_STRING = 'x'"),
            format!("CREATE TABLE \"{name}\".t (id BIGINT)"),
        ] {
            // Names of secrets may be longer.
            if statement.starts_with("CREATE SECRET") && name.len() == 129 {
                continue;
            }
            let said = error(&admin, &statement).await;
            let codes = ["42602", "42622", "3F000"];
            assert!(codes.iter().any(|code| said.starts_with(code)), "{statement}: {said}");
        }
    }
    assert!(error(&admin, "CREATE TABLE \"\" (id BIGINT)").await.starts_with("42601"));
    assert_eq!(listed(&gateway), before);
}

fn listed(gateway: &Gateway) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir(gateway.data()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn s02_a_link_out_of_the_folder_is_no_table() {
    let files = Files::new();
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE kept (id BIGINT); INSERT INTO kept VALUES (1)").await;
    let outside = files.path("outside.lance");
    let copied =
        std::process::Command::new("cp").arg("-r").arg(gateway.data().join("kept.lance")).arg(&outside).status();
    assert!(copied.unwrap().success());
    std::os::unix::fs::symlink(&outside, gateway.data().join("link.lance")).unwrap();
    std::os::unix::fs::symlink("/etc", gateway.data().join("etc.lance")).unwrap();
    for statement in ["SELECT * FROM link", "INSERT INTO link VALUES (2)", "DROP TABLE link", "SELECT * FROM etc"] {
        let said = error(&admin, statement).await;
        assert!(said.starts_with("42P01"), "{statement}: {said}");
    }
    let tables = rows(&admin, "SHOW TABLES").await.join("\n");
    assert!(tables.contains("kept") && !tables.contains("link") && !tables.contains("etc"), "{tables}");
    // A name that is taken by a link is free for a table of ours, beside it.
    run(&admin, "CREATE TABLE link (id BIGINT); INSERT INTO link VALUES (7); DROP TABLE link").await;
    assert!(outside.join("_versions").exists() && !outside.join(".lancegate-dropped").exists());
}

#[tokio::test]
async fn s03_s04_no_address_of_a_client_reaches_storage() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let here = listener.local_addr().unwrap();
    let gateway = Gateway::start();
    let admin = gateway.connect().await;
    run(&admin, "CREATE TABLE t (id BIGINT)").await;
    let mut statements = Vec::new();
    for place in [
        "/etc/passwd",
        "file:///etc/passwd",
        "/proc/self/environ",
        "http://169.254.169.254/",
        &format!("http://{here}/x.lance"),
        &format!("s3://bucket/x.lance?endpoint=http://{here}"),
        "s3://bucket/x.lance",
        "gopher://x/",
        "memory://x",
        "nonsense://x",
    ] {
        statements.extend([
            format!("SELECT * FROM '{place}'"),
            format!("SELECT * FROM \"{place}\""),
            format!("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '{place}'"),
            format!("COPY t TO '{place}'"),
            format!("COPY t FROM '{place}'"),
            format!("CREATE TABLE x (id BIGINT) LOCATION '{place}'"),
            format!("ATTACH DATABASE x FROM '{place}'"),
            format!("CREATE DATABASE x WITH (location = '{place}')"),
            format!("SELECT * FROM read_csv('{place}')"),
            format!("SELECT * FROM read_parquet('{place}')"),
            format!("SELECT pg_read_file('{place}')"),
        ]);
    }
    for setting in ["aws_endpoint", "allow_http", "datafusion.execution.batch_size"] {
        statements.push(format!("SET {setting} = 'http://{here}'"));
    }
    for statement in statements {
        let said = error(&admin, &statement).await;
        let codes = ["42P01", "42601", "0A000", "42883", "42501", "42704", "42602", "22023"];
        assert!(codes.iter().any(|code| said.starts_with(code)), "{statement}: {said}");
        assert!(!said.contains("root:"), "{statement}: {said}");
    }
    assert!(listener.accept().is_err(), "somebody has connected");
}

#[tokio::test]
async fn z08_settings_are_those_of_the_list() {
    let gateway = Gateway::start_with("[query]\nspill_directory = '/tmp'\n");
    let admin = gateway.connect().await;
    for (statement, code) in [
        ("SET datafusion.runtime.memory_limit = '1G'", "42501"),
        ("SET datafusion.execution.batch_size = 1", "42501"),
        ("SET role admin", "42501"),
        ("SET session_authorization = other", "42501"),
        ("SET SESSION AUTHORIZATION other", "42501"),
        ("SET is_superuser = on", "55P02"),
        ("SET nonsense = 1", "42704"),
        ("SHOW datafusion.execution.batch_size", "42704"),
        ("SELECT * FROM information_schema.df_settings", "42P01"),
    ] {
        let said = error(&admin, statement).await;
        assert!(said.starts_with(code), "{statement}: {said}");
    }
    let all = rows(&admin, "SHOW ALL").await.join("\n").to_lowercase();
    for hidden in ["datafusion", "spill", "secret", "password_hash", "aws_"] {
        assert!(!all.contains(hidden), "{hidden} is in {all}");
    }
}
