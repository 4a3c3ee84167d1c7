//! The record of who connected, what was allowed and denied, and what became of
//! the administration of users, privileges, keys and secrets.
//!
//! One JSON object on a line, appended with one write before what it is about goes
//! on, so that nothing is buffered here and a crash loses nothing that has been
//! answered; the file is flushed to disk within a second. Control characters are
//! escaped. No record holds text of a statement, a password, a token or a key: there
//! is no way in here for them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use lancegate_engine::audit::{Administered, Audit, Decided, administration, command};
use lancegate_engine::config::{AuditConfig, AuditFailure, AuditedStatements};
use lancegate_engine::error::{Result, SqlError};
use lancegate_engine::session::Session;
use lancegate_engine::sqlstate::SqlState;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// How often what was written is flushed to disk.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// The most bytes of a text that a client chooses.
const TEXT_BYTES_MAX: usize = 256;

/// An open record. Clones are one record.
#[derive(Debug, Clone)]
pub struct AuditLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    statements: AuditedStatements,
    on_failure: AuditFailure,
    sink: Mutex<Sink>,
    /// Whether something was written that may not be on disk.
    unflushed: AtomicBool,
}

#[derive(Debug)]
struct Sink {
    file: Arc<File>,
    /// Whether the file ends within a line, after a write that stopped half-way.
    torn: bool,
}

/// How a client tried to get in, and what came of it.
#[derive(Debug, Default)]
pub struct Login<'a> {
    /// `pg`, `http` or `flight`.
    pub over: &'static str,
    /// The address and port, or `local`.
    pub origin: &'a str,
    /// The user that it says it is, if it got so far.
    pub user: Option<&'a str>,
    /// The database that it wants.
    pub database: Option<&'a str>,
    /// What it had to prove.
    pub method: Option<&'a str>,
    /// The rule that said so, by its line.
    pub rule: Option<usize>,
    /// What it has proved, where that is not the user: a name in a certificate or token.
    pub identity: Option<&'a str>,
    /// Whether it came through TLS.
    pub tls: bool,
    /// The number of the session that begins.
    pub session: Option<i32>,
    /// Why it was refused.
    pub error: Option<&'a SqlError>,
}

impl AuditLog {
    /// Opens the record; `None` if the configuration wants none.
    ///
    /// # Errors
    /// The file cannot be opened or written: a gateway that cannot keep its record
    /// does not start.
    pub fn open(config: &AuditConfig) -> io::Result<Option<Self>> {
        let Some(path) = &config.file else { return Ok(None) };
        let log = Self(Arc::new(Inner {
            path: path.clone(),
            statements: config.statements,
            on_failure: config.on_failure,
            sink: Mutex::new(Sink::open(path)?),
            unflushed: AtomicBool::new(false),
        }));
        log.write(event("start", "ok"))?;
        Ok(Some(log))
    }

    /// Opens the file again, which may have been moved away. If that fails, the old
    /// one is written on.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn reopen(&self) -> io::Result<()> {
        let fresh = Sink::open(&self.0.path)?;
        let old = std::mem::replace(&mut *self.sink(), fresh);
        // What is in it must not wait for a flush that looks at the new one.
        if let Err(error) = old.file.sync_data() {
            tracing::error!(%error, "the audit record cannot be flushed");
        }
        Ok(())
    }

    /// Flushes to disk what was written, again and again, until `stop` fires.
    pub async fn keep_flushed(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(FLUSH_INTERVAL)).await.is_some() {
            self.flush().await;
        }
        let _ = self.write(event("stop", "ok"));
        self.flush().await;
    }

    async fn flush(&self) {
        if !self.0.unflushed.swap(false, Ordering::AcqRel) {
            return;
        }
        let file = Arc::clone(&self.sink().file);
        match tokio::task::spawn_blocking(move || file.sync_data()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the audit record cannot be flushed"),
            Err(error) => tracing::error!(%error, "the audit record cannot be flushed"),
        }
    }

    /// Records how a login ended.
    ///
    /// # Errors
    /// 58030 if it cannot be recorded and must be.
    pub fn login(&self, login: &Login<'_>) -> Result<()> {
        let outcome = if login.error.is_some() { "failed" } else { "ok" };
        let mut record = event("authentication", outcome);
        put(&mut record, "over", Some(login.over));
        put(&mut record, "origin", Some(login.origin));
        put(&mut record, "user", login.user.map(cut));
        put(&mut record, "database", login.database.map(cut));
        put(&mut record, "method", login.method);
        put(&mut record, "rule", login.rule);
        put(&mut record, "identity", login.identity.map(cut));
        put(&mut record, "tls", Some(login.tls));
        put(&mut record, "session", login.session);
        put_error(&mut record, login.error);
        self.record(record)
    }

    /// Records that the configuration was read again.
    pub fn reloaded(&self, what: &str, error: Option<&str>) {
        let mut record = event("reload", if error.is_some() { "failed" } else { "ok" });
        put(&mut record, "what", Some(what));
        put(&mut record, "reason", error);
        let _ = self.record(record);
    }

    fn record(&self, record: Map<String, Value>) -> Result<()> {
        let Err(error) = self.write(record) else { return Ok(()) };
        tracing::error!(%error, file = %self.0.path.display(), "the audit record cannot be written");
        match self.0.on_failure {
            AuditFailure::Warn => Ok(()),
            AuditFailure::Refuse => Err(SqlError::new(SqlState::IO_ERROR, "could not write the audit record")
                .hint("The log of the gateway has the cause.")),
        }
    }

    fn write(&self, record: Map<String, Value>) -> io::Result<()> {
        let mut line = Value::Object(record).to_string();
        line.push('\n');
        self.sink().append(line)?;
        self.0.unflushed.store(true, Ordering::Release);
        Ok(())
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.0.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Audit for AuditLog {
    fn decided(&self, decided: &Decided<'_>) -> Result<()> {
        let Decided { session, plan, checked, denied } = decided;
        let changes = administration(session, plan);
        let is_change = || lancegate_engine::audit::changes(plan);
        let wanted = match self.0.statements {
            AuditedStatements::All => true,
            AuditedStatements::Changes => denied.is_some() || is_change(),
            AuditedStatements::Denied => denied.is_some(),
        };
        if !wanted && changes.is_none() {
            return Ok(());
        }
        let mut record = event("statement", if denied.is_some() { "denied" } else { "allowed" });
        put_session(&mut record, session);
        put(&mut record, "command", Some(command(plan)));
        let needs = checked.iter().map(|checked| {
            let mut need = Map::new();
            put(&mut need, "privilege", Some(checked.requirement.privilege.as_sql()));
            put(&mut need, "object", Some(checked.requirement.object.to_string()));
            put(&mut need, "of", checked.on_behalf_of.map(lancegate_auth::UserName::as_str));
            put(&mut need, "held", Some(checked.held));
            Value::Object(need)
        });
        put(&mut record, "needs", Some(Value::Array(needs.collect())));
        put(&mut record, "changes", changes);
        put_error(&mut record, *denied);
        self.record(record)
    }

    fn administered(&self, done: &Administered<'_>) {
        let mut record = event("administration", if done.error.is_some() { "failed" } else { "done" });
        put_session(&mut record, done.session);
        put(&mut record, "command", Some(done.command));
        put(&mut record, "changes", Some(done.changes.to_vec()));
        put_error(&mut record, done.error);
        // It is done; what cannot be recorded is in the log, and the next is refused.
        let _ = self.record(record);
    }
}

impl Sink {
    fn open(path: &Path) -> io::Result<Self> {
        let options = |options: &mut OpenOptions| options.append(true).create(true).mode(0o600).open(path);
        // Reading tells whether a crash has left half a line.
        let file = options(OpenOptions::new().read(true)).or_else(|_| options(&mut OpenOptions::new()))?;
        let torn = ends_within_a_line(&file);
        Ok(Self { file: Arc::new(file), torn })
    }

    fn append(&mut self, mut line: String) -> io::Result<()> {
        if self.torn {
            line.insert(0, '\n');
        }
        let mut file = &*self.file;
        // One write, so that lines of two processes do not mix.
        let written = file.write(line.as_bytes());
        let written = match written {
            Ok(count) if count < line.len() => file.write_all(&line.as_bytes()[count..]).map_err(|error| (true, error)),
            Ok(_) => Ok(()),
            Err(error) => Err((false, error)),
        };
        match written {
            Ok(()) => self.torn = false,
            Err((partly, _)) => self.torn |= partly,
        }
        written.map_err(|(_, error)| error)
    }
}

fn ends_within_a_line(mut file: &File) -> bool {
    let mut last = [0];
    let read = file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last));
    read.is_ok() && last[0] != b'\n'
}

fn event(name: &str, outcome: &str) -> Map<String, Value> {
    let mut record = Map::new();
    put(&mut record, "at", Some(Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true)));
    put(&mut record, "event", Some(name));
    put(&mut record, "outcome", Some(outcome));
    record
}

fn put(record: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        record.insert(name.to_owned(), value.into());
    }
}

fn put_session(record: &mut Map<String, Value>, session: &Session) {
    put(record, "origin", session.origin.as_deref());
    put(record, "session", Some(session.id));
    put(record, "user", Some(session.principal.user.as_str()));
    put(record, "database", Some(session.database.as_str()));
}

fn put_error(record: &mut Map<String, Value>, error: Option<&SqlError>) {
    if let Some(error) = error {
        put(record, "code", Some(error.code.as_str()));
        put(record, "reason", Some(json!(cut(&error.message))));
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &Path, on_failure: AuditFailure) -> AuditLog {
        let config = AuditConfig { file: Some(path.to_owned()), statements: AuditedStatements::All, on_failure };
        AuditLog::open(&config).unwrap().unwrap()
    }

    fn records(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn login(user: &str) -> Login<'_> {
        Login { over: "pg", origin: "127.0.0.1:1", user: Some(user), ..Login::default() }
    }

    #[test]
    fn z09_what_a_client_chooses_stays_in_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = log(&path, AuditFailure::Refuse);
        log.login(&login("a\nb\r\x1b[31m\u{2028}\"")).unwrap();
        log.login(&login(&"x".repeat(10_000))).unwrap();
        let records = records(&path);
        assert_eq!(records.len(), 3);
        assert_eq!(records[1]["user"], "a\nb\r\x1b[31m\u{2028}\"");
        assert_eq!(records[2]["user"].as_str().unwrap().len(), TEXT_BYTES_MAX);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn z09_a_full_disk_refuses_or_warns_as_configured() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let (refusing, warning) = (log(&path, AuditFailure::Refuse), log(&path, AuditFailure::Warn));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        for log in [&refusing, &warning] {
            log.reopen().unwrap();
        }
        assert_eq!(refusing.login(&login("ann")).unwrap_err().code.as_str(), "58030");
        assert!(warning.login(&login("ann")).is_ok());
        std::fs::remove_file(&path).unwrap();
        refusing.reopen().unwrap();
        refusing.login(&login("ann")).unwrap();
        assert_eq!(records(&path).len(), 1);
    }

    #[test]
    fn a_line_that_a_crash_has_torn_stays_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        std::fs::write(&path, "{\"at\":\"2026").unwrap();
        let log = log(&path, AuditFailure::Refuse);
        log.login(&login("ann")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1..].iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{text}");
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = log(&path, AuditFailure::Refuse);
        let moved = folder.path().join("audit.1");
        std::fs::rename(&path, &moved).unwrap();
        log.login(&login("ann")).unwrap();
        log.reopen().unwrap();
        log.login(&login("bob")).unwrap();
        assert_eq!((records(&moved).len(), records(&path).len()), (2, 1));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let config = |path: PathBuf| AuditConfig {
            file: Some(path),
            statements: AuditedStatements::All,
            on_failure: AuditFailure::Warn,
        };
        assert!(AuditLog::open(&config(folder.path().to_owned())).is_err());
        assert!(AuditLog::open(&config("/dev/full".into())).is_err());
        let none = AuditConfig { file: None, ..config(PathBuf::new()) };
        assert!(AuditLog::open(&none).unwrap().is_none());
    }
}
