//! One running gateway: opens the stores, binds the listeners, spawns the
//! servers, and stops them in order.
//!
//! Owns every long-lived task. Prints nothing and reads no environment; the
//! command line does.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lancegate_catalog::Catalog;
use lancegate_functions::devices::{DeviceClass, visible};
use lancegate_functions::sandbox::{Mode, Policy};
use lancegate_functions::{Devices, Environments, Models};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, FirstLogin};
use crate::audit::AuditLog;
use crate::flight::{self, FlightLimits, FlightShared, FlightTls};
use crate::http::rest::Front;
use crate::http::{self, HttpShared};
use crate::pg::{self, AccessRules, Identities, PgShared, PgTls, UnixSocket};
use crate::shutdown::{Readiness, Stage, step};
use crate::tls::ClientAuthorities;
use crate::tokens::Tokens;
use lancegate_engine::audit::Audit;
use lancegate_engine::config::{Config, DEFAULT_CLASS, GpuClass};
use lancegate_engine::error::SqlError;
use lancegate_engine::exec::{Engine, EngineParts, QueryConfig, auto_refresh};
use lancegate_engine::jobs::auto::AutoConfig;
use lancegate_engine::jobs::{Jobs, JobsConfig, JobsParts};
use lancegate_engine::metrics::Metrics;
use lancegate_engine::refresh::FunctionHost;
use lancegate_engine::secrets::Secrets;
use lancegate_engine::secrets::key::KeyRing;
use lancegate_engine::storage::Store;

mod compute;
mod error;
mod reload;
mod sockets;

use compute::Compute;
pub use error::StartError;
pub(crate) use error::metadata_advice;
use reload::Reload;
use sockets::Sockets;

/// Open statements may take so long to end once the gateway stops.
const STATEMENTS_DEADLINE: Duration = Duration::from_secs(20);
/// Running attempts may take so long to reach a point where they release their job.
const JOBS_DEADLINE: Duration = Duration::from_secs(15);
/// Open HTTP requests, the store and compute threads each.
const CLOSING_DEADLINE: Duration = Duration::from_secs(5);

/// A started gateway. Dropping it stops everything at once; [`Gateway::stop`]
/// lets running work end.
#[derive(Debug)]
pub struct Gateway {
    pg_addr: SocketAddr,
    http_addr: SocketAddr,
    flight_addr: Option<SocketAddr>,
    first_login: Option<FirstLogin>,
    readiness: Arc<Readiness>,
    catalog: Catalog,
    jobs: Jobs,
    compute: Compute,
    auto: Option<Server>,
    audit: Option<Server>,
    reload: Reload,
    pg: Server,
    flight: Option<Server>,
    http: Server,
}

impl Gateway {
    /// Opens everything and answers once it returns.
    ///
    /// Listeners are bound first: a port in use leaves no trace in the data folder.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let Sockets { pg: (pg_listener, pg_addr), http: (http_listener, http_addr), flight } =
            Sockets::bind(&config).await?;
        let doors = Doors {
            tls: read_tls(&config)?,
            access: AccessRules::load(&config)?,
            unix: bind_unix(&config, pg_addr.port())?,
            audit: open_audit(&config)?,
        };
        let flight_tls = read_flight_tls(&config)?.map(FlightTls::new).map(Arc::new);
        let tokens = Tokens::new(&config.jwt_issuers).map_err(|error| StartError::Tokens(error.to_string()))?;
        let readiness = Arc::new(Readiness::default());
        let metrics = Arc::new(Metrics::new());
        let (http, http_shared) = start_http(&config, http_listener, &readiness, &metrics);
        let flight_addr = flight.as_ref().map(|(_, address)| *address);
        let flight = flight.map(|(listener, _)| start_flight(&config, listener, flight_tls.clone()));

        if let Some(folder) = config.data_folder() {
            prepare_folder(folder)?;
        }
        let catalog = open_catalog(&config.metadata_path()).await?;
        let secrets = open_secrets(&config, &catalog).await?;
        let functions = function_host(&config, secrets.clone())?;
        ensure_sandbox(&functions).await?;
        let first_login = admin::ensure_first_user(&catalog, config.password.as_ref());
        let first_login = first_login.await.map_err(StartError::FirstUser)?;
        let compute = Compute::start(config.query.thread_count()).map_err(StartError::Compute)?;

        let store = Store::new(&config.data).map_err(StartError::Store)?.counting(metrics.commits.clone());
        let parts = jobs_parts(&config, &catalog, &store, &compute, &metrics, &functions);
        let jobs = Jobs::start(parts).await.map_err(StartError::Metadata)?;
        let audit = doors.audit.clone();
        let engine = open_engine(&config, &catalog, store, &jobs, (functions, secrets, audit.clone()))?;
        engine.start(&admin::first_user()).await.map_err(StartError::Engine)?;
        let auto = start_auto_refresh(&engine);
        let identities = Identities::open(catalog.clone(), tokens).await.map_err(StartError::Engine)?;
        let statement_timeout = config.query.statement_timeout.get();
        let front = || Front {
            engine: engine.clone(),
            identities: identities.clone(),
            audit: audit.clone(),
            statement_timeout,
        };
        let twice = |_| StartError::Engine(SqlError::internal("opened twice"));
        http_shared.front.set(front()).map_err(twice)?;
        if let Some((_, shared)) = &flight {
            shared.front.set(front()).map_err(twice)?;
        }
        let (pg, shared) = start_pg(&config, pg_listener, doors, (engine.clone(), identities.clone()), metrics);
        let flight = flight.map(|(server, _)| server);
        let flushing = audit.clone().map(|audit| Server::spawn(|stop| audit.keep_flushed(stop)));

        readiness.advance(Stage::Ready);
        tracing::info!(%pg_addr, %http_addr, ?flight_addr, data = %config.data, "ready");
        let reload = Reload { config, pg: shared, flight: flight_tls, audit };
        Ok(Self {
            pg_addr,
            http_addr,
            flight_addr,
            first_login,
            readiness,
            catalog,
            jobs,
            compute,
            auto,
            audit: flushing,
            reload,
            pg,
            flight,
            http,
        })
    }

    /// Returns where PostgreSQL clients connect.
    pub fn pg_addr(&self) -> SocketAddr {
        self.pg_addr
    }

    /// Returns where HTTP answers.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Reads again what may change while the gateway runs: rules of access, the
    /// certificate, keys of identity providers; and opens the audit record again.
    /// What is wrong is logged, and its old state stays.
    pub async fn reload(&self) {
        self.reload.run().await;
    }

    /// Returns where Flight SQL answers, if it does.
    pub fn flight_addr(&self) -> Option<SocketAddr> {
        self.flight_addr
    }

    /// Returns the first user's login if this start created it.
    pub fn first_login(&self) -> Option<&FirstLogin> {
        self.first_login.as_ref()
    }

    /// Returns the metadata store.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Stops in order, each step with a deadline: nothing new, then
    /// statements, jobs, HTTP, compute, and the store last, because the others
    /// write to it.
    pub async fn stop(self) {
        tracing::info!("stopping");
        self.readiness.advance(Stage::Stopping);
        self.jobs.end_waits();
        let flight = async {
            if let Some(flight) = self.flight {
                flight.stop("flight sql", STATEMENTS_DEADLINE).await;
            }
        };
        tokio::join!(self.pg.stop("statements", STATEMENTS_DEADLINE), flight);
        if let Some(auto) = self.auto {
            auto.stop("automatic refreshes", CLOSING_DEADLINE).await;
        }
        if !self.jobs.stop(JOBS_DEADLINE).await {
            tracing::warn!("attempts were left behind; the next start takes their jobs over");
        }
        self.http.stop("http", CLOSING_DEADLINE).await;
        self.compute.stop(CLOSING_DEADLINE).await;
        if let Some(audit) = self.audit {
            audit.stop("audit record", CLOSING_DEADLINE).await;
        }
        step("metadata", CLOSING_DEADLINE, self.catalog.close()).await;
        tracing::info!("stopped");
    }
}

/// A server's task and what tells it to stop.
#[derive(Debug)]
struct Server {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Server {
    fn spawn<F: Future<Output = ()> + Send + 'static>(serve: impl FnOnce(CancellationToken) -> F) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(stop.clone()));
        Self { stop, task }
    }

    /// Asks the server to end and waits; past the deadline, drops its connections.
    async fn stop(mut self, name: &'static str, deadline: Duration) {
        self.stop.cancel();
        step(name, deadline, async {
            if let Err(error) = (&mut self.task).await {
                tracing::error!(server = name, %error, "a server ended by a panic");
            }
        })
        .await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
        self.task.abort();
    }
}

fn start_http(
    config: &Config,
    listener: TcpListener,
    readiness: &Arc<Readiness>,
    metrics: &Arc<Metrics>,
) -> (Server, Arc<HttpShared>) {
    let shared = Arc::new(HttpShared {
        config: config.http.clone(),
        readiness: Arc::clone(readiness),
        metrics: Arc::clone(metrics),
        front: OnceLock::new(),
    });
    let served = Arc::clone(&shared);
    let server = Server::spawn(|stop| async move {
        if let Err(error) = http::serve(listener, served, stop).await {
            tracing::error!(%error, "the HTTP server ended");
        }
    });
    (server, shared)
}

/// What the front door of PostgreSQL's protocol needs beside the engine.
struct Doors {
    tls: Option<PgTls>,
    access: AccessRules,
    unix: Option<UnixSocket>,
    audit: Option<AuditLog>,
}

fn bind_unix(config: &Config, port: u16) -> Result<Option<UnixSocket>, StartError> {
    let Some(folder) = &config.pg.unix_socket_directory else { return Ok(None) };
    let failed = |cause| StartError::UnixSocket { folder: folder.clone(), cause };
    UnixSocket::bind(folder, port, config.pg.unix_socket_mode()).map(Some).map_err(failed)
}

fn open_audit(config: &Config) -> Result<Option<AuditLog>, StartError> {
    let failed = |cause| StartError::Audit { path: config.audit.file.clone().unwrap_or_default(), cause };
    AuditLog::open(&config.audit).map_err(failed)
}

/// Returns who may have signed certificates of clients.
pub(crate) fn client_authorities(config: &Config) -> Option<ClientAuthorities<'_>> {
    let revoked = config.pg.tls_client_crl.as_deref();
    config.pg.tls_client_ca.as_deref().map(|certificates| ClientAuthorities { certificates, revoked })
}

fn start_flight(config: &Config, listener: TcpListener, tls: Option<Arc<FlightTls>>) -> (Server, Arc<FlightShared>) {
    let shared = Arc::new(FlightShared::new(FlightLimits {
        statement_timeout: config.query.statement_timeout.get(),
        message_bytes_max: config.flight.message_bytes_max.as_usize(),
        upload_bytes_max: config.http.upload_bytes_max.get(),
    }));
    let served = (Arc::clone(&shared), config.flight.max_connections);
    let server = Server::spawn(|stop| async move {
        if let Err(error) = flight::serve(listener, served, tls, stop).await {
            tracing::error!(%error, "the Flight SQL server ended");
        }
    });
    (server, shared)
}

/// Reads the certificate of Flight SQL, whose protocol is negotiated in the handshake.
fn read_flight_tls(config: &Config) -> Result<Option<TlsAcceptor>, StartError> {
    let Some((certificate, key)) = config.flight.tls().filter(|_| config.flight.enabled) else { return Ok(None) };
    let server = crate::tls::server_config(certificate, key, None).map_err(StartError::FlightTls)?;
    let mut server = Arc::unwrap_or_clone(server);
    server.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

/// Reads the certificate once for the handshake and once for channel binding.
fn read_tls(config: &Config) -> Result<Option<PgTls>, StartError> {
    let Some((certificate, key)) = config.pg.tls() else { return Ok(None) };
    let clients = client_authorities(config);
    let server = crate::tls::server_config(certificate, key, clients).map_err(StartError::Tls)?;
    let leaf = crate::tls::leaf(certificate).map_err(StartError::Tls)?;
    Ok(Some(PgTls::new(server, &leaf)))
}

fn jobs_parts(
    config: &Config,
    catalog: &Catalog,
    store: &Store,
    compute: &Compute,
    metrics: &Arc<Metrics>,
    functions: &FunctionHost,
) -> JobsParts {
    let threads = config.query.thread_count();
    let bounds = JobsConfig {
        workers_max: config.column_refresh.workers.unwrap_or(threads),
        publish_fragments: config.column_refresh.publish_fragments,
        publish_interval: config.column_refresh.publish_interval.get(),
        auto: AutoConfig::new(&config.column_refresh, config.jobs.max_active),
        ..JobsConfig::from(&config.jobs)
    };
    JobsParts {
        catalog: catalog.clone(),
        store: store.clone(),
        io: tokio::runtime::Handle::current(),
        compute: compute.handle(),
        config: bounds,
        metrics: Arc::clone(metrics),
        functions: functions.clone(),
    }
}

/// Says what confines workers here, once and at the start, where an operator looks.
async fn ensure_sandbox(functions: &FunctionHost) -> Result<(), StartError> {
    let mode = functions.sandbox();
    if mode == Mode::Off {
        tracing::warn!("functions.sandbox is off: Functions run with the rights of the gateway");
        return Ok(());
    }
    match functions.probe().await {
        Ok(report) if report.complete() => {
            tracing::info!(sandbox = report.shown(), "Functions run in a sandbox");
            Ok(())
        }
        Err(refused) if mode == Mode::Require => Err(StartError::Sandbox(refused)),
        Ok(report) => {
            let refused = report.refused.join("; ");
            tracing::warn!(sandbox = report.shown(), refused, "Functions run in part of a sandbox");
            Ok(())
        }
        Err(refused) => {
            tracing::warn!(refused, "Functions cannot run here");
            Ok(())
        }
    }
}

/// Where models come from unless the configuration or `HF_ENDPOINT` says otherwise.
const MODEL_ENDPOINT: &str = "https://huggingface.co";

/// Workers are this program again.
fn function_host(config: &Config, secrets: Secrets) -> Result<FunctionHost, StartError> {
    let set = &config.functions;
    let endpoint = set.model_endpoint.clone().or_else(|| std::env::var("HF_ENDPOINT").ok());
    let endpoint = endpoint.as_deref().unwrap_or(MODEL_ENDPOINT);
    let models = Models::new(set.models.clone(), endpoint, set.model_bytes.get()).map_err(StartError::Models)?;
    let environments = Environments::new(set.environments.clone(), set.python.clone());
    let program = std::env::current_exe().unwrap_or_else(|_| "lancegate".into());
    let policy = Policy {
        mode: set.sandbox,
        memory_bytes: set.memory.get(),
        tmp_bytes: set.tmp.get(),
        processes_max: set.processes_max as u64,
        ..Policy::default()
    };
    let devices = devices(&config.gpu_classes());
    let host = FunctionHost::new(environments, models, secrets, devices, program, policy, set.init_timeout.get());
    Ok(host.keeping(config.column_refresh.workers.unwrap_or_default()))
}

/// Returns the GPUs of this machine by class.
fn devices(classes: &[GpuClass]) -> Devices {
    let class = |class: &GpuClass| {
        let seen = || if class.name == DEFAULT_CLASS { visible() } else { Vec::new() };
        let of_class = DeviceClass {
            devices: class.devices().unwrap_or_else(seen),
            per_worker_max: class.max_gpu_count_per_worker.and_then(|most| usize::try_from(most).ok()),
            memory_bytes: class.memory_bytes.and_then(|bytes| u64::try_from(bytes).ok()),
        };
        (class.name.clone(), of_class)
    };
    Devices::new(classes.iter().map(class).collect())
}

/// Reads the keys, and seals anew what an older one of them has sealed.
async fn open_secrets(config: &Config, catalog: &Catalog) -> Result<Secrets, StartError> {
    let sealed = catalog.secrets(None).await.map_err(StartError::Metadata)?.len();
    let (path, chosen) = config.key_file();
    let secrets = Secrets::new(catalog.clone(), KeyRing::open(&path, chosen, sealed).map_err(StartError::Keys)?);
    if let Err(error) = secrets.rotate().await {
        tracing::warn!(%error, "secrets were not sealed anew with the current key");
    }
    Ok(secrets)
}

fn open_engine(
    config: &Config,
    catalog: &Catalog,
    store: Store,
    jobs: &Jobs,
    (functions, secrets, audit): (FunctionHost, Secrets, Option<AuditLog>),
) -> Result<Engine, StartError> {
    let spill = config.query.spill_directory.clone();
    let parts = EngineParts {
        catalog: catalog.clone(),
        store,
        query: QueryConfig {
            memory_bytes: config.query.memory.as_usize(),
            spill_directory: spill.unwrap_or_else(|| std::env::temp_dir().join("lancegate-spill")),
            spill_bytes_max: config.query.spill_max.get(),
            threads: config.query.thread_count(),
        },
        limits: lancegate_sql::Limits::default(),
        gpu_classes: config.gpu_classes(),
        jobs: Arc::new(jobs.clone()),
        functions,
        secrets,
        audit: audit.map(|audit| -> Arc<dyn Audit> { Arc::new(audit) }),
    };
    Engine::new(parts).map_err(StartError::Engine)
}

/// Starts to refresh columns by themselves, if the deployment wants that.
fn start_auto_refresh(engine: &Engine) -> Option<Server> {
    let engine = engine.clone();
    engine.jobs().auto().enabled.then(|| Server::spawn(|stop| auto_refresh::run(engine, stop)))
}

fn start_pg(
    config: &Config,
    listener: TcpListener,
    doors: Doors,
    (engine, identities): (Engine, Identities),
    metrics: Arc<Metrics>,
) -> (Server, Arc<PgShared>) {
    let mut bounds = pg::PgConfig::new(engine.query_runtime());
    bounds.connections_max = config.pg.max_connections;
    bounds.connections_reserved = config.pg.reserved_connections;
    bounds.authentication_timeout = config.pg.authentication_timeout.get();
    bounds.write_timeout = config.pg.write_timeout.get();
    bounds.message_bytes_max = config.pg.message_bytes_max.as_usize();
    // Nobody listens in on the loopback interface.
    bounds.allow_plaintext = config.pg.allow_plaintext || config.pg.listen.ip().is_loopback();
    let timeout = config.query.statement_timeout.get().as_millis().to_string();
    bounds.session_defaults = vec![("statement_timeout".to_owned(), timeout)];
    let Doors { tls, access, unix, audit } = doors;
    let shared = PgShared::new(engine, identities, bounds, (tls, access), (metrics, audit));
    let shared = Arc::new(shared);
    let served = Arc::clone(&shared);
    (Server::spawn(|stop| pg::serve(listener, unix, served, stop)), shared)
}

/// Creates the folder if it is missing and proves that it can be written.
pub(crate) fn prepare_folder(folder: &Path) -> Result<(), StartError> {
    let failed = |source: io::Error| StartError::Data { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    tempfile::Builder::new().prefix(".lancegate-check").tempfile_in(folder).map_err(failed)?;
    Ok(())
}

/// Opens the metadata store and creates the folder above it.
pub(crate) async fn open_catalog(path: &Path) -> Result<Catalog, StartError> {
    if let Some(folder) = path.parent() {
        let failed = |source| StartError::Data { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    Catalog::open_sqlite(path).await.map_err(StartError::Metadata)
}
