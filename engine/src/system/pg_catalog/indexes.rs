//! `pg_index` and `pg_indexes`.
//!
//! An index here finds rows and guards nothing: none is unique or a primary key.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::system::objects::{Kind, Objects, boolean, int, null, relation, small, smalls, text};

const INDEX: &[(&str, Kind)] = &[
    ("indexrelid", Kind::Oid("regclass")),
    ("indrelid", Kind::Oid("regclass")),
    ("indnatts", Kind::Small),
    ("indnkeyatts", Kind::Small),
    ("indisunique", Kind::Bool),
    ("indnullsnotdistinct", Kind::Bool),
    ("indisprimary", Kind::Bool),
    ("indisexclusion", Kind::Bool),
    ("indimmediate", Kind::Bool),
    ("indisclustered", Kind::Bool),
    ("indisvalid", Kind::Bool),
    ("indcheckxmin", Kind::Bool),
    ("indisready", Kind::Bool),
    ("indislive", Kind::Bool),
    ("indisreplident", Kind::Bool),
    ("indkey", Kind::Smalls),
    ("indcollation", Kind::Smalls),
    ("indclass", Kind::Smalls),
    ("indoption", Kind::Smalls),
    ("indexprs", Kind::Text),
    ("indpred", Kind::Text),
];

/// Returns `pg_index`.
pub(super) fn pg_index(objects: &Objects) -> Result<RecordBatch> {
    let rows = objects.relations.iter().flat_map(|row| {
        row.indexes.iter().map(|index| {
            let (no, yes) = (|| boolean(false), || boolean(true));
            let path = row.index_column(index) == 0;
            vec![
                int(index.oid),
                int(row.oid),
                small(1),
                small(1),
                no(),
                no(),
                no(),
                no(),
                yes(),
                no(),
                yes(),
                no(),
                yes(),
                yes(),
                no(),
                smalls(&[row.index_column(index)]),
                smalls(&[0]),
                smalls(&[0]),
                smalls(&[0]),
                if path { text(&index.column) } else { null() },
                null(),
            ]
        })
    });
    relation(INDEX, rows.collect())
}

/// Returns `pg_indexes`.
pub(super) fn pg_indexes(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("schemaname", Kind::Text),
        ("tablename", Kind::Text),
        ("indexname", Kind::Text),
        ("tablespace", Kind::Text),
        ("indexdef", Kind::Text),
    ];
    let rows = objects.relations.iter().flat_map(|row| {
        row.indexes.iter().map(|index| {
            let definition = text(row.index_definition(index));
            vec![text(&row.schema), text(&row.record.name.name), text(&index.name), null(), definition]
        })
    });
    relation(&columns, rows.collect())
}
