//! Statements in, text out: what a test compares with.

use tokio_postgres::{Client, SimpleQueryMessage};

/// Returns the rows of a statement, columns joined by `|`, NULL as `∅`.
pub(crate) async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", describe(&error)));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let values: Vec<&str> = (0..row.len()).map(|column| row.get(column).unwrap_or("∅")).collect();
            Some(values.join("|"))
        }
        _ => None,
    });
    rows.collect()
}

/// Returns one column of the only row.
pub(crate) async fn value(client: &Client, sql: &str, column: &str) -> Option<String> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", describe(&error)));
    let mut rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(column).map(str::to_owned)),
        _ => None,
    });
    let value = rows.next().unwrap_or_else(|| panic!("{sql}: no row"));
    assert!(rows.next().is_none(), "{sql}: more than one row");
    value
}

/// Runs statements that must succeed.
pub(crate) async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", describe(&error)));
}

/// Returns code and message of a statement that must fail.
pub(crate) async fn error(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => panic!("{sql}: succeeded"),
        Err(error) => describe(&error),
    }
}

/// Returns code, message, detail and hint, each on its line.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    let Some(error) = error.as_db_error() else { return error.to_string() };
    let mut text = format!("{}: {}", error.code().code(), error.message());
    for part in [error.detail(), error.hint()].into_iter().flatten() {
        text.push('\n');
        text.push_str(part);
    }
    text
}

/// Runs a change and returns how many rows its tag counts.
pub(crate) async fn affected(client: &Client, sql: &str) -> u64 {
    client.execute(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {}", describe(&error)))
}
