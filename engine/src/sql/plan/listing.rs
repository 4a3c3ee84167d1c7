//! SHOW TABLES and its relatives, DESCRIBE of databases and schemas.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_sql::ast::{CatalogListing, CatalogObject, Describe, DescribeTarget, ListingScope};

use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::sql::resolve::{BoundTable, no_database, no_schema};

/// A bound listing.
#[derive(Debug, Clone)]
pub struct ListingPlan {
    /// What is listed.
    pub what: Listing,
    /// Only names like this.
    pub like: Option<String>,
    /// Only names after this one.
    pub after: Option<String>,
    /// The most rows.
    pub limit: Option<u32>,
    schema: SchemaRef,
}

/// What a listing lists.
#[derive(Debug, Clone)]
pub enum Listing {
    /// Databases that the caller may use.
    Databases,
    /// Namespaces of a database that the caller may use.
    Schemas {
        /// The database.
        database: String,
        /// Only the children of this path.
        parent: Option<Vec<String>>,
    },
    /// Relations of a database.
    Relations {
        /// The database.
        database: String,
        /// Only those of this namespace.
        namespace: Option<Vec<String>>,
        /// Tables, views or materialized views.
        kind: lancegate_catalog::TableKind,
    },
    /// Secrets of a database.
    Secrets {
        /// The database.
        database: String,
        /// Only those of this namespace.
        namespace: Option<Vec<String>>,
    },
    /// Columns of a table.
    Columns(BoundTable),
    /// Properties of a database.
    Database(String),
    /// Properties of a namespace.
    Schema {
        /// The database.
        database: String,
        /// The path.
        path: Vec<String>,
    },
}

impl ListingPlan {
    /// Returns the columns of the answer.
    pub fn columns(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns what is needed; most listings leave out what the caller may not see.
    pub fn requirements(&self) -> Vec<Requirement> {
        match &self.what {
            Listing::Databases | Listing::Schemas { .. } | Listing::Relations { .. } | Listing::Secrets { .. } => {
                Vec::new()
            }
            Listing::Columns(table) => vec![Requirement::new(Privilege::Select, table.object())],
            Listing::Database(name) => vec![Requirement::new(Privilege::Usage, Object::Database(name.clone()))],
            Listing::Schema { database, path } => {
                let object = Object::Namespace { database: database.clone(), path: path.clone() };
                vec![Requirement::new(Privilege::Usage, object)]
            }
        }
    }
}

impl Planner {
    /// Binds SHOW TABLES and its relatives.
    ///
    /// # Errors
    /// 3D000, 3F000, 42P01 for the scope; 0A000 for kinds that do not exist here.
    pub(super) async fn plan_listing(&self, listing: &CatalogListing) -> Result<Plan> {
        let (database, namespace) = match &listing.scope {
            Some(ListingScope::Schema(name)) => {
                let (database, path) = self.schema_path(name);
                if !self.schema_exists(&database, &name.schema).await? {
                    return Err(no_schema(&name.schema));
                }
                (database, Some(path))
            }
            _ => (self.caller.database.clone(), None),
        };
        let relations = |kind| Listing::Relations { database: database.clone(), namespace: namespace.clone(), kind };
        let (what, columns): (Listing, &[&str]) = match listing.object {
            CatalogObject::Databases => (Listing::Databases, &["name"]),
            CatalogObject::Schemas => {
                (Listing::Schemas { database: database.clone(), parent: namespace }, &["namespace_path", "name"])
            }
            CatalogObject::Tables => (relations(lancegate_catalog::TableKind::Table), &["namespace_path", "name"]),
            CatalogObject::Views => (relations(lancegate_catalog::TableKind::View), &["namespace_path", "name"]),
            CatalogObject::MaterializedViews => {
                (relations(lancegate_catalog::TableKind::MaterializedView), &["namespace_path", "name"])
            }
            CatalogObject::Secrets => (Listing::Secrets { database, namespace }, &["namespace_path", "name"]),
            CatalogObject::Columns => match &listing.scope {
                Some(ListingScope::Object(name)) => {
                    (Listing::Columns(self.table(name).await?), &["column_name", "data_type", "is_nullable"])
                }
                _ => return Err(SqlError::not_supported("SHOW COLUMNS needs a table").hint("SHOW COLUMNS IN <table>.")),
            },
            other => return Err(SqlError::not_supported(format!("SHOW {} is not supported yet", other.as_str()))),
        };
        Ok(Plan::Listing(Box::new(ListingPlan {
            what,
            like: listing.like.clone(),
            after: listing.name_after.clone().or_else(|| listing.page_token.clone()),
            limit: listing.limit,
            schema: text_columns(columns),
        })))
    }

    /// Binds DESCRIBE of a database, schema or secret.
    ///
    /// # Errors
    /// 3D000, 3F000, 42704, 0A000.
    pub(super) async fn plan_describe(&self, describe: &Describe) -> Result<Plan> {
        if let DescribeTarget::Function(name) = &describe.target {
            return self.plan_describe_function(name).await;
        }
        if let DescribeTarget::MaterializedView(name) = &describe.target {
            return self.plan_describe_materialized(name).await;
        }
        if let DescribeTarget::Secret(name) = &describe.target {
            return self.plan_describe_secret(name).await;
        }
        let what = match &describe.target {
            DescribeTarget::Database(name) => {
                if self.engine.catalog().database(name.as_str()).await?.is_none() {
                    return Err(no_database(name.as_str()));
                }
                Listing::Database(name.as_str().to_owned())
            }
            DescribeTarget::Schema(name) => {
                let (database, path) = self.schema_path(name);
                if !self.schema_exists(&database, &name.schema).await? {
                    return Err(no_schema(&name.schema));
                }
                Listing::Schema { database, path }
            }
            _ => return Err(SqlError::not_supported(format!("{describe} is not supported yet"))),
        };
        let schema = text_columns(&["name", "properties"]);
        Ok(Plan::Listing(Box::new(ListingPlan { what, like: None, after: None, limit: None, schema })))
    }

    /// Binds DESCRIBE of a table: its columns.
    ///
    /// # Errors
    /// 42P01.
    pub(super) async fn plan_describe_table(&self, name: &lancegate_sql::ObjectName) -> Result<Plan> {
        let what = Listing::Columns(self.table(name).await?);
        let schema = text_columns(&["column_name", "data_type", "is_nullable"]);
        Ok(Plan::Listing(Box::new(ListingPlan { what, like: None, after: None, limit: None, schema })))
    }
}

fn text_columns(names: &[&str]) -> SchemaRef {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
    Arc::new(Schema::new(fields))
}
