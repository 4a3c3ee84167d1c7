//! Runs MERGE and INSERT … ON CONFLICT.
//!
//! The rows of one query are told apart as they come: those that replace rows and
//! those that are new go into files of their own, and one commit shows all of it.
//! Two statements must not add the same key, so those that may add rows take turns
//! for each table, and their commits do not go through if any other program has
//! added or changed rows meanwhile; they are then computed again.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::transaction::{Operation, UpdateMode};
use lance_table::format::Fragment;
use lance_table::format::key_existence::{FilterType, KeyExistenceFilter};
use roaring::RoaringTreemap;
use tokio::sync::mpsc;

use crate::error::{Result, SqlError};
use crate::exec::numbers::Numbers;
use crate::exec::returning::{self, Keeper};
use crate::exec::turns::{self, Committer};
use crate::exec::{Engine, Outcome, computed_fields, dml, query, rewrite_rows, session};
use crate::session::{Session, StatementContext};
use crate::sql::plan::dml::merge::{ACTION, RowAction};
use crate::sql::plan::dml::{MergeCommand, MergePlan, ROW_ADDRESS, ROW_ID};
use crate::sqlstate::SqlState;
use crate::storage::durable;

/// Batches that wait for a writer.
const WAITING_MAX: usize = 2;

/// How often a merge that adds rows loses to others before it keeps them from committing.
const OPEN_ATTEMPTS: u32 = 2;

/// What a merge did.
#[derive(Debug, Default, Clone, Copy)]
struct Merged {
    inserted: u64,
    updated: u64,
    deleted: u64,
    version: Option<u64>,
}

/// Runs MERGE and INSERT … ON CONFLICT.
pub(super) async fn merge(
    engine: &Engine,
    session: &mut Session,
    plan: &MergePlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    dml::ensure_told_apart(session, &plan.table)?;
    let keeper = Keeper::of(engine, plan.returning.as_ref());
    let numbers = Numbers::of(engine, &plan.table, Some(&session.numbers))?;
    let mut bound = plan.rows.clone();
    let mut dataset = dml::version_of(&bound)?;
    let turn = engine.turn(plan.table.record.id);
    let _merging = match plan.inserts {
        true => Some(tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => return Err(ctx.error()),
            merging = Arc::clone(&turn.merging).lock_owned() => merging,
        }),
        false => None,
    };
    let mut closed = None;
    if plan.inserts {
        // Whoever had the turn before has most often written.
        let newest = engine.store().open(&plan.table.record.location).await?;
        if newest.version_id() != dataset.version_id() {
            let rebind = plan.rebind.clone();
            bound = engine.runtime().run(async move { rebind.bind().await }).await?;
            dataset = dml::version_of(&bound)?;
            ensure_planned_for(plan, &dataset)?;
        }
    }
    for attempt in 1..=dml::ATTEMPTS_MAX {
        if plan.inserts && attempt > OPEN_ATTEMPTS && closed.is_none() {
            closed = Some(tokio::select! {
                biased;
                () = ctx.cancel.cancelled() => return Err(ctx.error()),
                closed = engine.close(plan.table.record.id) => Arc::new(closed),
            });
            // What was committed while the gate was being closed.
            let rebind = plan.rebind.clone();
            bound = engine.runtime().run(async move { rebind.bind().await }).await?;
            dataset = dml::version_of(&bound)?;
            ensure_planned_for(plan, &dataset)?;
        }
        let rows = query::rows(engine, &bound, parameters.clone(), ctx).await?;
        let job = Job {
            dataset: Arc::clone(&dataset),
            table: plan.table.name().to_owned(),
            schema: Arc::new(Schema::from(dataset.schema())),
            assigned: plan.assigned.clone(),
            command: plan.command,
            keeper: keeper.clone(),
            drawn: numbers.as_ref().and_then(|numbers| numbers.only(&plan.drawn)),
            numbers: numbers.clone(),
            committer: Committer::new(engine, &plan.table.record).holding(closed.clone()),
        };
        let merged = engine.runtime().run_to_end(async move { job.run(rows).await }).await;
        match merged {
            Ok(merged) => {
                session::committed(session, &plan.table, merged.version);
                return returning::answer(keeper, engine, tag(plan.command, merged), ctx).await;
            }
            Err(error) if dml::lost_race(&error) && attempt < dml::ATTEMPTS_MAX => {
                keeper.iter().for_each(Keeper::reset);
                (dataset, bound) = dml::again(engine, &plan.table, &plan.rebind, attempt, &error).await?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(dml::gave_up())
}

/// Refuses to go on with rows of other columns than those that the table has by now.
///
/// # Errors
/// 40001.
fn ensure_planned_for(plan: &MergePlan, dataset: &Dataset) -> Result<()> {
    if plan.rebind.gives_rows_of(&Schema::from(dataset.schema())) { Ok(()) } else { Err(turns::altered()) }
}

fn tag(command: MergeCommand, merged: Merged) -> String {
    match command {
        MergeCommand::Merge => format!("MERGE {}", merged.inserted + merged.updated + merged.deleted),
        MergeCommand::OnConflict => format!("INSERT 0 {}", merged.inserted + merged.updated),
    }
}

/// One try: the rows of the query, written and committed.
struct Job {
    dataset: Arc<Dataset>,
    table: String,
    schema: SchemaRef,
    assigned: Vec<String>,
    command: MergeCommand,
    keeper: Option<Keeper>,
    /// What numbers rows that are added.
    numbers: Option<Numbers>,
    /// What numbers the columns of rows that are there which are set to DEFAULT.
    drawn: Option<Numbers>,
    committer: Committer,
}

/// The rows of the target that the query has picked.
#[derive(Debug, Default)]
struct Picked {
    /// Row ids of those that are replaced, in the order in which they come.
    ids: Vec<u64>,
    addresses: RoaringTreemap,
    merged: Merged,
}

type Batches = mpsc::Sender<RecordBatch>;

impl Job {
    async fn run(self, rows: SendableRecordBatchStream) -> Result<Merged> {
        let (replacing, replaced) = mpsc::channel(WAITING_MAX);
        let (adding, added) = mpsc::channel(WAITING_MAX);
        let (picked, replaced, added) = tokio::join!(
            self.tell_apart(rows, replacing, adding),
            rewrite_rows::write_fragments(&self.dataset, self.stream(replaced)),
            rewrite_rows::write_fragments(&self.dataset, self.stream(added)),
        );
        // A writer that has failed is why nobody took the rows any more.
        let (mut replaced, added) = match (replaced, added) {
            (Ok(replaced), Ok(added)) => (replaced, added),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let picked = picked?;
        let merged = picked.merged;
        if merged.inserted == 0 && picked.addresses.is_empty() {
            return Ok(merged);
        }
        if !picked.ids.is_empty() && self.dataset.manifest().uses_stable_row_ids() {
            rewrite_rows::keep_ids(&mut replaced, &picked.ids)?;
        }
        replaced.extend(added);
        let version = Some(self.commit(replaced, picked).await?);
        Ok(Merged { version, ..merged })
    }

    async fn commit(&self, new_fragments: Vec<Fragment>, picked: Picked) -> Result<u64> {
        let gone = rewrite_rows::deletions(&self.dataset, &picked.addresses).await?;
        durable::sync_fragments(&self.dataset, &new_fragments, &gone.updated).await?;
        let operation = Operation::Update {
            removed_fragment_ids: gone.removed,
            updated_fragments: gone.updated,
            new_fragments,
            fields_modified: Vec::new(),
            compacted_sstables: Vec::new(),
            fields_for_preserving_frag_bitmap: rewrite_rows::field_ids(&self.dataset, &self.assigned),
            update_mode: Some(UpdateMode::RewriteRows),
            inserted_rows_filter: (picked.merged.inserted > 0).then(alone),
            updated_fragment_offsets: None,
        };
        rewrite_rows::commit((&self.committer, Arc::clone(&self.dataset)), operation, picked.addresses).await
    }

    fn stream(&self, batches: mpsc::Receiver<RecordBatch>) -> SendableRecordBatchStream {
        let stream = futures::stream::unfold(batches, |mut batches| async move {
            let batch = batches.recv().await?;
            Some((Ok(batch), batches))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }

    async fn tell_apart(
        &self,
        mut rows: SendableRecordBatchStream,
        replacing: Batches,
        adding: Batches,
    ) -> Result<Picked> {
        let mut picked = Picked::default();
        while let Some(batch) = rows.try_next().await? {
            let (replaced, added) = self.split(&batch, &mut picked).await?;
            for (batch, writer) in [(replaced, &replacing), (added, &adding)] {
                if batch.num_rows() > 0 && writer.send(batch).await.is_err() {
                    return Err(SqlError::internal("a writer of a merge has stopped"));
                }
            }
        }
        Ok(picked)
    }

    /// Returns the stored columns of the rows that replace others, and of those that are new.
    async fn split(&self, batch: &RecordBatch, picked: &mut Picked) -> Result<(RecordBatch, RecordBatch)> {
        let actions = rewrite_rows::column(batch, ACTION)?
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| SqlError::internal("the actions of a merge are not numbers"))?;
        let actions: Vec<RowAction> = actions
            .iter()
            .map(|number| number.map_or(Some(RowAction::Nothing), RowAction::of))
            .collect::<Option<_>>()
            .ok_or_else(|| SqlError::internal("a merge has an unknown action"))?;
        let rows_with = |wanted: RowAction| {
            let keep: BooleanArray = actions.iter().map(|action| Some(*action == wanted)).collect();
            filter_record_batch(batch, &keep).map_err(SqlError::from)
        };
        if actions.contains(&RowAction::SameKey) {
            return Err(self.second_time());
        }
        let replaced = rows_with(RowAction::Update)?;
        picked.ids.extend(rewrite_rows::unsigned(rewrite_rows::column(&replaced, ROW_ID)?)?);
        picked.merged.updated += replaced.num_rows() as u64;
        let deleted = rows_with(RowAction::Delete)?;
        picked.merged.deleted += deleted.num_rows() as u64;
        for rows in [&replaced, &deleted] {
            for address in rewrite_rows::unsigned(rewrite_rows::column(rows, ROW_ADDRESS)?)? {
                if !picked.addresses.insert(address) {
                    return Err(self.second_time());
                }
            }
        }
        let replaced = numbered(self.drawn.as_ref(), replaced).await?;
        let replaced = rewrite_rows::stored(&replaced, &self.table, &self.schema)?;
        let added = rows_with(RowAction::Insert)?;
        picked.merged.inserted += added.num_rows() as u64;
        let added = numbered(self.numbers.as_ref(), added).await?;
        let added = self.added(&added)?;
        for rows in [&replaced, &added] {
            if let Some(keeper) = self.keeper.as_ref().filter(|_| rows.num_rows() > 0) {
                keeper.keep(rows)?;
            }
        }
        Ok((replaced, added))
    }

    /// Returns the stored columns of new rows.
    ///
    /// # Errors
    /// 23502; 428C9 for a value of a computed field inside a column.
    fn added(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().map(|field| {
            let given = rewrite_rows::column(rows, field.name())?;
            computed_fields::ensure_none_given(&self.table, field, given)?;
            Ok(Arc::clone(given))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        dml::ensure_taken(&self.schema, &columns)?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn second_time(&self) -> SqlError {
        let (command, hint) = match self.command {
            MergeCommand::Merge => ("MERGE", "Ensure that not more than one source row matches any one target row."),
            MergeCommand::OnConflict => (
                "ON CONFLICT DO UPDATE",
                "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
            ),
        };
        let message = format!("{command} command cannot affect row a second time");
        SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint)
    }
}

async fn numbered(numbers: Option<&Numbers>, rows: RecordBatch) -> Result<RecordBatch> {
    match numbers {
        Some(numbers) if rows.num_rows() > 0 => numbers.number(&rows, &numbers.schema(&rows.schema())).await,
        _ => Ok(rows),
    }
}

/// Returns what makes a commit that adds rows fail if others have added or changed
/// rows since it was computed: keys that nobody else's can be compared with. Lance
/// then cannot tell that they are different, and refuses.
fn alone() -> KeyExistenceFilter {
    let unique = (ulid::Ulid::new().random() & 0x3fff_ffff) as i32;
    KeyExistenceFilter { field_ids: vec![-1 - unique], filter: FilterType::ExactSet(HashSet::new()) }
}
