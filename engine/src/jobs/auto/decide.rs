//! Whether a column, or a materialized view, is refreshed by itself now, and if not, what it waits for: pure functions.

use std::fmt;
use std::time::Duration;

use chrono::TimeDelta;
use lancegate_catalog::{JobId, RefreshHistory, Timestamp};

use super::{AutoConfig, Preparation};

/// No wait after failures is longer.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What a refresh fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A computed column; of several that a Function fills together the first.
    Column {
        /// Its name.
        name: String,
        /// Its field.
        field_id: i32,
    },
    /// A materialized view: all of its rows.
    View,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column { name, .. } => f.write_str(name),
            Self::View => f.write_str("the view"),
        }
    }
}

/// What is declared of something that may be refreshed by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The exclusive key of its refreshes.
    pub key: String,
    /// What it fills.
    pub target: Target,
    /// Which declaration it is; `None` if nothing here can refresh it: other software bound its Function, or the
    /// version of the Function is gone.
    pub revision: Option<String>,
    /// Whether it is to be refreshed.
    pub enabled: bool,
    /// The least time from a success to the next refresh, if the column sets one.
    pub interval: Option<Duration>,
    /// The keys of the computed columns, or of the materialized views, that it reads, directly or through others.
    pub inputs: Vec<String>,
}

/// A refresh of a binding that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Active {
    /// It waits, or is parked.
    Waiting(JobId),
    /// An attempt holds it.
    Running(JobId),
}

/// What runs on a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableLoad {
    /// Refreshes that wait or run; parked ones take no worker.
    pub in_flight: usize,
    /// Whether the table has writes that no version shows yet.
    pub has_mem_wal: bool,
}

/// What is known of a binding at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// The moment.
    pub now: Timestamp,
    /// How automatic refreshes run here.
    pub config: &'a AutoConfig,
    /// What is declared.
    pub binding: &'a Binding,
    /// What earlier refreshes have come to; that of another declaration says nothing.
    pub history: Option<&'a RefreshHistory>,
    /// The unfinished refresh of the binding.
    pub active: Option<Active>,
    /// Whether a refresh of a computed column that it reads is unfinished.
    pub input_in_flight: bool,
    /// What else runs on the table.
    pub table: TableLoad,
    /// Why the last try to submit a refresh failed.
    pub preparation: Option<&'a Preparation>,
}

/// What the rows of a binding need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// Rows are to be computed.
    Rows,
    /// Rows of a computed column that it reads are to be computed first.
    Inputs,
}

/// The states of a binding, by their documented words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is not to be refreshed by itself.
    Disabled,
    /// It is refreshed as soon as a worker is free.
    Ready,
    /// Every row is current.
    UpToDate,
    /// A refresh waits.
    Queued,
    /// A refresh runs.
    Running,
    /// The last success is too recent.
    WaitingInterval,
    /// The last failure is too recent.
    WaitingBackoff,
    /// See [`BlockedReason`].
    Blocked,
    /// The table cannot be read.
    Unobservable,
}

impl State {
    /// Returns the documented word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Ready => "ready",
            Self::UpToDate => "up_to_date",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingInterval => "waiting_interval",
            Self::WaitingBackoff => "waiting_backoff",
            Self::Blocked => "blocked",
            Self::Unobservable => "unobservable",
        }
    }
}

/// Why a binding is blocked, by their documented words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedReason {
    /// Writes of the table are in no version yet.
    TableHasMemWal,
    /// A computed column that it reads is not current.
    InputsNotSettled,
    /// A computed column that it reads is being refreshed.
    DependencyInFlight,
    /// Other columns of the table are being refreshed.
    TableCapacity,
    /// Somebody canceled a refresh of it.
    Cancelled,
    /// A refresh could not be submitted.
    PreparationBackoff,
    /// Too many failed.
    FailureThresholdReached,
    /// What fills it is not known here.
    BindingRevisionMissing,
}

impl BlockedReason {
    /// Returns the documented word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TableHasMemWal => "table_has_mem_wal",
            Self::InputsNotSettled => "inputs_not_settled",
            Self::DependencyInFlight => "dependency_in_flight",
            Self::TableCapacity => "table_capacity",
            Self::Cancelled => "cancelled",
            Self::PreparationBackoff => "preparation_backoff",
            Self::FailureThresholdReached => "failure_threshold_reached",
            Self::BindingRevisionMissing => "binding_revision_missing",
        }
    }
}

/// Where a binding stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// In a word.
    pub state: State,
    /// Why it is blocked.
    pub blocked: Option<BlockedReason>,
    /// When it can be refreshed at the earliest, if only time has to pass.
    pub next_run_at: Option<Timestamp>,
}

impl Standing {
    fn of(state: State) -> Self {
        Self { state, blocked: None, next_run_at: None }
    }

    fn blocked(reason: BlockedReason) -> Self {
        Self { state: State::Blocked, blocked: Some(reason), next_run_at: None }
    }

    fn until(self, at: Timestamp) -> Self {
        Self { next_run_at: Some(at), ..self }
    }

    /// Whether it would be refreshed later if there were anything to do.
    pub fn waits_to_run(&self) -> bool {
        use BlockedReason::{DependencyInFlight, TableCapacity};
        self.state == State::WaitingInterval || matches!(self.blocked, Some(DependencyInFlight | TableCapacity))
    }

    /// Where a binding stands whose table cannot be read.
    pub fn unobservable() -> Self {
        Self::of(State::Unobservable)
    }
}

/// Passes if a binding may be refreshed now as far as is known without its rows.
///
/// # Errors
/// What it waits for otherwise; of several reasons the one that lasts longest comes first.
pub fn gates(sight: &Sight<'_>) -> Result<(), Standing> {
    use BlockedReason::{
        BindingRevisionMissing, Cancelled, DependencyInFlight, FailureThresholdReached, PreparationBackoff,
        TableCapacity, TableHasMemWal,
    };
    let (binding, config) = (sight.binding, sight.config);
    if !config.enabled || !binding.enabled {
        return Err(Standing::of(State::Disabled));
    }
    match sight.active {
        Some(Active::Running(_)) => return Err(Standing::of(State::Running)),
        Some(Active::Waiting(_)) => return Err(Standing::of(State::Queued)),
        None => {}
    }
    let Some(revision) = &binding.revision else { return Err(Standing::blocked(BindingRevisionMissing)) };
    let history = sight.history.filter(|history| history.revision == *revision);
    if history.is_some_and(|history| history.blocked_by.is_some()) {
        return Err(Standing::blocked(Cancelled));
    }
    let streak = history.map_or(0, |history| history.failure_streak);
    if config.failures_max > 0 && streak >= config.failures_max {
        return Err(Standing::blocked(FailureThresholdReached));
    }
    if sight.table.has_mem_wal {
        return Err(Standing::blocked(TableHasMemWal));
    }
    let failed_at = history.and_then(|history| history.failed.as_ref()).filter(|_| streak > 0).map(|failed| failed.at);
    if let Some(at) = pending(failed_at, retry_delay(config, streak), sight.now) {
        return Err(Standing::of(State::WaitingBackoff).until(at));
    }
    let succeeded_at = history.and_then(|history| history.succeeded).map(|(_, at)| at);
    if let Some(at) = pending(succeeded_at, cooldown(config, binding), sight.now) {
        return Err(Standing::of(State::WaitingInterval).until(at));
    }
    if let Some(preparation) = sight.preparation.filter(|preparation| preparation.until > sight.now) {
        return Err(Standing::blocked(PreparationBackoff).until(preparation.until));
    }
    if sight.input_in_flight {
        return Err(Standing::blocked(DependencyInFlight));
    }
    if sight.table.in_flight >= config.in_flight_per_table {
        return Err(Standing::blocked(TableCapacity));
    }
    Ok(())
}

/// Where a binding stands whose gates are open, once its rows were looked at.
pub fn settled(due: Due) -> Standing {
    match due {
        Due::Nothing => Standing::of(State::UpToDate),
        Due::Rows => Standing::of(State::Ready),
        Due::Inputs => Standing::blocked(BlockedReason::InputsNotSettled),
    }
}

/// Returns the least time from a success to the next automatic refresh.
pub fn cooldown(config: &AutoConfig, binding: &Binding) -> Duration {
    binding.interval.unwrap_or(config.interval)
}

/// Returns how long nothing runs after so many failures in a row: 15, 30, 60, 120 minutes and so on, a day at most.
pub fn retry_delay(config: &AutoConfig, streak: u32) -> Duration {
    doubled(config.retry_delay, streak, RETRY_DELAY_MAX.max(config.retry_delay))
}

/// Returns `first`, doubled with each of `count` after the first.
pub(super) fn doubled(first: Duration, count: u32, most: Duration) -> Duration {
    let factor = 1_u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX);
    first.checked_mul(factor).unwrap_or(most).min(most)
}

pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    TimeDelta::from_std(by).ok().and_then(|by| at.checked_add_signed(by)).unwrap_or(Timestamp::MAX_UTC)
}

/// Returns the end of a wait of this length since `since` if it is still to come. A clock that was set back does not
/// make it much longer: a time that lies further ahead than the wait itself is not believed.
fn pending(since: Option<Timestamp>, wait: Duration, now: Timestamp) -> Option<Timestamp> {
    let since = since.filter(|since| *since <= later(now, wait))?;
    Some(later(since, wait)).filter(|end| *end > now)
}
