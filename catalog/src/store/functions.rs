//! Versions of Functions and the rows that they failed on.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::rows::{self, micros, signed};
use super::{Catalog, Durability};
use crate::error::Result;
use crate::function::{FunctionVersion, RowFailure};
use crate::ids::TableId;
use crate::object::{TableName, namespace_from_text, namespace_to_text};

/// Records of one table that are kept (decision 28).
const FAILURES_MAX: i64 = 100_000;

impl Catalog {
    /// Adds a version of a Function after the newest one and returns its number; `version` of the argument is not used.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`InvalidName`](crate::CatalogError::InvalidName).
    pub async fn add_function(&self, function: FunctionVersion) -> Result<u64> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let namespace = namespace_to_text(&function.name.namespace)?;
                let newest: i64 = sqlx::query_scalar(
                    "SELECT COALESCE(MAX(version), 0) FROM functions
                     WHERE database_name = $1 AND namespace = $2 AND name = $3",
                )
                .bind(&function.name.database)
                .bind(&namespace)
                .bind(&function.name.name)
                .fetch_one(tx.connection())
                .await?;
                sqlx::query(
                    "INSERT INTO functions (database_name, namespace, name, version, definition, owner, created_at)
                     VALUES ($1, $2, $3, $4, $5, $6, $7)",
                )
                .bind(&function.name.database)
                .bind(&namespace)
                .bind(&function.name.name)
                .bind(newest + 1)
                .bind(function.definition.to_string())
                .bind(&function.owner)
                .bind(micros(function.created_at))
                .execute(tx.connection())
                .await?;
                rows::unsigned("version", newest + 1)
            })
        })
        .await
    }

    /// Returns the versions of Functions of a database, by name and version.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn functions(&self, database: &str) -> Result<Vec<FunctionVersion>> {
        let rows = sqlx::query("SELECT * FROM functions WHERE database_name = $1 ORDER BY namespace, name, version")
            .bind(database)
            .fetch_all(self.readers())
            .await?;
        rows.iter().map(function).collect()
    }

    /// Returns a version of a Function, the newest one if none is named.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn function(&self, name: &TableName, version: Option<u64>) -> Result<Option<FunctionVersion>> {
        let version = version.map(|version| signed("version", version)).transpose()?;
        sqlx::query(
            "SELECT * FROM functions WHERE database_name = $1 AND namespace = $2 AND name = $3
             AND ($4 IS NULL OR version = $4) ORDER BY version DESC LIMIT 1",
        )
        .bind(&name.database)
        .bind(namespace_to_text(&name.namespace)?)
        .bind(&name.name)
        .bind(version)
        .fetch_optional(self.readers())
        .await?
        .map(|row| function(&row))
        .transpose()
    }

    /// Removes one version of a Function. Returns whether it was there.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store).
    pub async fn drop_function(&self, name: TableName, version: u64) -> Result<bool> {
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let dropped = sqlx::query(
                    "DELETE FROM functions
                     WHERE database_name = $1 AND namespace = $2 AND name = $3 AND version = $4",
                )
                .bind(&name.database)
                .bind(namespace_to_text(&name.namespace)?)
                .bind(&name.name)
                .bind(signed("version", version)?)
                .execute(tx.connection())
                .await?;
                Ok(dropped.rows_affected() > 0)
            })
        })
        .await
    }

    /// Replaces the records of rows that were computed again: those at `offsets` of a fragment go, `failures` come.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store).
    pub async fn replace_row_failures(
        &self,
        table: TableId,
        column: &str,
        fragment_id: u64,
        offsets: Vec<u32>,
        failures: Vec<RowFailure>,
    ) -> Result<()> {
        let column = column.to_owned();
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                // Few rows have a record, many are computed: look up the former.
                let known: Vec<i64> = sqlx::query_scalar(
                    "SELECT row_offset FROM row_failures WHERE table_id = $1 AND column_name = $2 AND fragment_id = $3",
                )
                .bind(table.to_string())
                .bind(&column)
                .bind(signed("fragment_id", fragment_id)?)
                .fetch_all(tx.connection())
                .await?;
                for offset in known {
                    if u32::try_from(offset).is_ok_and(|offset| offsets.binary_search(&offset).is_ok()) {
                        sqlx::query(
                            "DELETE FROM row_failures WHERE table_id = $1 AND column_name = $2 AND fragment_id = $3
                             AND row_offset = $4",
                        )
                        .bind(table.to_string())
                        .bind(&column)
                        .bind(signed("fragment_id", fragment_id)?)
                        .bind(offset)
                        .execute(tx.connection())
                        .await?;
                    }
                }
                for failure in failures {
                    sqlx::query(
                        "INSERT OR REPLACE INTO row_failures (table_id, column_name, fragment_id, row_offset, job_id,
                             function_name, function_version, table_version, row_id, error_type, error_message,
                             created_at)
                         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
                    )
                    .bind(failure.table_id.to_string())
                    .bind(&failure.column)
                    .bind(signed("fragment_id", failure.fragment_id)?)
                    .bind(i64::from(failure.row_offset))
                    .bind(failure.job_id.to_string())
                    .bind(&failure.function)
                    .bind(&failure.function_version)
                    .bind(signed("table_version", failure.table_version)?)
                    .bind(failure.row_id.map(|id| signed("row_id", id)).transpose()?)
                    .bind(&failure.error_type)
                    .bind(&failure.error_message)
                    .bind(micros(failure.created_at))
                    .execute(tx.connection())
                    .await?;
                }
                sqlx::query(
                    "DELETE FROM row_failures WHERE table_id = $1 AND created_at <
                     (SELECT created_at FROM row_failures WHERE table_id = $1
                      ORDER BY created_at DESC LIMIT 1 OFFSET $2)",
                )
                .bind(table.to_string())
                .bind(FAILURES_MAX)
                .execute(tx.connection())
                .await?;
                Ok(())
            })
        })
        .await
    }

    /// Returns the rows of a table that Functions failed on, newest job first, then by place; of one job if named.
    ///
    /// # Errors
    /// [`Store`](crate::CatalogError::Store), [`DamagedValue`](crate::CatalogError::DamagedValue).
    pub async fn row_failures(&self, table: TableId, job: Option<&str>, limit: u32) -> Result<Vec<RowFailure>> {
        let rows = sqlx::query(
            "SELECT * FROM row_failures WHERE table_id = $1 AND ($2 IS NULL OR job_id = $2)
             ORDER BY job_id DESC, column_name, fragment_id, row_offset LIMIT $3",
        )
        .bind(table.to_string())
        .bind(job)
        .bind(i64::from(limit))
        .fetch_all(self.readers())
        .await?;
        rows.iter().map(failure).collect()
    }
}

fn function(row: &SqliteRow) -> Result<FunctionVersion> {
    Ok(FunctionVersion {
        name: TableName {
            database: row.try_get("database_name")?,
            namespace: namespace_from_text(row.try_get("namespace")?),
            name: row.try_get("name")?,
        },
        version: rows::unsigned("version", row.try_get("version")?)?,
        definition: rows::json("definition", row.try_get("definition")?)?,
        owner: row.try_get("owner")?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}

fn failure(row: &SqliteRow) -> Result<RowFailure> {
    let offset: i64 = row.try_get("row_offset")?;
    Ok(RowFailure {
        table_id: rows::parsed("table_id", row.try_get("table_id")?)?,
        job_id: rows::parsed("job_id", row.try_get("job_id")?)?,
        column: row.try_get("column_name")?,
        function: row.try_get("function_name")?,
        function_version: row.try_get("function_version")?,
        table_version: rows::unsigned("table_version", row.try_get("table_version")?)?,
        fragment_id: rows::unsigned("fragment_id", row.try_get("fragment_id")?)?,
        row_offset: u32::try_from(offset).map_err(|_| rows::damaged("row_offset", offset))?,
        row_id: row.try_get::<Option<i64>, _>("row_id")?.map(|id| rows::unsigned("row_id", id)).transpose()?,
        error_type: row.try_get("error_type")?,
        error_message: row.try_get("error_message")?,
        created_at: rows::timestamp("created_at", row.try_get("created_at")?)?,
    })
}
