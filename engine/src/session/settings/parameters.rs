//! The table of parameters: name, default, kind, whether clients may change it
//! and whether ParameterStatus tells about it. Sorted by name.

use super::values::Kind;

/// What `server_version` says; drivers parse the number in front.
pub const SERVER_VERSION: &str = concat!("16.10 (lancegate ", env!("CARGO_PKG_VERSION"), ")");
/// The same as one number, as `server_version_num` has it.
pub const SERVER_VERSION_NUM: &str = "160010";

/// One row of the table.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) boot_value: &'static str,
    pub(super) kind: Kind,
    pub(super) scope: Scope,
    pub(super) reported: bool,
    pub(super) description: &'static str,
}

/// Who may change a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Every session for itself.
    User,
    /// Nobody; a client may "set" it to the value it has.
    Identity,
    /// Nobody at all.
    Fixed,
}

impl Scope {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::User | Self::Identity => "user",
            Self::Fixed => "internal",
        }
    }
}

/// Returns the key of a name: lower case, with SQL's spellings of names that
/// have their own syntax replaced.
pub(super) fn canonical_key(name: &str) -> String {
    let key = name.to_ascii_lowercase();
    match key.as_str() {
        "time zone" => "timezone".to_owned(),
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "names" => "client_encoding".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        "schema" => "search_path".to_owned(),
        _ => key,
    }
}

/// Returns the row of a name in any case.
pub(super) fn find(name: &str) -> Option<&'static Parameter> {
    TABLE.iter().find(|parameter| parameter.name.eq_ignore_ascii_case(name))
}

/// Returns the table.
pub(super) fn all() -> impl Iterator<Item = &'static Parameter> {
    TABLE.iter()
}

/// Returns whether a value ends with the transaction, whichever way it was set.
pub(super) fn is_of_transaction(key: &str) -> bool {
    default_source(key).is_some()
}

/// Returns the parameter that gives a transaction's parameter its value while
/// nothing else was said.
pub(super) fn default_source(key: &str) -> Option<&'static str> {
    match key {
        "transaction_isolation" => Some("default_transaction_isolation"),
        "transaction_read_only" => Some("default_transaction_read_only"),
        "transaction_deferrable" => Some("default_transaction_deferrable"),
        _ => None,
    }
}

const MESSAGE_LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];
const ISOLATION_LEVELS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

const fn user(name: &'static str, boot_value: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, boot_value, kind, scope: Scope::User, reported: false, description }
}

const fn fixed(name: &'static str, boot_value: &'static str, description: &'static str) -> Parameter {
    Parameter { name, boot_value, kind: Kind::Text, scope: Scope::Fixed, reported: false, description }
}

const fn identity(name: &'static str, boot_value: &'static str, description: &'static str) -> Parameter {
    Parameter { name, boot_value, kind: Kind::Text, scope: Scope::Identity, reported: false, description }
}

const fn reported(parameter: Parameter) -> Parameter {
    Parameter { reported: true, ..parameter }
}

static TABLE: &[Parameter] = &[
    reported(user("application_name", "", Kind::ApplicationName, "Name that the client gives itself")),
    user("array_nulls", "on", Kind::Only("on"), "NULL elements are read in arrays"),
    user("backslash_quote", "safe_encoding", Kind::Only("safe_encoding"), "Whether \\' is allowed in string literals"),
    fixed("block_size", "8192", "Size of a disk block, as catalogs count it"),
    user("bytea_output", "hex", Kind::Enum(&["escape", "hex"]), "Text format of bytea"),
    user("check_function_bodies", "on", Kind::Bool, "Kept for dump files; Functions are always checked"),
    reported(user("client_encoding", "UTF8", Kind::Encoding, "Character set of the client; always UTF8")),
    user("client_min_messages", "notice", Kind::Enum(MESSAGE_LEVELS), "Lowest level of messages sent to the client"),
    reported(user("DateStyle", "ISO, MDY", Kind::DateStyle, "Format of dates, and order of ambiguous ones")),
    user("default_table_access_method", "heap", Kind::Only("heap"), "Kept for dump files; tables are Lance tables"),
    user("default_tablespace", "", Kind::Only(""), "Kept for dump files; there are no tablespaces"),
    user("default_text_search_config", "pg_catalog.simple", Kind::Text, "Text search configuration"),
    user("default_transaction_deferrable", "off", Kind::Bool, "Whether new transactions are deferrable"),
    user(
        "default_transaction_isolation",
        "read committed",
        Kind::Enum(ISOLATION_LEVELS),
        "Isolation level of new transactions",
    ),
    reported(user("default_transaction_read_only", "off", Kind::Bool, "Whether new transactions may only read")),
    user("escape_string_warning", "on", Kind::Bool, "Warn about backslashes in ordinary string literals"),
    user("extra_float_digits", "1", Kind::Integer { min: -15, max: 3 }, "Digits shown for floating-point values"),
    user("force_parallel_mode", "off", Kind::Enum(&["off", "on", "regress"]), "Kept for drivers; does nothing"),
    user("idle_in_transaction_session_timeout", "0", Kind::Millis, "Time that a session may idle in a transaction"),
    user("idle_session_timeout", "0", Kind::Millis, "Time that a session may idle outside a transaction"),
    reported(fixed("in_hot_standby", "off", "Whether the server is a standby")),
    reported(fixed("integer_datetimes", "on", "Timestamps are 64-bit integers on the wire")),
    reported(user("IntervalStyle", "postgres", Kind::Only("postgres"), "Format of intervals")),
    reported(fixed("is_superuser", "off", "Whether the user passes every privilege check")),
    user("jit", "off", Kind::Bool, "Kept for drivers; plans are never compiled to machine code"),
    user(
        "lancegate.early_job_handle",
        "on",
        Kind::Bool,
        "Whether REFRESH answers with a job id at once instead of waiting for the end",
    ),
    fixed("lc_collate", "C", "Collation of text"),
    fixed("lc_ctype", "C", "Character classes of text"),
    user("lc_messages", "C", Kind::Only("C"), "Language of messages"),
    user("lc_monetary", "C", Kind::Only("C"), "Format of amounts of money"),
    user("lc_numeric", "C", Kind::Only("C"), "Format of numbers"),
    user("lc_time", "C", Kind::Only("C"), "Names of days and months"),
    user("lock_timeout", "0", Kind::Millis, "Time that a statement may wait for a lock"),
    user("maintenance_work_mem", "64MB", Kind::Kilobytes { min: 64 }, "Kept for dump files; memory is pooled"),
    fixed("max_connections", "100", "Number of concurrent sessions"),
    fixed("max_function_args", "100", "Number of arguments of a function"),
    fixed("max_identifier_length", "63", "Length of an identifier in bytes"),
    fixed("max_index_keys", "32", "Number of columns of an index"),
    user("password_encryption", "scram-sha-256", Kind::Only("scram-sha-256"), "How passwords are stored"),
    user("quote_all_identifiers", "off", Kind::Bool, "Quote all identifiers in generated SQL"),
    identity("role", "none", "Role whose privileges are used"),
    user("row_security", "on", Kind::Bool, "Kept for dump files; there is no row security"),
    reported(fixed("scram_iterations", "4096", "Iterations of new SCRAM-SHA-256 verifiers")),
    user("search_path", "\"$user\", public", Kind::IdentifierList, "Schemas in which bare names are looked up"),
    reported(fixed("server_encoding", "UTF8", "Character set of stored text")),
    reported(fixed("server_version", SERVER_VERSION, "Version of PostgreSQL that is spoken")),
    fixed("server_version_num", SERVER_VERSION_NUM, "Version of PostgreSQL that is spoken, as a number"),
    reported(identity("session_authorization", "", "User that logged in")),
    fixed("ssl", "off", "Whether connections can use TLS"),
    reported(user(
        "standard_conforming_strings",
        "on",
        Kind::OnlyOn,
        "Backslashes in string literals are plain characters",
    )),
    user("statement_timeout", "0", Kind::Millis, "Time that a statement may take"),
    user("synchronize_seqscans", "on", Kind::Bool, "Kept for dump files; scans are not synchronized"),
    user(
        "synchronous_commit",
        "on",
        Kind::Enum(&["local", "remote_write", "remote_apply", "on", "off"]),
        "Kept for drivers; commits are always durable",
    ),
    reported(user("TimeZone", "UTC", Kind::TimeZone, "Time zone of timestamps with time zone")),
    user("timezone_abbreviations", "Default", Kind::Only("Default"), "Names of time zone abbreviations"),
    user("transaction_deferrable", "off", Kind::Bool, "Whether the open transaction is deferrable"),
    user(
        "transaction_isolation",
        "read committed",
        Kind::Enum(ISOLATION_LEVELS),
        "Isolation level of the open transaction",
    ),
    user("transaction_read_only", "off", Kind::Bool, "Whether the open transaction may only read"),
    user("work_mem", "4MB", Kind::Kilobytes { min: 64 }, "Kept for dump files; memory is pooled"),
    user("xmlbinary", "base64", Kind::Enum(&["base64", "hex"]), "Kept for dump files; there is no xml type"),
    user("xmloption", "content", Kind::Enum(&["content", "document"]), "Kept for dump files; there is no xml type"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_defaults_are_canonical() {
        let names: Vec<String> = all().map(|parameter| parameter.name.to_ascii_lowercase()).collect();
        assert!(names.is_sorted());
        for parameter in all().filter(|parameter| parameter.scope == Scope::User) {
            let value = parameter.kind.canonical(parameter.name, parameter.boot_value).unwrap();
            assert_eq!(value, parameter.boot_value, "{}", parameter.name);
        }
    }
}
