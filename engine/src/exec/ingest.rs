//! Takes rows that a client sends. Whatever the mode, they are one commit: all of
//! them become visible or none, also if the client goes away in the middle.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use futures::future::BoxFuture;
use lance::Dataset;
use lance::dataset::transaction::{Operation, Transaction};
use lance::dataset::{
    CommitBuilder, InsertBuilder, MergeInsertBuilder, UncommittedMergeInsert, WhenMatched, WhenNotMatched,
    WhenNotMatchedBySource, WriteMode, WriteParams,
};
use lance_file::version::LanceFileVersion;

use crate::error::{Result, SqlError};
use crate::exec::filling::filled;
use crate::exec::numbers::Numbers;
use crate::exec::turns::Committer;
use crate::exec::{Engine, dml, ensure_runnable, session as block, tables};
use crate::session::{Session, StatementContext};
use crate::sql::authorize::Authorized;
use crate::sql::plan::Plan;
use crate::sql::plan::ingest::{IngestPlan, MergeSpec};
use crate::sql::resolve::BoundTable;
use crate::storage::{StorageError, durable};

/// What became of rows that came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ingested {
    /// The version of the table that has them.
    pub version: u64,
    /// Rows that are new.
    pub inserted: u64,
    /// Rows that got other values.
    pub updated: u64,
    /// Rows that are gone.
    pub deleted: u64,
}

impl Engine {
    /// Executes an ingest with the rows that its client sends meanwhile.
    ///
    /// # Errors
    /// 23502, 22003 and their kin for values that do not fit, 40001 if a merge
    /// lost a race, and what `rows` raises; nothing is changed then.
    pub fn ingest<'a>(
        &'a self,
        session: &'a mut Session,
        plan: &'a Authorized<Plan>,
        rows: SendableRecordBatchStream,
        ctx: &'a StatementContext,
    ) -> BoxFuture<'a, Result<Ingested>> {
        Box::pin(async move {
            ensure_runnable(session, plan)?;
            let Plan::Ingest(ingest) = &**plan else {
                return Err(SqlError::internal("only an ingest takes rows"));
            };
            let ingested = ingested(self, session, ingest, cancellable(rows, ctx.clone())).await;
            match (ingested, ingest.written()) {
                (Err(error), Some(table)) => Err(self.failed_on(&[table], error).await),
                (ingested, _) => ingested,
            }
        })
    }
}

async fn ingested(
    engine: &Engine,
    session: &mut Session,
    ingest: &IngestPlan,
    rows: SendableRecordBatchStream,
) -> Result<Ingested> {
    match ingest {
        IngestPlan::New { name, schema } => {
            let rows = conformed(rows, schema);
            let written = tables::create_with(engine, session, name, rows).await?;
            Ok(Ingested { inserted: written.0, version: written.1, ..Ingested::default() })
        }
        IngestPlan::Kept(table) => {
            // The client has sent them and waits for an answer.
            drain(rows).await?;
            let version = engine.store().open(&table.location).await?.version_id();
            Ok(Ingested { version, ..Ingested::default() })
        }
        IngestPlan::Append { table, filling } => {
            let schema = taken(table, &rows.schema())?;
            let rows = filled(conformed(rows, &schema), filling);
            let (inserted, version) = dml::append_at(engine, table, rows).await?;
            block::altered(session, table);
            Ok(Ingested { inserted, version, ..Ingested::default() })
        }
        IngestPlan::Overwrite { table, schema } => {
            let version = overwrite(engine, table, conformed(rows, schema)).await?;
            block::altered(session, table);
            Ok(Ingested { version, ..Ingested::default() })
        }
        IngestPlan::Merge { table, merge, filling } => {
            let schema = taken(table, &rows.schema())?;
            let rows = filled(conformed(rows, &schema), filling);
            let rows = match Numbers::of(engine, table, None)?.filter(|_| merge.insert_unmatched) {
                Some(numbers) => numbers.stream(rows),
                None => rows,
            };
            let merged = Box::pin(run_merge(engine, table, merge, rows)).await?;
            block::altered(session, table);
            Ok(merged)
        }
    }
}

async fn overwrite(engine: &Engine, table: &BoundTable, rows: SendableRecordBatchStream) -> Result<u64> {
    let dataset = Arc::clone(&table.dataset);
    let stable = dataset.manifest().uses_stable_row_ids();
    let write = async move {
        let params = WriteParams {
            mode: WriteMode::Overwrite,
            enable_stable_row_ids: stable,
            data_storage_version: Some(LanceFileVersion::V2_1),
            ..WriteParams::default()
        };
        let builder = InsertBuilder::new(Arc::clone(&dataset)).with_params(&params);
        let transaction = builder.execute_uncommitted_stream(rows).await.map_err(StorageError::from)?;
        Ok((dataset, transaction))
    };
    let (dataset, transaction) = engine.runtime().run(write).await?;
    let share = Committer::new(engine, &table.record).enter(&dataset).await?;
    let committing = async move {
        let _share = share;
        commit(dataset, transaction, None).await
    };
    engine.runtime().run_to_end(committing).await
}

async fn run_merge(
    engine: &Engine,
    table: &BoundTable,
    merge: &MergeSpec,
    rows: SendableRecordBatchStream,
) -> Result<Ingested> {
    // Nobody else of this gateway adds keys meanwhile, or has since it was planned.
    let turn = engine.turn(table.record.id);
    let _merging = Arc::clone(&turn.merging).lock_owned().await;
    let (dataset, merge) = (dml::newest(engine, table).await?, merge.clone());
    let compute = async move {
        let job = merge_job(&dataset, &merge)?.try_build().map_err(StorageError::from)?;
        let merged = job.execute_uncommitted(rows).await.map_err(StorageError::from)?;
        Ok((dataset, merged))
    };
    let (dataset, merged) = engine.runtime().run(compute).await?;
    let UncommittedMergeInsert { transaction, affected_rows, stats, inserted_rows_filter: _ } = merged;
    let share = Committer::new(engine, &table.record).enter(&dataset).await?;
    let committing = async move {
        let _share = share;
        commit(dataset, transaction, affected_rows).await
    };
    let version = engine.runtime().run_to_end(committing).await?;
    Ok(Ingested {
        version,
        inserted: stats.num_inserted_rows,
        updated: stats.num_updated_rows,
        deleted: stats.num_deleted_rows,
    })
}

fn merge_job(dataset: &Arc<Dataset>, merge: &MergeSpec) -> Result<MergeInsertBuilder> {
    let bad = StorageError::from;
    let mut job = MergeInsertBuilder::try_new(Arc::clone(dataset), merge.on.clone()).map_err(bad)?;
    job.when_matched(match (merge.update_matched, &merge.update_filter) {
        (false, _) => WhenMatched::DoNothing,
        (true, None) => WhenMatched::UpdateAll,
        (true, Some(filter)) => WhenMatched::update_if(dataset, filter).map_err(bad)?,
    });
    job.when_not_matched(if merge.insert_unmatched { WhenNotMatched::InsertAll } else { WhenNotMatched::DoNothing });
    job.when_not_matched_by_source(match (merge.delete_unmatched, &merge.delete_filter) {
        (false, _) => WhenNotMatchedBySource::Keep,
        (true, None) => WhenNotMatchedBySource::Delete,
        (true, Some(filter)) => WhenNotMatchedBySource::delete_if(dataset, filter).map_err(bad)?,
    });
    job.use_index(merge.use_index).conflict_retries(0);
    Ok(job)
}

/// Flushes what a transaction adds, commits it and returns the version.
async fn commit(
    dataset: Arc<Dataset>,
    transaction: Transaction,
    affected: Option<lance::dataset::scanner::RowAddrTreeMap>,
) -> Result<u64> {
    match &transaction.operation {
        Operation::Append { fragments } | Operation::Overwrite { fragments, .. } => {
            durable::sync_fragments(&dataset, fragments, &[]).await?;
        }
        Operation::Update { new_fragments, updated_fragments, .. } => {
            let written: Vec<_> = new_fragments.iter().chain(updated_fragments).cloned().collect();
            durable::sync_fragments(&dataset, &written, updated_fragments).await?;
        }
        _ => {}
    }
    let mut builder = CommitBuilder::new(Arc::clone(&dataset));
    if let Some(affected) = affected {
        builder = builder.with_affected_rows(affected);
    }
    let committed = builder.execute(transaction).await.map_err(StorageError::from)?;
    durable::sync_commit(&committed, Some(&dataset)).await?;
    Ok(committed.version_id())
}

/// Returns the columns that come, as the table stores them.
fn taken(table: &BoundTable, given: &Schema) -> Result<SchemaRef> {
    let stored = Schema::from(table.dataset.schema());
    let fields = given.fields().iter().map(|field| stored.field_with_name(field.name()).cloned());
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>, _>>()?)))
}

/// Gives the rows the types of `schema`; a value that does not fit is an error.
pub(crate) fn conformed(rows: SendableRecordBatchStream, schema: &SchemaRef) -> SendableRecordBatchStream {
    let given = rows.schema();
    let fields = given.fields().iter().zip(schema.fields());
    let output = Arc::new(Schema::new_with_metadata(
        fields.map(|(given, stored)| dml::written(given, stored)).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ));
    let schema = Arc::clone(&output);
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let stream = rows.map(move |batch| {
        let batch = batch?;
        let columns = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| fitted(column, field.data_type(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        dml::ensure_taken(&schema, &columns).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let count = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &count)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(output, stream))
}

/// Returns values as another type; a struct gets the fields that it lacks as NULL.
fn fitted(column: &ArrayRef, to: &DataType, options: &CastOptions<'_>) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == to {
        return Ok(Arc::clone(column));
    }
    let (Some(given), DataType::Struct(fields)) = (column.as_struct_opt(), to) else {
        return cast_with_options(column, to, options);
    };
    let values = fields.iter().map(|field| match given.column_by_name(field.name()) {
        Some(values) => fitted(values, field.data_type(), options),
        None => Ok(new_null_array(field.data_type(), given.len())),
    });
    let values = values.collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(StructArray::try_new(fields.clone(), values, given.nulls().cloned())?))
}

/// Ends the rows with the statement's error once it is cancelled.
fn cancellable(rows: SendableRecordBatchStream, ctx: StatementContext) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let stream = futures::stream::unfold((rows, ctx, false), |(mut rows, ctx, ended)| async move {
        if ended {
            return None;
        }
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => {
                let error = DataFusionError::External(Box::new(ctx.error()));
                Some((Err(error), (rows, ctx, true)))
            }
            batch = rows.next() => batch.map(|batch| (batch, (rows, ctx, false))),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, stream))
}

async fn drain(mut rows: SendableRecordBatchStream) -> Result<()> {
    while let Some(batch) = rows.next().await {
        batch?;
    }
    Ok(())
}
