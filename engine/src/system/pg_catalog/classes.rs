//! `pg_class` and what hangs on it.

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use datafusion::scalar::ScalarValue;
use lancegate_catalog::TableKind;
use lancegate_wire::types;

use crate::error::Result;
use crate::system::objects::{
    BOOTSTRAP_ROLE, Kind, NamespaceRow, Objects, RelationRow, boolean, column_default, generation, identity, int, null,
    relation, small, text,
};

/// PostgreSQL's numbers of its own schemas; the second as the rows of `pg_type` and `pg_proc` have it.
const PG_CATALOG_OID: i32 = 11;
const INFORMATION_SCHEMA_OID: i32 = 13_283;
/// Relations of the catalog that clients look up by name, with their numbers.
const SYSTEM_CLASSES: [(i32, &str); 16] = [
    (1247, "pg_type"),
    (1249, "pg_attribute"),
    (1255, "pg_proc"),
    (1259, "pg_class"),
    (1260, "pg_authid"),
    (1262, "pg_database"),
    (2604, "pg_attrdef"),
    (2606, "pg_constraint"),
    (2609, "pg_description"),
    (2610, "pg_index"),
    (2615, "pg_namespace"),
    (2617, "pg_operator"),
    (2620, "pg_trigger"),
    (1213, "pg_tablespace"),
    (3079, "pg_extension"),
    (2601, "pg_am"),
];
/// The access method of tables.
const HEAP: i32 = 2;
/// The access method of indexes: `pg_am` is PostgreSQL's own and has no others.
const BTREE: i32 = 403;

const CLASS: &[(&str, Kind)] = &[
    ("oid", Kind::Oid("oid")),
    ("relname", Kind::Text),
    ("relnamespace", Kind::Oid("regnamespace")),
    ("reltype", Kind::Oid("regtype")),
    ("reloftype", Kind::Oid("regtype")),
    ("relowner", Kind::Int),
    ("relam", Kind::Int),
    ("relfilenode", Kind::Int),
    ("reltablespace", Kind::Int),
    ("relpages", Kind::Int),
    ("reltuples", Kind::Real),
    ("relallvisible", Kind::Int),
    ("reltoastrelid", Kind::Oid("regclass")),
    ("relhasindex", Kind::Bool),
    ("relisshared", Kind::Bool),
    ("relpersistence", Kind::Text),
    ("relkind", Kind::Text),
    ("relnatts", Kind::Small),
    ("relchecks", Kind::Small),
    ("relhasrules", Kind::Bool),
    ("relhastriggers", Kind::Bool),
    ("relhassubclass", Kind::Bool),
    ("relrowsecurity", Kind::Bool),
    ("relforcerowsecurity", Kind::Bool),
    ("relispopulated", Kind::Bool),
    ("relreplident", Kind::Text),
    ("relispartition", Kind::Bool),
    ("relrewrite", Kind::Oid("regclass")),
    ("relfrozenxid", Kind::Int),
    ("relminmxid", Kind::Int),
    ("relacl", Kind::Texts),
    ("reloptions", Kind::Texts),
    ("relpartbound", Kind::Text),
];

/// Returns `pg_class`.
pub(super) fn pg_class(objects: &Objects) -> Result<RecordBatch> {
    let own = objects.relations.iter().map(|row| {
        let class = class(
            row.oid,
            &row.record.name.name,
            row.namespace_oid,
            row.owner,
            row.kind(),
            row.columns.len(),
            row.rows,
        );
        let class = with_indexes(class, !row.indexes.is_empty());
        if row.is_temporary() { with_text(class, "relpersistence", "t") } else { class }
    });
    let indexes = objects.relations.iter().flat_map(|row| {
        row.indexes.iter().map(|index| class(index.oid, &index.name, row.namespace_oid, row.owner, "i", 1, row.rows))
    });
    let system =
        SYSTEM_CLASSES.iter().map(|(oid, name)| class(*oid, name, PG_CATALOG_OID, BOOTSTRAP_ROLE, "r", 0, None));
    relation(CLASS, own.chain(indexes).chain(system).collect())
}

/// Says in a row of `pg_class` whether the table has indexes.
fn with_indexes(mut class: Vec<ScalarValue>, has: bool) -> Vec<ScalarValue> {
    if let Some(place) = CLASS.iter().position(|(name, _)| *name == "relhasindex") {
        class[place] = boolean(has);
    }
    class
}

fn with_text(mut class: Vec<ScalarValue>, column: &str, value: &str) -> Vec<ScalarValue> {
    if let Some(place) = CLASS.iter().position(|(name, _)| *name == column) {
        class[place] = text(value);
    }
    class
}

fn class(
    oid: i32,
    name: &str,
    namespace: i32,
    owner: i32,
    kind: &str,
    columns: usize,
    rows: Option<u64>,
) -> Vec<ScalarValue> {
    let view = kind == "v";
    vec![
        int(oid),
        text(name),
        int(namespace),
        int(0),
        int(0),
        int(owner),
        int(match kind {
            "v" => 0,
            "i" => BTREE,
            _ => HEAP,
        }),
        int(if view { 0 } else { oid }),
        int(0),
        int(0),
        ScalarValue::Float32(Some(rows.map_or(-1.0, |rows| rows as f32))),
        int(0),
        int(0),
        boolean(false),
        boolean(false),
        text("p"),
        text(kind),
        small(columns),
        small(0),
        boolean(view),
        boolean(false),
        boolean(false),
        boolean(false),
        boolean(false),
        boolean(true),
        text("d"),
        boolean(false),
        int(0),
        int(0),
        int(0),
        null(),
        null(),
        null(),
    ]
}

const ATTRIBUTE: &[(&str, Kind)] = &[
    ("attrelid", Kind::Oid("regclass")),
    ("attname", Kind::Text),
    ("atttypid", Kind::Oid("regtype")),
    ("attlen", Kind::Small),
    ("attnum", Kind::Small),
    ("attcacheoff", Kind::Int),
    ("atttypmod", Kind::Int),
    ("attndims", Kind::Small),
    ("attbyval", Kind::Bool),
    ("attalign", Kind::Text),
    ("attstorage", Kind::Text),
    ("attcompression", Kind::Text),
    ("attnotnull", Kind::Bool),
    ("atthasdef", Kind::Bool),
    ("atthasmissing", Kind::Bool),
    ("attidentity", Kind::Text),
    ("attgenerated", Kind::Text),
    ("attisdropped", Kind::Bool),
    ("attislocal", Kind::Bool),
    ("attinhcount", Kind::Small),
    ("attstattarget", Kind::Small),
    ("attcollation", Kind::Int),
    ("attacl", Kind::Texts),
    ("attoptions", Kind::Texts),
    ("attfdwoptions", Kind::Texts),
    ("attmissingval", Kind::Text),
];

/// Returns `pg_attribute`.
pub(super) fn pg_attribute(objects: &Objects) -> Result<RecordBatch> {
    let rows = objects
        .relations
        .iter()
        .flat_map(|row| row.columns.iter().enumerate().map(|(index, field)| attribute(row, index + 1, field)));
    relation(ATTRIBUTE, rows.collect())
}

fn attribute(row: &RelationRow, number: usize, field: &Field) -> Vec<ScalarValue> {
    let pg = types::pg_type(field);
    let oid = i32::try_from(pg.oid).unwrap_or(25);
    let fixed = pg.typlen > 0;
    let generated = generation(field).is_some();
    let array = types::element_of(pg.oid).is_some();
    vec![
        int(row.oid),
        text(field.name()),
        int(oid),
        ScalarValue::Int16(Some(pg.typlen)),
        small(number),
        int(-1),
        int(pg.typmod),
        small(usize::from(array)),
        boolean(fixed && pg.typlen <= 8),
        text(if pg.typlen == 8 { "d" } else { "i" }),
        text(if fixed { "p" } else { "x" }),
        text(""),
        boolean(!field.is_nullable()),
        boolean(generated || column_default(row, field).is_some()),
        boolean(false),
        text(identity(field).map_or("", |(letter, _)| letter)),
        text(if generated { "s" } else { "" }),
        boolean(false),
        boolean(true),
        small(0),
        ScalarValue::Int16(Some(-1)),
        // Text sorts by its bytes, which is the default collation here.
        int(if matches!(oid, 25 | 1043 | 19) { 100 } else { 0 }),
        null(),
        null(),
        null(),
        null(),
    ]
}

/// Returns `pg_attrdef`: the expressions of computed columns, and defaults.
pub(super) fn pg_attrdef(objects: &Objects) -> Result<RecordBatch> {
    let columns =
        [("oid", Kind::Oid("oid")), ("adrelid", Kind::Oid("regclass")), ("adnum", Kind::Small), ("adbin", Kind::Text)];
    let rows = objects.relations.iter().flat_map(|row| {
        row.columns.iter().enumerate().filter_map(|(index, field)| {
            let expression = generation(field).map(str::to_owned).or_else(|| column_default(row, field))?;
            Some(vec![int(row.oid), int(row.oid), small(index + 1), text(expression)])
        })
    });
    relation(&columns, rows.collect())
}

/// Returns `pg_namespace`.
pub(super) fn pg_namespace(objects: &Objects) -> Result<RecordBatch> {
    let columns =
        [("oid", Kind::Oid("oid")), ("nspname", Kind::Text), ("nspowner", Kind::Int), ("nspacl", Kind::Texts)];
    let row = |oid: i32, name: &str, owner: i32| vec![int(oid), text(name), int(owner), null()];
    let own = objects.namespaces.iter().map(|NamespaceRow { oid, name, owner, comment: _ }| row(*oid, name, *owner));
    let system = [
        row(PG_CATALOG_OID, "pg_catalog", BOOTSTRAP_ROLE),
        row(INFORMATION_SCHEMA_OID, "information_schema", BOOTSTRAP_ROLE),
    ];
    relation(&columns, own.chain(system).collect())
}

/// Returns `pg_tables`.
pub(super) fn pg_tables(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("schemaname", Kind::Text),
        ("tablename", Kind::Text),
        ("tableowner", Kind::Text),
        ("tablespace", Kind::Text),
        ("hasindexes", Kind::Bool),
        ("hasrules", Kind::Bool),
        ("hastriggers", Kind::Bool),
        ("rowsecurity", Kind::Bool),
    ];
    let rows = of_kind(objects, TableKind::Table).map(|row| {
        let no = || boolean(false);
        let indexed = boolean(!row.indexes.is_empty());
        vec![text(&row.schema), text(&row.record.name.name), owner(objects, row), null(), indexed, no(), no(), no()]
    });
    relation(&columns, rows.collect())
}

/// Returns `pg_views`.
pub(super) fn pg_views(objects: &Objects) -> Result<RecordBatch> {
    let columns =
        [("schemaname", Kind::Text), ("viewname", Kind::Text), ("viewowner", Kind::Text), ("definition", Kind::Text)];
    let rows = of_kind(objects, TableKind::View).map(|row| {
        let definition = row.record.definition.clone().unwrap_or_default();
        vec![text(&row.schema), text(&row.record.name.name), owner(objects, row), text(definition)]
    });
    relation(&columns, rows.collect())
}

/// Returns `pg_matviews`.
pub(super) fn pg_matviews(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("schemaname", Kind::Text),
        ("matviewname", Kind::Text),
        ("matviewowner", Kind::Text),
        ("tablespace", Kind::Text),
        ("hasindexes", Kind::Bool),
        ("ispopulated", Kind::Bool),
        ("definition", Kind::Text),
    ];
    let rows = of_kind(objects, TableKind::MaterializedView).map(|row| {
        let definition = row.record.definition.clone().unwrap_or_default();
        let (schema, name) = (text(&row.schema), text(&row.record.name.name));
        vec![schema, name, owner(objects, row), null(), boolean(false), boolean(true), text(definition)]
    });
    relation(&columns, rows.collect())
}

/// The numbers of the relations that comments are on rows of.
const PG_CLASS: i32 = 1259;
const PG_NAMESPACE: i32 = 2615;
const PG_DATABASE: i32 = 1262;

/// Returns `pg_description`: what COMMENT says of relations, their columns and schemas.
pub(super) fn pg_description(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("objoid", Kind::Oid("oid")),
        ("classoid", Kind::Oid("regclass")),
        ("objsubid", Kind::Int),
        ("description", Kind::Text),
    ];
    let line = |oid: i32, class: i32, part: i32, comment: &String| vec![int(oid), int(class), int(part), text(comment)];
    let relations = objects.relations.iter().flat_map(|row| {
        let whole = row.record.comment.iter().map(|comment| line(row.oid, PG_CLASS, 0, comment));
        whole.chain(row.comments.iter().map(|(number, comment)| line(row.oid, PG_CLASS, *number, comment)))
    });
    let schemas =
        objects.namespaces.iter().filter_map(|row| Some(line(row.oid, PG_NAMESPACE, 0, row.comment.as_ref()?)));
    relation(&columns, relations.chain(schemas).collect())
}

/// Returns `pg_shdescription`: what COMMENT says of databases.
pub(super) fn pg_shdescription(objects: &Objects) -> Result<RecordBatch> {
    let columns = [("objoid", Kind::Oid("oid")), ("classoid", Kind::Oid("regclass")), ("description", Kind::Text)];
    let rows = objects
        .databases
        .iter()
        .filter_map(|row| Some(vec![int(row.oid), int(PG_DATABASE), text(row.comment.as_ref()?)]));
    relation(&columns, rows.collect())
}

fn of_kind(objects: &Objects, kind: TableKind) -> impl Iterator<Item = &RelationRow> {
    objects.relations.iter().filter(move |row| row.record.kind == kind)
}

fn owner(objects: &Objects, row: &RelationRow) -> ScalarValue {
    let role = objects.roles.iter().find(|role| role.oid == row.owner);
    role.map_or_else(null, |role| text(&role.name))
}
