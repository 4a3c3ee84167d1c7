//! Relations about what does not exist here: with their columns, without rows.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::system::objects::{Kind, relation as make};

/// Returns an empty relation, `None` for a name that is not one of these.
pub(super) fn relation(name: &str) -> Result<Option<RecordBatch>> {
    let columns: &[(&str, Kind)] = match name {
        "pg_sequences" => &[
            ("schemaname", Kind::Text),
            ("sequencename", Kind::Text),
            ("sequenceowner", Kind::Text),
            ("data_type", Kind::Text),
            ("start_value", Kind::Big),
            ("min_value", Kind::Big),
            ("max_value", Kind::Big),
            ("increment_by", Kind::Big),
            ("cycle", Kind::Bool),
            ("cache_size", Kind::Big),
            ("last_value", Kind::Big),
        ],
        "pg_locks" => &[
            ("locktype", Kind::Text),
            ("database", Kind::Oid("oid")),
            ("relation", Kind::Oid("regclass")),
            ("pid", Kind::Int),
            ("mode", Kind::Text),
            ("granted", Kind::Bool),
        ],
        "pg_cursors" | "pg_prepared_statements" => {
            &[("name", Kind::Text), ("statement", Kind::Text), ("creation_time", Kind::Time)]
        }
        "pg_group" => &[("groname", Kind::Text), ("grosysid", Kind::Int), ("grolist", Kind::Smalls)],
        "pg_policies" => &[
            ("schemaname", Kind::Text),
            ("tablename", Kind::Text),
            ("policyname", Kind::Text),
            ("permissive", Kind::Text),
            ("roles", Kind::Texts),
            ("cmd", Kind::Text),
            ("qual", Kind::Text),
            ("with_check", Kind::Text),
        ],
        "pg_publication_tables" => {
            &[("pubname", Kind::Text), ("schemaname", Kind::Text), ("tablename", Kind::Text), ("attnames", Kind::Texts)]
        }
        "pg_available_extensions" => &[
            ("name", Kind::Text),
            ("default_version", Kind::Text),
            ("installed_version", Kind::Text),
            ("comment", Kind::Text),
        ],
        "pg_stats" => &[
            ("schemaname", Kind::Text),
            ("tablename", Kind::Text),
            ("attname", Kind::Text),
            ("null_frac", Kind::Real),
            ("avg_width", Kind::Int),
            ("n_distinct", Kind::Real),
        ],
        "pg_statio_all_tables" | "pg_statio_user_tables" => &[
            ("relid", Kind::Oid("oid")),
            ("schemaname", Kind::Text),
            ("relname", Kind::Text),
            ("heap_blks_read", Kind::Big),
            ("heap_blks_hit", Kind::Big),
            ("idx_blks_read", Kind::Big),
            ("idx_blks_hit", Kind::Big),
        ],
        "pg_user_mappings" => &[
            ("umid", Kind::Oid("oid")),
            ("srvid", Kind::Oid("oid")),
            ("srvname", Kind::Text),
            ("umuser", Kind::Oid("oid")),
            ("usename", Kind::Text),
            ("umoptions", Kind::Texts),
        ],
        "pg_rules" => &[
            ("schemaname", Kind::Text),
            ("tablename", Kind::Text),
            ("rulename", Kind::Text),
            ("definition", Kind::Text),
        ],
        "pg_seclabels" => &[
            ("objoid", Kind::Oid("oid")),
            ("classoid", Kind::Oid("oid")),
            ("objsubid", Kind::Int),
            ("objtype", Kind::Text),
            ("objnamespace", Kind::Oid("oid")),
            ("objname", Kind::Text),
            ("provider", Kind::Text),
            ("label", Kind::Text),
        ],
        _ => return Ok(None),
    };
    make(columns, Vec::new()).map(Some)
}
