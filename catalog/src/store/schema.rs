//! The tables and how they came about.
//!
//! Migrations only go forward. One that was released is never edited; a change
//! is a new one. The SQL keeps to what SQLite and PostgreSQL share: text,
//! 64-bit integers, partial indexes. Times are microseconds since 1970, JSON
//! is text, a namespace is its components joined with `$`, the root is ''.

mod secrets;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::error::Result;

/// Whether the file fits this software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has the schema of [`VERSION`].
    Current,
    /// Newer software wrote it.
    Newer {
        /// Its version.
        found: i64,
    },
}

/// The newest schema version that this software writes.
pub(super) const VERSION: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Each migration with its number, ascending. What a file lacks is applied,
/// whatever newer ones it has.
const MIGRATIONS: &[(i64, &[&str])] = &[
    (1, FIRST),
    (2, PARTS),
    (3, FUNCTIONS),
    (4, secrets::TABLES),
    (5, super::bindings::TABLES),
    (6, super::metering::TABLES),
    (7, super::api_keys::TABLES),
    (8, super::children::COLUMNS),
    (9, super::comments::TABLES),
    (10, super::sequences::TABLES),
    (11, super::failures::TABLES),
];

const FIRST: &[&str] = &[
    "CREATE TABLE jobs (
        job_id           TEXT   NOT NULL PRIMARY KEY,
        kind             TEXT   NOT NULL,
        database_name    TEXT   NOT NULL,
        namespace        TEXT   NOT NULL,
        table_name       TEXT   NOT NULL,
        table_id         TEXT,
        column_name      TEXT,
        branch           TEXT,
        submitted_by     TEXT   NOT NULL,
        spec             TEXT   NOT NULL,
        parent           TEXT,
        exclusive_key    TEXT,
        idempotency_key  TEXT,
        state            TEXT   NOT NULL,
        requested        TEXT,
        phase            TEXT   NOT NULL,
        progress         TEXT,
        queue_reason     TEXT,
        result           TEXT,
        failure          TEXT,
        source_version   BIGINT,
        epoch            BIGINT NOT NULL,
        attempt          BIGINT NOT NULL,
        gateway          TEXT,
        lease_expires_at BIGINT,
        not_before       BIGINT,
        created_at       BIGINT NOT NULL,
        updated_at       BIGINT NOT NULL,
        started_at       BIGINT,
        finished_at      BIGINT,
        last_event       BIGINT NOT NULL
    )",
    // Listings, newest first.
    "CREATE INDEX jobs_newest ON jobs (created_at, job_id)",
    "CREATE INDEX jobs_of_database ON jobs (database_name, created_at, job_id)",
    "CREATE INDEX jobs_of_table
        ON jobs (database_name, namespace, table_name, created_at, job_id)",
    "CREATE INDEX jobs_of_parent ON jobs (parent, created_at, job_id) WHERE parent IS NOT NULL",
    "CREATE INDEX jobs_active ON jobs (created_at, job_id) WHERE finished_at IS NULL",
    // Claims.
    "CREATE INDEX jobs_queued ON jobs (created_at, job_id) WHERE state = 'queued'",
    "CREATE INDEX jobs_leased ON jobs (lease_expires_at) WHERE state = 'in_progress'",
    // Rules.
    "CREATE UNIQUE INDEX jobs_exclusive ON jobs (exclusive_key)
        WHERE finished_at IS NULL AND exclusive_key IS NOT NULL",
    "CREATE INDEX jobs_idempotent ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL",
    // Retention.
    "CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL",
    "CREATE TABLE job_events (
        job_id     TEXT   NOT NULL,
        seq        BIGINT NOT NULL,
        at         BIGINT NOT NULL,
        state      TEXT   NOT NULL,
        phase      TEXT   NOT NULL,
        emitted_by TEXT   NOT NULL,
        worker     TEXT,
        message    TEXT   NOT NULL,
        details    TEXT,
        PRIMARY KEY (job_id, seq)
    )",
    "CREATE INDEX job_events_oldest ON job_events (at)",
    "CREATE TABLE job_receipts (
        job_id TEXT   NOT NULL,
        name   TEXT   NOT NULL,
        epoch  BIGINT NOT NULL,
        value  TEXT   NOT NULL,
        PRIMARY KEY (job_id, name)
    )",
    "CREATE TABLE databases (
        name       TEXT   NOT NULL PRIMARY KEY,
        location   TEXT   NOT NULL,
        created_at BIGINT NOT NULL
    )",
    "CREATE TABLE namespaces (
        database_name TEXT   NOT NULL,
        path          TEXT   NOT NULL,
        properties    TEXT   NOT NULL,
        created_at    BIGINT NOT NULL,
        PRIMARY KEY (database_name, path)
    )",
    "CREATE TABLE tables (
        table_id      TEXT   NOT NULL PRIMARY KEY,
        kind          TEXT   NOT NULL,
        database_name TEXT   NOT NULL,
        namespace     TEXT   NOT NULL,
        name          TEXT   NOT NULL,
        location      TEXT   NOT NULL,
        definition    TEXT,
        comment       TEXT,
        owner         TEXT   NOT NULL,
        created_at    BIGINT NOT NULL,
        UNIQUE (database_name, namespace, name)
    )",
    "CREATE TABLE users (
        name             TEXT   NOT NULL PRIMARY KEY,
        verifier         TEXT,
        valid_until      BIGINT,
        connection_limit BIGINT,
        created_at       BIGINT NOT NULL
    )",
    "CREATE TABLE role_bindings (
        role      TEXT NOT NULL,
        user_name TEXT NOT NULL,
        PRIMARY KEY (role, user_name)
    )",
    "CREATE INDEX role_bindings_of_user ON role_bindings (user_name)",
    "CREATE TABLE grants (
        subject   TEXT NOT NULL,
        object    TEXT NOT NULL,
        privilege TEXT NOT NULL,
        PRIMARY KEY (subject, object, privilege)
    )",
    "CREATE INDEX grants_on_object ON grants (object)",
    "CREATE UNIQUE INDEX grants_one_owner ON grants (object) WHERE privilege = 'OWNERSHIP'",
    "CREATE TABLE server_secrets (
        name  TEXT NOT NULL PRIMARY KEY,
        value TEXT NOT NULL
    )",
];

const PARTS: &[&str] = &[
    // Parts that no commit has published: few, whatever the history holds.
    "CREATE INDEX job_receipts_staged ON job_receipts (name, job_id)
        WHERE name >= 'staged/' AND name < 'staged0'",
    "CREATE INDEX job_receipts_garbage ON job_receipts (name, job_id)
        WHERE name >= 'garbage/' AND name < 'garbage0'",
];

const FUNCTIONS: &[&str] = &[
    // A dropped version stays, so that no number ever names two of them.
    "CREATE TABLE functions (
        database_name TEXT   NOT NULL,
        namespace     TEXT   NOT NULL,
        name          TEXT   NOT NULL,
        version       BIGINT NOT NULL,
        definition    TEXT   NOT NULL,
        owner         TEXT   NOT NULL,
        disabled      BIGINT NOT NULL DEFAULT 0,
        created_at    BIGINT NOT NULL,
        dropped_at    BIGINT,
        PRIMARY KEY (database_name, namespace, name, version)
    )",
    // A row of a column has one record, that of the job that computed it last. Offset -1 is for the failed rows of a
    // fragment that have none of their own: `row_count` of them, which `offsets` names as a Roaring bitmap.
    "CREATE TABLE row_failures (
        table_id         TEXT   NOT NULL,
        branch           TEXT   NOT NULL,
        field_id         BIGINT NOT NULL,
        fragment_id      BIGINT NOT NULL,
        row_offset       BIGINT NOT NULL,
        job_id           TEXT   NOT NULL,
        column_name      TEXT   NOT NULL,
        function_name    TEXT   NOT NULL,
        function_version TEXT   NOT NULL,
        table_version    BIGINT NOT NULL,
        row_id           BIGINT,
        row_count        BIGINT NOT NULL DEFAULT 1,
        offsets          BLOB,
        error_type       TEXT   NOT NULL,
        error_message    TEXT   NOT NULL,
        attempts         BIGINT NOT NULL DEFAULT 1,
        created_at       BIGINT NOT NULL,
        PRIMARY KEY (table_id, branch, field_id, fragment_id, row_offset)
    )",
    "CREATE INDEX row_failures_of_job ON row_failures (table_id, job_id)",
];

/// Applies the migrations that the file lacks, all of them or none.
pub(super) async fn migrate(connection: &mut SqliteConnection, application_id: i32) -> Result<Standing> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS lancegate_schema (
            version    BIGINT NOT NULL PRIMARY KEY
        )",
    )
    .execute(&mut *transaction)
    .await?;
    let applied: Vec<i64> = sqlx::query_scalar("SELECT version FROM lancegate_schema ORDER BY version")
        .fetch_all(&mut *transaction)
        .await?;
    let known = |version: &i64| MIGRATIONS.iter().any(|(known, _)| known == version);
    if let Some(found) = applied.iter().rev().copied().find(|version| !known(version)) {
        return Ok(Standing::Newer { found });
    }
    for (version, statements) in MIGRATIONS.iter().filter(|(version, _)| !applied.contains(version)) {
        for statement in *statements {
            sqlx::query(*statement).execute(&mut *transaction).await?;
        }
        sqlx::query("INSERT INTO lancegate_schema (version) VALUES ($1)")
            .bind(version)
            .execute(&mut *transaction)
            .await?;
    }
    if applied.is_empty() {
        let mark = format!("PRAGMA application_id = {application_id}");
        // The number is a constant of this crate.
        sqlx::query(AssertSqlSafe(mark)).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(Standing::Current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_once_and_in_order() {
        assert!(MIGRATIONS.windows(2).all(|pair| pair[0].0 < pair[1].0), "each follows the one before");
        assert_eq!(MIGRATIONS[0].0, 1);
    }
}
