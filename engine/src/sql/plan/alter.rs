//! ALTER TABLE: columns added, dropped, renamed, retyped; computed columns declared.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::scalar::ScalarValue;
use lancegate_auth::Requirement;
use lancegate_catalog::{Table, TableKind, TableName};
use lancegate_sql::ast::{self, AddColumn, AlterOperation};
use lancegate_sql::{FieldPath, Ident};

use super::dml::no_column;
use super::tables::column::{self, default_text};
use super::tables::ensure_columns;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::refresh::expression;
use crate::sql::resolve::{BoundTable, ensure_object_name, no_relation};
use crate::sql::types;
use crate::sqlstate::SqlState;
use crate::storage::StorageError;
use crate::storage::computed::{self, Declaration};
use crate::storage::{defaults, key, nested, provider};

mod function;
pub mod typed;

/// A bound ALTER TABLE.
#[derive(Debug, Clone)]
pub struct AlterTablePlan {
    /// The table; `None` if IF EXISTS passes over it.
    pub table: Option<BoundTable>,
    /// The changes in order.
    pub actions: Vec<AlterAction>,
    /// What is needed of the Functions that columns are bound to.
    pub functions: Vec<Requirement>,
}

/// One change of a table.
#[derive(Debug, Clone)]
pub enum AlterAction {
    /// Declares computed columns, empty until they are refreshed.
    Declare(Vec<Declaration>),
    /// Adds empty columns.
    AddColumns(Vec<Field>),
    /// Drops columns.
    DropColumns(Vec<String>),
    /// Renames a column.
    RenameColumn {
        /// The present name.
        from: String,
        /// The new one.
        to: String,
    },
    /// Adds a column with the same value in all rows.
    AddFilled {
        /// The column, with what it records of its default.
        field: Field,
        /// The value.
        value: ScalarValue,
    },
    /// Lets a column that has no NULL take none.
    SetNotNull {
        /// The column.
        column: String,
    },
    /// Records what rows get that give a column no value, or takes that away.
    SetDefault {
        /// The column.
        column: String,
        /// The expression.
        text: Option<String>,
    },
    /// Records which columns identify a row. They take no NULL.
    SetPrimaryKey {
        /// The columns in order.
        columns: Vec<String>,
    },
    /// Changes what columns hold.
    AlterColumns(Vec<ColumnEdit>),
    /// Changes what the metadata of fields says, in this order.
    SetMetadata(Vec<typed::MetadataChange>),
    /// Changes the automatic refresh of a computed column.
    SetAutoRefresh {
        /// The column.
        column: String,
        /// Whether it is refreshed by itself.
        enabled: Option<bool>,
        /// The least seconds between two refreshes.
        interval_seconds: Option<u64>,
    },
    /// Gives the table another name.
    RenameTable(TableName),
}

/// Another kind of values for a column.
#[derive(Debug, Clone)]
pub struct ColumnEdit {
    /// The column.
    pub column: String,
    /// Its new type.
    pub data_type: Option<DataType>,
    /// Whether it takes NULL from now on.
    pub drop_not_null: bool,
}

/// A bound ALTER of the name of a view.
#[derive(Debug, Clone)]
pub struct RenameViewPlan {
    /// The view; `None` where IF EXISTS passed over it.
    pub view: Option<Table>,
    /// Its new name.
    pub to: Option<TableName>,
    /// What is answered.
    pub tag: &'static str,
}

/// The table as the changes bound so far leave it.
struct Shape {
    schema: Schema,
    dropped: Vec<String>,
}

impl Planner {
    /// Binds ALTER TABLE.
    ///
    /// # Errors
    /// 42P01, 42701, 42703; 42P17 for an expression that is not immutable;
    /// 2BP01 for a column that a computed column reads.
    pub(super) async fn plan_alter_table(&self, alter: &ast::AlterTable) -> Result<Plan> {
        if self.find(&alter.table).await?.is_none() {
            if !alter.if_exists {
                return Err(no_relation(&alter.table));
            }
            return Ok(Plan::AlterTable(Box::new(AlterTablePlan {
                table: None,
                actions: Vec::new(),
                functions: Vec::new(),
            })));
        }
        // As in PostgreSQL, a view can be renamed as a table is.
        if let [AlterOperation::RenameTable(to)] = alter.operations.as_slice()
            && let Some(view) = self.find(&alter.table).await?.filter(|found| found.kind != TableKind::Table)
        {
            return Ok(Plan::RenameView(Box::new(self.renamed_view(view, to)?)));
        }
        let table = self.changeable_table(&alter.table).await?;
        if alter
            .operations
            .iter()
            .any(|change| matches!(change, AlterOperation::RenameTable(_) | AlterOperation::AddComputedColumn(_)))
        {
            table.ensure_lasting("this form of ALTER TABLE")?;
        }
        let mut shape = Shape { schema: provider::visible_schema(&table.dataset), dropped: Vec::new() };
        shape.dropped = alter.operations.iter().filter_map(dropped).collect();
        let mut actions = Vec::new();
        let mut functions = Vec::new();
        for operation in &alter.operations {
            if let AlterOperation::AddComputedColumn(add) = operation
                && let Some(bound) = self.bind_function(&table, add, &mut shape).await?
            {
                if !bound.declarations.is_empty() {
                    merge(&mut actions, AlterAction::Declare(bound.declarations));
                }
                functions.push(bound.usage);
                continue;
            }
            for action in self.bind_with_default(&table, operation, &mut shape).await? {
                merge(&mut actions, action);
            }
        }
        Ok(Plan::AlterTable(Box::new(AlterTablePlan { table: Some(table), actions, functions })))
    }

    /// Binds ALTER VIEW … RENAME and ALTER MATERIALIZED VIEW … RENAME.
    ///
    /// # Errors
    /// 42P01, 42809.
    pub(super) async fn plan_alter_view(&self, alter: &ast::AlterView) -> Result<Plan> {
        let wanted = if alter.materialized { TableKind::MaterializedView } else { TableKind::View };
        let plan = match self.find(&alter.view).await? {
            Some(view) if view.kind == wanted => self.renamed_view(view, &alter.rename_to)?,
            Some(view) => {
                let what = if alter.materialized { "a materialized view" } else { "a view" };
                let message = format!("\"{}\" is not {what}", view.name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            None if alter.if_exists => RenameViewPlan { view: None, to: None, tag: "ALTER VIEW" },
            None => return Err(no_relation(&alter.view)),
        };
        let tag = if alter.materialized { "ALTER MATERIALIZED VIEW" } else { "ALTER VIEW" };
        Ok(Plan::RenameView(Box::new(RenameViewPlan { tag, ..plan })))
    }

    fn renamed_view(&self, view: Table, to: &lancegate_sql::Ident) -> Result<RenameViewPlan> {
        ensure_object_name(to.as_str())?;
        let to = TableName { name: to.as_str().to_owned(), ..view.name.clone() };
        Ok(RenameViewPlan { view: Some(view), to: Some(to), tag: "ALTER TABLE" })
    }

    fn bind_alteration(
        &self,
        table: &BoundTable,
        operation: &AlterOperation,
        shape: &mut Shape,
    ) -> Result<Option<AlterAction>> {
        Ok(match operation {
            AlterOperation::AddComputedColumn(add) => self.bind_declaration(table, add, shape)?,
            AlterOperation::AddColumn(add) => {
                let name = add.name.as_str();
                if !shape.ensure_new(name, add.if_not_exists, table.name())? {
                    return Ok(None);
                }
                if column::is_serial(&add.data_type) {
                    return Err(SqlError::not_supported("adding a serial column is not supported")
                        .hint("Declare it in CREATE TABLE, or add a plain column with a DEFAULT."));
                }
                let field = types::field(name, &add.data_type, true)?;
                if add.not_null && table.dataset.fragments().iter().any(|part| part.num_rows() != Some(0)) {
                    let message = format!("column \"{name}\" of relation \"{}\" contains null values", table.name());
                    return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                        .hint("Give the column a DEFAULT, which rows get that are there."));
                }
                shape.add(field.clone());
                Some(AlterAction::AddColumns(vec![field]))
            }
            AlterOperation::DropColumn(drop) => {
                let path = path(drop.parent.as_ref(), &drop.name);
                let name = path_text(&path);
                if shape.at(&path).is_none() {
                    return if drop.if_exists { Ok(None) } else { Err(no_column(&name, table.name())) };
                }
                ensure_unread(table, &name, "drop", &shape.dropped)?;
                function::ensure_together(table, &name, &shape.dropped)?;
                shape.remove_at(&path);
                Some(AlterAction::DropColumns(vec![name]))
            }
            AlterOperation::RenameColumn(rename) => {
                let (from, to) = (rename.from.as_str(), rename.to.as_str());
                let field = shape.field(from, table.name())?;
                shape.ensure_new(to, false, table.name())?;
                ensure_unread(table, from, "rename", &[])?;
                shape.remove(from);
                shape.add(field.with_name(to));
                Some(AlterAction::RenameColumn { from: from.to_owned(), to: to.to_owned() })
            }
            AlterOperation::AlterColumnType(alter) => {
                let column = alter.name.as_str();
                let field = shape.field(column, table.name())?;
                if alter.using.is_some() {
                    return Err(SqlError::not_supported("ALTER COLUMN … TYPE … USING is not supported"));
                }
                if computed::is_computed(&field) {
                    let message = format!("cannot alter type of computed column \"{column}\"");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
                        .hint("Drop the column and declare it again."));
                }
                ensure_unread(table, column, "alter type of", &[])?;
                let data_type = types::field(column, &alter.data_type, true)?.data_type().clone();
                shape.replace(field.with_data_type(data_type.clone()));
                let (column, data_type) = (column.to_owned(), Some(data_type));
                Some(AlterAction::AlterColumns(vec![ColumnEdit { column, data_type, drop_not_null: false }]))
            }
            AlterOperation::DropNotNull(column) => {
                let column = column.as_str();
                shape.field(column, table.name())?;
                if key::columns(&table.dataset).iter().any(|part| part == column) {
                    let message = format!("column \"{column}\" is in a primary key");
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
                }
                let (column, data_type) = (column.to_owned(), None);
                Some(AlterAction::AlterColumns(vec![ColumnEdit { column, data_type, drop_not_null: true }]))
            }
            AlterOperation::AlterColumnSet(set) => {
                let path = path(set.parent.as_ref(), &set.name);
                let column = path_text(&path);
                let field = shape.at(&path).ok_or_else(|| no_column(&column, table.name()))?;
                if !computed::is_computed(&field) {
                    let message = format!("column \"{column}\" of table \"{}\" is not a computed column", table.name());
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .detail("Only computed columns are refreshed."));
                }
                Some(AlterAction::SetAutoRefresh {
                    column,
                    enabled: set.options.auto_refresh_enabled,
                    interval_seconds: set.options.auto_refresh_interval_seconds,
                })
            }
            AlterOperation::RenameTable(name) => {
                ensure_object_name(name.as_str())?;
                Some(AlterAction::RenameTable(TableName {
                    name: name.as_str().to_owned(),
                    ..table.record.name.clone()
                }))
            }
            AlterOperation::SetNotNull(column) => {
                let field = shape.field(column.as_str(), table.name())?;
                if computed::is_computed(&field) {
                    let message = format!("computed column \"{column}\" takes NULL", column = column.as_str());
                    return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
                        .detail("It is NULL in new rows until it is refreshed."));
                }
                Some(AlterAction::SetNotNull { column: column.as_str().to_owned() })
            }
            AlterOperation::SetUnenforcedPrimaryKey(columns) => {
                Some(AlterAction::SetPrimaryKey { columns: key_columns(table, shape, columns)? })
            }
            AlterOperation::SetDefault(..) | AlterOperation::DropDefault(_) => {
                return Err(SqlError::internal("a default was bound as another alteration"));
            }
        })
    }

    /// Binds what may have an expression for new rows, and everything else.
    async fn bind_with_default(
        &self,
        table: &BoundTable,
        operation: &AlterOperation,
        shape: &mut Shape,
    ) -> Result<Vec<AlterAction>> {
        match operation {
            AlterOperation::AddColumn(AddColumn {
                name,
                data_type,
                default: Some(default),
                not_null,
                if_not_exists,
            }) => {
                if !shape.ensure_new(name.as_str(), *if_not_exists, table.name())? {
                    return Ok(Vec::new());
                }
                let text = default_text(default)?;
                let field = types::field(name.as_str(), data_type, true)?;
                let mut metadata = field.metadata().clone();
                metadata.extend([defaults::default_entry(&text)]);
                let field = field.with_metadata(metadata);
                let value = self.constant_default(&field, &text).await?;
                shape.add(field.clone());
                let not_null = not_null.then(|| AlterAction::SetNotNull { column: field.name().clone() });
                Ok(std::iter::once(AlterAction::AddFilled { field, value }).chain(not_null).collect())
            }
            AlterOperation::SetDefault(column, value) => {
                let field = self.plain_column(table, shape, column.as_str())?;
                let text = default_text(value)?;
                self.ensure_default(&field, &text).await?;
                shape.replace(defaults::with_default(field, Some(&text)));
                Ok(vec![AlterAction::SetDefault { column: column.as_str().to_owned(), text: Some(text) }])
            }
            AlterOperation::DropDefault(column) => {
                let field = self.plain_column(table, shape, column.as_str())?;
                shape.replace(defaults::with_default(field, None));
                Ok(vec![AlterAction::SetDefault { column: column.as_str().to_owned(), text: None }])
            }
            AlterOperation::AlterColumnType(alter) => {
                let field = shape.field(alter.name.as_str(), table.name())?;
                let wanted = types::field(field.name(), &alter.data_type, true)?;
                let action = self.bind_alteration(table, operation, shape)?;
                self.ensure_carried(table, &field, wanted.data_type()).await?;
                Ok(action.into_iter().collect())
            }
            other => {
                let not_null = match other {
                    AlterOperation::AddColumn(add) if add.not_null && !shape.has(add.name.as_str()) => {
                        Some(AlterAction::SetNotNull { column: add.name.as_str().to_owned() })
                    }
                    _ => None,
                };
                Ok(self.bind_alteration(table, other, shape)?.into_iter().chain(not_null).collect())
            }
        }
    }

    /// Refuses another type for a column where what is recorded of it would be lost or wrong.
    ///
    /// # Errors
    /// 22023 for one with a sequence that would hold no whole numbers, 0A000 for one of several
    /// of a primary key, and what its default raises as the new type.
    async fn ensure_carried(&self, table: &BoundTable, field: &Field, data_type: &DataType) -> Result<()> {
        if defaults::numbering_of(field).is_some() && defaults::number_max(data_type).is_none() {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .detail(format!("Column \"{}\" has a sequence.", field.name())));
        }
        let key = key::columns(&table.dataset);
        if key.len() > 1 && key.contains(field.name()) {
            let message =
                format!("cannot alter type of column \"{}\" of a primary key of several columns", field.name());
            return Err(SqlError::not_supported(message).detail("A primary key that is recorded cannot be changed."));
        }
        match defaults::default_of(field) {
            Some(text) => self.ensure_default(&field.clone().with_data_type(data_type.clone()), text).await,
            None => Ok(()),
        }
    }

    /// Returns a column that may have a default.
    ///
    /// # Errors
    /// 42703; 42601 for one that has its values from elsewhere.
    fn plain_column(&self, table: &BoundTable, shape: &Shape, column: &str) -> Result<Field> {
        let field = shape.field(column, table.name())?;
        let what = match () {
            () if computed::is_computed(&field) => "a generated column",
            () if defaults::numbering_of(&field).is_some() => "an identity column",
            () => return Ok(field),
        };
        let message = format!("column \"{column}\" of relation \"{}\" is {what}", table.name());
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    }

    fn bind_declaration(
        &self,
        table: &BoundTable,
        add: &ast::AddComputedColumn,
        shape: &mut Shape,
    ) -> Result<Option<AlterAction>> {
        let [name] = add.names.as_slice() else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "several columns need a Function")
                .detail("An expression has one value.")
                .at(add.expression.position.get()));
        };
        if add.application.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "FILTER, IGNORE NULLS and OVER need a Function")
                .at(add.expression.position.get()));
        }
        let path = path(add.parent.as_ref(), name);
        let column = path_text(&path);
        if path.len() > 1 {
            if !shape.ensure_new_inside(&path, add.if_not_exists, table)? {
                return Ok(None);
            }
        } else if !shape.ensure_new(name.as_str(), add.if_not_exists, table.name())? {
            return Ok(None);
        }
        let name = name.as_str();
        ensure_columns(std::iter::once(name))?;
        let analyzed = expression::analyze(without_parentheses(&add.expression), &shape.schema)
            .map_err(|error| SqlError::from(error).at(add.expression.position.get()))?;
        let data_type = match &add.data_type {
            Some(declared) => types::field(name, declared, true)?.data_type().clone(),
            None => types::stored(&analyzed.data_type),
        };
        ensure_outside(&path, &analyzed.inputs)?;
        let declaration = Declaration {
            name: column,
            data_type: data_type.clone(),
            expression: without_parentheses(&add.expression).to_owned(),
            function: None,
            inputs: analyzed.inputs,
            auto_refresh_enabled: add.options.auto_refresh_enabled,
            auto_refresh_interval_seconds: add.options.auto_refresh_interval_seconds,
        };
        shape.add_at(&path, Field::new(name, data_type, true));
        Ok(Some(AlterAction::Declare(vec![declaration])))
    }
}

impl Shape {
    fn has(&self, name: &str) -> bool {
        self.schema.field_with_name(name).is_ok()
    }

    fn field(&self, name: &str, table: &str) -> Result<Field> {
        self.schema.field_with_name(name).cloned().map_err(|_| no_column(name, table))
    }

    fn ensure_new(&self, name: &str, if_not_exists: bool, table: &str) -> Result<bool> {
        if !self.has(name) {
            ensure_columns(std::iter::once(name))?;
            return Ok(true);
        }
        if if_not_exists {
            return Ok(false);
        }
        let message = format!("column \"{name}\" of relation \"{table}\" already exists");
        Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
    }

    /// Returns the field at a path.
    fn at(&self, path: &[String]) -> Option<Field> {
        let (root, inner) = path.split_first()?;
        let mut found = self.schema.field_with_name(root).ok()?.clone();
        for name in inner {
            let DataType::Struct(children) = found.data_type() else { return None };
            found = children.find(name)?.1.as_ref().clone();
        }
        Some(found)
    }

    /// As [`Self::ensure_new`] for a field inside a column.
    fn ensure_new_inside(&self, path: &[String], if_not_exists: bool, table: &BoundTable) -> Result<bool> {
        let (outer, name) = (&path[..path.len() - 1], path_text(path));
        let parent = self.at(outer).ok_or_else(|| no_column(&path_text(outer), table.name()))?;
        if !matches!(parent.data_type(), DataType::Struct(_)) {
            let message = format!("column \"{}\" of table \"{}\" has no fields", path_text(outer), table.name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail("Only a struct has fields."));
        }
        if self.at(path).is_none() {
            nested::ensure_supported(&table.dataset).map_err(StorageError::from)?;
            return Ok(true);
        }
        if if_not_exists {
            return Ok(false);
        }
        let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name());
        Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message))
    }

    fn add_at(&mut self, path: &[String], field: Field) {
        match path {
            [] | [_] => self.add(field),
            [root, inner @ ..] => {
                let fields = self.fields().into_iter();
                self.schema =
                    Schema::new(fields.map(|outer| inside(outer, root, inner, Some(&field))).collect::<Vec<_>>());
            }
        }
    }

    fn remove_at(&mut self, path: &[String]) {
        match path {
            [] => {}
            [name] => self.remove(name),
            [root, inner @ ..] => {
                let fields = self.fields().into_iter();
                self.schema = Schema::new(fields.map(|outer| inside(outer, root, inner, None)).collect::<Vec<_>>());
            }
        }
    }

    /// Puts a column in the place of the one that has its name.
    fn replace(&mut self, column: Field) {
        let fields = self.fields().into_iter();
        let replaced = fields.map(|field| if field.name() == column.name() { column.clone() } else { field });
        self.schema = Schema::new(replaced.collect::<Vec<_>>());
    }

    fn add(&mut self, field: Field) {
        let mut fields: Vec<Field> = self.fields();
        fields.push(field);
        self.schema = Schema::new(fields);
    }

    fn remove(&mut self, name: &str) {
        let mut fields = self.fields();
        fields.retain(|field| field.name() != name);
        self.schema = Schema::new(fields);
    }

    fn fields(&self) -> Vec<Field> {
        self.schema.fields().iter().map(|field| field.as_ref().clone()).collect()
    }
}

/// Returns `outer` with the field at `path` inside it added, or removed without one.
fn inside(outer: Field, name: &str, path: &[String], added: Option<&Field>) -> Field {
    let (true, DataType::Struct(children)) = (outer.name() == name, outer.data_type()) else { return outer };
    let mut fields: Vec<Field> = children.iter().map(|child| child.as_ref().clone()).collect();
    match path {
        [leaf] => match added {
            Some(field) => fields.push(field.clone()),
            None => fields.retain(|field| field.name() != leaf),
        },
        [next, rest @ ..] => fields = fields.into_iter().map(|field| inside(field, next, rest, added)).collect(),
        [] => {}
    }
    outer.with_data_type(DataType::Struct(fields.into()))
}

fn path(parent: Option<&FieldPath>, name: &Ident) -> Vec<String> {
    let mut path = parent.map(|parent| parent.parts().to_vec()).unwrap_or_default();
    path.push(name.as_str().to_owned());
    path
}

fn path_text(path: &[String]) -> String {
    nested::path_text(&path.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A field that is computed from what it is inside of would be an input of itself.
fn ensure_outside(path: &[String], inputs: &[String]) -> Result<()> {
    match inputs.iter().find(|input| path.starts_with(&nested::parts(input))) {
        None => Ok(()),
        Some(input) => {
            let message = format!("column \"{}\" cannot be computed from column \"{input}\"", path_text(path));
            Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
                .detail("It would be inside of its own input.")
                .hint("Name the fields that the expression reads."))
        }
    }
}

fn dropped(operation: &AlterOperation) -> Option<String> {
    match operation {
        AlterOperation::DropColumn(drop) => Some(path_text(&path(drop.parent.as_ref(), &drop.name))),
        _ => None,
    }
}

/// Refuses to change a column that a computed column reads, unless that one is
/// dropped by the same statement.
fn ensure_unread(table: &BoundTable, column: &str, verb: &str, dropped: &[String]) -> Result<()> {
    let readers = computed::readers_of(&table.dataset, column)?;
    let gone = |reader: &String| dropped.iter().any(|gone| nested::parts(reader).starts_with(&nested::parts(gone)));
    let remaining: Vec<&String> = readers.iter().filter(|reader| !gone(reader)).collect();
    let [reader, ..] = remaining.as_slice() else { return Ok(()) };
    let name = table.name();
    let message = format!("cannot {verb} column {column} of table {name} because other objects depend on it");
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .detail(format!("Column {reader} of table {name} is computed from column {column}."))
        .hint(format!("Drop column {reader} first.")))
}

/// Returns the columns of a new primary key.
///
/// # Errors
/// 42P16 if there is one already, 42703, 42701.
fn key_columns(table: &BoundTable, shape: &Shape, columns: &[Ident]) -> Result<Vec<String>> {
    if !key::columns(&table.dataset).is_empty() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name());
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let field = shape.field(column.as_str(), table.name())?;
        if field.data_type().is_nested() || computed::is_computed(&field) {
            let message = format!("column \"{}\" cannot be part of a primary key", field.name());
            return Err(SqlError::not_supported(message));
        }
        if names.contains(field.name()) {
            let message = format!("column \"{}\" appears twice in primary key constraint", field.name());
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        names.push(field.name().clone());
    }
    Ok(names)
}

/// Changes of one kind that follow each other become one commit.
fn merge(actions: &mut Vec<AlterAction>, action: AlterAction) {
    match (actions.last_mut(), action) {
        (Some(AlterAction::Declare(list)), AlterAction::Declare(more)) => list.extend(more),
        (Some(AlterAction::AddColumns(list)), AlterAction::AddColumns(more)) => list.extend(more),
        (Some(AlterAction::DropColumns(list)), AlterAction::DropColumns(more)) => list.extend(more),
        (Some(AlterAction::SetMetadata(list)), AlterAction::SetMetadata(more)) => list.extend(more),
        (Some(AlterAction::AlterColumns(list)), AlterAction::AlterColumns(more)) => {
            for edit in more {
                match list.iter_mut().find(|earlier| earlier.column == edit.column) {
                    Some(earlier) => {
                        earlier.data_type = edit.data_type.or_else(|| earlier.data_type.take());
                        earlier.drop_not_null |= edit.drop_not_null;
                    }
                    None => list.push(edit),
                }
            }
        }
        (_, action) => actions.push(action),
    }
}

/// Brackets around the whole expression belong to the statement (`AS (…)`), not
/// to the declaration.
fn without_parentheses(expression: &ast::SourceExpr) -> &str {
    let text = expression.text.trim();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    match (&expression.expr, inner) {
        (sqlparser::ast::Expr::Nested(_), Some(inner)) => inner.trim(),
        _ => text,
    }
}
