//! The tables of secrets.

/// The value is sealed by the gateway; this crate holds no key. `key_id` says
/// which key opens `sealed`, and `version` counts its values from 1.
pub(super) const TABLES: &[&str] = &["CREATE TABLE secrets (
        database_name TEXT   NOT NULL,
        namespace     TEXT   NOT NULL,
        name          TEXT   NOT NULL,
        version       BIGINT NOT NULL,
        key_id        TEXT   NOT NULL,
        sealed        TEXT   NOT NULL,
        created_at    BIGINT NOT NULL,
        updated_at    BIGINT NOT NULL,
        PRIMARY KEY (database_name, namespace, name)
    )"];
