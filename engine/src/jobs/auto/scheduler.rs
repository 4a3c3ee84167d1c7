//! Looks at tables, decides, submits. Time is an argument of every look.

use std::collections::{HashMap, HashSet};

use futures::future::BoxFuture;
use lancegate_catalog::{ActiveRefresh, Catalog, CatalogError, JobState, RefreshHistory, TableId, Timestamp};

use super::decide::{Active, Binding, Due, Sight, Standing, State, TableLoad, gates, settled};
use super::{AutoConfig, Preparations};

/// A table, a branch of one, or a materialized view.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Unit {
    /// The generation.
    pub table: TableId,
    /// The branch; `None` is main.
    pub branch: Option<String>,
}

/// What was seen of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The newest version.
    pub version: u64,
    /// Whether writes are in no version yet.
    pub has_mem_wal: bool,
    /// Its computed columns, each before those that read it; of a materialized view its query.
    pub bindings: Vec<Binding>,
    /// What else the rows depend on: of a materialized view what it reads, each at its version. Only compared.
    pub basis: Vec<String>,
}

/// Where a scheduler looks and submits.
pub trait Source: Send + Sync {
    /// What submitting and looking fail with.
    type Error: std::fmt::Display + Send;

    /// Returns the tables that there are, and their branches.
    fn units(&self) -> BoxFuture<'_, Result<Vec<Unit>, Self::Error>>;

    /// Looks at the newest version of one; `None` if it is gone. `known` is what was seen last, and is returned as it
    /// is if nothing was committed since.
    fn see<'a>(&'a self, unit: &'a Unit, known: Option<&'a Seen>) -> BoxFuture<'a, Result<Option<Seen>, Self::Error>>;

    /// Looks at the rows of a column.
    fn due<'a>(&'a self, unit: &'a Unit, binding: &'a Binding) -> BoxFuture<'a, Result<Due, Self::Error>>;

    /// Submits a refresh. One that somebody else has submitted meanwhile is as good.
    fn submit<'a>(
        &'a self,
        unit: &'a Unit,
        binding: &'a Binding,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<(), Self::Error>>;
}

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every table.
    All,
    /// Only what something else was in the way of, or time, when it was looked at last.
    Waiting,
}

/// What is remembered of a unit between two looks: nothing that it would be wrong to forget.
#[derive(Debug)]
struct Known {
    seen: Seen,
    /// By key: what the rows of a binding need at that version.
    dues: HashMap<String, Due>,
    /// Whether something else than a new version may change what is to do.
    waits: bool,
    /// When time alone does.
    wake_at: Option<Timestamp>,
}

/// See the module documentation.
#[derive(Debug)]
pub struct Scheduler<S> {
    catalog: Catalog,
    source: S,
    config: AutoConfig,
    preparations: Preparations,
    known: HashMap<Unit, Known>,
}

/// A column whose rows wait for a refresh.
struct Ready {
    unit: Unit,
    binding: Binding,
    succeeded_at: Option<Timestamp>,
}

/// The registry at one moment.
struct Registry {
    histories: HashMap<String, RefreshHistory>,
    active: Vec<ActiveRefresh>,
}

impl<S: Source> Scheduler<S> {
    /// Returns a scheduler that has not looked yet.
    pub fn new(catalog: Catalog, source: S, config: AutoConfig, preparations: Preparations) -> Self {
        Self { catalog, source, config, preparations, known: HashMap::new() }
    }

    /// Returns where it looks.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Looks once and submits what is due at `now`, of one table and in all as many as may run. Returns the next time
    /// at which there may be something to do although nothing has happened.
    ///
    /// # Errors
    /// If the registry or the list of tables cannot be read. What goes wrong with one table is logged.
    pub async fn look(&mut self, scope: Scope, now: Timestamp) -> Result<Option<Timestamp>, String> {
        let units = match scope {
            Scope::All => self.all_units().await?,
            Scope::Waiting => {
                let due = |known: &Known| known.waits || known.wake_at.is_some_and(|at| at <= now);
                self.known.iter().filter(|(_, known)| due(known)).map(|(unit, _)| unit.clone()).collect()
            }
        };
        if units.is_empty() {
            return Ok(self.wake_at());
        }
        let mut registry = Registry::read(&self.catalog).await.map_err(|error| error.to_string())?;
        let mut ready = Vec::new();
        for unit in units {
            self.look_at(&unit, &registry, now, &mut ready).await;
        }
        // What was refreshed least recently comes first, and what never was before that.
        ready.sort_by_key(|ready| ready.succeeded_at);
        self.submit(ready, &mut registry, now).await;
        Ok(self.wake_at())
    }

    async fn all_units(&mut self) -> Result<Vec<Unit>, String> {
        let units = self.source.units().await.map_err(|error| error.to_string())?;
        let there: HashSet<&Unit> = units.iter().collect();
        self.known.retain(|unit, _| there.contains(unit));
        let known: HashSet<&str> =
            self.known.values().flat_map(|known| &known.seen.bindings).map(|binding| binding.key.as_str()).collect();
        self.preparations.retain(|key| known.contains(key));
        Ok(units)
    }

    fn wake_at(&self) -> Option<Timestamp> {
        self.known.values().filter_map(|known| known.wake_at).min()
    }

    async fn look_at(&mut self, unit: &Unit, registry: &Registry, now: Timestamp, ready: &mut Vec<Ready>) {
        let before = self.known.remove(unit);
        let seen = match self.source.see(unit, before.as_ref().map(|known| &known.seen)).await {
            Ok(Some(seen)) => seen,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(table = %unit.table, branch = unit.branch, %error, "cannot look at a table");
                return;
            }
        };
        let dues = match before {
            Some(before) if before.seen == seen => before.dues,
            _ => HashMap::new(),
        };
        let mut known = Known { seen, dues, waits: false, wake_at: None };
        for binding in known.seen.bindings.clone() {
            let standing = self.standing(unit, &binding, &mut known, registry, now).await;
            known.note(standing);
            if standing.state == State::Ready {
                let history = registry.histories.get(&binding.key);
                let succeeded_at = history.and_then(|history| history.succeeded).map(|(_, at)| at);
                ready.push(Ready { unit: unit.clone(), binding, succeeded_at });
            }
        }
        self.known.insert(unit.clone(), known);
    }

    async fn standing(
        &self,
        unit: &Unit,
        binding: &Binding,
        known: &mut Known,
        registry: &Registry,
        now: Timestamp,
    ) -> Standing {
        let preparation = self.preparations.of(&binding.key, known.seen.version);
        let load = TableLoad { in_flight: registry.in_flight(unit.table), has_mem_wal: known.seen.has_mem_wal };
        let sight = Sight {
            now,
            config: &self.config,
            binding,
            history: registry.histories.get(&binding.key),
            active: registry.active_of(&binding.key),
            input_in_flight: binding.inputs.iter().any(|input| registry.active_of(input).is_some()),
            table: load,
            preparation: preparation.as_ref(),
        };
        if let Err(standing) = gates(&sight) {
            return standing;
        }
        if let Some(due) = known.dues.get(&binding.key) {
            return settled(*due);
        }
        match self.source.due(unit, binding).await {
            Ok(due) => {
                known.dues.insert(binding.key.clone(), due);
                settled(due)
            }
            Err(error) => {
                tracing::warn!(table = %unit.table, target = %binding.target, %error, "cannot look at rows");
                Standing::unobservable()
            }
        }
    }

    async fn submit(&mut self, ready: Vec<Ready>, registry: &mut Registry, now: Timestamp) {
        for Ready { unit, binding, .. } in ready {
            let automatic = registry.active.iter().filter(|active| active.automatic).count();
            if automatic >= self.config.in_flight || registry.in_flight(unit.table) >= self.config.in_flight_per_table {
                continue;
            }
            let version = self.known.get(&unit).map_or(0, |known| known.seen.version);
            match self.source.submit(&unit, &binding, now).await {
                Ok(()) => {
                    self.preparations.succeeded(&binding.key);
                    // What was read before the submission does not know of it.
                    match self.catalog.active_refreshes(None).await {
                        Ok(active) => registry.active = active,
                        Err(error) => return tracing::warn!(%error, "cannot read which refreshes run"),
                    }
                }
                Err(error) => {
                    let target = &binding.target;
                    tracing::warn!(table = %unit.table, %target, %error, "cannot submit an automatic refresh");
                    self.preparations.failed(&binding.key, version, error.to_string(), now);
                    let until = self.preparations.of(&binding.key, version).map(|preparation| preparation.until);
                    if let Some(known) = self.known.get_mut(&unit) {
                        known.wake(until);
                    }
                }
            }
        }
    }
}

impl Known {
    fn note(&mut self, standing: Standing) {
        match standing.state {
            State::Ready | State::Queued | State::Running => self.waits = true,
            State::Blocked => self.waits |= standing.next_run_at.is_none(),
            State::Disabled
            | State::UpToDate
            | State::WaitingInterval
            | State::WaitingBackoff
            | State::Unobservable => {}
        }
        self.wake(standing.next_run_at);
    }

    fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = self.wake_at.into_iter().chain(at).min();
    }
}

impl Registry {
    async fn read(catalog: &Catalog) -> Result<Self, CatalogError> {
        // In this order: a refresh that ends in between is seen as running, not as nothing.
        let active = catalog.active_refreshes(None).await?;
        Ok(Self { histories: catalog.refresh_histories(None).await?, active })
    }

    fn active_of(&self, key: &str) -> Option<Active> {
        let found = self.active.iter().find(|active| active.key == key)?;
        Some(active(found))
    }

    fn in_flight(&self, table: TableId) -> usize {
        in_flight(&self.active, table)
    }
}

/// Returns how a refresh that has not ended is active.
pub(crate) fn active(found: &ActiveRefresh) -> Active {
    match found.state {
        JobState::InProgress => Active::Running(found.job),
        _ => Active::Waiting(found.job),
    }
}

/// Counts the refreshes of a table that wait or run. A parked one takes no worker.
pub(crate) fn in_flight(active: &[ActiveRefresh], table: TableId) -> usize {
    active.iter().filter(|active| active.table == Some(table) && active.state != JobState::Paused).count()
}
