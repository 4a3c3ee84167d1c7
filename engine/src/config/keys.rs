//! The table of configuration keys: the one place that says what exists, what
//! is allowed, what the default is and what it means.
//!
//! The loader checks against it, the defaults are read from it and
//! `config.example.toml` is printed from it, so none of the three can differ.

use super::kind::Kind;

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// The dotted name: `pg.listen`. Keys of a GPU class have no section here;
    /// see [`GPU_CLASS_KEYS`].
    pub(super) path: &'static str,
    /// What is allowed.
    pub(super) kind: Kind,
    /// The value when nothing sets it, as one would write it in the
    /// environment; `None` if it is then unset.
    pub(super) default: Option<&'static str>,
    /// What the example shows for a key without a default.
    pub(super) sample: &'static str,
    /// Sentences for the example's comment.
    pub(super) doc: &'static str,
}

/// One section of the file and the sentences above it in the example.
#[derive(Debug)]
pub(super) struct Section {
    /// The name between the brackets; empty for the keys above all sections.
    pub(super) name: &'static str,
    /// Sentences for the example's comment.
    pub(super) doc: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default: Some(default), sample: "", doc }
}

const fn unset(path: &'static str, kind: Kind, sample: &'static str, doc: &'static str) -> Key {
    Key { path, kind, default: None, sample, doc }
}

/// The sections in the order of the example.
pub(super) const SECTIONS: &[Section] = &[
    Section { name: "", doc: "" },
    Section { name: "pg", doc: "The PostgreSQL wire." },
    Section { name: "audit", doc: "A record of who connected and of what was allowed and denied, as lines of JSON." },
    Section { name: "http", doc: "The REST API, health, readiness and metrics over HTTP." },
    Section { name: "flight", doc: "SQL as Arrow Flight SQL, as ADBC drivers and LanceDB's clients send it." },
    Section { name: "query", doc: "What statements may use." },
    Section { name: "jobs", doc: "Refresh jobs and their history." },
    Section { name: "column_refresh", doc: "Refreshes of computed columns and materialized views." },
    Section { name: "functions", doc: "Workers that run Python Functions." },
    Section { name: "secrets", doc: "The values of CREATE SECRET." },
    Section { name: "log", doc: "What is written to standard error." },
];

/// Every key outside the GPU classes, in the order of the example.
pub(super) const KEYS: &[Key] = &[
    unset(
        "data",
        Kind::Data,
        "./mydata",
        "The root of database \"lancegate\": a folder or an s3:// URI. Each *.lance folder in it is a \
         table of schema \"public\". Required; also --data and LANCEGATE_DATA.",
    ),
    unset(
        "metadata",
        Kind::Metadata,
        "./mydata/_lancegate/metadata.db",
        "Where users, grants and jobs are kept: the path of an SQLite file. Unset: \
         _lancegate/metadata.db in the data folder. Required if \"data\" is a URI.",
    ),
    unset(
        "password",
        Kind::Password,
        "",
        "The password that the first start gives to user \"lancegate\". Only the environment variable \
         LANCEGATE_PASSWORD sets it, so that it stands in no file. Unset: a random one is printed once.",
    ),
    key("pg.listen", Kind::Listen, "127.0.0.1:5433", "Where clients connect; port 0 takes a free port."),
    key(
        "pg.max_connections",
        Kind::Integer { min: 1, max: 100_000 },
        "100",
        "Connections at one time; the next one is refused with 53300.",
    ),
    key(
        "pg.reserved_connections",
        Kind::Integer { min: 0, max: 1_000 },
        "3",
        "How many of them are kept for user \"lancegate\".",
    ),
    key(
        "pg.authentication_timeout",
        Kind::Duration { min: "1s", max: "10m" },
        "60s",
        "How long a client may take from connecting to being logged in.",
    ),
    key(
        "pg.write_timeout",
        Kind::Duration { min: "1s", max: "1h" },
        "60s",
        "How long a client may take nothing of its answer before its connection is closed.",
    ),
    key(
        "pg.message_bytes_max",
        Kind::ByteSize { min: "1MiB", max: "1GiB" },
        "64MiB",
        "The longest message that a logged-in client may send.",
    ),
    unset("pg.tls_cert", Kind::Path, "/etc/lancegate/server.crt", "The certificate chain, PEM. With \"tls_key\"."),
    unset("pg.tls_key", Kind::Path, "/etc/lancegate/server.key", "The certificate's private key, PEM."),
    key(
        "pg.allow_plaintext",
        Kind::Boolean,
        "false",
        "Whether \"listen\" may be an address that other machines reach although there is no TLS.",
    ),
    unset(
        "pg.tls_client_ca",
        Kind::Path,
        "/etc/lancegate/clients.crt",
        "The authorities of client certificates, PEM. A certificate that none of them has signed ends the connection; \
         whether one is needed say the rules of \"hba_file\".",
    ),
    unset(
        "pg.tls_client_crl",
        Kind::Path,
        "/etc/lancegate/clients.crl",
        "Revoked client certificates, PEM: the lists of all authorities of \"tls_client_ca\".",
    ),
    unset(
        "pg.hba_file",
        Kind::Path,
        "/etc/lancegate/hba.conf",
        "Who may connect how: ordered rules in the format of PostgreSQL's pg_hba.conf, read again on SIGHUP. \
         Unset: everybody by scram-sha-256.",
    ),
    unset(
        "pg.ident_file",
        Kind::Path,
        "/etc/lancegate/ident.conf",
        "Maps from names in certificates and tokens, and of users of the system, to users, in the format of \
         PostgreSQL's pg_ident.conf.",
    ),
    unset(
        "pg.unix_socket_directory",
        Kind::Path,
        "/run/lancegate",
        "A folder for a Unix socket beside \"listen\", named .s.PGSQL. and the port as PostgreSQL names it. Unset: none.",
    ),
    key(
        "pg.unix_socket_permissions",
        Kind::Choice(&["0700", "0770", "0777"]),
        "0770",
        "Who may connect to it: the gateway's user, his group too, or everybody.",
    ),
    unset(
        "audit.file",
        Kind::Path,
        "/var/log/lancegate/audit.jsonl",
        "Where records are appended. SIGHUP opens the file again, so that it can be moved away. Unset: no records.",
    ),
    key(
        "audit.statements",
        Kind::Choice(&["all", "changes", "denied"]),
        "all",
        "Which statements that need a privilege have a record: all, those that change something, or none that was \
         allowed. Connections, what was denied, and the administration of users, privileges, keys and secrets always have one.",
    ),
    key(
        "audit.on_failure",
        Kind::Choice(&["refuse", "warn"]),
        "refuse",
        "What happens to what cannot be recorded: it is refused with 58030, or goes on with an error in the log.",
    ),
    key("http.listen", Kind::Listen, "127.0.0.1:10024", "Where to answer; port 0 takes a free port."),
    key("http.max_connections", Kind::Integer { min: 1, max: 100_000 }, "256", "Connections at one time; more wait."),
    key("http.body_bytes_max", Kind::ByteSize { min: "1KiB", max: "1GiB" }, "16MiB", "The longest request body."),
    key(
        "http.upload_bytes_max",
        Kind::ByteSize { min: "1KiB", max: "1024TiB" },
        "64GiB",
        "The longest body of rows; rows are written as they come.",
    ),
    key(
        "http.request_timeout",
        Kind::Duration { min: "1s", max: "1h" },
        "30s",
        "How long a request may take that moves no rows; a connection that is silent for twice as long is closed.",
    ),
    key(
        "http.allow_plaintext",
        Kind::Boolean,
        "false",
        "Whether \"listen\" may be an address that other machines reach; there is no TLS here.",
    ),
    key("flight.enabled", Kind::Boolean, "true", "Whether to answer at all; nothing is bound otherwise."),
    unset(
        "flight.listen",
        Kind::Listen,
        "127.0.0.1:10025",
        "Where to answer; port 0 takes a free port. Unset: at the address of \"http.listen\", one port above it, \
         where LanceDB's clients look for it.",
    ),
    key("flight.max_connections", Kind::Integer { min: 1, max: 100_000 }, "256", "Connections at one time; more wait."),
    key(
        "flight.message_bytes_max",
        Kind::ByteSize { min: "64KiB", max: "1GiB" },
        "64MiB",
        "The longest message that a client may send; rows come in any number of messages.",
    ),
    unset("flight.tls_cert", Kind::Path, "/etc/lancegate/server.crt", "The certificate chain, PEM. With \"tls_key\"."),
    unset("flight.tls_key", Kind::Path, "/etc/lancegate/server.key", "The certificate's private key, PEM."),
    key(
        "flight.allow_plaintext",
        Kind::Boolean,
        "false",
        "Whether \"listen\" may be an address that other machines reach although there is no TLS. Where it is unset, \
         \"http.allow_plaintext\" has decided.",
    ),
    key(
        "query.memory",
        Kind::ByteSize { min: "64MiB", max: "1024TiB" },
        "1GiB",
        "Memory that all statements share; sorts, joins and aggregations spill beyond it.",
    ),
    unset(
        "query.spill_directory",
        Kind::Path,
        "/var/tmp/lancegate",
        "Where to spill. Unset: the system's folder for temporary files.",
    ),
    key(
        "query.spill_max",
        Kind::ByteSize { min: "0B", max: "1024TiB" },
        "32GiB",
        "What all spill files together may take.",
    ),
    unset(
        "query.threads",
        Kind::Integer { min: 1, max: 1_024 },
        "8",
        "Threads that compute. Unset: one for each processor.",
    ),
    key(
        "query.statement_timeout",
        Kind::Duration { min: "0s", max: "30d" },
        "0s",
        "The default of the session setting of this name, and the most time of a request of REST; 0s is no limit.",
    ),
    key("jobs.retention", Kind::Duration { min: "1h", max: "3650d" }, "30d", "How long a job is listed after its end."),
    key("jobs.event_retention", Kind::Duration { min: "1h", max: "3650d" }, "14d", "How long its events are kept."),
    key(
        "jobs.metering_retention",
        Kind::Duration { min: "1h", max: "3650d" },
        "365d",
        "How long system.public.function_refresh_metering lists what a refresh has used.",
    ),
    key(
        "jobs.sweep_interval",
        Kind::Duration { min: "1s", max: "30d" },
        "1d",
        "How often, beside at each start, old jobs and events are looked for, and files that refreshes have left: those \
         that no version of a table will ever show are deleted once they are a week old.",
    ),
    key(
        "jobs.lease",
        Kind::Duration { min: "1s", max: "10m" },
        "30s",
        "How long a claim on a job lasts without a sign of life. A gateway that hangs so long loses its jobs to the next \
         attempt; after a restart they go on at once.",
    ),
    key("jobs.max_active", Kind::Integer { min: 1, max: 1_000 }, "4", "Jobs that run at one time; more are queued."),
    key(
        "jobs.retained_runs_max",
        Kind::Integer { min: 0, max: 1_000_000 },
        "1000",
        "Unfinished jobs kept for their submitters. When it is full, a refresh runs while its statement waits.",
    ),
    key(
        "jobs.user_unfinished_max",
        Kind::Integer { min: 0, max: 1_000_000 },
        "10000",
        "Unfinished jobs of one user beyond which further ones are refused; 0 is no limit.",
    ),
    key(
        "jobs.execution_limit",
        Kind::Duration { min: "0s", max: "365d" },
        "0s",
        "How long one attempt of a job may run; 0s is no limit. A row deadline does not extend it.",
    ),
    key(
        "jobs.notice_interval",
        Kind::Duration { min: "1s", max: "1h" },
        "5s",
        "The shortest time between two progress notices to a client that waits for a job.",
    ),
    key(
        "column_refresh.enabled",
        Kind::Boolean,
        "false",
        "Whether columns declared with auto_refresh_enabled, as all are that do not say otherwise, are refreshed \
         without a statement.",
    ),
    key(
        "column_refresh.interval",
        Kind::Duration { min: "0s", max: "365d" },
        "1m",
        "The least time from a successful refresh to the next automatic one, unless the column sets \
         auto_refresh_interval_seconds.",
    ),
    key(
        "column_refresh.look_interval",
        Kind::Duration { min: "100ms", max: "1h" },
        "10s",
        "The longest time until automatic refreshes notice that a table has changed.",
    ),
    key(
        "column_refresh.in_flight_per_table",
        Kind::Integer { min: 1, max: 1_000 },
        "1",
        "Refreshes of one table, whoever asked for them, beyond which no automatic one of it begins.",
    ),
    key(
        "column_refresh.retry_delay",
        Kind::Duration { min: "1s", max: "1d" },
        "15m",
        "How long no automatic refresh of a column runs after one has failed. It doubles with each further failure, up \
         to a day.",
    ),
    key(
        "column_refresh.failures_max",
        Kind::Integer { min: 0, max: 1_000_000 },
        "0",
        "Failures in a row after which a column is not refreshed by itself until a statement has refreshed it; 0 is no \
         limit.",
    ),
    key(
        "column_refresh.execution_limit",
        Kind::Duration { min: "1s", max: "365d" },
        "1d",
        "How long one attempt of an automatic refresh may run.",
    ),
    unset(
        "column_refresh.workers",
        Kind::Integer { min: 1, max: 1_024 },
        "4",
        "Fragments that one job computes at one time, unless num_workers says so. Unset: query.threads.",
    ),
    key(
        "column_refresh.publish_fragments",
        Kind::Integer { min: 1, max: 1_000_000 },
        "100",
        "Computed fragments that become visible together; tables of many fragments take larger groups.",
    ),
    key(
        "column_refresh.publish_interval",
        Kind::Duration { min: "1s", max: "1h" },
        "5s",
        "The longest time that computed fragments wait to become visible.",
    ),
    unset(
        "secrets.key_file",
        Kind::Path,
        "/etc/lancegate/secrets.key",
        "The keys that seal them: one on each line, 32 random bytes in base64. The first one seals, all of them open; \
         a start seals anew what an older one has sealed. Nobody but the owner may read the file. \
         Unset: secrets.key beside the metadata store; the first start makes it.",
    ),
    key(
        "functions.python",
        Kind::Path,
        "python3",
        "The Python that workers run, with pyarrow installed; environments of Functions with packages are made from it.",
    ),
    key(
        "functions.environments",
        Kind::Path,
        "/var/tmp/lancegate-environments",
        "The folder where environments of Functions with packages are built and kept; not below /tmp.",
    ),
    key(
        "functions.models",
        Kind::Path,
        "/var/tmp/lancegate-models",
        "The folder where snapshots of models are kept, by database, repository and revision; not below /tmp.",
    ),
    unset(
        "functions.model_endpoint",
        Kind::Text,
        "https://hub.example.com",
        "The hub that models come from. Unset: the environment variable HF_ENDPOINT, or https://huggingface.co.",
    ),
    key(
        "functions.model_bytes",
        Kind::ByteSize { min: "1KiB", max: "1TiB" },
        "20GiB",
        "The largest snapshot of a model; a larger one is refused before the Function's code runs.",
    ),
    key(
        "functions.sandbox",
        Kind::Choice(&["require", "prefer", "off"]),
        "prefer",
        "Namespaces, a private root, Landlock and a filter of system calls for workers: all of them or no worker runs, \
         what the kernel gives, or none.",
    ),
    key(
        "functions.init_timeout",
        Kind::Duration { min: "1s", max: "1d" },
        "5m",
        "How long a worker may take to make its instance, unless init_timeout_seconds says so.",
    ),
    key("functions.memory", Kind::ByteSize { min: "64MiB", max: "1TiB" }, "2GiB", "Memory of one worker."),
    key(
        "functions.tmp",
        Kind::ByteSize { min: "1MiB", max: "1TiB" },
        "256MiB",
        "What one worker may write to its /tmp, which is memory of it.",
    ),
    key(
        "functions.processes_max",
        Kind::Integer { min: 4, max: 65_536 },
        "128",
        "Processes and threads of one worker.",
    ),
    key(
        "log.level",
        Kind::LogFilter,
        "info,lance=error,lancegate=info,datafusion=warn",
        "The least serious event that is written. The default keeps the libraries to what an operator can act on; \
         a level alone applies to them, too.",
    ),
    key("log.format", Kind::Choice(&["text", "json"]), "text", "One line of text, or one JSON object, for each event."),
];

/// The keys of one GPU class: of `[gpu_default]`, which has no `name`, and of
/// each `[[gpu_classes]]`.
pub(super) const GPU_CLASS_KEYS: &[Key] = &[
    unset("name", Kind::ClassName, "a100-80", "What a refresh names; each name once. Required."),
    unset(
        "resource_name",
        Kind::Text,
        "nvidia.com/gpu",
        "What the cluster calls the resource. Required in [[gpu_classes]].",
    ),
    unset("gpu_model", Kind::Text, "NVIDIA A100", "The model."),
    unset("gpu_memory_bytes", Kind::Integer { min: 1, max: i64::MAX }, "85899345920", "Memory of one GPU."),
    unset(
        "max_gpu_count_per_worker",
        Kind::Integer { min: 1, max: 1_024 },
        "1",
        "The most GPUs of one worker. Unset: the refresh's whole budget.",
    ),
    unset("cpu_millis", Kind::Integer { min: 1, max: i64::MAX }, "8000", "CPU of one worker, in thousandths."),
    unset("memory_bytes", Kind::Integer { min: 1, max: i64::MAX }, "68719476736", "Memory of one worker."),
    unset("ephemeral_storage_bytes", Kind::Integer { min: 1, max: i64::MAX }, "107374182400", "Disk of one worker."),
    unset(
        "devices",
        Kind::Text,
        "0,1",
        "GPUs of this machine that workers of the class are given, as CUDA_VISIBLE_DEVICES names them. \
         Unset: none; of [gpu_default] those that the gateway sees.",
    ),
];

/// The keys of each `[[jwt_issuers]]`.
pub(super) const JWT_ISSUER_KEYS: &[Key] = &[
    unset("issuer", Kind::Text, "https://id.example.com", "What \"iss\" says, to the letter. Required."),
    unset(
        "audience",
        Kind::Text,
        "lancegate",
        "What \"aud\" must have; several with commas between, of which one is enough. Required.",
    ),
    unset(
        "jwks",
        Kind::Text,
        "https://id.example.com/keys",
        "Where the public keys are: the path of a file, or a URL, https or on this machine. Unset: where \
         /.well-known/openid-configuration of the issuer says.",
    ),
    unset(
        "algorithms",
        Kind::Text,
        "RS256,ES256",
        "How tokens may be signed, with commas between: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA. \
         Unset: RS256 and ES256.",
    ),
    unset(
        "user_claim",
        Kind::Text,
        "sub",
        "The claim that names the user. \"email\" counts only with \"email_verified\". Unset: sub, which alone never \
         changes its owner.",
    ),
    unset("scope", Kind::Text, "openid", "What \"scope\" must have, with blanks between. Unset: nothing."),
    unset("leeway", Kind::Duration { min: "0s", max: "30s" }, "10s", "How far clocks may differ. Unset: 10s."),
    unset(
        "refresh_interval",
        Kind::Duration { min: "30s", max: "1h" },
        "10m",
        "How long keys are used before they are asked for again; an unknown key is asked for at once, and no more than \
         twice a minute. Unset: 10m.",
    ),
];

/// The list of identity providers.
pub(super) const JWT_ISSUERS: &str = "jwt_issuers";

/// A list of tables, each with keys of its own; the first two are required.
#[derive(Debug)]
pub(super) struct List {
    /// The name between the double brackets.
    pub(super) name: &'static str,
    /// The keys.
    pub(super) keys: &'static [Key],
}

/// All lists.
pub(super) const LISTS: &[List] =
    &[List { name: GPU_CLASSES, keys: GPU_CLASS_KEYS }, List { name: JWT_ISSUERS, keys: JWT_ISSUER_KEYS }];

/// The section of the legacy default class.
pub(super) const GPU_DEFAULT: &str = "gpu_default";
/// The list of the named classes.
pub(super) const GPU_CLASSES: &str = "gpu_classes";

/// Returns the key called `path`; `gpu_classes[3].name` finds the entry of its list.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Some(key);
    }
    let (section, name) = path.split_once('.')?;
    if section == GPU_DEFAULT && name != "name" {
        return GPU_CLASS_KEYS.iter().find(|key| key.path == name);
    }
    let (list, _) = section.strip_suffix(']')?.split_once('[')?;
    LISTS.iter().find(|known| known.name == list)?.keys.iter().find(|key| key.path == name)
}

/// Returns the known key that looks most like `path`, if one looks like it at all.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let last = |text: &str| text.rsplit('.').next().unwrap_or(text).to_owned();
    KEYS.iter()
        .map(|key| (distance(key.path, path).min(distance(&last(key.path), &last(path)) + 1), key.path))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, path)| path)
}

/// Counts the characters to insert, delete or replace to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_and_sample_is_allowed_by_its_own_key() {
        for key in KEYS.iter().chain(GPU_CLASS_KEYS).chain(JWT_ISSUER_KEYS) {
            if key.kind == Kind::Password {
                continue;
            }
            let shown = key.default.unwrap_or(key.sample);
            assert!(key.kind.read(shown).is_some(), "{} = {shown}", key.path);
        }
    }

    #[test]
    fn every_key_stands_in_a_known_section() {
        for key in KEYS {
            let section = key.path.split_once('.').map_or("", |(section, _)| section);
            assert!(SECTIONS.iter().any(|known| known.name == section), "{}", key.path);
        }
    }

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        for (given, expected) in [
            ("pg.lisen", Some("pg.listen")),
            ("metdata", Some("metadata")),
            ("query.max_connections", Some("flight.max_connections")),
            ("colour", None),
        ] {
            assert_eq!(nearest(given), expected, "{given}");
        }
    }
}
