//! What a materialized view keeps beside its rows, in the metadata of its schema, so
//! that rows and what is said of them are one commit.
//!
//! Our own document is under one key. The keys that LanceDB writes are there, too, for
//! programs that open the folder.

use std::collections::HashMap;

use arrow::datatypes::Schema;
use lance::Dataset;
use lancegate_catalog::{Job, JobId, Table};
use lancegate_sql::ViewOptions;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::sql::plan::query::Origin;
use crate::storage::StorageError;

/// The key of [`ViewState`].
const STATE: &str = "lancegate.mv";

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ViewState {
    /// Whether the view is to be refreshed by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auto_refresh_enabled: Option<bool>,
    /// The least seconds to the next automatic refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auto_refresh_interval_seconds: Option<f64>,
    /// What made the rows; none before the first refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refreshed: Option<Refreshed>,
}

/// The refresh that made the rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refreshed {
    /// Its job.
    pub(crate) job: String,
    /// The attempt of it.
    pub(crate) epoch: u64,
    /// When.
    pub(crate) at_millis: i64,
    /// How many rows there are.
    pub(crate) rows: u64,
    /// What they were computed from; none if that cannot be compared.
    pub(crate) sources: Option<Vec<SourceVersion>>,
    /// See [`source_version`].
    pub(crate) source_version: u64,
}

/// A table as it was read, or a view that it was read through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceVersion {
    /// The generation.
    pub(crate) table: String,
    /// Its name then.
    pub(crate) name: String,
    /// The version; 0 of a view.
    pub(crate) version: u64,
    /// When that was committed, in nanoseconds: a folder that other software made
    /// anew counts from 1 again. Empty of a view.
    pub(crate) committed_at: String,
    /// The digest of a view's query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) query: Option<String>,
}

impl SourceVersion {
    pub(super) fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Table(table) => Self::of_table(&table.record, &table.dataset),
            Origin::View(view) => Self::of_view(view),
        }
    }

    /// Returns a table as it is now.
    pub(crate) fn of_table(record: &Table, newest: &Dataset) -> Self {
        Self {
            table: record.id.to_string(),
            name: record.name.to_string(),
            version: newest.version_id(),
            committed_at: newest.manifest().timestamp_nanos.to_string(),
            query: None,
        }
    }

    /// Returns a view as it is now.
    pub(crate) fn of_view(record: &Table) -> Self {
        let (table, name) = (record.id.to_string(), record.name.to_string());
        Self { table, name, version: 0, committed_at: String::new(), query: Some(query_digest(record)) }
    }

    /// Whether it is a table, or a materialized view: something with rows of its own.
    pub(crate) fn has_rows(&self) -> bool {
        self.query.is_none()
    }
}

/// Returns the number that stands for all sources: the version of the only one; of
/// several the sum, which grows with each; 0 without any.
pub(super) fn source_version(sources: &[Origin]) -> u64 {
    sources.iter().filter_map(Origin::version).sum()
}

/// Returns what tells the query of a view from another one.
pub(crate) fn query_digest(view: &Table) -> String {
    let digest = Sha256::digest(view.definition.as_deref().unwrap_or_default());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ViewState {
    /// Returns the state of a new view.
    pub(super) fn new(options: &ViewOptions) -> Self {
        Self::default().with(options)
    }

    /// Returns the state with the options that are set.
    pub(super) fn with(mut self, options: &ViewOptions) -> Self {
        self.auto_refresh_enabled = options.auto_refresh_enabled.or(self.auto_refresh_enabled);
        self.auto_refresh_interval_seconds =
            options.auto_refresh_interval_seconds.or(self.auto_refresh_interval_seconds);
        self
    }

    /// Returns what a version says. A document that cannot be read is as none.
    pub(crate) fn of(dataset: &Dataset) -> Self {
        let text = dataset.schema().metadata.get(STATE);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// As [`Self::of`], to be written back.
    ///
    /// # Errors
    /// [`StorageError::Unsupported`] for a document of newer software.
    pub(super) fn readable(dataset: &Dataset) -> Result<Self, StorageError> {
        match dataset.schema().metadata.get(STATE) {
            None => Ok(Self::default()),
            Some(text) => serde_json::from_str(text).map_err(|error| StorageError::Unsupported {
                what: format!("the state of the materialized view cannot be read: {error}"),
            }),
        }
    }

    /// Returns the result of a job whose rows a version shows.
    pub(super) fn result_of(&self, job: JobId, version: u64) -> Option<Value> {
        let refreshed = self.refreshed.as_ref().filter(|refreshed| refreshed.job == job.to_string())?;
        Some(result("rebuild", refreshed.rows, refreshed.source_version, version))
    }

    /// Returns what the schema of a version says; `version` is its number.
    pub(super) fn metadata(&self, record: &Table, version: u64) -> HashMap<String, String> {
        let query = record.definition.as_deref().unwrap_or_default();
        let definition = json!({ "format": 1, "kind": "query", "query": query });
        let mut metadata = HashMap::from([
            (STATE.to_owned(), json!(self).to_string()),
            ("mv.definition".to_owned(), definition.to_string()),
            ("mv.incarnation".to_owned(), record.id.to_string()),
        ]);
        if let Some(refreshed) = &self.refreshed {
            metadata.insert("mv.refreshed_at_ms".to_owned(), refreshed.at_millis.to_string());
            metadata.insert("mv.view_version".to_owned(), version.to_string());
            let mut sources = refreshed.sources.iter().flatten().filter(|source| source.has_rows());
            if let (Some(only), None) = (sources.next(), sources.next()) {
                metadata.insert("mv.source_version".to_owned(), only.version.to_string());
            }
        }
        metadata
    }

    /// Returns the columns of a new view with what their schema says.
    pub(super) fn schema(&self, record: &Table, columns: &Schema) -> Schema {
        Schema::new_with_metadata(columns.fields().clone(), self.metadata(record, 1))
    }

    /// Returns the only entry that differs when options change.
    pub(super) fn entry(&self) -> (String, String) {
        (STATE.to_owned(), json!(self).to_string())
    }
}

impl Refreshed {
    pub(super) fn by(job: &Job, rows: u64, sources: Option<Vec<SourceVersion>>, source_version: u64) -> Self {
        let at_millis = chrono::Utc::now().timestamp_millis();
        Self { job: job.id.to_string(), epoch: job.epoch.0, at_millis, rows, sources, source_version }
    }
}

/// Returns what a job answers; clients read every field.
pub(super) fn result(mode: &str, rows_written: u64, source_version: u64, version: u64) -> Value {
    json!({ "mode": mode, "rows_written": rows_written, "source_version": source_version, "version": version })
}
