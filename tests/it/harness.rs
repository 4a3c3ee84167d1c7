//! Starts gateways as processes and talks to them as clients do.

#![allow(dead_code, reason = "each area of tests uses its own part")]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The program under test.
pub(crate) const LANCEGATE: &str = env!("CARGO_BIN_EXE_lancegate");
/// The password of user `lancegate` in every gateway that the harness starts.
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A start or stop that takes longer has hung.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the program with an environment that has none of our variables.
pub(crate) fn lancegate<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(LANCEGATE);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LANCEGATE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    lancegate(arguments).output().unwrap()
}

/// Returns standard output and standard error as one text.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A gateway process; killed when it is dropped.
pub(crate) struct Gateway {
    child: Child,
    pg: SocketAddr,
    http: SocketAddr,
    folder: Folder,
}

/// Where a gateway's files are.
struct Folder {
    /// Configuration, log and ports; removed at the end.
    own: TempDir,
    data: PathBuf,
    /// What the next process fails at; see `lancegate_engine::failpoint`.
    failpoints: Option<String>,
    /// Further environment variables.
    variables: Vec<(String, String)>,
}

/// How long a test waits for a state before it says that it does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Gateway {
    /// Starts a gateway with the defaults in a fresh folder.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a gateway with a piece of TOML, which may name any key but the
    /// data folder and the two ports.
    pub(crate) fn start_with(config: &str) -> Self {
        let own = tempfile::tempdir().unwrap();
        let data = own.path().join("data");
        Self::launch(Folder { own, data, failpoints: None, variables: Vec::new() }, config)
    }

    /// As [`Self::start_with`], with environment variables.
    pub(crate) fn start_with_env(config: &str, variables: &[(&str, &str)]) -> Self {
        let own = tempfile::tempdir().unwrap();
        let data = own.path().join("data");
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::launch(Folder { own, data, failpoints: None, variables }, config)
    }

    /// Starts a gateway with failpoints, which a later start has not.
    pub(crate) fn start_failing(config: &str, failpoints: &str) -> Self {
        let own = tempfile::tempdir().unwrap();
        let data = own.path().join("data");
        let mut gateway =
            Self::launch(Folder { own, data, failpoints: Some(failpoints.to_owned()), variables: Vec::new() }, config);
        gateway.folder.failpoints = None;
        gateway
    }

    /// Starts a gateway on a data folder that goes on to exist.
    pub(crate) fn start_in(data: &Path) -> Self {
        Self::start_in_with(data, "")
    }

    /// [`Self::start_in`] with a piece of TOML.
    pub(crate) fn start_in_with(data: &Path, config: &str) -> Self {
        Self::launch(
            Folder {
                own: tempfile::tempdir().unwrap(),
                data: data.to_owned(),
                failpoints: None,
                variables: Vec::new(),
            },
            config,
        )
    }

    fn launch(folder: Folder, config: &str) -> Self {
        fs::write(folder.config(), config).unwrap();
        let (child, pg, http) = spawn(&folder);
        Self { child, pg, http, folder }
    }

    /// Returns where PostgreSQL clients connect.
    pub(crate) fn pg_addr(&self) -> SocketAddr {
        self.pg
    }

    /// Returns the address of a path over HTTP.
    pub(crate) fn http_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// Returns where Flight SQL answers unless the configuration says otherwise.
    pub(crate) fn flight_addr(&self) -> SocketAddr {
        SocketAddr::new(self.http.ip(), self.http.port() + 1)
    }

    /// Returns how much memory the process holds.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    }

    /// Returns how long the process has computed, in hundredths of a second.
    pub(crate) fn computed(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the program is in parentheses; user and system time are the 14th and 15th fields.
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
    }

    /// Returns the password of user `lancegate`.
    pub(crate) fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Returns the data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.folder.data
    }

    /// Returns what the gateway has written to standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.log()).unwrap_or_default()
    }

    /// Returns the folders of tables that there are, sorted.
    pub(crate) fn table_folders(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut folders: Vec<_> = names.filter(|name| name.ends_with(".lance")).collect();
        folders.sort();
        folders
    }

    /// Connects as user `lancegate`.
    pub(crate) async fn connect(&self) -> tokio_postgres::Client {
        self.connect_as("lancegate", PASSWORD).await.unwrap()
    }

    /// Connects to database `lancegate` as another user.
    pub(crate) async fn connect_as(
        &self,
        user: &str,
        password: &str,
    ) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.host(self.pg.ip().to_string()).port(self.pg.port());
        config.user(user).password(password).dbname("lancegate").connect_timeout(DEADLINE);
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Runs one `psql` with these statements, unaligned and without headings.
    pub(crate) fn psql(&self, sql: &str) -> Output {
        self.psql_with(&["-A", "-t", "-c", sql])
    }

    /// Runs `psql` with these arguments as user `lancegate`.
    pub(crate) fn psql_with(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("psql");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        command.args(["-X", "-v", "ON_ERROR_STOP=1", "-U", "lancegate", "-d", "lancegate"]);
        command.args(["-h", &self.pg.ip().to_string(), "-p", &self.pg.port().to_string()]);
        command.args(arguments).env("PGPASSWORD", PASSWORD).env("PGCONNECT_TIMEOUT", "30").stdin(Stdio::null());
        command.output().unwrap_or_else(|error| panic!("psql cannot be started ({error}); `make test` installs it"))
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process as a crash would.
    pub(crate) fn kill9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the gateway again on the same data, on other ports; kills it first if it still runs.
    pub(crate) fn restart(&mut self) {
        self.kill9();
        (self.child, self.pg, self.http) = spawn(&self.folder);
    }

    /// Starts the gateway again with failpoints, which the start after it has not.
    pub(crate) fn restart_failing(&mut self, failpoints: &str) {
        self.folder.failpoints = Some(failpoints.to_owned());
        self.restart();
        self.folder.failpoints = None;
    }

    /// Waits until a place holds at a visit (failpoint `hold`).
    pub(crate) async fn held(&self, place: &str, visit: u64) {
        let file = self.folder.holds().join(format!("{place}.{visit}"));
        until(&format!("visit {visit} of {place}"), async || file.exists().then_some(())).await;
    }

    /// Waits until an attempt of this process knows that it is to stop.
    pub(crate) async fn told_to_stop(&self) {
        let told = async || self.log().contains("attempt is told to stop").then_some(());
        until("word of the request", told).await;
    }

    /// Lets one visit of a place that holds go on.
    pub(crate) fn let_go(&self, place: &str, visit: u64) {
        fs::remove_file(self.folder.holds().join(format!("{place}.{visit}"))).unwrap();
    }

    /// Lets all visits of a place go on, later ones too.
    pub(crate) fn let_all_go(&self, place: &str) {
        fs::write(self.folder.holds().join(format!("{place}.go")), []).unwrap();
    }

    /// [`Self::restart_failing`], also if the process ends before it is ready;
    /// returns whether it became ready.
    pub(crate) fn survives_restart_failing(&mut self, failpoints: &str) -> bool {
        self.kill9();
        self.folder.failpoints = Some(failpoints.to_owned());
        let started = try_spawn(&self.folder);
        self.folder.failpoints = None;
        let (child, ports) = started;
        self.child = child;
        if let Some((pg, http)) = ports {
            (self.pg, self.http) = (pg, http);
        }
        ports.is_some()
    }

    /// Returns how the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until the process has ended by itself.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Sends a signal by its name, with the shell's own `kill`: a bare Debian has no other.
    pub(crate) fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
    }

    /// Asks the gateway to stop and returns how it ended.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        wait(&mut self.child)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the gateway ---\n{}", self.log());
        }
    }
}

impl Folder {
    fn config(&self) -> PathBuf {
        self.own.path().join("lancegate.toml")
    }

    fn log(&self) -> PathBuf {
        self.own.path().join("stderr.log")
    }

    /// Where places that hold meet the test.
    fn holds(&self) -> PathBuf {
        self.own.path().join("holds")
    }

    fn ports(&self) -> PathBuf {
        self.own.path().join("ports")
    }
}

fn spawn(folder: &Folder) -> (Child, SocketAddr, SocketAddr) {
    let (child, ports) = try_spawn(folder);
    let log = || fs::read_to_string(folder.log()).unwrap_or_default();
    let (pg, http) = ports.unwrap_or_else(|| panic!("the gateway did not start\n{}", log()));
    (child, pg, http)
}

fn try_spawn(folder: &Folder) -> (Child, Option<(SocketAddr, SocketAddr)>) {
    let _ = fs::remove_file(folder.ports());
    let _ = fs::remove_dir_all(folder.holds());
    fs::create_dir(folder.holds()).unwrap();
    let mut child = lancegate(["serve", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"])
        .args([OsStr::new("--data"), folder.data.as_os_str()])
        .args([OsStr::new("--config"), folder.config().as_os_str()])
        .args([OsStr::new("--ports-file"), folder.ports().as_os_str()])
        .env("LANCEGATE_PASSWORD", PASSWORD)
        .env("LANCEGATE_FAILPOINT_HOLDS", folder.holds())
        .envs(folder.variables.iter().map(|(name, value)| (name, value)))
        .envs(folder.failpoints.iter().map(|failpoints| ("LANCEGATE_FAILPOINTS", failpoints)))
        .stdout(Stdio::piped())
        .stderr(File::options().create(true).append(true).open(folder.log()).unwrap())
        .spawn()
        .unwrap();
    let ready = first_line(&mut child);
    if !ready.contains("is ready") {
        return (child, None);
    }
    let ports = fs::read_to_string(folder.ports()).unwrap();
    (child, Some((port(&ports, "pg="), port(&ports, "http="))))
}

/// Waits for the first line of standard output; an empty text is its end.
pub(crate) fn first_line(child: &mut Child) -> String {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = out.read_line(&mut line);
        let _ = tell.send(line);
        // Keeps the pipe open and empty until the process ends.
        let _ = std::io::copy(&mut out, &mut std::io::sink());
    });
    told.recv_timeout(DEADLINE).unwrap_or_else(|_| {
        let _ = child.kill();
        panic!("no first line within {DEADLINE:?}")
    })
}

fn port(ports: &str, prefix: &str) -> SocketAddr {
    let found = ports.split_whitespace().find_map(|word| word.strip_prefix(prefix));
    found.unwrap_or_else(|| panic!("no {prefix} in {ports:?}")).parse().unwrap()
}

/// Waits for the end of a process, at most for [`DEADLINE`].
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "the process did not end within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the Python that has the packages of `tests/requirements.txt`.
pub(crate) fn python() -> Command {
    let python = std::env::var_os("LANCEGATE_TEST_PYTHON")
        .unwrap_or_else(|| panic!("LANCEGATE_TEST_PYTHON is not set; `make test` makes the environment and sets it"));
    let mut command = Command::new(python);
    command.stdin(Stdio::null());
    command
}
