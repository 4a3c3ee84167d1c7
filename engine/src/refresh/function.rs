//! Function columns: a registered Function in worker processes computes the values.
//!
//! One executor per fragment in work, so the limits on failed rows are of the fragment, which is the part that is
//! published as a whole. Workers go back to a pool that outlives the job.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use lancegate_functions::devices::Lease;
use lancegate_functions::limits::JobLimits;
use lancegate_functions::{Definition, Devices, Executor, ExecutorError, Launch, Options, Pool, RowError};
use serde::{Deserialize, Serialize};

use self::arguments::Source;
pub use self::arguments::constant;
pub use self::budget::Budget;
pub use self::host::{FunctionHost, WORKER_COMMAND};
pub use self::selection::groups_by;
use self::selection::{Chosen, Selection};
use super::RefreshError;
use super::expression::Evaluator;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::{Limits, RefreshSpec};
use crate::config::DEFAULT_CLASS;
use crate::storage::computed::{Application, Argument, ComputedColumn};

mod arguments;
mod budget;
mod host;
mod selection;

/// Whose a version of a Function is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MadeBy {
    /// The database that it is in. Its models are fetched for this one.
    #[serde(default)]
    pub database: String,
    /// The user who made it. The secrets that it names are opened on behalf of this one.
    #[serde(default)]
    pub owner: String,
}

/// What a refresh of a Function column runs, as the registry keeps it: complete, so that nothing that happens to the
/// Function afterwards changes the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSpec {
    /// Whose it is.
    #[serde(flatten)]
    pub made_by: MadeBy,
    /// Name of the Function.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// What it is.
    pub definition: Definition,
    /// What its parameters take, in order.
    pub arguments: Vec<Argument>,
    /// Which rows it is called with.
    #[serde(default)]
    pub application: Application,
    /// What an instance is made with: standard base64 of one row, an Arrow IPC stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<String>,
    /// Whether failing rows are skipped.
    pub skip: bool,
    /// `max_failed_fraction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failed_fraction: Option<f64>,
    /// `max_failed_rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failed_rows: Option<u64>,
    /// `row_timeout_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_timeout_seconds: Option<u32>,
    /// `init_timeout_seconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_timeout_seconds: Option<u32>,
    /// `batch_size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// `max_executor_processes_per_worker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes_max: Option<u32>,
    /// `cpu_millis`, `memory_bytes` and `gpu_count`.
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// `gpu_class`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_class: Option<String>,
    /// `publication_interval_rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication_interval_rows: Option<u64>,
}

impl FunctionSpec {
    /// Whether a column is still filled by this version of the Function.
    pub(super) fn fills(&self, column: &ComputedColumn) -> bool {
        column.function.as_ref().is_some_and(|call| (&call.name, call.version) == (&self.name, self.version))
    }

    /// Why there is no instance of it.
    pub(super) fn not_ready(&self, message: String) -> RefreshError {
        let error = Box::new(ExecutorError::Initialization { message, output: String::new() });
        RefreshError::Function { function: self.name.clone(), place: None, error }
    }

    /// Why a refresh ends whose column is filled by something else now.
    pub(super) fn replaced(&self, snapshot: &Snapshot) -> RefreshError {
        let message =
            format!("column \"{}\" is not filled by version {} of it any more", snapshot.column.name, self.version);
        let error = Box::new(ExecutorError::Contract(message));
        RefreshError::Function { function: self.name.clone(), place: None, error }
    }
}

/// What computes the values of a column.
#[derive(Debug, Clone)]
pub enum Computation {
    /// A SQL expression.
    Expression(Evaluator),
    /// A Function.
    Function(Box<FunctionEvaluator>),
}

impl Computation {
    /// Returns the columns that it reads, in the order of the batches.
    pub fn inputs(&self) -> &SchemaRef {
        match self {
            Self::Expression(evaluator) => evaluator.inputs(),
            Self::Function(function) => &function.inputs,
        }
    }

    /// Whether rows may be computed a second time when their fragment changed meanwhile (RC-15).
    pub fn replannable(&self) -> bool {
        match self {
            Self::Expression(_) => true,
            Self::Function(function) => function.definition.replay_safe(),
        }
    }

    /// Returns how many fragments are computed at one time, each by one worker.
    pub fn workers(&self, spec: &RefreshSpec, limits: &Limits) -> usize {
        match self {
            Self::Expression(_) => spec.workers(limits),
            Self::Function(function) => function.workers,
        }
    }

    /// Counts rows that an earlier attempt of the job has evaluated towards the limits on failures.
    pub fn resume(&self, evaluated: u64, failed: u64) {
        if let Self::Function(function) = self {
            function.limits.resume(evaluated, failed);
        }
    }

    /// Checks the limits of the job at its end.
    ///
    /// # Errors
    /// [`RefreshError::Function`].
    pub fn finish(&self) -> Result<(), RefreshError> {
        match self {
            Self::Expression(_) => Ok(()),
            Self::Function(function) if !function.options.skip => Ok(()),
            Self::Function(function) => {
                function.limits.finish().map_err(|limit| function.failed(ExecutorError::Limit(limit)))
            }
        }
    }
}

/// A Function of one job.
#[derive(Debug, Clone)]
pub struct FunctionEvaluator {
    inputs: SchemaRef,
    sources: Vec<Source>,
    selection: Selection,
    output: DataType,
    name: String,
    definition: Arc<Definition>,
    options: Options,
    launch: Arc<Launch>,
    key: String,
    pool: Pool,
    limits: JobLimits,
    gate: Arc<tokio::sync::RwLock<()>>,
    workers: usize,
    gpus: Option<Gpus>,
}

/// The GPUs of each worker.
#[derive(Debug, Clone)]
struct Gpus {
    devices: Devices,
    class: String,
    each: usize,
}

impl FunctionEvaluator {
    fn failed(&self, error: ExecutorError) -> RefreshError {
        RefreshError::Function { function: self.name.clone(), place: None, error: Box::new(error) }
    }

    /// Returns the class of hardware that its workers are on, and the GPUs that each of them holds.
    pub(super) fn placement(&self) -> (&str, u32) {
        match &self.gpus {
            Some(gpus) => (gpus.class.as_str(), u32::try_from(gpus.each).unwrap_or(u32::MAX)),
            None => (DEFAULT_CLASS, 0),
        }
    }

    /// Starts a part: the fragment that is published as a whole.
    pub(super) fn part(&self) -> FunctionPart {
        FunctionPart { function: self.clone(), executor: None, lease: None }
    }

    fn executor(&self, launch: Arc<Launch>, key: String) -> Executor {
        let (pool, definition) = (self.pool.clone(), Arc::clone(&self.definition));
        Executor::new(pool, key, launch, definition, self.options.clone(), &self.limits, Arc::clone(&self.gate))
    }
}

/// A Function at work on one fragment.
#[derive(Debug)]
pub(super) struct FunctionPart {
    function: FunctionEvaluator,
    /// Made when there are rows for it.
    executor: Option<Executor>,
    /// The GPUs of its worker; given back after the worker was.
    lease: Option<Lease>,
}

impl FunctionPart {
    /// Computes a batch; ends with the worker's process when the job is told to stop.
    ///
    /// # Errors
    /// [`RefreshError::Function`], whose place is the row of the batch; [`RefreshError::Canceled`].
    pub(super) async fn evaluate(
        &mut self,
        batch: &RecordBatch,
        progress: &Progress,
    ) -> Result<(ArrayRef, Vec<RowError>), RefreshError> {
        let arguments = arguments::batch(&self.function.sources, &self.function.definition, batch)?;
        let chosen = self.function.selection.choose(batch, &self.function.sources, &arguments)?;
        let arrow = |error: ArrowError| RefreshError::Evaluate(error.into());
        let rows = match &chosen {
            Some(chosen) => chosen.of(&arguments).map_err(arrow)?,
            None => arguments,
        };
        let all = [rows.num_rows()];
        let groups = chosen.as_ref().map_or(all.as_slice(), Chosen::groups);
        let executor = tokio::select! {
            biased;
            () = progress.stopped() => return Err(RefreshError::Canceled),
            executor = self.executor(progress) => executor?,
        };
        executor.watch(progress.fleet().clone());
        let evaluated = tokio::select! {
            biased;
            () = progress.stopped() => return Err(RefreshError::Canceled),
            evaluated = executor.evaluate_groups(&rows, groups) => evaluated,
        };
        let evaluated = match &chosen {
            Some(chosen) => match evaluated {
                Ok(evaluated) => Ok(chosen.scatter(evaluated).map_err(arrow)?),
                Err(error) => Err(chosen.placed(error)),
            },
            None => evaluated,
        };
        let evaluated = evaluated.map_err(|error| {
            let row = match &error {
                ExecutorError::Row { rows, .. } => Some(rows.start),
                _ => None,
            };
            let place = row.and_then(|row| u32::try_from(row).ok()).map(|row| (0, row));
            RefreshError::Function { function: self.function.name.clone(), place, error: Box::new(error) }
        })?;
        let values = conform(&evaluated.values, &self.function.output);
        Ok((values.map_err(arrow)?, evaluated.errors))
    }

    /// Returns the executor; waits for the GPUs that its worker needs.
    async fn executor(&mut self, progress: &Progress) -> Result<&mut Executor, RefreshError> {
        if self.executor.is_none() {
            let function = &self.function;
            let executor = match &function.gpus {
                None => function.executor(Arc::clone(&function.launch), function.key.clone()),
                Some(gpus) => {
                    let wait = progress.fleet().wait_for("no GPUs of the class are free");
                    let lease = gpus.devices.acquire(&gpus.class, gpus.each).await;
                    drop(wait);
                    let lease = lease.ok_or_else(|| function.failed(host::no_devices(&gpus.class)))?;
                    let (launch, key) = host::on_devices(&function.launch, &function.key, &lease, &function.pool);
                    self.lease = Some(lease);
                    function.executor(Arc::new(launch), key)
                }
            };
            self.executor = Some(executor);
        }
        Ok(self.executor.as_mut().expect("made above"))
    }

    /// Checks the limits of the part at its end.
    ///
    /// # Errors
    /// [`RefreshError::Function`]: the part must not be published.
    pub(super) fn finish(&self) -> Result<(), RefreshError> {
        let finished = self.executor.as_ref().map_or(Ok(()), Executor::finish_part);
        finished.map_err(|error| self.function.failed(error))
    }
}

/// Returns values as the type that is stored. Fields of a struct keep their places: columns have names of their own.
fn conform(values: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if values.data_type() == wanted {
        return Ok(Arc::clone(values));
    }
    match (values.as_struct_opt(), wanted) {
        (Some(found), DataType::Struct(fields)) if found.num_columns() == fields.len() => {
            let columns = found.columns().iter().zip(fields).map(|(column, field)| conform(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, found.nulls().cloned())?))
        }
        _ => cast(values, wanted),
    }
}
