//! Where Functions run: environments, the pool of workers, and what a worker gets.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use lancegate_auth::Secret;
use lancegate_catalog::SecretName;
use lancegate_functions::definition::{CallMode, SecretRef};
use lancegate_functions::devices::Lease;
use lancegate_functions::limits::{FailureLimits, JobLimits};
use lancegate_functions::models::{self, Snapshot};
use lancegate_functions::redact::Redactor;
use lancegate_functions::sandbox::{Mode, Policy, Report, probe};
use lancegate_functions::{
    CheckError, Definition, Devices, EnvironmentError, Environments, Executor, ExecutorError, Launch, ModelError,
    Models, Options, Pool, Python, check,
};
use sha2::{Digest as _, Sha256};

use super::arguments::sources;
use super::budget::{Budget, Share};
use super::selection::Selection;
use super::{FunctionEvaluator, FunctionSpec, Gpus, MadeBy};
use crate::config::DEFAULT_CLASS;
use crate::refresh::{Limits, RefreshError};
use crate::secrets::{SecretError, Secrets};

/// Where Functions run. Clones are one host.
#[derive(Debug, Clone)]
pub struct FunctionHost {
    environments: Environments,
    /// `None` where nothing runs.
    models: Option<Models>,
    secrets: Option<Secrets>,
    pool: Pool,
    /// Workers of queries.
    queries: Pool,
    devices: Devices,
    program: PathBuf,
    policy: Policy,
    init_timeout: Duration,
}

/// Environment variables and the values of secrets that they hold.
type Opened = Vec<(String, Secret<String>)>;

/// What an instance is made with, beside its definition.
#[derive(Default)]
struct Made {
    secrets: Opened,
    snapshots: Vec<Snapshot>,
    /// See [`Launch::initialization`].
    initialization: Option<String>,
}

/// The variable that holds the key to private repositories of a hub.
const HUB_TOKEN: &str = "HF_TOKEN";
/// The subcommand of our own program that becomes a worker.
pub const WORKER_COMMAND: &str = "function-worker";
/// Idle workers that are kept in any case, and for how long.
const IDLE_MAX: usize = 8;
const IDLE_KEEP: Duration = Duration::from_secs(300);

impl FunctionHost {
    /// Workers are `program` under `policy`, and make their instance within `init_timeout` unless a refresh says
    /// otherwise.
    pub fn new(
        environments: Environments,
        models: Models,
        secrets: Secrets,
        devices: Devices,
        program: PathBuf,
        policy: Policy,
        init_timeout: Duration,
    ) -> Self {
        let pool = || Pool::new(IDLE_MAX, IDLE_KEEP);
        let (models, secrets) = (Some(models), Some(secrets));
        Self { environments, models, secrets, pool: pool(), queries: pool(), devices, program, policy, init_timeout }
    }

    /// Keeps at least so many idle workers: as many as a refresh has at one time, so that the next one finds them warm.
    #[must_use]
    pub fn keeping(self, workers: usize) -> Self {
        let pool = || Pool::new(IDLE_MAX.max(workers), IDLE_KEEP);
        Self { pool: pool(), queries: pool(), ..self }
    }

    /// A host that runs nothing, for refreshes of expression columns.
    pub fn none() -> Self {
        let nothing = PathBuf::from("/dev/null");
        Self {
            environments: Environments::new(nothing.clone(), nothing.clone()),
            models: None,
            secrets: None,
            pool: Pool::new(0, Duration::ZERO),
            queries: Pool::new(0, Duration::ZERO),
            devices: Devices::default(),
            program: nothing,
            policy: Policy::default(),
            init_timeout: Duration::ZERO,
        }
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

    /// Returns whether a GPU class has devices on this machine.
    pub fn has_devices(&self, class: &str) -> bool {
        self.devices.class(class).is_some()
    }

    /// Returns whether the environment of a Function is there, or nothing is to be built.
    pub fn is_prepared(&self, definition: &Definition) -> bool {
        self.environments.is_prepared(definition)
    }

    /// Builds the environment of a Function, if it is not there yet.
    ///
    /// # Errors
    /// What the tool that builds it says.
    pub async fn prepare(&self, definition: &Definition) -> Result<Python, EnvironmentError> {
        self.environments.prepare(definition).await
    }

    /// Returns the Python that will run a Function: its environment's, or the gateway's own.
    ///
    /// # Errors
    /// What the tool that builds an environment says.
    pub async fn python(&self, definition: &Definition) -> Result<Python, EnvironmentError> {
        match definition.brings_python() {
            true => self.prepare(definition).await,
            false => self.environments.base().await,
        }
    }

    /// Looks at the source of a Function without running it; returns how its annotations want it to be called.
    ///
    /// # Errors
    /// Why it cannot be the code of its Function.
    pub async fn check(&self, definition: &Definition, python: Python) -> Result<Option<CallMode>, CheckError> {
        let share = Budget::default().share(1, self.policy.memory_bytes);
        // Nothing of it is run: neither its variables nor a network are for it.
        let bare = Definition { env: BTreeMap::new(), models: Vec::new(), network: false, ..definition.clone() };
        let launch = self.launch(&bare, python, Made::default(), share);
        check(&launch, definition).await
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
        made_by: &MadeBy,
        initialization: Option<String>,
        batch: &RecordBatch,
    ) -> Result<ArrayRef, RefreshError> {
        let failed = |error| RefreshError::Function { function: name.to_owned(), place: None, error: Box::new(error) };
        let share = Budget::default().share(1, self.policy.memory_bytes);
        let launch = self.ready(name, definition, made_by, initialization, share).await?;
        let key = key(definition, &launch);
        let options = Options { init_timeout: self.init_timeout, ..Options::default() };
        let limits = JobLimits::new(FailureLimits::default());
        // Declared before the executor, so given back after it.
        let lease = match definition.gpu {
            false => None,
            true => {
                let class = definition.gpu_class.as_deref().unwrap_or(DEFAULT_CLASS);
                Some(self.devices.acquire(class, 1).await.ok_or_else(|| failed(no_devices(class)))?)
            }
        };
        let (launch, key) = match &lease {
            Some(lease) => on_devices(&launch, &key, lease, &self.queries),
            None => (launch, key),
        };
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
        let sources = sources(&spec.arguments, &spec.definition)
            .map_err(|source| RefreshError::Expression { column: spec.name.clone(), source })?;
        let selection = Selection::new(&spec.application, &inputs)
            .map_err(|source| RefreshError::Expression { column: spec.name.clone(), source })?;
        let processes = spec.processes_max.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let failed = |error: ExecutorError| RefreshError::Function {
            function: spec.name.clone(),
            place: None,
            error: Box::new(error),
        };
        let class = spec.gpu_class.as_deref().or(spec.definition.gpu_class.as_deref()).unwrap_or(DEFAULT_CLASS);
        let gpus = match spec.definition.gpu {
            true => Some(self.devices.class(class).ok_or_else(|| failed(no_devices(class)))?),
            false => None,
        };
        let memory = gpus.and_then(|gpus| gpus.memory_bytes).unwrap_or(self.policy.memory_bytes);
        let mut share = spec.budget.share(limits.workers.min(processes), memory);
        let gpus = gpus.map(|gpus| {
            let (workers, each) = spec.budget.gpus(share.workers, gpus.devices.len(), gpus.per_worker_max);
            share.workers = workers;
            Gpus { devices: self.devices.clone(), class: class.to_owned(), each }
        });
        let made_with = spec.initialization.clone();
        let launch = self.ready(&spec.name, &spec.definition, &spec.made_by, made_with, share).await?;
        let key = key(&spec.definition, &launch);
        let failures = FailureLimits { fraction: spec.max_failed_fraction, rows: spec.max_failed_rows };
        Ok(FunctionEvaluator {
            inputs,
            sources,
            selection,
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
            gpus,
        })
    }

    /// Makes all that a worker needs ready: its environment, the values of its secrets, its models.
    async fn ready(
        &self,
        name: &str,
        definition: &Definition,
        made_by: &MadeBy,
        initialization: Option<String>,
        share: Share,
    ) -> Result<Launch, RefreshError> {
        let no_instance = |message: String| {
            let error = Box::new(ExecutorError::Initialization { message, output: String::new() });
            RefreshError::Function { function: name.to_owned(), place: None, error }
        };
        let python = self.prepare(definition).await.map_err(|error| no_instance(error.to_string()))?;
        let secrets = self.secrets(definition, made_by).await.map_err(|error| no_instance(error.to_string()))?;
        let snapshots = self.snapshots(definition, made_by, &secrets).await;
        let snapshots = snapshots.map_err(|error| no_instance(error.to_string()))?;
        Ok(self.launch(definition, python, Made { secrets, snapshots, initialization }, share))
    }

    /// Fetches the models of a Function that are not on this node yet (HF-01).
    async fn snapshots(
        &self,
        definition: &Definition,
        made_by: &MadeBy,
        secrets: &Opened,
    ) -> Result<Vec<Snapshot>, ModelError> {
        let (Some(models), wanted) = (&self.models, &definition.models) else { return Ok(Vec::new()) };
        let secret = secrets.iter().find(|(name, _)| name == HUB_TOKEN).map(|(_, value)| value.expose().as_str());
        let token = secret.or_else(|| definition.env.get(HUB_TOKEN).map(String::as_str));
        models.prepare(&made_by.database, wanted, token).await
    }

    /// Opens the secrets of a Function on behalf of who made it, as they and their privileges are now.
    async fn secrets(&self, definition: &Definition, made_by: &MadeBy) -> Result<Opened, SecretError> {
        let (Some(secrets), wanted) = (&self.secrets, &definition.secrets) else { return Ok(Opened::new()) };
        if wanted.is_empty() {
            return Ok(Opened::new());
        }
        let name = |secret: &SecretRef| SecretName {
            database: made_by.database.clone(),
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
        };
        let names: Vec<SecretName> = wanted.values().map(name).collect();
        let values = secrets.resolve_for(&made_by.owner, &names).await?;
        Ok(wanted.keys().cloned().zip(values).collect())
    }

    fn launch(&self, definition: &Definition, python: Python, made: Made, share: Share) -> Launch {
        let Made { secrets, snapshots, initialization } = made;
        let mut environment: Vec<(String, String)> = definition.env.clone().into_iter().collect();
        for (name, value) in [("PATH", "/usr/bin:/bin"), ("HOME", "/tmp"), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")] {
            if !definition.env.contains_key(name) {
                environment.push((name.to_owned(), value.to_owned()));
            }
        }
        environment.extend(secrets.iter().map(|(name, value)| (name.clone(), value.expose().clone())));
        models::set_environment(&mut environment, &definition.models);
        let mut readable = python.readable;
        readable.extend(snapshots.iter().map(|snapshot| snapshot.path.clone()));
        Launch {
            program: self.program.clone(),
            prefix: vec![WORKER_COMMAND.to_owned()],
            python: python.executable,
            environment,
            initialization,
            models: snapshots,
            devices: vec![],
            policy: Policy {
                readable,
                network: definition.network,
                memory_bytes: share.memory_bytes,
                cpu_millis: share.cpu_millis,
                ..self.policy.clone()
            },
            redactor: Redactor::new(secrets.iter().map(|(_, value)| value.expose().as_str())),
        }
    }
}

/// The error of a Function whose class has no GPUs here.
pub(super) fn no_devices(class: &str) -> ExecutorError {
    let message = format!("GPU class \"{class}\" has no devices on this machine");
    ExecutorError::Initialization { message, output: String::new() }
}

/// Gives GPUs to a worker that is to be started; idle ones that hold them are ended.
pub(super) fn on_devices(launch: &Launch, key: &str, lease: &Lease, pool: &Pool) -> (Launch, String) {
    let key = format!("{key} on {}", lease.devices().join(","));
    pool.free(lease.devices(), &key);
    (launch.with_devices(lease), key)
}

/// Names what a worker is an instance of. It holds the secrets that it was started with; with others it is another one.
fn key(definition: &Definition, launch: &Launch) -> String {
    let environment = Sha256::digest(serde_json::json!([launch.environment, launch.initialization]).to_string());
    format!("{} {environment:x} {:?} {:?}", definition.digest(), launch.python, launch.policy)
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
