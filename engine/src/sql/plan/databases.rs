//! CREATE, ALTER and DROP of databases and schemas.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::future::BoxFuture;
use lancegate_catalog::{Properties, SecretName, Table, TableName};
use lancegate_sql::ast::{DropBehavior, Property, Statement};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{ensure_object_name, no_database, no_schema, schema_of};
use crate::sqlstate::SqlState;
use crate::system::SYSTEM_DATABASE;

/// Components of a namespace path, at most.
const PATH_COMPONENTS_MAX: usize = 10;
/// The longest component of a path or name of a database, in bytes.
const COMPONENT_BYTES_MAX: usize = 64;

/// A bound statement about databases or schemas.
#[derive(Debug, Clone)]
pub enum DatabasePlan {
    /// CREATE DATABASE.
    CreateDatabase {
        /// The new name.
        name: String,
        /// Whether an existing database is no error.
        if_not_exists: bool,
        /// `operation`, `name`, `status`.
        schema: SchemaRef,
    },
    /// DROP DATABASE.
    DropDatabase {
        /// The name.
        name: String,
        /// Whether its contents are dropped, too.
        cascade: bool,
        /// Whether IF EXISTS passes over it.
        missing: bool,
    },
    /// CREATE SCHEMA.
    CreateSchema {
        /// The database.
        database: String,
        /// The nearest ancestor that exists; empty for the database itself.
        parent: Vec<String>,
        /// The new path.
        path: Vec<String>,
        /// Whether an existing schema is no error.
        if_not_exists: bool,
        /// Its properties.
        properties: Properties,
    },
    /// ALTER SCHEMA … SET PROPERTIES.
    AlterSchema {
        /// The database.
        database: String,
        /// The path.
        path: Vec<String>,
        /// All properties after the change.
        properties: Properties,
    },
    /// DROP SCHEMA.
    DropSchemas {
        /// Database and path of those that exist, those inside of others first.
        schemas: Vec<(String, Vec<String>)>,
        /// What goes with them.
        contents: Contents,
    },
}

/// What CASCADE drops with schemas.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Their tables and views, and the views elsewhere that read them.
    pub relations: Vec<Table>,
    /// Versions of their Functions. Columns elsewhere keep the values that they have.
    pub functions: Vec<(TableName, u64)>,
    /// Their secrets.
    pub secrets: Vec<SecretName>,
}

impl DatabasePlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::CreateDatabase { schema, .. } => Some(schema),
            Self::DropDatabase { .. }
            | Self::CreateSchema { .. }
            | Self::AlterSchema { .. }
            | Self::DropSchemas { .. } => None,
        }
    }

    /// Returns the command word; all of these change something.
    pub fn writes(&self) -> Option<&'static str> {
        Some(match self {
            Self::CreateDatabase { .. } => "CREATE DATABASE",
            Self::DropDatabase { .. } => "DROP DATABASE",
            Self::CreateSchema { .. } => "CREATE SCHEMA",
            Self::AlterSchema { .. } => "ALTER SCHEMA",
            Self::DropSchemas { .. } => "DROP SCHEMA",
        })
    }
}

impl Planner {
    /// Binds a statement about databases or schemas.
    ///
    /// # Errors
    /// 3D000, 3F000, 42602, 42P06.
    pub(super) async fn plan_database(&self, statement: &Statement) -> Result<Plan> {
        let plan = match statement {
            Statement::CreateDatabase(create) => {
                let name = create.name.as_str().to_owned();
                ensure_database_name(&name)?;
                DatabasePlan::CreateDatabase { name, if_not_exists: create.if_not_exists, schema: created() }
            }
            Statement::DropDatabase(drop) => {
                let name = drop.name.as_str().to_owned();
                let missing = self.engine.catalog().database(&name).await?.is_none();
                if missing && !drop.if_exists {
                    return Err(no_database(&name));
                }
                let cascade = drop.behavior == Some(DropBehavior::Cascade);
                DatabasePlan::DropDatabase { name, cascade, missing }
            }
            Statement::CreateSchema(create) => {
                let (database, path) = self.schema_path(&create.schema);
                self.ensure_database(&database).await?;
                ensure_path(&create.schema.schema, &path)?;
                let parent = self.existing_ancestor(&database, &path).await?;
                let properties = properties(&create.properties);
                let if_not_exists = create.if_not_exists;
                DatabasePlan::CreateSchema { database, parent, path, if_not_exists, properties }
            }
            Statement::AlterSchema(alter) => {
                let (database, path) = self.schema_path(&alter.schema);
                let existing = self.engine.catalog().namespace(&database, &path).await?;
                let mut all = existing.ok_or_else(|| no_schema(&alter.schema.schema))?.properties;
                all.extend(properties(&alter.properties));
                DatabasePlan::AlterSchema { database, path, properties: all }
            }
            Statement::DropSchema(drop) => {
                let mut schemas = Vec::new();
                for name in &drop.schemas {
                    let (database, path) = self.schema_path(name);
                    if path.is_empty() {
                        let message = "cannot drop schema public because it is the root of its database";
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                    }
                    match self.caller.names.has_schema(self.engine.catalog(), &database, &path).await? {
                        true => schemas.push((database, path)),
                        false if drop.if_exists => {}
                        false => return Err(no_schema(&name.schema)),
                    }
                }
                let mut contents = Contents::default();
                if drop.behavior == Some(DropBehavior::Cascade) {
                    schemas = self.with_inner(schemas).await?;
                    contents = self.contents(&schemas).await?;
                }
                DatabasePlan::DropSchemas { schemas, contents }
            }
            other => return Err(SqlError::internal(format!("{} is not about databases", other.kind()))),
        };
        Ok(Plan::Database(Box::new(plan)))
    }

    async fn ensure_database(&self, name: &str) -> Result<()> {
        match self.engine.catalog().database(name).await? {
            Some(_) => Ok(()),
            None => Err(no_database(name)),
        }
    }

    /// Returns schemas with those inside of them, which come before.
    async fn with_inner(&self, schemas: Vec<(String, Vec<String>)>) -> Result<Vec<(String, Vec<String>)>> {
        let mut all = BTreeSet::new();
        for (database, path) in schemas {
            let known = self.caller.names.schemas(self.engine.catalog(), &database).await?;
            let inner = known.into_iter().filter(|inner| inner.starts_with(&path));
            all.extend(inner.map(|inner| (database.clone(), inner)));
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(_, path)| Reverse(path.len()));
        Ok(all)
    }

    /// Returns what is in schemas. Boxed: what follows views is deep, and the compiler would go through it for each caller.
    fn contents<'a>(&'a self, schemas: &'a [(String, Vec<String>)]) -> BoxFuture<'a, Result<Contents>> {
        Box::pin(async move {
            let mut contents = Contents::default();
            let catalog = self.engine.catalog();
            for (database, path) in schemas {
                contents.relations.extend(self.caller.names.tables(catalog, database, Some(path)).await?);
                let functions = catalog.functions(database).await?.into_iter();
                let inside = functions.filter(|function| function.name.namespace == *path);
                contents.functions.extend(inside.map(|function| (function.name, function.version)));
                let secrets = catalog.secrets(Some(database)).await?.into_iter().map(|secret| secret.name);
                contents.secrets.extend(secrets.filter(|name| name.namespace == *path));
            }
            let dependents = self.dependents(&contents.relations, Some(DropBehavior::Cascade)).await?;
            contents.relations.extend(dependents);
            Ok(contents)
        })
    }

    async fn existing_ancestor(&self, database: &str, path: &[String]) -> Result<Vec<String>> {
        for length in (1..path.len()).rev() {
            if self.caller.names.has_schema(self.engine.catalog(), database, &path[..length]).await? {
                return Ok(path[..length].to_vec());
            }
        }
        Ok(Vec::new())
    }
}

fn created() -> SchemaRef {
    let fields = ["operation", "name", "status"].map(|name| Field::new(name, DataType::Utf8, false));
    Arc::new(Schema::new(fields.to_vec()))
}

fn properties(list: &[Property]) -> Properties {
    list.iter().map(|property| (property.key.clone(), property.value.clone())).collect()
}

fn ensure_path(schema: &str, path: &[String]) -> Result<()> {
    if path.is_empty() {
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, "schema \"public\" already exists"));
    }
    if matches!(schema, "information_schema") || schema.starts_with("pg_") {
        return Err(SqlError::new(SqlState::RESERVED_NAME, format!("unacceptable schema name \"{schema}\""))
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if path.len() > PATH_COMPONENTS_MAX || path.first().is_some_and(|first| first == "public") {
        return Err(SqlError::new(SqlState::INVALID_NAME, format!("invalid schema name \"{}\"", schema_of(path)))
            .detail(format!(
                "A path has at most {PATH_COMPONENTS_MAX} components and does not begin with \"public\"."
            )));
    }
    path.iter().try_for_each(|component| {
        if component.len() > COMPONENT_BYTES_MAX {
            return Err(SqlError::new(SqlState::NAME_TOO_LONG, format!("identifier \"{component}\" is too long")));
        }
        ensure_object_name(component)
    })
}

fn ensure_database_name(name: &str) -> Result<()> {
    if name == SYSTEM_DATABASE || name.starts_with('_') {
        return Err(SqlError::new(SqlState::INVALID_NAME, format!("database name \"{name}\" is reserved")));
    }
    if name.len() > COMPONENT_BYTES_MAX {
        return Err(SqlError::new(SqlState::NAME_TOO_LONG, format!("identifier \"{name}\" is too long")));
    }
    // A slash makes a path of folders, each of which must be a name.
    name.split('/').try_for_each(ensure_object_name)?;
    if name.ends_with(".lance") {
        return Err(SqlError::new(SqlState::INVALID_NAME, format!("database name \"{name}\" is reserved")));
    }
    Ok(())
}
