//! The Lance directory namespace's own list of nested namespaces and tables: a
//! Lance table `__manifest` in the root of a database.

use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use lancegate_catalog::{Database, TableName};

use super::{adopt_namespace, below, leads_out, read_all};
use crate::error::Result;
use crate::exec::Engine;
use crate::sql::resolve::ensure_object_name;
use crate::storage::StorageError;

const MANIFEST: &str = "__manifest";

/// Adopts what the manifest lists and the metadata store does not know.
///
/// # Errors
/// If the manifest is there and cannot be read.
pub(super) async fn adopt(engine: &Engine, database: &Database, known: &HashSet<String>) -> Result<()> {
    let dataset = match engine.store().open(&below(&database.location, MANIFEST)).await {
        Ok(dataset) => dataset,
        Err(StorageError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for batch in read_all(&dataset, &["object_id", "object_type", "location"]).await? {
        for entry in entries(&batch) {
            adopt_entry(engine, database, known, entry).await?;
        }
    }
    Ok(())
}

struct Entry {
    path: Vec<String>,
    is_table: bool,
    location: Option<String>,
}

fn entries(batch: &RecordBatch) -> Vec<Entry> {
    let texts = |name: &str| batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>());
    let (Some(ids), Some(kinds)) = (texts("object_id"), texts("object_type")) else { return Vec::new() };
    let locations = texts("location");
    let entry = |row: usize| {
        let id = ids.iter().nth(row).flatten()?;
        let location = locations.and_then(|locations| locations.iter().nth(row).flatten());
        Some(Entry {
            path: id.split('$').map(str::to_owned).collect(),
            is_table: kinds.iter().nth(row).flatten() == Some("table"),
            location: location.map(str::to_owned),
        })
    };
    (0..batch.num_rows()).filter_map(entry).collect()
}

async fn adopt_entry(engine: &Engine, database: &Database, known: &HashSet<String>, entry: Entry) -> Result<()> {
    let Entry { mut path, is_table, location } = entry;
    if path.iter().any(|component| ensure_object_name(component).is_err()) {
        return Ok(());
    }
    if !is_table {
        return adopt_namespace(engine, &database.name, path).await;
    }
    let (Some(name), Some(location)) = (path.pop(), location) else { return Ok(()) };
    let location = if location.contains("://") { location } else { below(&database.location, &location) };
    if known.contains(&location) || leads_out(engine, &location) || !super::is_table(engine, &location).await? {
        return Ok(());
    }
    adopt_namespace(engine, &database.name, path.clone()).await?;
    let name = TableName { database: database.name.clone(), namespace: path, name };
    super::adopt(engine, name, location).await?;
    Ok(())
}
