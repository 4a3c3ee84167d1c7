//! One running gateway: opens the stores, binds the listeners, spawns the
//! servers, and stops them in order.
//!
//! Owns every long-lived task. Prints nothing and reads no environment; the
//! command line does.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lancegate_catalog::Catalog;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, FirstLogin};
use crate::config::Config;
use crate::http::{self, HttpShared};
use crate::metrics::Metrics;
use crate::shutdown::{Readiness, Stage, step};

mod compute;
mod error;

use compute::Compute;
pub use error::StartError;
pub(crate) use error::metadata_advice;

/// Open statements may take so long to end once the gateway stops.
const STATEMENTS_DEADLINE: Duration = Duration::from_secs(15);
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
    first_login: Option<FirstLogin>,
    readiness: Arc<Readiness>,
    catalog: Catalog,
    compute: Compute,
    pg: Server,
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
        let (pg_listener, pg_addr) = bind("pg.listen", config.pg.listen).await?;
        let (http_listener, http_addr) = bind("http.listen", config.http.listen).await?;
        let tls = config
            .pg
            .tls()
            .map(|(cert, key)| crate::tls::server_config(cert, key))
            .transpose();
        let tls = tls.map_err(StartError::Tls)?;

        let readiness = Arc::new(Readiness::default());
        let metrics = Arc::new(Metrics::new());
        let http = start_http(&config, http_listener, &readiness, &metrics);

        if let Some(folder) = config.data_folder() {
            prepare_folder(folder)?;
        }
        let catalog = open_catalog(&config.metadata_path()).await?;
        let first_login = admin::ensure_first_user(&catalog, config.password.as_ref());
        let first_login = first_login.await.map_err(StartError::FirstUser)?;
        let compute = Compute::start(config.query.thread_count()).map_err(StartError::Compute)?;

        // SEAM engine: `exec::Engine::open(&config, catalog.clone(), Arc::clone(&metrics), compute.handle())`.
        let query_handle = compute.handle();
        let pg = start_pg(pg_listener, tls, query_handle);

        readiness.advance(Stage::Ready);
        tracing::info!(%pg_addr, %http_addr, data = %config.data, "ready");
        Ok(Self {
            pg_addr,
            http_addr,
            first_login,
            readiness,
            catalog,
            compute,
            pg,
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
        self.pg.stop("statements", STATEMENTS_DEADLINE).await;
        // SEAM jobs: stop claiming, let attempts release their leases.
        step("jobs", JOBS_DEADLINE, async {}).await;
        self.http.stop("http", CLOSING_DEADLINE).await;
        self.compute.stop(CLOSING_DEADLINE).await;
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
) -> Server {
    let shared = Arc::new(HttpShared {
        config: config.http.clone(),
        readiness: Arc::clone(readiness),
        metrics: Arc::clone(metrics),
    });
    Server::spawn(|stop| async move {
        if let Err(error) = http::serve(listener, shared, stop).await {
            tracing::error!(%error, "the HTTP server ended");
        }
    })
}

// SEAM wire: `pg::serve(listener, Arc<PgShared>, stop)` with the engine, the
// catalog, `config.pg`, the TLS configuration and the metrics.
fn start_pg(
    listener: TcpListener,
    _tls: Option<Arc<rustls::ServerConfig>>,
    _query: tokio::runtime::Handle,
) -> Server {
    Server::spawn(|stop| async move {
        stop.cancelled().await;
        drop(listener);
    })
}

/// Binds an address and returns with it the real one, which differs for port 0.
async fn bind(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |cause| StartError::Bind { key, address, cause };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Creates the folder if it is missing and proves that it can be written.
pub(crate) fn prepare_folder(folder: &Path) -> Result<(), StartError> {
    let failed = |source: io::Error| StartError::Data {
        path: folder.to_owned(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    tempfile::Builder::new()
        .prefix(".lancegate-check")
        .tempfile_in(folder)
        .map_err(failed)?;
    Ok(())
}

/// Opens the metadata store and creates the folder above it.
pub(crate) async fn open_catalog(path: &Path) -> Result<Catalog, StartError> {
    if let Some(folder) = path.parent() {
        let failed = |source| StartError::Data {
            path: folder.to_owned(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    Catalog::open_sqlite(path).await.map_err(StartError::Metadata)
}
