//! Computes one fragment's column file: stored values in, due rows evaluated,
//! a complete new column out. Streams; memory is bounded by one batch.
//!
//! Only due rows reach the expression: a row that is not due cannot fail the
//! refresh, and a deleted row is never seen (RC-12).

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, interleave};
use arrow::datatypes::Schema;
use chrono::{DateTime, Utc};
use futures::stream::{BoxStream, StreamExt};
use lance_core::datatypes::Schema as LanceSchema;
use lance_table::format::DataFile;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::RefreshError;
use super::failures::StagedFailures;
use super::function::{Computation, FunctionPart};
use super::latency::Latencies;
use super::output::{self, Output};
use super::plan::FragmentWork;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::splits::{Execution, Worker};
use crate::clock::now;
use crate::storage::signature::Signature;
use crate::storage::{StorageError, nested};

/// Rows read, evaluated and written at once.
const BATCH_ROWS: u32 = 8_192;

/// A column file that is on disk and in no table version yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StagedFragment {
    /// Lance's fragment id.
    pub fragment_id: u64,
    /// The file, as a commit references it.
    pub file: DataFile,
    /// Where the inputs were that it was computed from.
    pub inputs: Signature,
    /// Where the stored values were that it replaces.
    pub replaces: Signature,
    /// Rows that it computed anew, as a serialized Roaring bitmap.
    #[serde(with = "bitmap")]
    pub rows: RoaringBitmap,
    /// How that went; not known of files that older software has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Those of them that failed and are NULL.
    #[serde(default, skip_serializing_if = "StagedFailures::is_empty")]
    pub failures: StagedFailures,
    /// What earlier pieces of the same job had computed of the values that it took over.
    #[serde(default, skip_serializing_if = "Carried::is_empty")]
    pub carried: Carried,
}

/// Rows that are in a file because the file before it had them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Carried {
    /// All that the job has computed before.
    #[serde(with = "bitmap")]
    pub rows: RoaringBitmap,
    /// Those of them that failed.
    #[serde(with = "bitmap")]
    pub failed: RoaringBitmap,
}

impl Carried {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// How a fragment was computed (SHOW JOB SPLITS).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// When a worker began with it.
    pub started_at: DateTime<Utc>,
    /// When its file was complete.
    pub finished_at: DateTime<Utc>,
    /// The times of the evaluations, one for each batch of due rows.
    pub batches: Latencies,
    /// Who computed it, and how often that was begun; not known of files that older software has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// Bytes of stored columns that were read, as they are in memory; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
}

/// Where the time of staging went, over all workers.
#[derive(Debug, Clone, Copy, Default)]
pub struct StageTimes {
    /// Waiting for and decoding stored columns.
    pub read: Duration,
    /// In the expression.
    pub evaluate: Duration,
    /// Everything else: encoding and writing the file.
    pub write: Duration,
}

/// Stages one fragment.
///
/// # Errors
/// [`RefreshError::Evaluate`] if the expression fails on a due row, [`RefreshError::Function`] if a Function does,
/// [`RefreshError::Canceled`] at the next batch after a cancel, or storage errors.
pub async fn stage_fragment(
    snapshot: &Snapshot,
    computation: &Computation,
    work: &FragmentWork,
    (progress, worker): (&Progress, &Worker<'_>),
) -> Result<(StagedFragment, StageTimes), RefreshError> {
    let id = usize::try_from(work.fragment_id).expect("Lance fragment ids fit 32 bits");
    let fragment = snapshot.dataset.get_fragment(id).expect("the plan was made on this version");
    let (started, started_at) = (Instant::now(), now());
    let output = snapshot.output_schema();
    let part = match computation {
        Computation::Expression(_) => None,
        Computation::Function(function) => Some(function.part()),
    };
    let mut stage = Stage {
        computation,
        part,
        fragment_id: work.fragment_id,
        failures: StagedFailures::default(),
        rows: &work.rows,
        keeps_stored: !work.whole,
        output: Output::of(snapshot),
        offset: 0,
        times: StageTimes::default(),
        batches: Latencies::default(),
    };
    let physical = fragment.physical_rows().await.map_err(StorageError::from)? as u64;
    let mut stored = read(&fragment, physical, &snapshot.stage_schema(stage.keeps_stored)).await?;
    let mut failure = None;
    let batches = async_batches(&mut stage, &mut stored, (progress, worker), &mut failure);
    let written = nested::write_columns(&fragment, batches, &output).await;
    crate::failpoint::reach("stage.file").await?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let file = written.map_err(StorageError::from)?;
    if let Some(part) = &stage.part {
        part.finish()?;
        stage.failures.locate(snapshot, work.fragment_id).await?;
    }
    let mut times = stage.times;
    times.write = started.elapsed().saturating_sub(times.read + times.evaluate);
    let metadata = fragment.metadata();
    let staged = StagedFragment {
        fragment_id: work.fragment_id,
        file,
        inputs: snapshot.input_signer().sign(metadata),
        replaces: snapshot.output_signer().sign(metadata),
        rows: work.rows.clone(),
        measured: Some(Measured {
            started_at,
            finished_at: now(),
            batches: stage.batches,
            execution: Some(worker.execution().clone()),
            bytes_read: Some(worker.bytes_read()),
        }),
        failures: stage.failures,
        carried: Carried::default(),
    };
    Ok((staged, times))
}

type Batches = BoxStream<'static, lance::Result<RecordBatch>>;

/// Reads all physical rows in order; deletions are not applied, so offsets stay.
async fn read(
    fragment: &lance::dataset::fragment::FileFragment,
    physical: u64,
    schema: &LanceSchema,
) -> Result<Batches, RefreshError> {
    if schema.fields.is_empty() {
        return Ok(futures::stream::iter(empty_batches(physical).map(Ok)).boxed());
    }
    let batches = fragment.read_physical_slice(0..physical, schema, BATCH_ROWS).await.map_err(StorageError::from)?;
    Ok(batches.buffered(2).boxed())
}

/// Batches without columns, for an expression without inputs.
fn empty_batches(rows: u64) -> impl Iterator<Item = RecordBatch> {
    let step = u64::from(BATCH_ROWS);
    (0..rows.div_ceil(step)).map(move |index| {
        let count = usize::try_from((rows - index * step).min(step)).expect("at most a batch");
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).expect("no columns to disagree")
    })
}

fn async_batches<'a>(
    stage: &'a mut Stage<'_>,
    stored: &'a mut Batches,
    (progress, worker): (&'a Progress, &'a Worker<'_>),
    failure: &'a mut Option<RefreshError>,
) -> impl futures::Stream<Item = lance::Result<RecordBatch>> + Send + 'a {
    futures::stream::unfold((stage, stored, failure), move |(stage, stored, failure)| async move {
        let waiting = Instant::now();
        let batch = stored.next().await?;
        stage.times.read += waiting.elapsed();
        let reached = crate::failpoint::reach("stage.batch").await;
        let computed = match batch {
            Ok(batch) => {
                worker.read(bytes_of(&batch));
                match reached {
                    Ok(()) => stage.compute(&batch, progress).await,
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(StorageError::from(error).into()),
        };
        let item = computed.map_err(|error| {
            // Lance sees that the stream ended badly; the cause stays typed here.
            let seen = lance::Error::io(error.to_string());
            *failure = Some(error);
            seen
        });
        Some((item, (stage, stored, failure)))
    })
}

/// The rows of a batch in memory. Buffers may be shared with other batches, so slices are counted.
fn bytes_of(batch: &RecordBatch) -> u64 {
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or_default() as u64;
    batch.columns().iter().map(bytes).sum()
}

struct Stage<'a> {
    computation: &'a Computation,
    /// The Function at work, if it is one.
    part: Option<FunctionPart>,
    fragment_id: u64,
    failures: StagedFailures,
    rows: &'a RoaringBitmap,
    keeps_stored: bool,
    output: Output,
    offset: u32,
    times: StageTimes,
    batches: Latencies,
}

impl Stage<'_> {
    async fn compute(&mut self, batch: &RecordBatch, progress: &Progress) -> Result<RecordBatch, RefreshError> {
        progress.ensure_running()?;
        let count = u32::try_from(batch.num_rows()).expect("a batch is small");
        let range = self.offset..self.offset + count;
        self.offset = range.end;
        let due = self.rows.range_cardinality(range.clone());
        let inputs =
            output::project(batch, self.computation.inputs()).map_err(|error| RefreshError::Evaluate(error.into()))?;
        let values = if due == u64::from(count) {
            self.evaluate(&inputs, range.collect(), progress).await?
        } else if due == 0 {
            self.stored(batch)
        } else {
            self.merge(batch, &inputs, range, progress).await?
        };
        progress.rows_computed(due);
        let values = self.output.batch(values, batch);
        Ok(values.map_err(|error| StorageError::Lance(error.into()))?)
    }

    /// Computes the rows of a batch that stand at these offsets of the fragment.
    async fn evaluate(
        &mut self,
        inputs: &RecordBatch,
        offsets: Vec<u32>,
        progress: &Progress,
    ) -> Result<ArrayRef, RefreshError> {
        let started = Instant::now();
        let values = match (self.computation, &mut self.part) {
            (Computation::Expression(evaluator), _) => evaluator.evaluate(inputs).map_err(RefreshError::Evaluate),
            (Computation::Function(_), None) => unreachable!("a Function has a part"),
            (Computation::Function(_), Some(part)) => {
                let evaluated = part.evaluate(inputs, progress).await;
                evaluated.map_err(|error| self.placed(error, &offsets)).map(|(values, errors)| {
                    progress.rows_skipped(errors.len() as u64);
                    for error in errors {
                        self.failures.add(offsets[error.row], error.raised);
                    }
                    values
                })
            }
        };
        let elapsed = started.elapsed();
        self.times.evaluate += elapsed;
        self.batches.record(elapsed);
        values
    }

    /// Names the row in the table instead of the row of a batch.
    fn placed(&self, error: RefreshError, offsets: &[u32]) -> RefreshError {
        match error {
            RefreshError::Function { function, place: Some((_, row)), error } => {
                let offset = usize::try_from(row).ok().and_then(|row| offsets.get(row)).copied();
                let place = offset.map(|offset| (self.fragment_id, offset));
                RefreshError::Function { function, place, error }
            }
            other => other,
        }
    }

    /// The values that are in the table now, or NULL where no row keeps one.
    fn stored(&self, batch: &RecordBatch) -> ArrayRef {
        if self.keeps_stored { self.output.stored(batch) } else { self.output.null(batch.num_rows()) }
    }

    async fn merge(
        &mut self,
        batch: &RecordBatch,
        inputs: &RecordBatch,
        range: std::ops::Range<u32>,
        progress: &Progress,
    ) -> Result<ArrayRef, RefreshError> {
        let mask: BooleanArray = range.clone().map(|offset| Some(self.rows.contains(offset))).collect();
        let selected = filter_record_batch(inputs, &mask).map_err(|error| RefreshError::Evaluate(error.into()))?;
        let offsets = range.filter(|offset| self.rows.contains(*offset)).collect();
        let computed = self.evaluate(&selected, offsets, progress).await?;
        let stored = self.stored(batch);
        let mut next = 0;
        let picks: Vec<(usize, usize)> = (0..mask.len())
            .map(|row| {
                if mask.value(row) {
                    next += 1;
                    (1, next - 1)
                } else {
                    (0, row)
                }
            })
            .collect();
        interleave(&[stored.as_ref(), computed.as_ref()], &picks).map_err(|error| RefreshError::Evaluate(error.into()))
    }
}

/// Bitmaps in receipts: base64 of the portable Roaring format.
pub(super) mod bitmap {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use roaring::RoaringBitmap;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::refresh) fn serialize<S: Serializer>(
        bitmap: &RoaringBitmap,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(bitmap.serialized_size());
        bitmap.serialize_into(&mut bytes).expect("writing to memory does not fail");
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(in crate::refresh) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<RoaringBitmap, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        RoaringBitmap::deserialize_from(bytes.as_slice()).map_err(D::Error::custom)
    }
}
