//! Where Functions run: environments, the pool of workers, and what a worker gets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{DataType, SchemaRef};
use lancegate_auth::Secret;
use lancegate_catalog::SecretName;
use lancegate_functions::definition::SecretRef;
use lancegate_functions::limits::{FailureLimits, JobLimits};
use lancegate_functions::models::{self, Snapshot};
use lancegate_functions::redact::Redactor;
use lancegate_functions::sandbox::Policy;
use lancegate_functions::{
    Definition, EnvironmentError, Environments, ExecutorError, Launch, ModelError, Models, Options, Pool, Python,
};

use sha2::{Digest as _, Sha256};

use super::budget::Share;
use super::{FunctionEvaluator, FunctionSpec};
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
    program: PathBuf,
    policy: Policy,
    init_timeout: Duration,
}

/// Environment variables and the values of secrets that they hold.
type Opened = Vec<(String, Secret<String>)>;

/// The variable that holds the key to private repositories of a hub.
const HUB_TOKEN: &str = "HF_TOKEN";
/// The subcommand of our own program that becomes a worker.
pub const WORKER_COMMAND: &str = "function-worker";
/// Idle workers that are kept, and for how long.
const IDLE_MAX: usize = 8;
const IDLE_KEEP: Duration = Duration::from_secs(300);

impl FunctionHost {
    /// Workers are `program` under `policy`, and make their instance within `init_timeout` unless a refresh says
    /// otherwise.
    pub fn new(
        environments: Environments,
        models: Models,
        secrets: Secrets,
        program: PathBuf,
        policy: Policy,
        init_timeout: Duration,
    ) -> Self {
        let pool = Pool::new(IDLE_MAX, IDLE_KEEP);
        Self { environments, models: Some(models), secrets: Some(secrets), pool, program, policy, init_timeout }
    }

    /// A host that runs nothing, for refreshes of expression columns.
    pub fn none() -> Self {
        let nothing = PathBuf::from("/dev/null");
        Self {
            environments: Environments::new(nothing.clone(), nothing.clone()),
            models: None,
            secrets: None,
            pool: Pool::new(0, Duration::ZERO),
            program: nothing,
            policy: Policy::default(),
            init_timeout: Duration::ZERO,
        }
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

    pub(in crate::refresh) async fn evaluator(
        &self,
        spec: &FunctionSpec,
        inputs: SchemaRef,
        output: DataType,
        limits: &Limits,
    ) -> Result<FunctionEvaluator, RefreshError> {
        let no_instance = |message: String| RefreshError::Function {
            function: spec.name.clone(),
            place: None,
            error: Box::new(ExecutorError::Initialization { message, output: String::new() }),
        };
        let python = self.prepare(&spec.definition).await.map_err(|error| no_instance(error.to_string()))?;
        let secrets = self.secrets(spec).await.map_err(|error| no_instance(error.to_string()))?;
        let snapshots = self.snapshots(spec, &secrets).await.map_err(|error| no_instance(error.to_string()))?;
        let positions = spec.arguments.iter().map(|name| inputs.index_of(name)).collect::<Result<Vec<_>, _>>();
        let positions = positions.map_err(|error| RefreshError::Evaluate(error.into()))?;
        let processes = spec.processes_max.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let share = spec.budget.share(limits.workers.min(processes), self.policy.memory_bytes);
        let launch = self.launch(&spec.definition, python, secrets, snapshots, share);
        // A worker holds the secrets that it was started with; with others it is another one.
        let environment = Sha256::digest(serde_json::json!(launch.environment).to_string());
        let key = format!("{} {environment:x} {:?} {:?}", spec.definition.digest(), launch.python, launch.policy);
        let failures = FailureLimits { fraction: spec.max_failed_fraction, rows: spec.max_failed_rows };
        Ok(FunctionEvaluator {
            inputs,
            positions,
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

    /// Fetches the models of a Function that are not on this node yet (HF-01).
    async fn snapshots(&self, spec: &FunctionSpec, secrets: &Opened) -> Result<Vec<Snapshot>, ModelError> {
        let (Some(models), wanted) = (&self.models, &spec.definition.models) else { return Ok(Vec::new()) };
        let secret = secrets.iter().find(|(name, _)| name == HUB_TOKEN).map(|(_, value)| value.expose().as_str());
        let token = secret.or_else(|| spec.definition.env.get(HUB_TOKEN).map(String::as_str));
        models.prepare(&spec.database, wanted, token).await
    }

    /// Opens the secrets of a Function on behalf of who made it, as they and their privileges are now.
    async fn secrets(&self, spec: &FunctionSpec) -> Result<Opened, SecretError> {
        let (Some(secrets), wanted) = (&self.secrets, &spec.definition.secrets) else { return Ok(Opened::new()) };
        if wanted.is_empty() {
            return Ok(Opened::new());
        }
        let name = |secret: &SecretRef| SecretName {
            database: spec.database.clone(),
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
        };
        let names: Vec<SecretName> = wanted.values().map(name).collect();
        let values = secrets.resolve_for(&spec.owner, &names).await?;
        Ok(wanted.keys().cloned().zip(values).collect())
    }

    fn launch(
        &self,
        definition: &Definition,
        python: Python,
        secrets: Opened,
        snapshots: Vec<Snapshot>,
        share: Share,
    ) -> Launch {
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
            models: snapshots,
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
