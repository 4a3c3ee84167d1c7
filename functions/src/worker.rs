//! One worker: a process that holds one instance of a Function and answers one call at a time.
//!
//! Dropping a [`Worker`] kills its process group; with the sandbox, everything that the Function started goes with it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

use crate::cgroup::Cgroup;
use crate::definition::{CallMode, Definition};
use crate::devices::{Lease, VISIBLE};
use crate::fleet::{Fleet, Member, Stage};
use crate::models::Snapshot;
use crate::output::Output;
use crate::protocol::{self, Bounds, Frame, FrameError, Kind, Raised, RaisedRow};
use crate::redact::Redactor;
use crate::sandbox::{Mode, Policy, SUPERVISE};

/// The largest result of a call.
const RESULT_BYTES_MAX: u64 = 1 << 30;
/// Time from the start of the process until Python is there.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a worker tells which row it is in.
const PROGRESS_SECS: f64 = 0.25;
/// A worker that does not tell for so long is held by one call into native code.
const SILENCE: Duration = Duration::from_secs(1);

/// How workers of one Function are started. Prints no values of environment variables.
#[derive(Clone)]
pub struct Launch {
    /// The program that calls [`crate::worker_main`].
    pub program: PathBuf,
    /// Its arguments before those of [`crate::worker_main`], without spaces in them.
    pub prefix: Vec<String>,
    /// The Python to run.
    pub python: PathBuf,
    /// All environment variables of the worker, secrets among them.
    pub environment: Vec<(String, String)>,
    /// What `__init__` is called with: standard base64 of an Arrow IPC stream of one row, of
    /// [`Definition::initialization_schema`]. `None` for a Function that takes none.
    pub initialization: Option<String>,
    /// Models that it finds in its `HF_HOME`; their folders are among what the policy lets it read.
    pub models: Vec<Snapshot>,
    /// GPUs that it is given; see [`Launch::with_devices`].
    pub devices: Vec<String>,
    /// See [`Policy`].
    pub policy: Policy,
    /// Knows the secrets.
    pub redactor: Redactor,
}

impl Launch {
    /// The same with GPUs: the process sees these and no others, whatever its own variables say.
    pub fn with_devices(&self, lease: &Lease) -> Self {
        let mut launch = self.clone();
        launch.environment.retain(|(name, _)| name != VISIBLE);
        launch.environment.push((VISIBLE.to_owned(), lease.devices().join(",")));
        launch.devices = lease.devices().to_vec();
        launch.policy.devices = lease.files();
        launch.policy.readable.extend(lease.readable());
        launch
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Launch")
            .field("python", &self.python)
            .field("variables", &variables)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Why a worker is not there or did not answer. Texts are redacted and bounded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WorkerError {
    /// It did not start: the sandbox, Python, the source or `__init__` failed.
    #[error("{message}")]
    Initialization {
        /// What failed.
        message: String,
        /// The end of what it printed.
        output: String,
    },
    /// The Function raised for the call as a whole.
    #[error("{0}")]
    Raised(Raised),
    /// The Function returned what it does not declare.
    #[error("{0}")]
    Contract(Raised),
    /// A row, or a vectorized call, took longer than its deadline.
    #[error("the row deadline passed")]
    Timeout {
        /// The row of the call, if the worker could tell.
        row: Option<usize>,
    },
    /// The kernel ended it for want of memory.
    #[error("the worker ran out of memory")]
    OutOfMemory,
    /// It ended.
    #[error("the worker ended during a call: {status}")]
    Died {
        /// How.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// It sent what the protocol does not allow.
    #[error("the worker sent an invalid answer: {0}")]
    Protocol(String),
}

/// See the module documentation.
#[derive(Debug)]
pub struct Worker {
    stream: BufReader<UnixStream>,
    child: Child,
    /// The process that supervises the worker ends it when this is closed.
    _alive: UnixStream,
    output: Arc<Mutex<Output>>,
    cgroup: Option<Cgroup>,
    redactor: Redactor,
    mode: CallMode,
    devices: Vec<String>,
    schema: SchemaRef,
    next_id: u64,
    /// What the job that holds it sees of it.
    member: Option<Member>,
}

#[derive(Deserialize)]
struct FailedHeader {
    stage: String,
    #[serde(flatten)]
    raised: Raised,
}

#[derive(Deserialize)]
struct ProgressHeader {
    id: u64,
    row: usize,
}

impl Worker {
    /// Starts a process and the instance in it. `init_timeout` bounds the instance alone (LONG-03).
    ///
    /// # Errors
    /// [`WorkerError::Initialization`].
    pub async fn start(launch: &Launch, definition: &Definition, init_timeout: Duration) -> Result<Self, WorkerError> {
        Self::start_as(Fleet::default().launch(), launch, definition, init_timeout).await
    }

    /// [`Worker::start`], as a member of a fleet, which is told how far it is.
    ///
    /// # Errors
    /// [`WorkerError::Initialization`].
    pub(crate) async fn start_as(
        member: Member,
        launch: &Launch,
        definition: &Definition,
        init_timeout: Duration,
    ) -> Result<Self, WorkerError> {
        let mut worker = Self::open(launch, definition, include_str!("../python/worker.py")).await?;
        let spec = json!({
            "source": definition.source,
            "entrypoint": definition.entrypoint,
            "files": definition.files,
            "initialization": launch.initialization,
            "mode": definition.mode,
            "output_schema": STANDARD.encode(protocol::encode_schema(&worker.schema).expect("a schema of known types")),
            "progress_secs": PROGRESS_SECS,
            "models": launch.models,
        });
        member.reached(Stage::Initializing);
        let sent = worker.send(Kind::Initialize, &spec, &[]).await;
        let answer = match timeout(init_timeout, worker.read(0)).await {
            Err(_) => {
                let message = format!("the Function was not initialized within {} s", init_timeout.as_secs());
                return Err(worker.not_initialized(&message, None).await);
            }
            Ok(answer) => sent.map_err(FrameError::from).and(answer),
        };
        match answer {
            Ok(Frame { kind: Kind::Initialized, .. }) => {
                member.reached(Stage::Initialized);
                Ok(worker.joined(member))
            }
            Ok(Frame { kind: Kind::Failed, header, .. }) => {
                let raised = serde_json::from_slice::<FailedHeader>(&header).ok().map(|failed| failed.raised.bounded());
                Err(worker.not_initialized("the Function could not be initialized", raised).await)
            }
            Ok(_) => Err(worker.not_initialized("the worker broke the protocol", None).await),
            Err(_) => Err(worker.not_initialized("the worker ended before the Function was initialized", None).await),
        }
    }

    /// The worker as a member of a fleet.
    pub(crate) fn joined(mut self, member: Member) -> Self {
        self.member = Some(member);
        self
    }

    /// The worker as a member of none.
    pub(crate) fn left(mut self) -> Self {
        self.member = None;
        self
    }

    /// Returns the GPUs that it holds.
    pub(crate) fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Starts a process that runs `script`, and waits until Python is there.
    ///
    /// # Errors
    /// [`WorkerError::Initialization`].
    pub(crate) async fn open(launch: &Launch, definition: &Definition, script: &str) -> Result<Self, WorkerError> {
        let mut worker = spawn(launch, definition, script).map_err(|error| WorkerError::Initialization {
            message: format!("could not start a worker: {error}"),
            output: String::new(),
        })?;
        let hello = timeout(START_TIMEOUT, worker.read(0)).await;
        if !matches!(&hello, Ok(Ok(frame)) if frame.kind == Kind::Hello) {
            return Err(worker.not_initialized("Python did not start", None).await);
        }
        Ok(worker)
    }

    /// Calls the Function over a batch: one value per row, and the rows that raised, which are NULL.
    ///
    /// `row_timeout` holds for each row, in vectorized mode for the call (LONG-01). After any error but
    /// [`WorkerError::Raised`] the worker is of no use. Not cancel-safe: drop the worker with the future.
    ///
    /// # Errors
    /// See [`WorkerError`].
    pub(crate) async fn call(
        &mut self,
        batch: &RecordBatch,
        row_timeout: Duration,
    ) -> Result<(ArrayRef, Vec<RaisedRow>), WorkerError> {
        let rows = batch.num_rows();
        if let Some(member) = &self.member {
            member.reached(Stage::Running);
        }
        self.next_id += 1;
        let id = self.next_id;
        let body = protocol::encode(batch).map_err(|error| WorkerError::Protocol(error.to_string()))?;
        let started = Instant::now();
        let header = json!({ "id": id });
        let frame = match timeout_at(started + row_timeout, self.send(Kind::Call, &header, &body)).await {
            Err(_) => return Err(WorkerError::Timeout { row: None }),
            // What it said before it went away is read below.
            Ok(_) => self.answer(id, rows, started, row_timeout).await?,
        };
        match frame.kind {
            Kind::Result => {
                let (values, mut errors) =
                    protocol::decode_result(&frame, id, rows, &self.schema).map_err(WorkerError::Protocol)?;
                for error in &mut errors {
                    error.raised = self.redacted(std::mem::take(&mut error.raised));
                }
                Ok((values, errors))
            }
            Kind::Failed => {
                let failed: FailedHeader = serde_json::from_slice(&frame.header)
                    .map_err(|error| WorkerError::Protocol(self.redactor.redact(&error.to_string())))?;
                let raised = self.redacted(failed.raised.bounded());
                Err(if failed.stage == "contract" {
                    WorkerError::Contract(raised)
                } else {
                    WorkerError::Raised(raised)
                })
            }
            other => Err(WorkerError::Protocol(format!("{other:?} as an answer to a call"))),
        }
    }

    /// Waits for the answer, as long as each row has its time.
    async fn answer(
        &mut self,
        id: u64,
        rows: usize,
        started: Instant,
        row_timeout: Duration,
    ) -> Result<Frame, WorkerError> {
        let scalar = self.mode == CallMode::Scalar;
        let calls = if scalar { u32::try_from(rows).unwrap_or(u32::MAX).max(1) } else { 1 };
        let last = started + row_timeout.saturating_mul(calls);
        let (mut row, mut since, mut told) = (None, started, started);
        loop {
            let until = if scalar { last.min(since + row_timeout + SILENCE) } else { last };
            let frame = match timeout_at(until, self.read(rows)).await {
                // A worker that is silent is inside one call; which row it is in is not known.
                Err(_) => return Err(WorkerError::Timeout { row: row.filter(|_| told.elapsed() < SILENCE) }),
                Ok(Ok(frame)) => frame,
                Ok(Err(FrameError::Protocol(what))) => return Err(WorkerError::Protocol(what)),
                Ok(Err(FrameError::Closed | FrameError::Io(_))) => return Err(self.died().await),
            };
            match frame.kind {
                // Says that the Function lives, and moves no deadline (LONG-02).
                Kind::Heartbeat => {}
                Kind::Progress => {
                    let progress: ProgressHeader = serde_json::from_slice(&frame.header)
                        .map_err(|error| WorkerError::Protocol(error.to_string()))?;
                    let at = Some(progress.row)
                        .filter(|at| progress.id == id && *at < rows && row.is_none_or(|row| row < *at));
                    told = Instant::now();
                    if at.is_some() {
                        (row, since) = (at, told);
                    } else if since.elapsed() >= row_timeout {
                        return Err(WorkerError::Timeout { row });
                    }
                }
                // Delivered a second time: a call is answered once, by the first frame that names it (J13).
                Kind::Hello | Kind::Initialized => {}
                Kind::Result | Kind::Failed if protocol::answers_before(&frame, id) => {}
                _ => return Ok(frame),
            }
        }
    }

    pub(crate) async fn send(&mut self, kind: Kind, header: &serde_json::Value, body: &[u8]) -> std::io::Result<()> {
        protocol::write(self.stream.get_mut(), kind, header.to_string().as_bytes(), body).await
    }

    pub(crate) async fn read(&mut self, rows: usize) -> Result<Frame, FrameError> {
        protocol::read(&mut self.stream, Bounds { rows, body_bytes: RESULT_BYTES_MAX }).await
    }

    async fn died(&mut self) -> WorkerError {
        let status = match timeout(Duration::from_secs(5), self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            _ => "closed its connection".to_owned(),
        };
        if self.cgroup.as_ref().is_some_and(Cgroup::out_of_memory) {
            return WorkerError::OutOfMemory;
        }
        WorkerError::Died { status, output: self.printed().await }
    }

    pub(crate) async fn not_initialized(mut self, message: &str, raised: Option<Raised>) -> WorkerError {
        // Ended first, so that all it printed is there.
        let _ = self.child.start_kill();
        let _ = timeout(Duration::from_secs(5), self.child.wait()).await;
        let message = match raised {
            Some(raised) => format!("{message}: {}", self.redacted(raised)),
            None => message.to_owned(),
        };
        WorkerError::Initialization { message, output: self.printed().await }
    }

    /// Returns the start and the end of what it printed, without secrets.
    async fn printed(&self) -> String {
        for _ in 0..50 {
            if self.output.lock().unwrap_or_else(PoisonError::into_inner).ended {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.redactor.redact(&self.output.lock().unwrap_or_else(PoisonError::into_inner).text())
    }

    fn redacted(&self, raised: Raised) -> Raised {
        Raised {
            error_type: self.redactor.redact(&raised.error_type),
            message: self.redactor.redact(&raised.message),
            place: raised.place,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) else { return };
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
}

fn spawn(launch: &Launch, definition: &Definition, script: &str) -> std::io::Result<Worker> {
    let (stream, theirs) = std::os::unix::net::UnixStream::pair()?;
    let (alive, supervised) = std::os::unix::net::UnixStream::pair()?;
    stream.set_nonblocking(true)?;
    alive.set_nonblocking(true)?;
    let mut policy = launch.policy.clone();
    let cgroup = match policy.mode {
        Mode::Off => None,
        Mode::Prefer | Mode::Require => Cgroup::create(&policy),
    };
    policy.cgroups = cgroup.as_ref().map(|cgroup| cgroup.folders().to_vec()).unwrap_or_default();
    let policy = serde_json::to_string(&policy).map_err(std::io::Error::other)?;
    let mut child = Command::new(&launch.program)
        .args(&launch.prefix)
        .args([SUPERVISE, &policy, &launch.prefix.join(" ")])
        .arg(&launch.python)
        .args(["-I", "-u", "-c", script])
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(supervised)))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = Arc::new(Mutex::new(Output::default()));
    let mut printed = child.stderr.take().expect("asked for");
    let kept = Arc::clone(&output);
    // Ends with the last process that holds the pipe.
    tokio::spawn(async move {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(count @ 1..) = printed.read(&mut chunk).await {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..count]);
        }
        kept.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
    });
    Ok(Worker {
        stream: BufReader::with_capacity(64 << 10, UnixStream::from_std(stream)?),
        child,
        _alive: UnixStream::from_std(alive)?,
        output,
        cgroup,
        redactor: launch.redactor.clone(),
        mode: definition.mode,
        devices: launch.devices.clone(),
        schema: definition.output_schema(),
        next_id: 0,
        member: None,
    })
}
