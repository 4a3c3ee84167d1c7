//! Everything that catalog relations show, read once per statement: what the
//! caller may reach, under numbers that stay the same as long as the object does.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use lancegate_auth::{Grants, Object, Principal, Privilege, Requirement, Subject, decide};
use lancegate_catalog::{Table, TableKind};
use lancegate_wire::types;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::exec::adopt;
use crate::session::temp;
use crate::sql::plan::Planner;
use crate::sql::resolve::{ROOT_SCHEMA, object_of, schema_of};
use crate::storage::computed;
use crate::storage::defaults::{self, Numbering};
use crate::storage::index::{self, IndexRow};
use crate::storage::key;
use crate::storage::provider;
use crate::system::SystemContext;

/// Tables that are opened at once for their columns.
const OPEN_AT_ONCE: usize = 16;
/// Numbers below are PostgreSQL's own.
const FIRST_OWN_OID: i32 = 16_384;
/// The number of the role that owns what PostgreSQL owns.
pub(crate) const BOOTSTRAP_ROLE: i32 = 10;

/// A snapshot for one caller.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) databases: Vec<DatabaseRow>,
    pub(crate) namespaces: Vec<NamespaceRow>,
    pub(crate) relations: Vec<RelationRow>,
    pub(crate) roles: Vec<RoleRow>,
}

/// A database.
#[derive(Debug)]
pub(crate) struct DatabaseRow {
    pub(crate) oid: i32,
    pub(crate) name: String,
    pub(crate) owner: i32,
    pub(crate) comment: Option<String>,
}

/// A schema.
#[derive(Debug)]
pub(crate) struct NamespaceRow {
    pub(crate) oid: i32,
    pub(crate) name: String,
    pub(crate) owner: i32,
    pub(crate) comment: Option<String>,
}

/// A table or view.
#[derive(Debug)]
pub(crate) struct RelationRow {
    pub(crate) oid: i32,
    pub(crate) namespace_oid: i32,
    pub(crate) schema: String,
    pub(crate) record: Table,
    pub(crate) owner: i32,
    /// The columns; empty if the files cannot be read.
    pub(crate) columns: Vec<Field>,
    /// What COMMENT says of columns, under their numbers.
    pub(crate) comments: Vec<(i32, String)>,
    pub(crate) rows: Option<u64>,
    /// The indexes of a table.
    pub(crate) indexes: Vec<IndexEntry>,
    /// The primary key that a table records.
    pub(crate) primary_key: Option<KeyEntry>,
}

/// A primary key.
#[derive(Debug)]
pub(crate) struct KeyEntry {
    pub(crate) oid: i32,
    /// The numbers of its columns, in order.
    pub(crate) columns: Vec<usize>,
}

/// An index.
#[derive(Debug)]
pub(crate) struct IndexEntry {
    pub(crate) oid: i32,
    pub(crate) name: String,
    /// The column by name, a field inside one as its path.
    pub(crate) column: String,
    /// The method, as in CREATE INDEX.
    pub(crate) method: String,
}

/// A user or role.
#[derive(Debug)]
pub(crate) struct RoleRow {
    pub(crate) oid: i32,
    pub(crate) name: String,
    pub(crate) can_login: bool,
    pub(crate) creates_databases: bool,
    pub(crate) operates: bool,
    pub(crate) connection_limit: i32,
    pub(crate) valid_until: Option<i64>,
}

impl RelationRow {
    /// Returns whether it is a temporary table of the caller.
    pub(crate) fn is_temporary(&self) -> bool {
        temp::is_temporary(&self.record.name.namespace)
    }

    /// Returns PostgreSQL's letter for the kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self.record.kind {
            TableKind::Table => "r",
            TableKind::View => "v",
            TableKind::MaterializedView => "m",
        }
    }

    /// Returns the statement that makes an index, as `pg_get_indexdef()` does.
    pub(crate) fn index_definition(&self, index: &IndexEntry) -> String {
        let spelled = |name: &str| lancegate_sql::Ident::from(name).to_string();
        // PostgreSQL quotes no name that is a word only of our own statements.
        let schema = if self.schema == ROOT_SCHEMA { ROOT_SCHEMA.to_owned() } else { spelled(&self.schema) };
        let (name, table) = (spelled(&index.name), spelled(&self.record.name.name));
        format!("CREATE INDEX {name} ON {schema}.{table} USING {} ({})", index.method, index.column)
    }

    /// Returns the number of an index's column; 0 for a field inside of one.
    pub(crate) fn index_column(&self, index: &IndexEntry) -> usize {
        self.columns.iter().position(|column| *column.name() == index.column).map_or(0, |position| position + 1)
    }
}

/// Returns what the caller may see of the connected database.
///
/// # Errors
/// If the metadata store or the data root fails. A table that cannot be opened
/// is listed without columns.
pub(crate) async fn load(context: &SystemContext) -> Result<Objects> {
    let (engine, caller) = (&context.engine, &context.caller);
    adopt::all(engine, &caller.database).await?;
    let names = &caller.names;
    let grants = names.grants(engine.catalog()).await?;
    let mut oids = Oids::default();
    let roles = roles(context, &grants, &mut oids).await?;
    let by_name: HashMap<String, i32> = roles.iter().map(|role| (role.name.clone(), role.oid)).collect();
    let owner = |object: &Object| match grants.owner_of(object) {
        Some(Subject::User(user)) => by_name.get(user.as_str()).copied(),
        Some(Subject::Role(role)) => by_name.get(role.as_str()).copied(),
        _ => None,
    };
    let comments = names.comments(engine.catalog()).await?;
    let of_object = |object: &Object| comments.get(&(object.to_string(), String::new())).cloned();
    let mut objects = Objects::default();
    for database in engine.catalog().databases().await? {
        let object = Object::Database(database.name.clone());
        if reaches(&caller.principal, &grants, &object) {
            let owner = owner(&object).unwrap_or(BOOTSTRAP_ROLE);
            let (oid, comment) = (oids.of(&object.to_string()), of_object(&object));
            objects.databases.push(DatabaseRow { oid, name: database.name, owner, comment });
        }
    }
    let mut paths = vec![Vec::new()];
    paths.extend(names.schemas(engine.catalog(), &caller.database).await?);
    for path in paths {
        let object = Object::Namespace { database: caller.database.clone(), path: path.clone() };
        if reaches(&caller.principal, &grants, &object) {
            let oid = if path.is_empty() { 2200 } else { oids.of(&object.to_string()) };
            let owner = owner(&object).unwrap_or(BOOTSTRAP_ROLE);
            let comment = of_object(&object);
            objects.namespaces.push(NamespaceRow { oid, name: schema_of(&path), owner, comment });
        }
    }
    let mut tables = names.tables(engine.catalog(), &caller.database, None).await?;
    let temporary = caller.temp.all();
    if !temporary.is_empty() {
        let (name, owner) = (temp::schema(caller.session_id), BOOTSTRAP_ROLE);
        objects.namespaces.push(NamespaceRow { oid: oids.of(&name), name, owner, comment: None });
        tables.extend(temporary.into_iter().map(|table| table.record));
    }
    let tables: Vec<RelationRow> = tables
        .into_iter()
        .filter_map(|record| {
            let schema = schema_of(&record.name.namespace);
            let namespace = objects.namespaces.iter().find(|found| found.name == schema)?;
            let owner = owner(&object_of(&record)).or_else(|| by_name.get(&record.owner).copied());
            Some(RelationRow {
                oid: oids.of(&record.id.to_string()),
                namespace_oid: namespace.oid,
                schema,
                owner: owner.unwrap_or(BOOTSTRAP_ROLE),
                record,
                columns: Vec::new(),
                comments: Vec::new(),
                rows: None,
                indexes: Vec::new(),
                primary_key: None,
            })
        })
        .collect();
    objects.relations = futures::stream::iter(tables)
        .map(|row| with_columns(context, row, &comments))
        .buffered(OPEN_AT_ONCE)
        .collect()
        .await;
    for row in &mut objects.relations {
        for index in &mut row.indexes {
            index.oid = oids.of(&format!("{}:{}", row.record.id, index.name));
        }
        if let Some(key) = &mut row.primary_key {
            key.oid = oids.of(&format!("{}:primary key", row.record.id));
        }
    }
    objects.roles = roles;
    Ok(objects)
}

fn reaches(principal: &Principal, grants: &Grants, object: &Object) -> bool {
    decide(principal, grants, &Requirement::new(Privilege::Usage, object.clone())).allowed()
}

/// Comments under object and part.
type Comments = HashMap<(String, String), String>;

/// Returns the part that a comment on a column of a view is kept under.
pub(crate) fn view_column_key(column: &str) -> String {
    format!("={column}")
}

/// Returns the part that a comment on a column of a table is kept under, which stays
/// when the column is renamed.
pub(crate) fn column_key(dataset: &lance::Dataset, column: &str) -> Option<String> {
    let field = dataset.schema().fields.iter().find(|field| field.name == column)?;
    Some(format!("#{}", field.id))
}

async fn with_columns(context: &SystemContext, mut row: RelationRow, comments: &Comments) -> RelationRow {
    let described = async {
        match row.record.kind {
            TableKind::View => {
                let planner = Planner::system(context);
                let fields = planner.view_columns(&row.record).await?;
                let keys = fields.iter().map(|field| Some(view_column_key(field.name()))).collect();
                Ok::<_, crate::error::SqlError>((fields, keys, None, Vec::new(), None))
            }
            TableKind::Table | TableKind::MaterializedView => {
                let dataset = context.engine.store().open(&row.record.location).await?;
                let fields: Vec<Field> =
                    provider::visible_schema(&dataset).fields().iter().map(|field| field.as_ref().clone()).collect();
                let keys: Vec<_> = fields.iter().map(|field| column_key(&dataset, field.name())).collect();
                let rows = dataset.fragments().iter().map(|fragment| fragment.num_rows().unwrap_or(0) as u64).sum();
                let indexes = index::list(&dataset).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, relation = %row.record.name, "a table is listed without its indexes");
                    Vec::new()
                });
                let numbers = key::columns(&dataset).into_iter().filter_map(|column| {
                    let at = fields.iter().position(|field| *field.name() == column)?;
                    Some(at + 1)
                });
                let columns: Vec<usize> = numbers.collect();
                let primary_key = (!columns.is_empty()).then_some(KeyEntry { oid: 0, columns });
                Ok((fields, keys, Some(rows), indexes.into_iter().map(entry).collect(), primary_key))
            }
        }
    };
    match described.await {
        Ok((columns, keys, rows, indexes, primary_key)) => {
            let id = row.record.id.to_string();
            let numbered = (1..).zip(keys);
            row.comments = numbered
                .filter_map(|(number, key)| Some((number, comments.get(&(id.clone(), key?))?.clone())))
                .collect();
            row.columns = columns;
            row.rows = rows;
            row.indexes = indexes;
            row.primary_key = primary_key;
        }
        Err(error) => tracing::warn!(%error, relation = %row.record.name, "a relation is listed without its columns"),
    }
    row
}

fn entry(row: IndexRow) -> IndexEntry {
    IndexEntry { oid: 0, name: row.name, column: row.columns.join(", "), method: row.index_type.to_ascii_lowercase() }
}

async fn roles(context: &SystemContext, grants: &Grants, oids: &mut Oids) -> Result<Vec<RoleRow>> {
    let catalog = context.engine.catalog();
    let holds = |subject: &Subject, privilege| {
        grants.iter_on(&Object::System).any(|grant| grant.subject == *subject && grant.privilege == privilege)
    };
    let mut rows = Vec::new();
    for user in catalog.users().await? {
        let subject = Subject::User(user.name.clone());
        let first = user.name.as_str() == crate::exec::DEFAULT_DATABASE;
        rows.push(RoleRow {
            oid: if first { BOOTSTRAP_ROLE } else { oids.of(&subject.to_string()) },
            name: user.name.to_string(),
            can_login: true,
            creates_databases: holds(&subject, Privilege::CreateDatabase),
            operates: holds(&subject, Privilege::Operate),
            connection_limit: user.connection_limit.and_then(|limit| i32::try_from(limit).ok()).unwrap_or(-1),
            valid_until: user.valid_until.map(|time| time.timestamp_micros()),
        });
    }
    let named: BTreeSet<String> =
        catalog.role_bindings().await?.into_iter().map(|(_, role)| role.to_string()).collect();
    for name in named {
        if rows.iter().all(|row| row.name != name) {
            rows.push(RoleRow {
                oid: oids.of(&format!("r:{name}")),
                name,
                can_login: false,
                creates_databases: false,
                operates: false,
                connection_limit: -1,
                valid_until: None,
            });
        }
    }
    Ok(rows)
}

/// Gives out numbers made from names, so that they survive a restart.
#[derive(Debug, Default)]
struct Oids(BTreeSet<i32>);

impl Oids {
    fn of(&mut self, name: &str) -> i32 {
        let span = u64::from((i32::MAX - FIRST_OWN_OID).unsigned_abs());
        let mut oid = FIRST_OWN_OID + i32::try_from(xxh3_64(name.as_bytes()) % span).unwrap_or(0);
        while !self.0.insert(oid) {
            oid = if oid == i32::MAX { FIRST_OWN_OID } else { oid + 1 };
        }
        oid
    }
}

/// Returns the SQL name of a column's type.
pub(crate) fn type_name(field: &Field) -> String {
    let pg = types::pg_type(field);
    types::format_type(pg.oid, -1)
}

/// Returns the generation expression of a computed column.
pub(crate) fn generation(field: &Field) -> Option<&str> {
    if !computed::is_computed(field) {
        return None;
    }
    field.metadata().get("computed_column.expression").map(String::as_str)
}

/// Returns what new rows get in a column of a relation, as `pg_get_expr()` shows it: the
/// expression, or a call for the next number of a serial column.
pub(crate) fn column_default(row: &RelationRow, field: &Field) -> Option<String> {
    if let Some(text) = defaults::default_of(field) {
        return Some(text.to_owned());
    }
    (defaults::numbering_of(field)? == Numbering::Serial).then(|| {
        let name = defaults::sequence_name(&row.record.name.name, field.name());
        format!("nextval('{}'::regclass)", lancegate_sql::Ident::from(name.as_str()))
    })
}

/// Returns how a column is an identity: PostgreSQL's letter and word.
pub(crate) fn identity(field: &Field) -> Option<(&'static str, &'static str)> {
    match defaults::numbering_of(field)? {
        Numbering::Always => Some(("a", "ALWAYS")),
        Numbering::ByDefault => Some(("d", "BY DEFAULT")),
        Numbering::Serial | Numbering::Unknown => None,
    }
}

/// A column of a catalog relation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// An object id of an alias kind, for names in comparisons.
    Oid(&'static str),
    /// `integer`
    Int,
    /// `smallint`
    Small,
    /// `bigint`
    Big,
    /// `real`
    Real,
    /// `boolean`
    Bool,
    /// `text`
    Text,
    /// `text[]`
    Texts,
    /// `smallint[]`
    Smalls,
    /// `timestamptz`
    Time,
}

impl Kind {
    fn field(self, name: &str) -> Field {
        match self {
            Self::Oid(alias) => datafusion_pg_catalog::pg_catalog::oid_field::oid_field(name, alias, true),
            Self::Int => Field::new(name, DataType::Int32, true),
            Self::Small => Field::new(name, DataType::Int16, true),
            Self::Big => Field::new(name, DataType::Int64, true),
            Self::Real => Field::new(name, DataType::Float32, true),
            Self::Bool => Field::new(name, DataType::Boolean, true),
            Self::Text => Field::new(name, DataType::Utf8, true),
            Self::Texts => Field::new_list(name, Field::new_list_field(DataType::Utf8, true), true),
            Self::Smalls => Field::new_list(name, Field::new_list_field(DataType::Int16, true), true),
            Self::Time => Field::new(
                name,
                DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some(Arc::from("UTC"))),
                true,
            ),
        }
    }
}

/// Makes a relation of rows of values.
///
/// # Errors
/// If a value is not of its column's type.
pub(crate) fn relation(columns: &[(&str, Kind)], rows: Vec<Vec<ScalarValue>>) -> Result<RecordBatch> {
    let schema: SchemaRef =
        Arc::new(Schema::new(columns.iter().map(|(name, kind)| kind.field(name)).collect::<Vec<_>>()));
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    let width = columns.len();
    let mut cells: Vec<Vec<ScalarValue>> = (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        debug_assert_eq!(row.len(), width, "a row of {} has {} values", columns[0].0, row.len());
        for (column, value) in cells.iter_mut().zip(row) {
            column.push(value);
        }
    }
    for (field, values) in schema.fields().iter().zip(cells) {
        if values.is_empty() {
            arrays.push(new_empty_array(field.data_type()));
            continue;
        }
        let typed = values
            .into_iter()
            .map(|value| if value.is_null() { ScalarValue::try_from(field.data_type()) } else { Ok(value) });
        arrays.push(ScalarValue::iter_to_array(typed.collect::<Result<Vec<_>, _>>()?)?);
    }
    Ok(RecordBatch::try_new(schema, arrays)?)
}

/// Returns a text cell.
pub(crate) fn text(value: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8(Some(value.into()))
}

/// Returns an integer cell.
pub(crate) fn int(value: i32) -> ScalarValue {
    ScalarValue::Int32(Some(value))
}

/// Returns a smallint cell.
pub(crate) fn small(value: usize) -> ScalarValue {
    ScalarValue::Int16(Some(i16::try_from(value).unwrap_or(i16::MAX)))
}

/// Returns a cell with several smallints.
pub(crate) fn smalls(values: &[usize]) -> ScalarValue {
    let values: Vec<ScalarValue> = values.iter().map(|value| small(*value)).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int16))
}

/// Returns a boolean cell.
pub(crate) fn boolean(value: bool) -> ScalarValue {
    ScalarValue::Boolean(Some(value))
}

/// Returns an absent cell of any type.
pub(crate) fn null() -> ScalarValue {
    ScalarValue::Null
}
