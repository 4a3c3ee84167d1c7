//! Runs a Function over batches: the size of calls, what an error means, and what is tried again.
//!
//! | what happened | policy `fail` | policy `skip` |
//! |---|---|---|
//! | a row raised | the job fails, naming it | NULL and a record (ERR-02) |
//! | a vectorized call raised | the job fails | bisected down to the rows (ERR-05) |
//! | a row passed its deadline | recovered if replay-safe, fails if it still does | recovered if free of effects; NULL and one `RowTimeoutError` |
//! | out of memory | once more alone, then bisected, if replay-safe | the same; the poison row is quarantined (ERR-07) |
//! | wrong type or number of rows, broken protocol, no instance | fails | fails (ERR-03) |
//! | the worker ended | once more if replay-safe, then fails | the same |
//!
//! "Recovered" is: each range again with a fresh worker, down to one row. Declared effects are never replayed (ERR-06).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{concat, filter_record_batch, take};
use tokio::sync::RwLock;

use self::pending::{Pending, halve, isolate};
use crate::definition::{CallMode, Definition};
use crate::fleet::Fleet;
use crate::limits::{Exceeded, JobLimits, PartLimits};
use crate::pool::Pool;
use crate::protocol::Raised;
use crate::sizing::CallSizer;
use crate::worker::{Launch, Worker, WorkerError};

mod pending;

/// How one refresh runs a Function.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether failing rows become NULL (`error_policy = 'skip'`).
    pub skip: bool,
    /// `row_timeout_seconds`; 300 s by default.
    pub row_timeout: Duration,
    /// `init_timeout_seconds`.
    pub init_timeout: Duration,
    /// `batch_size`.
    pub batch_size: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            skip: false,
            row_timeout: Duration::from_secs(300),
            init_timeout: Duration::from_secs(300),
            batch_size: None,
        }
    }
}

/// A row that failed under `skip`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The row of the batch.
    pub row: usize,
    /// What it raised.
    pub raised: Raised,
    /// Whether it was isolated because it ended or held up its worker.
    pub quarantined: bool,
}

/// What came of a batch.
#[derive(Debug, Clone)]
pub struct Evaluated {
    /// One value per row; NULL where a row failed or a parameter that takes no NULL was NULL.
    pub values: ArrayRef,
    /// Rows that failed, in order.
    pub errors: Vec<RowError>,
}

/// Why a batch has no values.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExecutorError {
    /// A row raised under `fail`.
    #[error("{raised}")]
    Row {
        /// The rows of the batch; one, unless a vectorized call raised.
        rows: Range<usize>,
        /// What was raised.
        raised: Raised,
    },
    /// Too many rows failed.
    #[error("{0}")]
    Limit(Exceeded),
    /// There is no instance.
    #[error("{message}")]
    Initialization {
        /// What failed.
        message: String,
        /// The end of what it printed.
        output: String,
    },
    /// The Function broke its declaration, or its worker the protocol.
    #[error("{0}")]
    Contract(String),
    /// Its worker was lost and could not be replaced.
    #[error("{message}")]
    Lost {
        /// How.
        message: String,
        /// The end of what it printed.
        output: String,
    },
}

/// Runs one Function for one part at a time. Holds a worker between calls; gives it back to the pool when dropped.
#[derive(Debug)]
pub struct Executor {
    pool: Pool,
    key: String,
    launch: Arc<Launch>,
    definition: Arc<Definition>,
    options: Options,
    part: PartLimits,
    sizer: CallSizer,
    worker: Option<Worker>,
    fleet: Fleet,
    gate: Arc<RwLock<()>>,
    calls: u64,
    started: u64,
}

impl Executor {
    /// Makes an executor. `key` names what a worker is an instance of: equal keys mean that a worker of one may serve
    /// the other, so definition, environment, secrets and sandbox are in it. `gate` is shared by the executors of a job.
    pub fn new(
        pool: Pool,
        key: String,
        launch: Arc<Launch>,
        definition: Arc<Definition>,
        options: Options,
        limits: &JobLimits,
        gate: Arc<RwLock<()>>,
    ) -> Self {
        let sizer = CallSizer::new(options.row_timeout, options.batch_size);
        let part = limits.part();
        let (worker, fleet) = (None, Fleet::default());
        Self { pool, key, launch, definition, options, part, sizer, worker, fleet, gate, calls: 0, started: 0 }
    }

    /// Shows the workers that it takes from now on as members of a fleet.
    pub fn watch(&mut self, fleet: Fleet) {
        self.fleet = fleet;
    }

    /// Returns the number of calls made and of workers started.
    pub fn counts(&self) -> (u64, u64) {
        (self.calls, self.started)
    }

    /// Checks the failure limits at the end of a part.
    ///
    /// # Errors
    /// [`ExecutorError::Limit`]; the part must not be published.
    pub fn finish_part(&self) -> Result<(), ExecutorError> {
        if self.options.skip { self.part.finish().map_err(ExecutorError::Limit) } else { Ok(()) }
    }

    /// Computes one value per row of a batch whose columns are the parameters, in order.
    ///
    /// Dropping the future kills the worker that is in a call; nothing else is lost.
    ///
    /// # Errors
    /// See [`ExecutorError`].
    pub async fn evaluate(&mut self, batch: &RecordBatch) -> Result<Evaluated, ExecutorError> {
        self.evaluate_groups(batch, &[batch.num_rows()]).await
    }

    /// As [`Self::evaluate`], for rows in groups that follow each other, of these sizes: no call has rows of two.
    ///
    /// # Errors
    /// See [`ExecutorError`].
    pub async fn evaluate_groups(&mut self, batch: &RecordBatch, groups: &[usize]) -> Result<Evaluated, ExecutorError> {
        let batch = self.conform(batch)?;
        let Some(called) = self.rows_to_call(&batch) else { return self.run(&batch, groups).await };
        let mut left = called.iter();
        let groups: Vec<usize> =
            groups.iter().map(|rows| left.by_ref().take(*rows).filter(|called| **called).count()).collect();
        let mask = BooleanArray::from(called.clone());
        let selected = filter_record_batch(&batch, &mask).map_err(contract)?;
        let positions: Vec<usize> = (0..called.len()).filter(|row| called[*row]).collect();
        let mut evaluated = self.run(&selected, &groups).await.map_err(|error| moved(error, &positions))?;
        let mut next = 0;
        let picks: UInt32Array = called
            .iter()
            .map(|called| {
                next += u32::from(*called);
                called.then(|| next - 1)
            })
            .collect();
        evaluated.values = take(&evaluated.values, &picks, None).map_err(contract)?;
        for error in &mut evaluated.errors {
            error.row = positions[error.row];
        }
        Ok(evaluated)
    }

    /// Gives the columns the names of the parameters. The items of a list may be nullable or not, as they are stored.
    fn conform(&self, batch: &RecordBatch) -> Result<RecordBatch, ExecutorError> {
        let parameters = self.definition.input_schema();
        let named = parameters.fields().iter().zip(batch.columns()).map(|(field, column)| {
            field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true)
        });
        let fields: Vec<_> = named.collect();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options).map_err(contract)
    }

    /// Rows without NULL for a parameter that takes none (decision 18); `None` if that is all of them.
    fn rows_to_call(&self, batch: &RecordBatch) -> Option<Vec<bool>> {
        let strict =
            self.definition.parameters.iter().zip(batch.columns()).filter(|(p, c)| !p.nullable && c.null_count() > 0);
        let strict: Vec<_> = strict.map(|(_, column)| column).collect();
        let called = |row| strict.iter().all(|column| column.is_valid(row));
        (!strict.is_empty()).then(|| (0..batch.num_rows()).map(called).collect())
    }

    async fn run(&mut self, batch: &RecordBatch, groups: &[usize]) -> Result<Evaluated, ExecutorError> {
        let mut pieces: Vec<(usize, ArrayRef)> = Vec::new();
        let mut errors: Vec<RowError> = Vec::new();
        let mut end = 0;
        let group = |rows: &usize| {
            let start = end;
            end += rows;
            Pending::new(start..end)
        };
        let mut pending: VecDeque<Pending> = groups.iter().map(group).collect();
        while let Some(mut next) = pending.pop_front() {
            if next.rows.is_empty() {
                continue;
            }
            self.cut(&mut next, &mut pending);
            match self.call(batch, &next).await {
                Ok((values, raised)) => {
                    let failed = raised.into_iter().map(|row| RowError {
                        row: next.rows.start + row.row,
                        raised: row.raised,
                        quarantined: false,
                    });
                    self.take_errors(&next.rows, failed.collect(), &mut errors)?;
                    pieces.push((next.rows.start, values));
                    self.settle(&next, &mut pending);
                }
                Err(error) => {
                    if let Some(poison) = self.recover(error, next, &mut pending)? {
                        let row = poison.row;
                        pieces.push((row, new_null_array(&self.definition.output.0, 1)));
                        self.take_poison(poison, &mut errors)?;
                    }
                }
            }
        }
        pieces.sort_by_key(|(start, _)| *start);
        errors.sort_by_key(|error| error.row);
        let pieces: Vec<&dyn Array> = pieces.iter().map(|(_, values)| values.as_ref()).collect();
        let values = if pieces.is_empty() {
            new_null_array(&self.definition.output.0, 0)
        } else {
            concat(&pieces).map_err(contract)?
        };
        if values.len() != batch.num_rows() {
            return Err(ExecutorError::Contract(format!("{} values for {} rows", values.len(), batch.num_rows())));
        }
        Ok(Evaluated { values, errors })
    }

    /// Cuts off what is more than one call; limits are checked where calls end.
    fn cut(&self, next: &mut Pending, pending: &mut VecDeque<Pending>) {
        let mut rows = if next.whole { next.rows.len() } else { self.sizer.next() };
        if self.options.skip {
            rows = rows.min(usize::try_from(self.part.rows_to_boundary()).unwrap_or(usize::MAX));
        }
        if rows < next.rows.len() {
            let middle = next.rows.start + rows;
            // Of both together it would be true, of one alone it is not.
            next.doubted = false;
            pending.push_front(Pending { rows: middle..next.rows.end, ..next.clone() });
            next.rows.end = middle;
        }
    }

    /// Rows of a vectorized call have passed. What is known to raise by that is taken apart without a call.
    fn settle(&mut self, passed: &Pending, pending: &mut VecDeque<Pending>) {
        if self.definition.mode == CallMode::Scalar {
            return;
        }
        self.sizer.settled(passed.rows.len(), 0);
        if passed.doubted
            && let Some(raises) = pending.pop_front_if(|next| next.rows.len() > 1)
        {
            halve(raises, pending, true);
        }
    }

    async fn call(
        &mut self,
        batch: &RecordBatch,
        next: &Pending,
    ) -> Result<(ArrayRef, Vec<crate::protocol::RaisedRow>), WorkerError> {
        let gate = Arc::clone(&self.gate);
        let (_shared, _alone);
        if next.alone {
            _alone = gate.write().await;
        } else {
            _shared = gate.read().await;
        }
        // Out of its place while it is in a call: a future that is dropped takes it along.
        let pooled = || self.pool.take(&self.key).map(|worker| worker.joined(self.fleet.reuse()));
        let mut worker = match self.worker.take().or_else(pooled) {
            Some(worker) => worker,
            None => {
                self.started += 1;
                let member = self.fleet.launch();
                Worker::start_as(member, &self.launch, &self.definition, self.options.init_timeout).await?
            }
        };
        self.calls += 1;
        let started = Instant::now();
        let rows = batch.slice(next.rows.start, next.rows.len());
        let answer = worker.call(&rows, self.options.row_timeout).await;
        match &answer {
            Ok(_) => {
                self.sizer.observe(next.rows.len(), started.elapsed());
                self.worker = Some(worker);
            }
            Err(WorkerError::Raised(_)) => self.worker = Some(worker),
            Err(_) => {}
        }
        answer
    }

    fn take_errors(
        &mut self,
        rows: &Range<usize>,
        failed: Vec<RowError>,
        errors: &mut Vec<RowError>,
    ) -> Result<(), ExecutorError> {
        if !self.options.skip {
            return match failed.into_iter().next() {
                Some(first) => Err(ExecutorError::Row { rows: first.row..first.row + 1, raised: first.raised }),
                None => Ok(()),
            };
        }
        let mut next = failed.iter().map(|error| error.row).peekable();
        let outcomes: Vec<bool> = rows.clone().map(|row| next.next_if_eq(&row).is_some()).collect();
        errors.extend(failed);
        self.part.add(outcomes).map_err(ExecutorError::Limit)
    }

    fn take_poison(&mut self, poison: RowError, errors: &mut Vec<RowError>) -> Result<(), ExecutorError> {
        if self.definition.mode != CallMode::Scalar {
            self.sizer.settled(1, 1);
        }
        let counted = if poison.quarantined { self.part.quarantine() } else { self.part.add([true]) };
        errors.push(poison);
        counted.map_err(ExecutorError::Limit)
    }

    /// Decides what is tried again. Returns a single row that is given up.
    fn recover(
        &self,
        error: WorkerError,
        failed: Pending,
        pending: &mut VecDeque<Pending>,
    ) -> Result<Option<RowError>, ExecutorError> {
        let rows = failed.rows.clone();
        let single = rows.len() == 1;
        let give_up = |raised: Raised, quarantined: bool| {
            if self.options.skip {
                Ok(Some(RowError { row: rows.start, raised, quarantined }))
            } else {
                Err(ExecutorError::Row { rows: rows.clone(), raised })
            }
        };
        match error {
            WorkerError::Raised(raised) if single => give_up(raised, false),
            WorkerError::Raised(_) if self.options.skip => {
                halve(failed, pending, true);
                Ok(None)
            }
            WorkerError::Raised(raised) => Err(ExecutorError::Row { rows, raised }),
            WorkerError::Timeout { row } => {
                let again = self.definition.replay_safe() || (self.options.skip && self.definition.effect_free());
                let raised = self.row_timeout();
                match row {
                    _ if !again => {
                        let rows = row.map_or(rows.clone(), |row| rows.start + row..rows.start + row + 1);
                        Err(ExecutorError::Row { rows, raised })
                    }
                    _ if single => give_up(raised, true),
                    Some(row) => {
                        isolate(failed, row, pending);
                        Ok(None)
                    }
                    None => {
                        halve(failed, pending, false);
                        Ok(None)
                    }
                }
            }
            WorkerError::OutOfMemory if !self.definition.replay_safe() => {
                let message = format!("{error}; rows are tried again only if the Function declares {REPLAY_SAFE}");
                Err(ExecutorError::Lost { message, output: String::new() })
            }
            WorkerError::OutOfMemory if !failed.alone => {
                pending.push_front(Pending { alone: true, whole: true, ..failed });
                Ok(None)
            }
            WorkerError::OutOfMemory if single => {
                let message = format!("the worker ran out of memory ({} bytes)", self.launch.policy.memory_bytes);
                give_up(raised("OutOfMemoryError", message), true)
            }
            WorkerError::OutOfMemory => {
                halve(failed, pending, false);
                Ok(None)
            }
            WorkerError::Died { .. } if self.definition.replay_safe() && !failed.lost => {
                pending.push_front(Pending { lost: true, whole: true, ..failed });
                Ok(None)
            }
            WorkerError::Died { status, output } => {
                Err(ExecutorError::Lost { message: format!("the worker ended during a call: {status}"), output })
            }
            WorkerError::Initialization { message, output } => Err(ExecutorError::Initialization { message, output }),
            WorkerError::Contract(raised) => Err(ExecutorError::Contract(raised.message)),
            WorkerError::Protocol(what) => {
                Err(ExecutorError::Contract(format!("the worker sent an invalid answer: {what}")))
            }
        }
    }

    fn row_timeout(&self) -> Raised {
        let what = if self.definition.mode == CallMode::Scalar { "row" } else { "call" };
        raised("RowTimeoutError", format!("the {what} took longer than {} s", self.options.row_timeout.as_secs()))
    }
}

const REPLAY_SAFE: &str = "result_stability = 'input_and_context' and side_effects = 'none'";

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.pool.give_back(&self.key, worker.left());
        }
    }
}

fn raised(error_type: &str, message: String) -> Raised {
    Raised { error_type: error_type.to_owned(), message, place: String::new() }
}

fn contract(error: arrow::error::ArrowError) -> ExecutorError {
    ExecutorError::Contract(error.to_string())
}

/// Rows of a selection, as rows of the batch it was made from.
fn moved(error: ExecutorError, positions: &[usize]) -> ExecutorError {
    match error {
        ExecutorError::Row { rows, raised } => {
            let end = positions[rows.end - 1] + 1;
            ExecutorError::Row { rows: positions[rows.start]..end, raised }
        }
        other => other,
    }
}
