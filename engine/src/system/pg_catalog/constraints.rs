//! `pg_constraint`: the primary keys that tables record. Nothing enforces them, and they have
//! no index.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::storage::key;
use crate::system::objects::{Kind, Objects, RelationRow, boolean, int, null, relation, small, smalls, text};

const CONSTRAINT: &[(&str, Kind)] = &[
    ("oid", Kind::Oid("oid")),
    ("conname", Kind::Text),
    ("connamespace", Kind::Oid("oid")),
    ("contype", Kind::Text),
    ("condeferrable", Kind::Bool),
    ("condeferred", Kind::Bool),
    ("convalidated", Kind::Bool),
    ("conrelid", Kind::Oid("oid")),
    ("contypid", Kind::Oid("oid")),
    ("conindid", Kind::Oid("oid")),
    ("conparentid", Kind::Oid("oid")),
    ("confrelid", Kind::Oid("oid")),
    ("confupdtype", Kind::Text),
    ("confdeltype", Kind::Text),
    ("confmatchtype", Kind::Text),
    ("conislocal", Kind::Bool),
    ("coninhcount", Kind::Small),
    ("connoinherit", Kind::Bool),
    ("conkey", Kind::Smalls),
    ("confkey", Kind::Smalls),
    ("conpfeqop", Kind::Smalls),
    ("conppeqop", Kind::Smalls),
    ("conffeqop", Kind::Smalls),
    ("confdelsetcols", Kind::Smalls),
    ("conexclop", Kind::Smalls),
    ("conbin", Kind::Text),
];

/// Returns `pg_constraint`.
pub(super) fn pg_constraint(objects: &Objects) -> Result<RecordBatch> {
    let rows = objects.relations.iter().filter_map(|row| row.primary_key.as_ref().map(|key| (row, key)));
    let rows = rows.map(|(row, key)| {
        let none = || int(0);
        vec![
            int(key.oid),
            text(key_name(row)),
            int(row.namespace_oid),
            text("p"),
            boolean(false),
            boolean(false),
            // It was never looked at whether it holds.
            boolean(false),
            int(row.oid),
            none(),
            none(),
            none(),
            none(),
            text(" "),
            text(" "),
            text(" "),
            boolean(true),
            small(0),
            boolean(true),
            smalls(&key.columns),
            null(),
            null(),
            null(),
            null(),
            null(),
            null(),
            null(),
        ]
    });
    relation(CONSTRAINT, rows.collect())
}

/// Returns the name of a table's primary key.
pub(crate) fn key_name(row: &RelationRow) -> String {
    key::name(row.columns.iter().map(|field| field.metadata()), &row.record.name.name)
}
