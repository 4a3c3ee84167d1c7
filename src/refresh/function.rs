//! Function columns: a registered Function in worker processes computes the values.
//!
//! One executor per fragment in work, so the limits on failed rows are of the fragment, which is the part that is
//! published as a whole. Workers go back to a pool that outlives the job.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use lancegate_functions::limits::{FailureLimits, JobLimits};
use lancegate_functions::redact::Redactor;
use lancegate_functions::sandbox::Policy;
use lancegate_functions::{
    Definition, EnvironmentError, Environments, Executor, ExecutorError, Launch, Options, Pool, Python, RowError,
};
use serde::{Deserialize, Serialize};

use super::RefreshError;
use super::expression::Evaluator;
use super::progress::Progress;

/// What a refresh of a Function column runs, as the registry keeps it: complete, so that nothing that happens to the
/// Function afterwards changes the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionSpec {
    /// Name of the Function.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// What it is.
    pub definition: Definition,
    /// The columns that its parameters take, in order.
    pub arguments: Vec<String>,
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
}

/// Where Functions run. Clones are one host.
#[derive(Debug, Clone)]
pub struct FunctionHost {
    environments: Environments,
    pool: Pool,
    program: PathBuf,
    policy: Policy,
}

/// The subcommand of our own program that becomes a worker.
pub const WORKER_COMMAND: &str = "function-worker";
/// Idle workers that are kept, and for how long.
const IDLE_MAX: usize = 8;
const IDLE_KEEP: Duration = Duration::from_secs(300);

impl FunctionHost {
    /// Keeps environments in `folder`, made from `python`; workers are this program under `policy`.
    pub fn new(folder: PathBuf, python: PathBuf, program: PathBuf, policy: Policy) -> Self {
        let environments = Environments::new(folder, python);
        Self { environments, pool: Pool::new(IDLE_MAX, IDLE_KEEP), program, policy }
    }

    /// A host that runs nothing, for refreshes of expression columns.
    pub fn none() -> Self {
        let nothing = PathBuf::from("/dev/null");
        Self::new(nothing.clone(), nothing.clone(), nothing, Policy::default())
    }

    /// Builds the environment of a Function, if it is not there yet.
    ///
    /// # Errors
    /// What the tool that builds it says.
    pub async fn prepare(&self, definition: &Definition) -> Result<Python, EnvironmentError> {
        self.environments.prepare(definition).await
    }

    /// Ends all idle workers.
    pub fn clear(&self) {
        self.pool.clear();
    }

    pub(super) async fn evaluator(
        &self,
        spec: &FunctionSpec,
        inputs: SchemaRef,
        output: DataType,
    ) -> Result<FunctionEvaluator, RefreshError> {
        let python = self.prepare(&spec.definition).await.map_err(|error| RefreshError::Function {
            function: spec.name.clone(),
            place: None,
            error: Box::new(ExecutorError::Initialization { message: error.to_string(), output: String::new() }),
        })?;
        let positions = spec.arguments.iter().map(|name| inputs.index_of(name)).collect::<Result<Vec<_>, _>>();
        let positions = positions.map_err(|error| RefreshError::Evaluate(error.into()))?;
        let launch = self.launch(&spec.definition, python);
        let key = format!("{} {:?} {:?}", spec.definition.digest(), launch.python, launch.policy);
        let limits = FailureLimits { fraction: spec.max_failed_fraction, rows: spec.max_failed_rows };
        Ok(FunctionEvaluator {
            inputs,
            positions,
            output,
            name: spec.name.clone(),
            definition: Arc::new(spec.definition.clone()),
            options: options(spec),
            launch: Arc::new(launch),
            key,
            pool: self.pool.clone(),
            limits: JobLimits::new(limits),
            gate: Arc::default(),
        })
    }

    fn launch(&self, definition: &Definition, python: Python) -> Launch {
        let mut environment: Vec<(String, String)> = definition.env.clone().into_iter().collect();
        for (name, value) in [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")] {
            if !definition.env.contains_key(name) {
                environment.push((name.to_owned(), value.to_owned()));
            }
        }
        Launch {
            program: self.program.clone(),
            prefix: vec![WORKER_COMMAND.to_owned()],
            python: python.executable,
            environment,
            policy: Policy { readable: python.readable, network: definition.network, ..self.policy.clone() },
            redactor: Redactor::default(),
        }
    }
}

fn options(spec: &FunctionSpec) -> Options {
    let seconds = |set: Option<u32>, default: Duration| set.map_or(default, |s| Duration::from_secs(s.into()));
    let default = Options::default();
    Options {
        skip: spec.skip,
        row_timeout: seconds(spec.row_timeout_seconds, default.row_timeout),
        init_timeout: seconds(spec.init_timeout_seconds, default.init_timeout),
        batch_size: spec.batch_size.and_then(|rows| usize::try_from(rows).ok()),
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
    positions: Vec<usize>,
    output: DataType,
    name: String,
    definition: Arc<Definition>,
    options: Options,
    launch: Arc<Launch>,
    key: String,
    pool: Pool,
    limits: JobLimits,
    gate: Arc<tokio::sync::RwLock<()>>,
}

impl FunctionEvaluator {
    fn failed(&self, error: ExecutorError) -> RefreshError {
        RefreshError::Function { function: self.name.clone(), place: None, error: Box::new(error) }
    }

    /// Starts a part: the fragment that is published as a whole.
    pub(super) fn part(&self) -> FunctionPart {
        let executor = Executor::new(
            self.pool.clone(),
            self.key.clone(),
            Arc::clone(&self.launch),
            Arc::clone(&self.definition),
            self.options.clone(),
            &self.limits,
            Arc::clone(&self.gate),
        );
        FunctionPart { function: self.clone(), executor }
    }
}

/// A Function at work on one fragment.
#[derive(Debug)]
pub(super) struct FunctionPart {
    function: FunctionEvaluator,
    executor: Executor,
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
        let arguments = batch.project(&self.function.positions).expect("positions are of these columns");
        let evaluated = tokio::select! {
            biased;
            () = progress.stopped() => return Err(RefreshError::Canceled),
            evaluated = self.executor.evaluate(&arguments) => evaluated,
        };
        let evaluated = evaluated.map_err(|error| {
            let row = match &error {
                ExecutorError::Row { rows, .. } => Some(rows.start),
                _ => None,
            };
            let place = row.and_then(|row| u32::try_from(row).ok()).map(|row| (0, row));
            RefreshError::Function { function: self.function.name.clone(), place, error: Box::new(error) }
        })?;
        let values = if evaluated.values.data_type() == &self.function.output {
            evaluated.values
        } else {
            cast(&evaluated.values, &self.function.output).map_err(|error| RefreshError::Evaluate(error.into()))?
        };
        Ok((values, evaluated.errors))
    }

    /// Checks the limits of the part at its end.
    ///
    /// # Errors
    /// [`RefreshError::Function`]: the part must not be published.
    pub(super) fn finish(&self) -> Result<(), RefreshError> {
        self.executor.finish_part().map_err(|error| self.function.failed(error))
    }
}
