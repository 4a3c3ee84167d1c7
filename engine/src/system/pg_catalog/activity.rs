//! `pg_stat_activity`: the sessions of the caller; with USAGE on the system, all.

use std::sync::Arc;

use arrow::array::RecordBatch;
use chrono::{DateTime, Utc};
use datafusion::scalar::ScalarValue;
use lancegate_auth::{Object, Privilege};

use crate::activity::Backend;
use crate::error::Result;
use crate::system::SystemContext;
use crate::system::objects::{Kind, int, null, relation, text};

const COLUMNS: [(&str, Kind); 22] = [
    ("datid", Kind::Oid("oid")),
    ("datname", Kind::Text),
    ("pid", Kind::Int),
    ("leader_pid", Kind::Int),
    ("usesysid", Kind::Oid("oid")),
    ("usename", Kind::Text),
    ("application_name", Kind::Text),
    ("client_addr", Kind::Text),
    ("client_hostname", Kind::Text),
    ("client_port", Kind::Int),
    ("backend_start", Kind::Time),
    ("xact_start", Kind::Time),
    ("query_start", Kind::Time),
    ("state_change", Kind::Time),
    ("wait_event_type", Kind::Text),
    ("wait_event", Kind::Text),
    ("state", Kind::Text),
    ("backend_xid", Kind::Int),
    ("backend_xmin", Kind::Int),
    ("query_id", Kind::Big),
    ("query", Kind::Text),
    ("backend_type", Kind::Text),
];

/// Returns `pg_stat_activity`.
pub(super) async fn pg_stat_activity(context: &SystemContext) -> Result<RecordBatch> {
    let (engine, caller) = (&context.engine, &context.caller);
    let sees_others = engine.allows(&caller.principal, Privilege::Usage, Object::System).await?;
    let objects = context.objects().await?;
    let rows = engine
        .activity()
        .backends()
        .into_iter()
        .filter(|backend| sees_others || backend.user == caller.principal.user)
        .map(|backend| {
            let database = objects.databases.iter().find(|row| row.name == backend.database);
            let role = objects.roles.iter().find(|row| row.name == backend.user.as_str());
            row(&backend, database.map(|row| row.oid), role.map(|row| row.oid))
        });
    relation(&COLUMNS, rows.collect())
}

fn row(backend: &Backend, database: Option<i32>, role: Option<i32>) -> Vec<ScalarValue> {
    let number = |oid: Option<i32>| oid.map_or_else(null, int);
    // As in PostgreSQL, a session that came through a socket has no address.
    let address = backend.origin.as_deref().filter(|origin| *origin != "local");
    vec![
        number(database),
        text(&backend.database),
        int(backend.pid),
        null(),
        number(role),
        text(backend.user.as_str()),
        text(&backend.application),
        address.map_or_else(null, text),
        null(),
        null(),
        time(Some(backend.opened_at)),
        time(backend.block_began_at),
        time(backend.statement_began_at),
        time(Some(backend.changed_at)),
        if backend.active { null() } else { text("Client") },
        if backend.active { null() } else { text("ClientRead") },
        text(backend.state()),
        null(),
        null(),
        null(),
        text(backend.query()),
        text("client backend"),
    ]
}

fn time(at: Option<DateTime<Utc>>) -> ScalarValue {
    ScalarValue::TimestampMicrosecond(at.map(|at| at.timestamp_micros()), Some(Arc::from("UTC")))
}
