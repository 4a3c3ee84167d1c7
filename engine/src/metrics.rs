//! What the gateway counts, in one struct that is passed by `Arc`.
//!
//! Names are `gateway_<noun>_<unit>`; labels come from enums only, so that no
//! user's text can grow the number of series, and every series starts at zero.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upper bounds of the statement histogram, in seconds: from a catalog lookup
/// to a scan of minutes.
const STATEMENT_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0];

/// Declares an enum whose variants are the values of a label.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the label's text.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
                self.as_str().encode(encoder)
            }
        }
    };
}

label! {
    /// What a statement is, coarsely.
    StatementKind {
        /// SELECT, VALUES, TABLE, FETCH and cursors.
        Query = "query",
        /// INSERT, UPDATE, DELETE, MERGE, COPY, TRUNCATE.
        Write = "write",
        /// CREATE, ALTER, DROP, COMMENT, VACUUM, ANALYZE.
        Definition = "definition",
        /// REFRESH COLUMN and REFRESH MATERIALIZED VIEW.
        Refresh = "refresh",
        /// EXPLAIN in all its forms.
        Explain = "explain",
        /// SHOW JOBS, DESCRIBE JOB, PAUSE, RESUME, CANCEL, WAIT, SHOW GPU CLASSES.
        Job = "job",
        /// GRANT, REVOKE, users, roles and API keys.
        Privilege = "privilege",
        /// BEGIN, COMMIT, ROLLBACK, savepoints.
        Transaction = "transaction",
        /// SET, SHOW and DESCRIBE, RESET, DISCARD, LISTEN, PREPARE, DEALLOCATE.
        Session = "session",
        /// What could not be parsed, and messages that belong to no statement.
        Unknown = "unknown",
    }
}

label! {
    /// How a statement ended.
    Outcome {
        /// It answered.
        Ok = "ok",
        /// It failed.
        Error = "error",
        /// The client, a timeout or shutdown ended it.
        Canceled = "canceled",
    }
}

label! {
    /// The states of a job that is not finished.
    ActiveJobState {
        /// Recorded, not yet queued.
        Created = "created",
        /// Waiting for its turn.
        Queued = "queued",
        /// Running.
        InProgress = "in_progress",
        /// Paused by a user.
        Paused = "paused",
    }
}

label! {
    /// How a job ended.
    FinalJobState {
        /// All rows are done.
        Succeeded = "succeeded",
        /// An error ended it.
        Failed = "failed",
        /// A user ended it.
        Canceled = "canceled",
        /// Its time ran out.
        TimedOut = "timed_out",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatementLabels {
    kind: StatementKind,
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: StatementKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActiveLabel {
    state: ActiveJobState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FinalLabel {
    state: FinalJobState,
}

/// Every metric of one gateway.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Sessions that are open now; a connection is one once it is logged in.
    pub connections: Gauge,
    /// Connections that were refused because the limit was reached.
    pub connections_refused: Counter,
    /// Logins that were refused: a wrong password, an unknown user or database.
    pub logins_failed: Counter,
    /// Cancel requests that ended a statement.
    pub cancel_requests: Counter,
    /// Statements that panicked, each of them a bug.
    pub statement_panics: Counter,
    /// Rows sent to clients; those of a result that failed do not count.
    pub rows_sent: Counter,
    /// Rows for which a refresh computed a value.
    pub refresh_rows_computed: Counter,
    /// Versions of tables that this gateway committed.
    pub commits: Counter,
    statements: Family<StatementLabels, Counter>,
    statement_seconds: Family<KindLabel, Histogram, fn() -> Histogram>,
    jobs_active: Family<ActiveLabel, Gauge>,
    jobs_finished: Family<FinalLabel, Counter>,
}

impl Metrics {
    /// Returns metrics that are all at zero.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("gateway"),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            logins_failed: Counter::default(),
            cancel_requests: Counter::default(),
            statement_panics: Counter::default(),
            rows_sent: Counter::default(),
            refresh_rows_computed: Counter::default(),
            commits: Counter::default(),
            statements: Family::default(),
            statement_seconds: Family::new_with_constructor(statement_histogram),
            jobs_active: Family::default(),
            jobs_finished: Family::default(),
        };
        metrics.register();
        metrics.start_at_zero();
        metrics
    }

    /// Counts a statement that ended after `elapsed`.
    pub fn statement(&self, kind: StatementKind, outcome: Outcome, elapsed: Duration) {
        self.statements.get_or_create(&StatementLabels { kind, outcome }).inc();
        self.statement_seconds.get_or_create(&KindLabel { kind }).observe(elapsed.as_secs_f64());
    }

    /// Sets how many jobs are in `state` now.
    pub fn set_jobs(&self, state: ActiveJobState, count: i64) {
        self.jobs_active.get_or_create(&ActiveLabel { state }).set(count);
    }

    /// Counts a job that ended in `state`.
    pub fn job_finished(&self, state: FinalJobState) {
        self.jobs_finished.get_or_create(&FinalLabel { state }).inc();
    }

    /// Returns all metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// Formatting into a string does not fail; the type comes from the encoder.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    // The encoder adds `_total` to the names of counters.
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("connections", "Open sessions", self.connections.clone());
        registry.register(
            "connections_refused",
            "Connections refused because the limit was reached",
            self.connections_refused.clone(),
        );
        registry.register("logins_failed", "Logins that were refused", self.logins_failed.clone());
        registry.register("statements", "Statements by kind and outcome", self.statements.clone());
        registry.register(
            "statement_duration_seconds",
            "Time from the start of a statement to its last answer",
            self.statement_seconds.clone(),
        );
        registry.register(
            "statement_panics",
            "Statements that panicked, each of them a bug",
            self.statement_panics.clone(),
        );
        registry.register("cancel_requests", "Cancel requests that ended a statement", self.cancel_requests.clone());
        registry.register("rows_sent", "Rows sent to clients", self.rows_sent.clone());
        registry.register("jobs", "Unfinished jobs by state", self.jobs_active.clone());
        registry.register("jobs_finished", "Jobs that ended, by final state", self.jobs_finished.clone());
        registry.register(
            "refresh_rows_computed",
            "Rows for which a refresh computed a value",
            self.refresh_rows_computed.clone(),
        );
        registry.register("commits", "Table versions committed", self.commits.clone());
    }

    fn start_at_zero(&self) {
        for kind in StatementKind::ALL.iter().copied() {
            drop(self.statement_seconds.get_or_create(&KindLabel { kind }));
            for outcome in Outcome::ALL.iter().copied() {
                drop(self.statements.get_or_create(&StatementLabels { kind, outcome }));
            }
        }
        for state in ActiveJobState::ALL.iter().copied() {
            drop(self.jobs_active.get_or_create(&ActiveLabel { state }));
        }
        for state in FinalJobState::ALL.iter().copied() {
            drop(self.jobs_finished.get_or_create(&FinalLabel { state }));
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn statement_histogram() -> Histogram {
    Histogram::new(STATEMENT_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_the_documented_ones_and_start_at_zero() {
        let text = Metrics::new().encode().unwrap();
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert_eq!(
            names,
            [
                "gateway_connections",
                "gateway_connections_refused",
                "gateway_logins_failed",
                "gateway_statements",
                "gateway_statement_duration_seconds",
                "gateway_statement_panics",
                "gateway_cancel_requests",
                "gateway_rows_sent",
                "gateway_jobs",
                "gateway_jobs_finished",
                "gateway_refresh_rows_computed",
                "gateway_commits",
            ]
        );
        assert!(text.contains("gateway_statements_total{kind=\"refresh\",outcome=\"error\"} 0"), "{text}");
        assert!(text.contains("gateway_jobs{state=\"queued\"} 0"), "{text}");
        assert!(text.contains("gateway_jobs_finished_total{state=\"succeeded\"} 0"), "{text}");
    }

    #[test]
    fn a_statement_is_counted_and_timed() {
        let metrics = Metrics::new();
        metrics.statement(StatementKind::Query, Outcome::Ok, Duration::from_millis(20));
        let text = metrics.encode().unwrap();
        assert!(text.contains("gateway_statements_total{kind=\"query\",outcome=\"ok\"} 1"), "{text}");
        assert!(text.contains("gateway_statement_duration_seconds_bucket{le=\"0.025\",kind=\"query\"} 1"), "{text}");
    }
}
