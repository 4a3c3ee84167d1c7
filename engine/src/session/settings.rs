//! The parameters that SET, SHOW and RESET name, with PostgreSQL's spelling,
//! checks and transaction semantics.
//!
//! This module owns the values of one session. It never acts on them: the wire
//! loop reads the timeouts, the planner the search path, the encoder the output
//! styles. What is not listed in `parameters` does not exist, except names with
//! a dot, which a client may use for its own notes as in PostgreSQL.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lancegate_wire::settings::{ByteaOutput, FormatSettings, TimeZone};

use crate::error::{Result, SqlError};
use crate::session::NoticeSeverity;
use crate::sqlstate::SqlState;

mod parameters;
mod values;

use parameters::{Parameter, Scope};
pub use parameters::{SERVER_VERSION, SERVER_VERSION_NUM};

/// The number of parameters with a dot that one session may invent.
const CUSTOM_PARAMETERS_MAX: usize = 256;
/// The longest name of such a parameter, in bytes.
const CUSTOM_NAME_BYTES_MAX: usize = 128;
/// The longest value of any parameter, in bytes.
const VALUE_BYTES_MAX: usize = 64 * 1024;

/// The parameter values of one session.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Effective values by lower-case name, where they differ from the table.
    current: BTreeMap<String, String>,
    /// What RESET goes back to: the table, the configuration, the start-up packet.
    reset: BTreeMap<String, String>,
    /// Present between BEGIN and the end of the block.
    block: Option<Block>,
    /// What the client was told by ParameterStatus.
    told: BTreeMap<&'static str, String>,
    /// The revision of which the client was told everything.
    told_at: Option<u64>,
    /// Counts the changes of `current`.
    revision: u64,
    /// What every statement asks for, read once per revision.
    derived: OnceLock<Derived>,
    /// What a running statement has assigned by `set_config`. The snapshot that it runs with shares the list with its
    /// session.
    assigned: Arc<Mutex<Vec<Assigned>>>,
}

/// A value that `set_config` has checked.
#[derive(Debug)]
struct Assigned {
    name: String,
    /// `None` for the default.
    value: Option<String>,
    local: bool,
}

/// Values that every statement needs, parsed.
#[derive(Debug, Clone)]
struct Derived {
    statement_timeout: Option<Duration>,
    idle_session_timeout: Option<Duration>,
    idle_in_transaction_session_timeout: Option<Duration>,
    format: FormatSettings,
}

/// What the end of a transaction block brings back.
#[derive(Debug, Clone, Default)]
struct Block {
    /// The values at BEGIN, for ROLLBACK.
    before: BTreeMap<String, String>,
    /// Names set with SET LOCAL and the value that COMMIT restores.
    local: BTreeMap<String, Option<String>>,
}

/// What a SET did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The name as PostgreSQL spells it, for example `TimeZone`.
    pub name: String,
    /// The canonical value, for example `5s` after `SET statement_timeout = 5000`.
    pub value: String,
}

/// One parameter as SHOW ALL and `pg_settings` list it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name as PostgreSQL spells it.
    pub name: &'a str,
    /// The effective value.
    pub value: &'a str,
    /// One sentence without a full stop.
    pub description: &'a str,
    /// `user` or `internal`, as in `pg_settings.context`.
    pub context: &'static str,
    /// `bool`, `enum`, `integer` or `string`, as in `pg_settings.vartype`.
    pub vartype: &'static str,
    /// `ms`, `kB` or nothing.
    pub unit: Option<&'static str>,
    /// The value of a session that nothing configured.
    pub boot_value: &'a str,
    /// What RESET goes back to.
    pub reset_value: &'a str,
}

impl Settings {
    /// Returns the settings of a session of `user`, before the start-up packet
    /// is applied.
    pub fn for_user(user: &str, superuser: bool) -> Self {
        let mut settings = Self::default();
        settings.pin("session_authorization", user);
        settings.pin("is_superuser", if superuser { "on" } else { "off" });
        settings
    }

    /// Fixes a value that clients cannot change, for example `max_connections`
    /// from the configuration. Names outside the table are ignored.
    pub fn pin(&mut self, name: &str, value: &str) {
        if let Some(parameter) = parameters::find(name) {
            let key = parameter.name.to_ascii_lowercase();
            self.reset.insert(key.clone(), value.to_owned());
            self.current.insert(key, value.to_owned());
            self.touch();
        }
    }

    /// Sets a parameter for the rest of the session; inside a block that rolls
    /// back the old value returns.
    ///
    /// # Errors
    /// 42704 for an unknown name, 22023 for a bad value, 55P02 for a name that
    /// cannot be changed, 42501 for one that is nobody's to change.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Changed> {
        let changed = self.check(name, value)?;
        let key = changed.name.to_ascii_lowercase();
        if parameters::is_of_transaction(&key) {
            return Ok(self.put_local(key, changed));
        }
        if let Some(block) = &mut self.block {
            block.local.remove(&key);
        }
        self.current.insert(key, changed.value.clone());
        self.touch();
        Ok(changed)
    }

    /// Sets a parameter until the end of the open block. Outside a block the
    /// value is checked and dropped; the caller warns.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn set_local(&mut self, name: &str, value: &str) -> Result<Changed> {
        let changed = self.check(name, value)?;
        Ok(self.put_local(changed.name.to_ascii_lowercase(), changed))
    }

    /// Sets a value that RESET goes back to: the start-up packet and the
    /// configuration use it.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub fn set_default(&mut self, name: &str, value: &str) -> Result<Changed> {
        let changed = self.check(name, value)?;
        let key = changed.name.to_ascii_lowercase();
        self.reset.insert(key.clone(), changed.value.clone());
        self.current.insert(key, changed.value.clone());
        self.touch();
        Ok(changed)
    }

    /// Checks a value for `set_config`, and keeps it until the statement is over. Returns it as it will be shown.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn assign(&self, name: &str, value: Option<&str>, local: bool) -> Result<String> {
        let mut tried = self.clone();
        let changed = match value {
            Some(value) => tried.set(name, value)?,
            None => tried.reset(name)?,
        };
        let assigned = Assigned { name: name.to_owned(), value: value.map(str::to_owned), local };
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner).push(assigned);
        Ok(changed.value)
    }

    /// Begins a list of its own for `set_config`, for a session whose settings are a copy of others.
    pub(super) fn own(mut self) -> Self {
        self.assigned = Arc::default();
        self
    }

    /// Forgets what a statement that failed has assigned.
    pub fn drop_assigned(&mut self) {
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Makes the values effective that the last statement has assigned by `set_config`.
    pub fn take_assigned(&mut self) {
        let assigned = std::mem::take(&mut *self.assigned.lock().unwrap_or_else(PoisonError::into_inner));
        for Assigned { name, value, local } in assigned {
            // It was checked before; only the number of invented names may have grown beyond its limit since.
            let _ = match (value, local) {
                (Some(value), false) => self.set(&name, &value),
                (Some(value), true) => self.set_local(&name, &value),
                (None, _) => self.reset(&name),
            };
        }
    }

    /// Returns the effective value.
    ///
    /// # Errors
    /// 42704 if there is no such parameter.
    pub fn get(&self, name: &str) -> Result<&str> {
        let key = parameters::canonical_key(name);
        if let Some(value) = self.current.get(&key) {
            return Ok(value);
        }
        if let Some(source) = parameters::default_source(&key) {
            return self.get(source);
        }
        parameters::find(&key).map(|parameter| parameter.boot_value).ok_or_else(|| unrecognized(name))
    }

    /// Returns a parameter to its session default.
    ///
    /// # Errors
    /// 42704 for an unknown name, 55P02 for a name that cannot be changed.
    pub fn reset(&mut self, name: &str) -> Result<Changed> {
        let key = parameters::canonical_key(name);
        let parameter = parameters::find(&key);
        if parameter.is_none() && !self.current.contains_key(&key) {
            return Err(unrecognized(name));
        }
        if let Some(parameter) = parameter.filter(|parameter| parameter.scope == Scope::Fixed) {
            return Err(cannot_be_changed(parameter.name));
        }
        self.restore_default(&key);
        let name = parameter.map_or(key.as_str(), |parameter| parameter.name).to_owned();
        let value = self.get(&key).unwrap_or_default().to_owned();
        Ok(Changed { name, value })
    }

    /// Returns every parameter to its session default (RESET ALL, DISCARD ALL).
    pub fn reset_all(&mut self) {
        let keys: Vec<String> = self.current.keys().cloned().collect();
        for key in keys.iter().filter(|key| !parameters::is_of_transaction(key)) {
            self.restore_default(key);
        }
    }

    /// Lists name, value and description of every parameter, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.entries().map(|entry| (entry.name, entry.value, entry.description))
    }

    /// Lists every parameter with what `pg_settings` shows besides, by name.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        parameters::all().map(|parameter| self.entry(parameter))
    }

    /// Returns whether a change of the parameter is told by ParameterStatus.
    pub fn is_reported(name: &str) -> bool {
        parameters::find(name).is_some_and(|parameter| parameter.reported)
    }

    /// Returns the reported parameters whose value the client has not been told,
    /// and counts them as told. The first call returns the whole set that
    /// follows authentication.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        if self.told_at == Some(self.revision) {
            return Vec::new();
        }
        self.told_at = Some(self.revision);
        let mut reports = Vec::new();
        for parameter in parameters::all().filter(|parameter| parameter.reported) {
            let value = self.get(parameter.name).unwrap_or_default();
            if self.told.get(parameter.name).is_none_or(|told| told != value) {
                reports.push((parameter.name, value.to_owned()));
            }
        }
        self.told.extend(reports.iter().cloned());
        reports
    }

    /// Marks the begin of a transaction block. Repeating it changes nothing.
    pub fn begin_block(&mut self) {
        if self.block.is_none() {
            self.block = Some(Block { before: self.current.clone(), local: BTreeMap::new() });
        }
    }

    /// Ends a block that took effect: values of SET LOCAL go away.
    pub fn commit_block(&mut self) {
        let Some(block) = self.block.take() else { return };
        if block.local.is_empty() {
            return;
        }
        for (key, value) in block.local {
            match value {
                Some(value) => self.current.insert(key, value),
                None => self.current.remove(&key),
            };
        }
        self.touch();
    }

    /// Ends a block that was undone: every value of its begin comes back.
    pub fn roll_back_block(&mut self) {
        let block = self.block.take();
        if let Some(block) = block.filter(|block| block.before != self.current) {
            self.current = block.before;
            self.touch();
        }
    }

    /// Returns a number that no other state of this session's values has had:
    /// what was made from them is good as long as it stays.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    fn touch(&mut self) {
        self.revision += 1;
        self.derived = OnceLock::new();
    }

    fn derived(&self) -> &Derived {
        self.derived.get_or_init(|| Derived {
            statement_timeout: self.timeout("statement_timeout"),
            idle_session_timeout: self.timeout("idle_session_timeout"),
            idle_in_transaction_session_timeout: self.timeout("idle_in_transaction_session_timeout"),
            format: FormatSettings {
                extra_float_digits: self.value("extra_float_digits").parse().unwrap_or(1),
                timezone: TimeZone::parse(&self.time_zone()).unwrap_or(TimeZone::UTC),
                bytea_output: match self.value("bytea_output") {
                    "escape" => ByteaOutput::Escape,
                    _ => ByteaOutput::Hex,
                },
            },
        })
    }

    fn entry<'a>(&'a self, parameter: &'static Parameter) -> Entry<'a> {
        let key = parameter.name.to_ascii_lowercase();
        Entry {
            name: parameter.name,
            value: self.get(&key).unwrap_or(parameter.boot_value),
            description: parameter.description,
            context: parameter.scope.as_str(),
            vartype: parameter.kind.vartype(),
            unit: parameter.kind.unit(),
            boot_value: parameter.boot_value,
            reset_value: self.reset.get(&key).map_or(parameter.boot_value, String::as_str),
        }
    }

    fn check(&self, name: &str, value: &str) -> Result<Changed> {
        let key = parameters::canonical_key(name);
        if value.len() > VALUE_BYTES_MAX || value.contains('\0') {
            return Err(values::invalid(name, &value.chars().take(64).collect::<String>()));
        }
        let Some(parameter) = parameters::find(&key) else {
            return self.check_custom(name, key, value);
        };
        match parameter.scope {
            Scope::Fixed => Err(cannot_be_changed(parameter.name)),
            Scope::Identity if self.get(&key).is_ok_and(|own| own == value) => {
                Ok(Changed { name: parameter.name.to_owned(), value: value.to_owned() })
            }
            Scope::Identity => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to set {} \"{value}\"", parameter.name.replace('_', " ")),
            )),
            Scope::User => {
                let value = parameter.kind.canonical(parameter.name, value)?;
                Ok(Changed { name: parameter.name.to_owned(), value })
            }
        }
    }

    /// Names with a dot belong to whoever writes them, except under prefixes
    /// that mean something here.
    fn check_custom(&self, name: &str, key: String, value: &str) -> Result<Changed> {
        let Some((prefix, _)) = key.split_once('.') else {
            return Err(unrecognized(name));
        };
        if prefix == "datafusion" || prefix == "lance" {
            let message = format!("permission denied to set parameter \"{name}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let known = self.current.contains_key(&key);
        if prefix == "lancegate" || !known && self.custom_count() >= CUSTOM_PARAMETERS_MAX {
            return Err(unrecognized(name));
        }
        if key.len() > CUSTOM_NAME_BYTES_MAX || !key.split('.').all(is_identifier) {
            let message = format!("invalid configuration parameter name \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_NAME, message)
                .detail("Custom parameter names must be two or more simple identifiers separated by dots."));
        }
        Ok(Changed { name: key, value: value.to_owned() })
    }

    fn custom_count(&self) -> usize {
        self.current.keys().filter(|key| parameters::find(key).is_none()).count()
    }

    fn put_local(&mut self, key: String, changed: Changed) -> Changed {
        if let Some(block) = &mut self.block {
            let outer = self.current.insert(key.clone(), changed.value.clone());
            block.local.entry(key).or_insert(outer);
            self.touch();
        }
        changed
    }

    fn restore_default(&mut self, key: &str) {
        if let Some(block) = &mut self.block {
            block.local.remove(key);
        }
        match self.reset.get(key) {
            Some(value) => self.current.insert(key.to_owned(), value.clone()),
            None => self.current.remove(key),
        };
        self.touch();
    }
}

/// Values with a type, for the code that acts on them.
impl Settings {
    /// Returns the lowest severity that is sent to the client.
    pub fn client_min_messages(&self) -> NoticeSeverity {
        match self.value("client_min_messages") {
            "debug5" | "debug4" | "debug3" | "debug2" | "debug1" => NoticeSeverity::Debug,
            "log" => NoticeSeverity::Log,
            "warning" => NoticeSeverity::Warning,
            "error" => NoticeSeverity::Info,
            _ => NoticeSeverity::Notice,
        }
    }

    /// Returns the time that a statement may take from its text to the last
    /// byte of its answer; `None` means no limit.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.derived().statement_timeout
    }

    /// Returns how long a session may do nothing outside a block.
    pub fn idle_session_timeout(&self) -> Option<Duration> {
        self.derived().idle_session_timeout
    }

    /// Returns how long a session may do nothing inside a block.
    pub fn idle_in_transaction_session_timeout(&self) -> Option<Duration> {
        self.derived().idle_in_transaction_session_timeout
    }

    /// Returns how long a statement may wait for a lock.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.timeout("lock_timeout")
    }

    /// Returns the schemas in which bare names are looked up, in order;
    /// `$user` is left for the reader to replace.
    pub fn search_path(&self) -> Vec<String> {
        values::identifier_list(self.value("search_path")).unwrap_or_default()
    }

    /// Returns whether REFRESH answers before the job has ended.
    pub fn early_job_handle(&self) -> bool {
        self.flag("lancegate.early_job_handle")
    }

    /// Returns the time zone as Arrow spells it: an IANA name or `+05:30`.
    pub fn time_zone(&self) -> String {
        values::arrow_time_zone(self.value("timezone"))
    }

    /// Returns how values are written for this client.
    pub fn format_settings(&self) -> FormatSettings {
        self.derived().format.clone()
    }

    /// Returns the isolation of the open block, or of the next one.
    pub fn transaction_isolation(&self) -> &str {
        self.value("transaction_isolation")
    }

    /// Returns whether all statements of a block read the same versions.
    pub fn repeats_reads(&self) -> bool {
        matches!(self.transaction_isolation(), "repeatable read" | "serializable")
    }

    /// Returns whether the open block, or the next one, may only read.
    pub fn transaction_read_only(&self) -> bool {
        self.flag("transaction_read_only")
    }

    fn value(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.value(name) == "on"
    }

    fn timeout(&self, name: &str) -> Option<Duration> {
        let millis = values::parse_millis(self.value(name)).unwrap_or(0);
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

fn is_identifier(part: &str) -> bool {
    let mut bytes = part.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$')
}

fn unrecognized(name: &str) -> SqlError {
    let name: String = name.chars().take(CUSTOM_NAME_BYTES_MAX).collect();
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

fn cannot_be_changed(name: &str) -> SqlError {
    SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{name}\" cannot be changed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::for_user("ada", false)
    }

    fn check(name: &str, value: &str, expected: &str) {
        let mut settings = settings();
        settings.set(name, value).unwrap();
        assert_eq!(settings.get(name).unwrap(), expected, "SET {name} = '{value}'");
    }

    fn refused(name: &str, value: &str, code: &str, message: &str) {
        let error = settings().set(name, value).unwrap_err();
        assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
    }

    #[test]
    fn values_take_their_canonical_spelling() {
        check("statement_timeout", "5000", "5s");
        check("statement_timeout", "100ms", "100ms");
        check("statement_timeout", "1.5 s", "1500ms");
        check("statement_timeout", "0", "0");
        check("idle_session_timeout", "24h", "1d");
        check("client_encoding", "'utf-8'", "UTF8");
        check("client_encoding", "unicode", "UTF8");
        check("datestyle", "iso", "ISO, MDY");
        check("DateStyle", "ISO, dmy", "ISO, DMY");
        check("datestyle", "european", "ISO, DMY");
        check("TIMEZONE", "utc", "UTC");
        check("time zone", "europe/berlin", "Europe/Berlin");
        check("timezone", "-7", "<-07>+07");
        check("row_security", "f", "off");
        check("standard_conforming_strings", "TRUE", "on");
        check("work_mem", "65536", "64MB");
        check("my.note", "anything", "anything");
        check("transaction_isolation", "repeatable read", "read committed");
    }

    #[test]
    fn refusals_read_as_postgresql_writes_them() {
        refused("nonsense", "1", "42704", "unrecognized configuration parameter \"nonsense\"");
        refused("client_encoding", "LATIN1", "22023", "invalid value for parameter \"client_encoding\": \"LATIN1\"");
        refused("datestyle", "nonsense", "22023", "invalid value for parameter \"DateStyle\": \"nonsense\"");
        refused("timezone", "Mars/Base", "22023", "invalid value for parameter \"TimeZone\": \"Mars/Base\"");
        refused("row_security", "maybe", "22023", "parameter \"row_security\" requires a Boolean value");
        refused("server_version", "99", "55P02", "parameter \"server_version\" cannot be changed");
        refused(
            "datafusion.runtime.memory_limit",
            "1",
            "42501",
            "permission denied to set parameter \"datafusion.runtime.memory_limit\"",
        );
        refused("role", "admin", "42501", "permission denied to set role \"admin\"");
        refused("session_authorization", "bob", "42501", "permission denied to set session authorization \"bob\"");
        refused("lancegate.typo", "1", "42704", "unrecognized configuration parameter \"lancegate.typo\"");
        refused(
            "extra_float_digits",
            "9",
            "22023",
            "9 is outside the valid range for parameter \"extra_float_digits\" (-15 .. 3)",
        );
        refused(
            "statement_timeout",
            "5 weeks",
            "22023",
            "invalid value for parameter \"statement_timeout\": \"5 weeks\"",
        );
    }

    #[test]
    fn set_local_ends_with_its_block_and_set_survives_a_commit() {
        let mut settings = settings();
        settings.begin_block();
        settings.set("application_name", "kept").unwrap();
        settings.set_local("application_name", "local").unwrap();
        settings.set_local("statement_timeout", "1s").unwrap();
        settings.set("transaction_isolation", "serializable").unwrap();
        assert_eq!(settings.transaction_isolation(), "serializable");
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(1)));
        settings.commit_block();
        assert_eq!(settings.get("application_name").unwrap(), "kept");
        assert_eq!(settings.statement_timeout(), None);
        assert_eq!(settings.transaction_isolation(), "read committed");
    }

    #[test]
    fn a_rollback_undoes_every_set_of_the_block() {
        let mut settings = settings();
        settings.set("application_name", "before").unwrap();
        settings.begin_block();
        settings.set("application_name", "inside").unwrap();
        settings.reset("search_path").unwrap();
        settings.roll_back_block();
        assert_eq!(settings.get("application_name").unwrap(), "before");
    }

    #[test]
    fn set_local_outside_a_block_changes_nothing() {
        let mut settings = settings();
        settings.set_local("application_name", "x").unwrap();
        assert_eq!(settings.get("application_name").unwrap(), "");
    }

    #[test]
    fn the_first_report_is_the_whole_set_and_later_ones_only_changes() {
        let mut settings = settings();
        let names: Vec<&str> = settings.take_reports().into_iter().map(|(name, _)| name).collect();
        for name in ["server_version", "client_encoding", "TimeZone", "is_superuser", "scram_iterations"] {
            assert!(names.contains(&name), "{name} is missing");
        }
        assert!(settings.take_reports().is_empty());
        settings.set("application_name", "psql").unwrap();
        settings.set("statement_timeout", "1").unwrap();
        assert_eq!(settings.take_reports(), [("application_name", "psql".to_owned())]);
    }

    #[test]
    fn reset_goes_back_to_what_the_start_up_packet_said() {
        let mut settings = settings();
        settings.set_default("extra_float_digits", "2").unwrap();
        settings.set("extra_float_digits", "3").unwrap();
        settings.set("my.note", "x").unwrap();
        settings.reset_all();
        assert_eq!(settings.get("extra_float_digits").unwrap(), "2");
        assert!(settings.get("my.note").is_err());
        assert_eq!(settings.get("session_authorization").unwrap(), "ada");
    }

    #[test]
    fn the_search_path_honours_quotes() {
        let mut settings = settings();
        assert_eq!(settings.search_path(), ["$user", "public"]);
        settings.set("search_path", "Team, \"team$ML\" , public").unwrap();
        assert_eq!(settings.search_path(), ["team", "team$ML", "public"]);
        settings.set("search_path", "").unwrap();
        assert!(settings.search_path().is_empty());
        assert!(settings.set("search_path", "a,,b").is_err());
    }
}
