//! Changing stored rows: which rows go, which come in their place, in one commit.
//!
//! Lance's own UPDATE and DELETE take a predicate in Lance's dialect; here the
//! rows come from a query, so that they are the rows that PostgreSQL's meaning of
//! the statement picks. The commit is the one that Lance makes: deletion vectors
//! for the rows that go, new fragments for the rows that come, which keep their
//! stable ids and with them their creation version.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::scanner::RowAddrTreeMap;
use lance::dataset::transaction::{Operation, Transaction, UpdateMode};
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lance_core::datatypes::Field as LanceField;
use lance_table::format::{Fragment, RowIdMeta};
use lance_table::rowids::{RowIdSequence, rechunk_sequences, write_row_ids};
use roaring::RoaringTreemap;

use crate::error::{Result, SqlError};
use crate::exec::computed_fields;
use crate::exec::returning::Keeper;
use crate::exec::turns::Committer;
use crate::sql::plan::dml::{ROW_ADDRESS, ROW_ID, stored_name};
use crate::storage::{StorageError, durable};

/// The rows that a query has picked, in the order in which it gave them.
#[derive(Debug, Default)]
struct Picked {
    ids: Vec<u64>,
    addresses: RoaringTreemap,
}

/// What a change did.
#[derive(Debug)]
pub(super) struct Changed {
    /// How many rows.
    pub(super) rows: u64,
    /// The version that has it; `None` if there was nothing to commit.
    pub(super) version: Option<u64>,
}

/// Replaces rows by what `rows` says: row id, row address, then every stored
/// column; for a column with computed fields that is assigned also what is stored
/// ([`stored_name`]). A row that is picked twice is replaced once, by what came first.
///
/// # Errors
/// 428C9 for a value of a computed field, [`StorageError::Conflict`] if another commit has touched one of the rows.
pub(super) async fn replace(
    (committer, dataset): (&Committer, Arc<Dataset>),
    (table, keeper): (&str, Option<Keeper>),
    rows: SendableRecordBatchStream,
    assigned: &[String],
) -> Result<Changed> {
    let schema = Arc::new(Schema::from(dataset.schema()));
    let picked = Arc::new(Mutex::new(Picked::default()));
    let rows = picking(rows, (table, keeper), Arc::clone(&schema), Arc::clone(&picked));
    let mut new_fragments = write_fragments(&dataset, rows).await?;
    let picked = std::mem::take(&mut *picked.lock().unwrap_or_else(PoisonError::into_inner));
    if picked.addresses.is_empty() {
        return Ok(Changed { rows: 0, version: None });
    }
    if dataset.manifest().uses_stable_row_ids() {
        keep_ids(&mut new_fragments, &picked.ids)?;
    }
    let gone = deletions(&dataset, &picked.addresses).await?;
    durable::sync_fragments(&dataset, &new_fragments, &gone.updated).await?;
    let operation = Operation::Update {
        removed_fragment_ids: gone.removed,
        updated_fragments: gone.updated,
        new_fragments,
        fields_modified: Vec::new(),
        compacted_sstables: Vec::new(),
        fields_for_preserving_frag_bitmap: field_ids(&dataset, assigned),
        update_mode: Some(UpdateMode::RewriteRows),
        inserted_rows_filter: None,
        updated_fragment_offsets: None,
    };
    let count = picked.addresses.len();
    let version = Some(commit((committer, dataset), operation, picked.addresses).await?);
    Ok(Changed { rows: count, version })
}

/// Deletes the rows whose addresses `rows` gives; with a keeper also what they hold.
///
/// # Errors
/// As [`replace`].
pub(super) async fn delete(
    (committer, dataset): (&Committer, Arc<Dataset>),
    mut rows: SendableRecordBatchStream,
    keeper: Option<Keeper>,
) -> Result<Changed> {
    let mut addresses = RoaringTreemap::new();
    while let Some(batch) = rows.try_next().await? {
        let given = unsigned(column(&batch, ROW_ADDRESS)?)?;
        let first: Vec<bool> = given.into_iter().map(|address| addresses.insert(address)).collect();
        if let Some(keeper) = &keeper {
            keeper.keep(&filter_record_batch(&batch, &BooleanArray::from(first))?)?;
        }
    }
    if addresses.is_empty() {
        return Ok(Changed { rows: 0, version: None });
    }
    let gone = deletions(&dataset, &addresses).await?;
    durable::sync_fragments(&dataset, &[], &gone.updated).await?;
    let operation = Operation::Delete {
        updated_fragments: gone.updated,
        deleted_fragment_ids: gone.removed,
        predicate: "row addresses".to_owned(),
    };
    let count = addresses.len();
    let version = Some(commit((committer, dataset), operation, addresses).await?);
    Ok(Changed { rows: count, version })
}

/// Deletes every row.
///
/// # Errors
/// As [`replace`].
pub(super) async fn delete_all(committer: &Committer, dataset: Arc<Dataset>) -> Result<Changed> {
    let rows = dataset.count_rows(None).await.map_err(StorageError::from)? as u64;
    if dataset.fragments().is_empty() {
        return Ok(Changed { rows: 0, version: None });
    }
    let operation = Operation::Delete {
        updated_fragments: Vec::new(),
        deleted_fragment_ids: dataset.fragments().iter().map(|fragment| fragment.id).collect(),
        predicate: "true".to_owned(),
    };
    let version = Some(commit((committer, dataset), operation, RoaringTreemap::new()).await?);
    Ok(Changed { rows, version })
}

pub(super) async fn commit(
    (committer, dataset): (&Committer, Arc<Dataset>),
    operation: Operation,
    addresses: RoaringTreemap,
) -> Result<u64> {
    let _share = committer.enter(&dataset).await?;
    let transaction = Transaction::new(dataset.version_id(), operation, None);
    let mut builder = CommitBuilder::new(Arc::clone(&dataset));
    if !addresses.is_empty() {
        // Lets Lance rebase over changes of other rows of the same fragments.
        builder = builder.with_affected_rows(RowAddrTreeMap::from(addresses));
    }
    let committed = builder.execute(transaction).await.map_err(conflict)?;
    durable::sync_commit(&committed, Some(&dataset)).await?;
    Ok(committed.version_id())
}

fn conflict(error: lance::Error) -> StorageError {
    match error {
        lance::Error::RetryableCommitConflict { .. }
        | lance::Error::CommitConflict { .. }
        | lance::Error::TooMuchWriteContention { .. }
        | lance::Error::IncompatibleTransaction { .. } => StorageError::Conflict(error.to_string()),
        other => StorageError::Lance(other),
    }
}

pub(super) async fn write_fragments(dataset: &Arc<Dataset>, rows: SendableRecordBatchStream) -> Result<Vec<Fragment>> {
    let params = WriteParams { mode: WriteMode::Append, ..WriteParams::default() };
    let written = InsertBuilder::new(Arc::clone(dataset)).with_params(&params).execute_uncommitted_stream(rows).await;
    match written.map_err(StorageError::from)?.operation {
        Operation::Append { fragments } => Ok(fragments),
        other => Err(SqlError::internal(format!("an append became {other}"))),
    }
}

/// Takes row ids and addresses out of the stream and remembers them.
fn picking(
    rows: SendableRecordBatchStream,
    (table, keeper): (&str, Option<Keeper>),
    schema: SchemaRef,
    picked: Arc<Mutex<Picked>>,
) -> SendableRecordBatchStream {
    let (output, table) = (Arc::clone(&schema), table.to_owned());
    let stream = rows.map(move |batch| {
        let batch = batch?;
        let external = |error| DataFusionError::External(Box::new(error));
        let keep = pick(&batch, &picked).map_err(external)?;
        let batch = if keep.false_count() == 0 { batch } else { filter_record_batch(&batch, &keep)? };
        let rows = stored(&batch, &table, &schema).map_err(external)?;
        if let Some(keeper) = &keeper {
            keeper.keep(&rows).map_err(external)?;
        }
        Ok(rows)
    });
    Box::pin(RecordBatchStreamAdapter::new(output, stream))
}

fn pick(batch: &RecordBatch, picked: &Mutex<Picked>) -> Result<BooleanArray> {
    let ids = unsigned(column(batch, ROW_ID)?)?;
    let addresses = unsigned(column(batch, ROW_ADDRESS)?)?;
    let mut picked = picked.lock().unwrap_or_else(PoisonError::into_inner);
    let keep = ids.into_iter().zip(addresses).map(|(id, address)| {
        let first = picked.addresses.insert(address);
        if first {
            picked.ids.push(id);
        }
        first
    });
    let keep: Vec<bool> = keep.collect();
    Ok(BooleanArray::from(keep))
}

/// Returns the stored columns of a batch.
///
/// # Errors
/// 23502 for a NULL in a column that takes none, 428C9.
pub(super) fn stored(batch: &RecordBatch, table: &str, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let given = column(batch, field.name())?;
        match batch.column_by_name(&stored_name(index)) {
            Some(stored) => computed_fields::keep(table, field, given, stored),
            None => Ok(Arc::clone(given)),
        }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    super::dml::ensure_taken(schema, &columns)?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

pub(super) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| SqlError::internal(format!("the rows of a change lack {name}")))
}

pub(super) fn unsigned(column: &ArrayRef) -> Result<Vec<u64>> {
    let numbers = column
        .as_primitive_opt::<Int64Type>()
        .ok_or_else(|| SqlError::internal(format!("row numbers came as {}", column.data_type())))?;
    Ok(numbers.values().iter().map(|number| number.cast_unsigned()).collect())
}

pub(super) fn keep_ids(fragments: &mut [Fragment], ids: &[u64]) -> Result<()> {
    let sizes: Vec<u64> = fragments.iter().map(|fragment| fragment.physical_rows.unwrap_or(0) as u64).collect();
    let sequences = rechunk_sequences([RowIdSequence::from(ids)], sizes, false).map_err(StorageError::from)?;
    for (fragment, sequence) in fragments.iter_mut().zip(sequences) {
        fragment.row_id_meta = Some(RowIdMeta::Inline(write_row_ids(&sequence).into()));
    }
    Ok(())
}

/// The fragments that lose rows.
pub(super) struct Gone {
    pub(super) updated: Vec<Fragment>,
    pub(super) removed: Vec<u64>,
}

pub(super) async fn deletions(dataset: &Dataset, addresses: &RoaringTreemap) -> Result<Gone> {
    let by_fragment: BTreeMap<u32, _> = addresses.bitmaps().collect();
    let mut gone = Gone { updated: Vec::new(), removed: Vec::new() };
    for fragment in dataset.get_fragments() {
        let id = fragment.id();
        let Some(offsets) = u32::try_from(id).ok().and_then(|id| by_fragment.get(&id)) else { continue };
        match fragment.extend_deletions(offsets.iter()).await.map_err(StorageError::from)? {
            Some(kept) => gone.updated.push(kept.metadata().clone()),
            None => gone.removed.push(id as u64),
        }
    }
    Ok(gone)
}

/// Indexes over columns that do not change go on covering the moved rows.
pub(super) fn field_ids(dataset: &Dataset, columns: &[String]) -> Vec<u32> {
    fn collect(field: &LanceField, ids: &mut Vec<u32>) {
        ids.extend(u32::try_from(field.id).ok());
        field.children.iter().for_each(|child| collect(child, ids));
    }
    let mut ids = Vec::new();
    for field in dataset.schema().fields.iter().filter(|field| columns.contains(&field.name)) {
        collect(field, &mut ids);
    }
    ids
}
