//! `pg_catalog` as PostgreSQL 16 has it, for what clients ask it about.
//!
//! Types, functions, operators and the like are PostgreSQL's own rows, from
//! `datafusion-pg-catalog`. Databases, schemas, relations, columns and roles are
//! made from the metadata store. A relation that describes what does not exist
//! here – triggers, rules, policies – is there and empty.

use std::fmt;
use std::sync::Arc;

use datafusion::catalog::{CatalogProviderList, MemoryCatalogProviderList, TableProvider};
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{PgCatalogSchemaProvider, PgCatalogStaticTables};

use crate::error::Result;
use crate::exec::Engine;
use crate::sql::plan::query::memory_table;
use crate::system::SystemContext;

mod absent;
mod activity;
mod classes;
pub(crate) mod constraints;
mod indexes;
mod roles;
mod settings;

type Provider = PgCatalogSchemaProvider<Arc<dyn CatalogProviderList>, EmptyContextProvider>;

/// The relations whose rows never change.
pub(crate) struct StaticTables(Provider);

impl fmt::Debug for StaticTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticTables")
    }
}

impl StaticTables {
    /// Reads the rows that are compiled in.
    ///
    /// # Errors
    /// If they cannot be decoded.
    pub(crate) fn load() -> Result<Self> {
        let list: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
        let tables = Arc::new(PgCatalogStaticTables::try_new()?);
        Ok(Self(PgCatalogSchemaProvider::try_new(list, tables, EmptyContextProvider)?))
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.0.build_table_by_name(name)? {
            Some(table) => Ok(Some(table.try_into_table_provider()?)),
            None => Ok(None),
        }
    }
}

/// The relations that are made from the metadata store.
const MADE: [&str; 20] = [
    "pg_constraint",
    "pg_stat_activity",
    "pg_class",
    "pg_attribute",
    "pg_attrdef",
    "pg_index",
    "pg_indexes",
    "pg_namespace",
    "pg_tables",
    "pg_views",
    "pg_matviews",
    "pg_description",
    "pg_shdescription",
    "pg_database",
    "pg_roles",
    "pg_authid",
    "pg_shadow",
    "pg_user",
    "pg_auth_members",
    "pg_settings",
];

/// Returns whether there is a relation of this name.
///
/// # Errors
/// If the rows that are compiled in cannot be read.
pub(crate) fn exists(engine: &Engine, name: &str) -> Result<bool> {
    Ok(MADE.contains(&name) || absent::relation(name)?.is_some() || engine.static_tables().table(name)?.is_some())
}

/// Returns a relation of `pg_catalog`.
///
/// # Errors
/// If the metadata store or the data root fails.
pub(crate) async fn table(context: &SystemContext, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    if !name.starts_with("pg_") {
        return Ok(None);
    }
    let batch = match name {
        "pg_class" => classes::pg_class(context.objects().await?)?,
        "pg_attribute" => classes::pg_attribute(context.objects().await?)?,
        "pg_attrdef" => classes::pg_attrdef(context.objects().await?)?,
        "pg_constraint" => constraints::pg_constraint(context.objects().await?)?,
        "pg_index" => indexes::pg_index(context.objects().await?)?,
        "pg_indexes" => indexes::pg_indexes(context.objects().await?)?,
        "pg_namespace" => classes::pg_namespace(context.objects().await?)?,
        "pg_tables" => classes::pg_tables(context.objects().await?)?,
        "pg_views" => classes::pg_views(context.objects().await?)?,
        "pg_matviews" => classes::pg_matviews(context.objects().await?)?,
        "pg_description" => classes::pg_description(context.objects().await?)?,
        "pg_shdescription" => classes::pg_shdescription(context.objects().await?)?,
        "pg_database" => roles::pg_database(context.objects().await?)?,
        "pg_roles" => roles::pg_roles(context.objects().await?)?,
        "pg_authid" | "pg_shadow" => roles::pg_roles(context.objects().await?)?,
        "pg_user" => roles::pg_user(context.objects().await?)?,
        "pg_auth_members" => roles::pg_auth_members()?,
        "pg_stat_activity" => activity::pg_stat_activity(context).await?,
        "pg_settings" => settings::pg_settings(&context.caller.settings)?,
        other => match absent::relation(other)? {
            Some(batch) => batch,
            None => return context.engine.static_tables().table(other),
        },
    };
    memory_table(batch).map(Some)
}
