//! `information_schema` for what clients and tools read: tables, columns,
//! schemas, views; the rest with its columns and without rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::scalar::ScalarValue;
use lancegate_catalog::TableKind;
use lancegate_wire::types;

use crate::error::Result;
use crate::sql::plan::query::memory_table;
use crate::system::objects::{Kind, Objects, RelationRow, generation, int, null, relation, text};
use crate::system::pg_catalog::constraints;
use crate::system::{SystemContext, objects};

/// Returns a relation of `information_schema`.
///
/// # Errors
/// If the metadata store or the data root fails.
pub(crate) async fn table(context: &SystemContext, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let database = context.caller.database.as_str();
    let batch = match name {
        "tables" => tables(context.objects().await?, database)?,
        "columns" => columns(context.objects().await?, database)?,
        "schemata" => schemata(context.objects().await?, database)?,
        "views" => views(context.objects().await?, database)?,
        "table_constraints" => table_constraints(context.objects().await?, database)?,
        "key_column_usage" => key_column_usage(context.objects().await?, database)?,
        "information_schema_catalog_name" => relation(&[("catalog_name", Kind::Text)], vec![vec![text(database)]])?,
        other => match empty(other)? {
            Some(batch) => batch,
            None => return Ok(None),
        },
    };
    memory_table(batch).map(Some)
}

fn tables(objects: &Objects, database: &str) -> Result<RecordBatch> {
    let columns = [
        ("table_catalog", Kind::Text),
        ("table_schema", Kind::Text),
        ("table_name", Kind::Text),
        ("table_type", Kind::Text),
        ("self_referencing_column_name", Kind::Text),
        ("reference_generation", Kind::Text),
        ("user_defined_type_catalog", Kind::Text),
        ("user_defined_type_schema", Kind::Text),
        ("user_defined_type_name", Kind::Text),
        ("is_insertable_into", Kind::Text),
        ("is_typed", Kind::Text),
        ("commit_action", Kind::Text),
    ];
    // PostgreSQL lists no materialized views here.
    let shown = objects.relations.iter().filter(|row| row.record.kind != TableKind::MaterializedView);
    let rows = shown.map(|row| {
        let table = row.record.kind == TableKind::Table;
        vec![
            text(database),
            text(&row.schema),
            text(&row.record.name.name),
            text(match (table, row.is_temporary()) {
                (_, true) => "LOCAL TEMPORARY",
                (true, false) => "BASE TABLE",
                (false, false) => "VIEW",
            }),
            null(),
            null(),
            null(),
            null(),
            null(),
            text(if table { "YES" } else { "NO" }),
            text("NO"),
            null(),
        ]
    });
    relation(&columns, rows.collect())
}

fn columns(objects: &Objects, database: &str) -> Result<RecordBatch> {
    let columns = [
        ("table_catalog", Kind::Text),
        ("table_schema", Kind::Text),
        ("table_name", Kind::Text),
        ("column_name", Kind::Text),
        ("ordinal_position", Kind::Int),
        ("column_default", Kind::Text),
        ("is_nullable", Kind::Text),
        ("data_type", Kind::Text),
        ("character_maximum_length", Kind::Int),
        ("character_octet_length", Kind::Int),
        ("numeric_precision", Kind::Int),
        ("numeric_precision_radix", Kind::Int),
        ("numeric_scale", Kind::Int),
        ("datetime_precision", Kind::Int),
        ("interval_type", Kind::Text),
        ("character_set_name", Kind::Text),
        ("collation_name", Kind::Text),
        ("domain_name", Kind::Text),
        ("udt_catalog", Kind::Text),
        ("udt_schema", Kind::Text),
        ("udt_name", Kind::Text),
        ("is_self_referencing", Kind::Text),
        ("is_identity", Kind::Text),
        ("identity_generation", Kind::Text),
        ("is_generated", Kind::Text),
        ("generation_expression", Kind::Text),
        ("is_updatable", Kind::Text),
    ];
    let rows =
        objects.relations.iter().flat_map(|row| (0..row.columns.len()).map(move |index| column(row, index, database)));
    relation(&columns, rows.collect())
}

fn column(row: &RelationRow, index: usize, database: &str) -> Vec<ScalarValue> {
    let field = &row.columns[index];
    let pg = types::pg_type(field);
    let builtin = types::builtin(pg.oid);
    let array = types::element_of(pg.oid).is_some();
    let (precision, radix, scale) = numeric(field.data_type());
    let optional = |value: Option<i32>| value.map_or_else(null, int);
    let expression = generation(field);
    let identity = objects::identity(field);
    vec![
        text(database),
        text(&row.schema),
        text(&row.record.name.name),
        text(field.name()),
        int(i32::try_from(index + 1).unwrap_or(i32::MAX)),
        objects::column_default(row, field).map_or_else(null, text),
        text(if field.is_nullable() { "YES" } else { "NO" }),
        text(if array { "ARRAY".to_owned() } else { objects::type_name(field) }),
        null(),
        null(),
        optional(precision),
        optional(radix),
        optional(scale),
        if matches!(pg.oid, 1114 | 1184 | 1083) { int(6) } else { null() },
        null(),
        null(),
        null(),
        null(),
        text(database),
        text("pg_catalog"),
        text(builtin.map_or("text", |builtin| builtin.name)),
        text("NO"),
        text(if identity.is_some() { "YES" } else { "NO" }),
        identity.map_or_else(null, |(_, word)| text(word)),
        text(if expression.is_some() { "ALWAYS" } else { "NEVER" }),
        expression.map_or_else(null, text),
        text(if row.record.kind == TableKind::Table && expression.is_none() { "YES" } else { "NO" }),
    ]
}

fn numeric(data_type: &arrow::datatypes::DataType) -> (Option<i32>, Option<i32>, Option<i32>) {
    use arrow::datatypes::DataType;
    match data_type {
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => (Some(16), Some(2), Some(0)),
        DataType::Int32 | DataType::UInt16 => (Some(32), Some(2), Some(0)),
        DataType::Int64 | DataType::UInt32 => (Some(64), Some(2), Some(0)),
        DataType::Float16 | DataType::Float32 => (Some(24), Some(2), None),
        DataType::Float64 => (Some(53), Some(2), None),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (Some(i32::from(*precision)), Some(10), Some(i32::from(*scale)))
        }
        _ => (None, None, None),
    }
}

fn schemata(objects: &Objects, database: &str) -> Result<RecordBatch> {
    let columns = [
        ("catalog_name", Kind::Text),
        ("schema_name", Kind::Text),
        ("schema_owner", Kind::Text),
        ("default_character_set_catalog", Kind::Text),
        ("default_character_set_schema", Kind::Text),
        ("default_character_set_name", Kind::Text),
        ("sql_path", Kind::Text),
    ];
    let owner = |oid: i32| objects.roles.iter().find(|role| role.oid == oid).map_or_else(null, |role| text(&role.name));
    let row = |name: &str, owner: ScalarValue| vec![text(database), text(name), owner, null(), null(), null(), null()];
    let own = objects.namespaces.iter().map(|namespace| row(&namespace.name, owner(namespace.owner)));
    let system = ["pg_catalog", "information_schema"].map(|name| row(name, null()));
    relation(&columns, own.chain(system).collect())
}

fn views(objects: &Objects, database: &str) -> Result<RecordBatch> {
    let columns = [
        ("table_catalog", Kind::Text),
        ("table_schema", Kind::Text),
        ("table_name", Kind::Text),
        ("view_definition", Kind::Text),
        ("check_option", Kind::Text),
        ("is_updatable", Kind::Text),
        ("is_insertable_into", Kind::Text),
    ];
    let rows = objects.relations.iter().filter(|row| row.record.kind == TableKind::View).map(|row| {
        let definition = row.record.definition.clone().unwrap_or_default();
        let (schema, name) = (text(&row.schema), text(&row.record.name.name));
        vec![text(database), schema, name, text(definition), text("NONE"), text("NO"), text("NO")]
    });
    relation(&columns, rows.collect())
}

/// The primary keys that tables record, which nothing enforces.
fn table_constraints(objects: &Objects, database: &str) -> Result<RecordBatch> {
    let columns = [
        ("constraint_catalog", Kind::Text),
        ("constraint_schema", Kind::Text),
        ("constraint_name", Kind::Text),
        ("table_catalog", Kind::Text),
        ("table_schema", Kind::Text),
        ("table_name", Kind::Text),
        ("constraint_type", Kind::Text),
        ("is_deferrable", Kind::Text),
        ("initially_deferred", Kind::Text),
        ("enforced", Kind::Text),
    ];
    let keyed = objects.relations.iter().filter(|row| row.primary_key.is_some());
    let rows = keyed.map(|row| {
        let rest = ["PRIMARY KEY", "NO", "NO", "NO"].map(text);
        [key_of(row, database), rest.into()].concat()
    });
    relation(&columns, rows.collect())
}

fn key_column_usage(objects: &Objects, database: &str) -> Result<RecordBatch> {
    let columns = [
        ("constraint_catalog", Kind::Text),
        ("constraint_schema", Kind::Text),
        ("constraint_name", Kind::Text),
        ("table_catalog", Kind::Text),
        ("table_schema", Kind::Text),
        ("table_name", Kind::Text),
        ("column_name", Kind::Text),
        ("ordinal_position", Kind::Int),
        ("position_in_unique_constraint", Kind::Int),
    ];
    let rows = objects.relations.iter().flat_map(|row| {
        let columns = row.primary_key.iter().flat_map(|key| &key.columns);
        (1..).zip(columns).filter_map(move |(nth, number)| {
            let name = row.columns.get(number - 1)?.name();
            Some([key_of(row, database), vec![text(name), int(nth), null()]].concat())
        })
    });
    relation(&columns, rows.collect())
}

/// Returns what names a primary key and its table.
fn key_of(row: &RelationRow, database: &str) -> Vec<ScalarValue> {
    let key = constraints::key_name(row);
    let (schema, table) = (row.schema.as_str(), row.record.name.name.as_str());
    [database, schema, key.as_str(), database, schema, table].map(text).into()
}

/// Other constraints, routines, sequences and the like do not exist here.
fn empty(name: &str) -> Result<Option<RecordBatch>> {
    let names: &[&str] = match name {
        "referential_constraints" => &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule",
        ],
        "constraint_column_usage" => &[
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
        "routines" => &[
            "specific_catalog",
            "specific_schema",
            "specific_name",
            "routine_catalog",
            "routine_schema",
            "routine_name",
            "routine_type",
            "data_type",
            "routine_definition",
        ],
        "parameters" => &[
            "specific_catalog",
            "specific_schema",
            "specific_name",
            "ordinal_position",
            "parameter_mode",
            "parameter_name",
            "data_type",
        ],
        "sequences" => &[
            "sequence_catalog",
            "sequence_schema",
            "sequence_name",
            "data_type",
            "start_value",
            "minimum_value",
            "maximum_value",
            "increment",
            "cycle_option",
        ],
        "triggers" => {
            &["trigger_catalog", "trigger_schema", "trigger_name", "event_manipulation", "event_object_table"]
        }
        "table_privileges" | "role_table_grants" => &[
            "grantor",
            "grantee",
            "table_catalog",
            "table_schema",
            "table_name",
            "privilege_type",
            "is_grantable",
            "with_hierarchy",
        ],
        "column_privileges" => &[
            "grantor",
            "grantee",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "privilege_type",
            "is_grantable",
        ],
        "domains" => &["domain_catalog", "domain_schema", "domain_name", "data_type"],
        "element_types" => &[
            "object_catalog",
            "object_schema",
            "object_name",
            "object_type",
            "collection_type_identifier",
            "data_type",
        ],
        "character_sets" => &["character_set_catalog", "character_set_schema", "character_set_name"],
        "applicable_roles" | "enabled_roles" => &["grantee", "role_name", "is_grantable"],
        _ => return Ok(None),
    };
    let columns: Vec<(&str, Kind)> = names.iter().map(|name| (*name, Kind::Text)).collect();
    relation(&columns, Vec::new()).map(Some)
}
