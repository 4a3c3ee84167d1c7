//! Where Functions run: environments, the pool of workers, and what a worker gets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use lancegate_functions::limits::{FailureLimits, JobLimits};
use lancegate_functions::redact::Redactor;
use lancegate_functions::sandbox::{Mode, Policy, Report, probe};
use lancegate_functions::{
    Definition, EnvironmentError, Environments, Executor, ExecutorError, Launch, Options, Pool, Python,
};

use super::arguments::sources;
use super::budget::{Budget, Share};
use super::{FunctionEvaluator, FunctionSpec};
use crate::refresh::{Limits, RefreshError};

/// Where Functions run. Clones are one host.
#[derive(Debug, Clone)]
pub struct FunctionHost {
    environments: Environments,
    pool: Pool,
    /// Workers of queries.
    queries: Pool,
    program: PathBuf,
    policy: Policy,
    init_timeout: Duration,
}

/// The subcommand of our own program that becomes a worker.
pub const WORKER_COMMAND: &str = "function-worker";
/// Idle workers that are kept, and for how long.
const IDLE_MAX: usize = 8;
const IDLE_KEEP: Duration = Duration::from_secs(300);

impl FunctionHost {
    /// Keeps environments in `folder`, made from `python`; workers are this program under `policy`, and make their
    /// instance within `init_timeout` unless a refresh says otherwise.
    pub fn new(folder: PathBuf, python: PathBuf, program: PathBuf, policy: Policy, init_timeout: Duration) -> Self {
        let environments = Environments::new(folder, python);
        let pool = || Pool::new(IDLE_MAX, IDLE_KEEP);
        Self { environments, pool: pool(), queries: pool(), program, policy, init_timeout }
    }

    /// A host that runs nothing, for refreshes of expression columns.
    pub fn none() -> Self {
        let nothing = PathBuf::from("/dev/null");
        Self::new(nothing.clone(), nothing.clone(), nothing, Policy::default(), Duration::ZERO)
    }

    /// Asks what confines workers on this machine.
    ///
    /// # Errors
    /// Why there cannot be a worker.
    pub async fn probe(&self) -> Result<Report, String> {
        probe(&self.program, &[WORKER_COMMAND.to_owned()], &self.policy).await
    }

    /// Returns how much of the sandbox must be there.
    pub fn sandbox(&self) -> Mode {
        self.policy.mode
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
        self.queries.clear();
    }

    /// Computes a batch for a query, in a pool of workers that no refresh uses. The columns are the parameters, in order.
    ///
    /// # Errors
    /// [`RefreshError::Function`]: the first row that raises, and everything that a refresh does not skip.
    pub async fn call(
        &self,
        name: &str,
        definition: &Arc<Definition>,
        batch: &RecordBatch,
    ) -> Result<ArrayRef, RefreshError> {
        let failed = |error| RefreshError::Function { function: name.to_owned(), place: None, error: Box::new(error) };
        let python = self.prepare(definition).await.map_err(|error| failed(not_prepared(&error)))?;
        let share = Budget::default().share(1, self.policy.memory_bytes);
        let launch = self.launch(definition, python, share);
        let key = key(definition, &launch);
        let options = Options { init_timeout: self.init_timeout, ..Options::default() };
        let limits = JobLimits::new(FailureLimits::default());
        let (pool, launch) = (self.queries.clone(), Arc::new(launch));
        let mut executor = Executor::new(pool, key, launch, Arc::clone(definition), options, &limits, Arc::default());
        Ok(executor.evaluate(batch).await.map_err(failed)?.values)
    }

    pub(in crate::refresh) async fn evaluator(
        &self,
        spec: &FunctionSpec,
        inputs: SchemaRef,
        output: DataType,
        limits: &Limits,
    ) -> Result<FunctionEvaluator, RefreshError> {
        let python = self.prepare(&spec.definition).await.map_err(|error| RefreshError::Function {
            function: spec.name.clone(),
            place: None,
            error: Box::new(not_prepared(&error)),
        })?;
        let sources = sources(&spec.arguments, &spec.definition)
            .map_err(|source| RefreshError::Expression { column: spec.name.clone(), source })?;
        let processes = spec.processes_max.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let share = spec.budget.share(limits.workers.min(processes), self.policy.memory_bytes);
        let launch = self.launch(&spec.definition, python, share);
        let key = key(&spec.definition, &launch);
        let failures = FailureLimits { fraction: spec.max_failed_fraction, rows: spec.max_failed_rows };
        Ok(FunctionEvaluator {
            inputs,
            sources,
            output,
            name: spec.name.clone(),
            definition: Arc::new(spec.definition.clone()),
            options: options(spec, self.init_timeout),
            launch: Arc::new(launch),
            key,
            pool: self.pool.clone(),
            limits: JobLimits::new(failures),
            gate: Arc::default(),
            workers: share.workers,
        })
    }

    fn launch(&self, definition: &Definition, python: Python, share: Share) -> Launch {
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
            policy: Policy {
                readable: python.readable,
                network: definition.network,
                memory_bytes: share.memory_bytes,
                cpu_millis: share.cpu_millis,
                ..self.policy.clone()
            },
            redactor: Redactor::default(),
        }
    }
}

/// Names what a worker is an instance of.
fn key(definition: &Definition, launch: &Launch) -> String {
    format!("{} {:?} {:?}", definition.digest(), launch.python, launch.policy)
}

fn not_prepared(error: &EnvironmentError) -> ExecutorError {
    ExecutorError::Initialization { message: error.to_string(), output: String::new() }
}

fn options(spec: &FunctionSpec, init_timeout: Duration) -> Options {
    let seconds = |set: Option<u32>, default: Duration| set.map_or(default, |s| Duration::from_secs(s.into()));
    let default = Options::default();
    Options {
        skip: spec.skip,
        row_timeout: seconds(spec.row_timeout_seconds, default.row_timeout),
        init_timeout: seconds(spec.init_timeout_seconds, init_timeout),
        batch_size: spec.batch_size.and_then(|rows| usize::try_from(rows).ok()),
    }
}
