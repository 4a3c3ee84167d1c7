//! `pg_settings`: the parameters of the session.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::session::Settings;
use crate::system::objects::{Kind, boolean, null, relation, text};

/// Returns `pg_settings`.
pub(super) fn pg_settings(settings: &Settings) -> Result<RecordBatch> {
    let columns = [
        ("name", Kind::Text),
        ("setting", Kind::Text),
        ("unit", Kind::Text),
        ("category", Kind::Text),
        ("short_desc", Kind::Text),
        ("extra_desc", Kind::Text),
        ("context", Kind::Text),
        ("vartype", Kind::Text),
        ("source", Kind::Text),
        ("min_val", Kind::Text),
        ("max_val", Kind::Text),
        ("enumvals", Kind::Texts),
        ("boot_val", Kind::Text),
        ("reset_val", Kind::Text),
        ("sourcefile", Kind::Text),
        ("sourceline", Kind::Int),
        ("pending_restart", Kind::Bool),
    ];
    let rows = settings.entries().map(|entry| {
        vec![
            text(entry.name),
            text(entry.value),
            entry.unit.map_or_else(null, text),
            text("Client Connection Defaults"),
            text(entry.description),
            null(),
            text(entry.context),
            text(entry.vartype),
            text(if entry.value == entry.boot_value { "default" } else { "session" }),
            null(),
            null(),
            null(),
            text(entry.boot_value),
            text(entry.reset_value),
            null(),
            null(),
            boolean(false),
        ]
    });
    relation(&columns, rows.collect())
}
