//! The scheduler over a real registry, with tables that a test makes up and a clock that it sets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use futures::future::BoxFuture;
use lancegate_catalog::{
    ActiveRefresh, Catalog, CatalogError, Database, Failure, GatewayId, Job, JobId, JobKind, NewJob, ObjectChange,
    Table, TableId, TableKind, TableName, Timestamp,
};
use serde_json::json;
use tempfile::TempDir;

use super::*;

const LEASE: Duration = Duration::from_secs(3_600);

fn at(minutes: i64) -> Timestamp {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap() + TimeDelta::minutes(minutes)
}

/// Tables as a test wants them.
#[derive(Debug, Clone, Default)]
struct Script(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    seen: Vec<(Unit, Seen)>,
    /// By key; a column that is not named has nothing to do.
    due: HashMap<String, Due>,
    /// How often rows were looked at.
    looks: usize,
    /// Why nothing can be submitted.
    refuses: Option<String>,
    kind: Option<JobKind>,
}

impl Script {
    fn tables(&self) -> std::sync::MutexGuard<'_, Tables> {
        self.0.lock().unwrap()
    }
}

#[derive(Debug)]
struct Wiring {
    script: Script,
    catalog: Catalog,
}

impl Source for Wiring {
    type Error = String;

    fn units(&self) -> BoxFuture<'_, Result<Vec<Unit>, String>> {
        Box::pin(async move { Ok(self.script.tables().seen.iter().map(|(unit, _)| unit.clone()).collect()) })
    }

    fn see<'a>(&'a self, unit: &'a Unit, _known: Option<&'a Seen>) -> BoxFuture<'a, Result<Option<Seen>, String>> {
        Box::pin(async move {
            Ok(self.script.tables().seen.iter().find(|(known, _)| known == unit).map(|(_, seen)| seen.clone()))
        })
    }

    fn due<'a>(&'a self, _unit: &'a Unit, binding: &'a Binding) -> BoxFuture<'a, Result<Due, String>> {
        Box::pin(async move {
            let mut tables = self.script.tables();
            tables.looks += 1;
            Ok(tables.due.get(&binding.key).copied().unwrap_or(Due::Nothing))
        })
    }

    fn submit<'a>(&'a self, unit: &'a Unit, binding: &'a Binding, now: Timestamp) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (refuses, kind) = {
                let tables = self.script.tables();
                (tables.refuses.clone(), tables.kind.clone().unwrap_or(JobKind::FunctionRefresh))
            };
            if let Some(why) = refuses {
                return Err(why);
            }
            match self.catalog.submit(refresh(unit, binding, kind, true), now).await {
                Ok(_) | Err(CatalogError::Busy { .. } | CatalogError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}

fn refresh(unit: &Unit, binding: &Binding, kind: JobKind, automatic: bool) -> NewJob {
    let mut job = NewJob::new(kind, "db", "docs", "ann");
    job.table_id = Some(unit.table);
    job.exclusive_key = Some(binding.key.clone());
    job.binding.clone_from(&binding.revision);
    job.automatic = automatic;
    job
}

/// A registry, a script, and a scheduler that can be started anew.
struct World {
    _folder: TempDir,
    path: std::path::PathBuf,
    catalog: Catalog,
    script: Script,
    scheduler: Scheduler<Wiring>,
    config: AutoConfig,
    gateway: GatewayId,
}

impl World {
    async fn new() -> Self {
        Self::with(AutoConfig { enabled: true, interval: Duration::from_secs(60), ..AutoConfig::default() }).await
    }

    async fn with(config: AutoConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metadata.db");
        let catalog = Catalog::open_sqlite(&path).await.unwrap();
        let database = Database { name: "db".to_owned(), location: String::new(), created_at: at(0) };
        catalog.create_database(database).await.unwrap();
        let script = Script::default();
        let scheduler = scheduler(&catalog, &script, config);
        let gateway = GatewayId::new(at(0));
        Self { _folder: folder, path, catalog, script, scheduler, config, gateway }
    }

    /// Ends the process and starts the next one.
    async fn restart(&mut self) {
        self.catalog.close().await;
        self.catalog = Catalog::open_sqlite(&self.path).await.unwrap();
        self.scheduler = scheduler(&self.catalog, &self.script, self.config);
    }

    /// Adds a table with columns whose rows are due.
    async fn table(&self, name: &str, columns: &[&str]) -> Unit {
        let id = TableId::new(at(0));
        let name = TableName { database: "db".to_owned(), namespace: Vec::new(), name: name.to_owned() };
        let table = Table {
            id,
            kind: TableKind::Table,
            location: format!("{}.lance", name.name),
            name,
            definition: None,
            comment: None,
            owner: "ann".to_owned(),
            created_at: at(0),
        };
        self.catalog.create_table(table).await.unwrap();
        let unit = Unit { table: id, branch: None };
        let bindings: Vec<Binding> =
            columns.iter().zip(0..).map(|(column, field)| binding(&unit, column, field)).collect();
        let mut tables = self.script.tables();
        tables.due.extend(bindings.iter().map(|binding| (binding.key.clone(), Due::Rows)));
        tables.seen.push((unit.clone(), Seen { version: 1, has_mem_wal: false, bindings, basis: Vec::new() }));
        unit
    }

    fn change(&self, unit: &Unit, change: impl FnOnce(&mut Seen)) {
        let mut tables = self.script.tables();
        let (_, seen) = tables.seen.iter_mut().find(|(known, _)| known == unit).unwrap();
        change(seen);
    }

    fn binding(&self, unit: &Unit, column: &str) -> Binding {
        let tables = self.script.tables();
        let (_, seen) = tables.seen.iter().find(|(known, _)| known == unit).unwrap();
        seen.bindings.iter().find(|binding| binding.target.to_string() == column).unwrap().clone()
    }

    /// Looks at everything; returns when to look again.
    async fn look(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.scheduler.look(Scope::All, now).await.unwrap()
    }

    /// Looks at what waits only.
    async fn look_again(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.scheduler.look(Scope::Waiting, now).await.unwrap()
    }

    async fn active(&self) -> Vec<ActiveRefresh> {
        self.catalog.active_refreshes(None).await.unwrap()
    }

    /// The keys of what is unfinished.
    async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.active().await.into_iter().map(|active| active.key).collect();
        keys.sort_unstable();
        keys
    }

    async fn only_job(&self) -> JobId {
        let active = self.active().await;
        assert_eq!(active.len(), 1, "{active:?}");
        active[0].job
    }

    async fn claimed(&self, job: JobId, now: Timestamp) -> Job {
        self.catalog.claim(job, &self.gateway, LEASE, now).await.unwrap()
    }

    async fn succeed(&self, job: JobId, now: Timestamp) {
        let job = self.claimed(job, now).await;
        self.catalog.complete(job.id, job.epoch, json!({}), now).await.unwrap();
    }

    async fn fail(&self, job: JobId, now: Timestamp) {
        let job = self.claimed(job, now).await;
        self.catalog.fail(job.id, job.epoch, failure(), now).await.unwrap();
    }

    /// Somebody's own refresh.
    async fn explicit(&self, unit: &Unit, column: &str, now: Timestamp) -> JobId {
        let kind = self.script.tables().kind.clone().unwrap_or(JobKind::FunctionRefresh);
        let new = refresh(unit, &self.binding(unit, column), kind, false);
        self.catalog.submit(new, now).await.unwrap().id
    }

    /// Where a binding stands as the scheduler sees it.
    async fn standing(&self, unit: &Unit, column: &str, now: Timestamp) -> Standing {
        let binding = self.binding(unit, column);
        let histories = self.catalog.refresh_histories(None).await.unwrap();
        let active = self.active().await;
        let of = |key: &str| active.iter().find(|active| active.key == key).map(super::active);
        let sight = Sight {
            now,
            config: &self.config,
            binding: &binding,
            history: histories.get(&binding.key),
            active: of(&binding.key),
            input_in_flight: binding.inputs.iter().any(|input| of(input).is_some()),
            table: TableLoad { in_flight: in_flight(&active, unit.table), has_mem_wal: false },
            preparation: None,
        };
        match gates(&sight) {
            Ok(()) => settled(self.script.tables().due.get(&binding.key).copied().unwrap_or(Due::Nothing)),
            Err(standing) => standing,
        }
    }
}

fn scheduler(catalog: &Catalog, script: &Script, config: AutoConfig) -> Scheduler<Wiring> {
    let wiring = Wiring { script: script.clone(), catalog: catalog.clone() };
    Scheduler::new(catalog.clone(), wiring, config, Preparations::default())
}

fn binding(unit: &Unit, column: &str, field_id: i32) -> Binding {
    Binding {
        key: key(unit, field_id),
        target: Target::Column { name: column.to_owned(), field_id },
        revision: Some(format!("fb_{field_id}")),
        enabled: true,
        interval: None,
        inputs: Vec::new(),
    }
}

fn key(unit: &Unit, field_id: i32) -> String {
    format!("refresh/{}/{}/{field_id}", unit.table, unit.branch.as_deref().unwrap_or(""))
}

fn failure() -> Failure {
    Failure {
        error_code: "FunctionError".to_owned(),
        message: "no".to_owned(),
        detail: None,
        hint: None,
        sqlstate: None,
    }
}

#[tokio::test]
async fn j18_auto_02_failures_wait_15_30_60_120_240_480_minutes_whatever_restarts() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    let mut now = at(0);
    world.look(now).await;
    let mut waits = Vec::new();
    for round in 0..6 {
        world.fail(world.only_job().await, now).await;
        if round % 2 == 1 {
            world.restart().await;
        }
        let wake = world.look(now).await.unwrap();
        assert!(world.active().await.is_empty(), "it waits after failure {round}");
        assert_eq!(world.look(wake - TimeDelta::seconds(1)).await, Some(wake), "and to the last second");
        assert!(world.active().await.is_empty());
        let standing = world.standing(&unit, "words", now).await;
        assert_eq!((standing.state, standing.next_run_at), (State::WaitingBackoff, Some(wake)));
        waits.push((wake - now).num_minutes());
        now = wake;
        world.look_again(now).await;
    }
    assert_eq!(waits, [15, 30, 60, 120, 240, 480]);
    world.only_job().await;
}

#[tokio::test]
async fn j18_auto_02_a_manual_success_ends_the_wait_and_a_manual_failure_does_not_lengthen_it() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.look(at(0)).await;
    world.fail(world.only_job().await, at(0)).await;
    // A manual refresh may run meanwhile.
    let manual = world.explicit(&unit, "words", at(1)).await;
    assert_eq!(world.standing(&unit, "words", at(1)).await.state, State::Queued);
    world.fail(manual, at(2)).await;
    assert_eq!(world.look(at(2)).await, Some(at(17)), "from the last failure, by the same streak");
    let manual = world.explicit(&unit, "words", at(3)).await;
    world.succeed(manual, at(3)).await;
    assert_eq!(world.look(at(3)).await, Some(at(4)), "the interval after a success");
    world.look(at(4)).await;
    world.fail(world.only_job().await, at(4)).await;
    assert_eq!(world.look(at(4)).await, Some(at(19)), "the first wait again");
}

#[tokio::test]
async fn j19_prog_11_a_cancel_blocks_until_an_explicit_refresh_completes() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.look(at(0)).await;
    world.catalog.request_cancel(world.only_job().await, "bob", at(0)).await.unwrap();
    for minutes in [1, 60, 100_000] {
        world.look(at(minutes)).await;
        assert!(world.active().await.is_empty());
        let standing = world.standing(&unit, "words", at(minutes)).await;
        assert_eq!(standing.blocked, Some(BlockedReason::Cancelled));
        world.restart().await;
    }
    let manual = world.explicit(&unit, "words", at(100_001)).await;
    world.fail(manual, at(100_001)).await;
    world.look(at(100_002)).await;
    assert!(world.active().await.is_empty(), "an explicit refresh that failed has not completed");
    let manual = world.explicit(&unit, "words", at(100_003)).await;
    world.succeed(manual, at(100_003)).await;
    world.look(at(100_004)).await;
    world.only_job().await;
}

#[tokio::test]
async fn j19_a_running_refresh_that_is_canceled_blocks_its_binding_on_its_branch_only() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words", "other"]).await;
    world.look(at(0)).await;
    let job = world.claimed(world.only_job().await, at(0)).await;
    let canceled = job.exclusive_key.clone().unwrap();
    world.catalog.request_cancel(job.id, "bob", at(0)).await.unwrap();
    world.catalog.canceled(job.id, job.epoch, None, at(1)).await.unwrap();
    world.look(at(1)).await;
    let other = world.keys().await;
    assert!(other.len() == 1 && other[0] != canceled, "the other column goes on: {other:?}");
    world.succeed(world.only_job().await, at(1)).await;
    let branch = Unit { branch: Some("dev".to_owned()), ..unit.clone() };
    let of_branch = binding(&branch, "words", 0);
    {
        let mut tables = world.script.tables();
        tables.due = HashMap::from([(of_branch.key.clone(), Due::Rows), (canceled.clone(), Due::Rows)]);
        tables.seen.push((
            branch,
            Seen { version: 1, has_mem_wal: false, bindings: vec![of_branch.clone()], basis: Vec::new() },
        ));
    }
    world.look(at(2)).await;
    assert_eq!(world.keys().await, [of_branch.key], "and so does the same column on a branch");
}

#[tokio::test]
async fn j19_a_binding_that_is_replaced_is_not_blocked() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.look(at(0)).await;
    world.catalog.request_cancel(world.only_job().await, "bob", at(0)).await.unwrap();
    world.look(at(1)).await;
    assert!(world.active().await.is_empty());
    world.change(&unit, |seen| {
        seen.version = 2;
        seen.bindings[0].revision = Some("fb_anew".to_owned());
    });
    world.look(at(2)).await;
    world.only_job().await;
}

#[tokio::test]
async fn a_job_that_ends_because_its_branch_is_gone_blocks_nothing() {
    let mut world = World::new().await;
    world.table("docs", &["words"]).await;
    world.look(at(0)).await;
    let job = world.claimed(world.only_job().await, at(0)).await;
    world.catalog.canceled(job.id, job.epoch, Some("the branch is gone".to_owned()), at(0)).await.unwrap();
    world.look(at(1)).await;
    assert_ne!(world.only_job().await, job.id);
}

#[tokio::test]
async fn auto_01_the_interval_counts_from_the_last_success_whoever_asked_for_it() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.change(&unit, |seen| seen.bindings[0].interval = Some(Duration::from_secs(30 * 60)));
    world.look(at(0)).await;
    world.succeed(world.only_job().await, at(5)).await;
    assert_eq!(world.look(at(6)).await, Some(at(35)));
    assert!(world.active().await.is_empty());
    let manual = world.explicit(&unit, "words", at(20)).await;
    world.succeed(manual, at(20)).await;
    assert_eq!(world.look(at(35)).await, Some(at(50)));
    let standing = world.standing(&unit, "words", at(49)).await;
    assert_eq!((standing.state, standing.next_run_at), (State::WaitingInterval, Some(at(50))));
    world.restart().await;
    world.look(at(50)).await;
    world.only_job().await;
}

#[tokio::test]
async fn auto_01_one_refresh_of_a_table_runs_at_one_time_and_then_the_next() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["a", "b"]).await;
    let second = world.table("more", &["a"]).await;
    world.look(at(0)).await;
    assert_eq!(world.keys().await.len(), 2, "one of each table");
    assert_eq!(world.standing(&unit, "b", at(0)).await.blocked, Some(BlockedReason::TableCapacity));
    let of_first = world.active().await.into_iter().find(|active| active.table == Some(unit.table)).unwrap();
    world.succeed(of_first.job, at(0)).await;
    world.look_again(at(0)).await;
    let of_first: Vec<_> = world.active().await.into_iter().filter(|active| active.table == Some(unit.table)).collect();
    assert_eq!(of_first.len(), 1);
    assert_eq!(of_first[0].key, key(&unit, 1));
    // A parked refresh takes no worker.
    world.catalog.request_pause(of_first[0].job, "bob", at(0)).await.unwrap();
    assert_eq!(world.standing(&second, "a", at(0)).await.state, State::Queued);
    world.look(at(2)).await;
    assert_eq!(world.keys().await.iter().filter(|key| key.contains(&unit.table.to_string())).count(), 2);
}

#[tokio::test]
async fn auto_01_no_more_wait_than_can_run_and_the_one_that_waited_longest_comes_first() {
    let config = AutoConfig { enabled: true, in_flight: 2, ..AutoConfig::default() };
    let mut world = World::with(config).await;
    let mut units = Vec::new();
    for name in ["a", "b", "c", "d"] {
        units.push(world.table(name, &["x"]).await);
    }
    for (unit, minutes) in units.iter().zip([3, 1, 4, 2]) {
        let job = world.explicit(unit, "x", at(minutes)).await;
        world.succeed(job, at(minutes)).await;
    }
    world.look(at(10)).await;
    let mut expected = vec![key(&units[1], 0), key(&units[3], 0)];
    expected.sort_unstable();
    assert_eq!(world.keys().await, expected);
    assert_eq!(world.standing(&units[0], "x", at(10)).await.state, State::Ready);
    let looks = world.script.tables().looks;
    for active in world.active().await {
        world.succeed(active.job, at(11)).await;
    }
    world.look_again(at(11)).await;
    assert_eq!(world.keys().await.len(), 2, "the others follow");
    assert_eq!(world.script.tables().looks, looks, "rows are looked at once for a version");
}

#[tokio::test]
async fn auto_01_computed_inputs_come_first() {
    let mut world = World::with(AutoConfig { enabled: true, in_flight_per_table: 2, ..AutoConfig::default() }).await;
    let unit = world.table("docs", &["first", "second"]).await;
    let (first, second) = (key(&unit, 0), key(&unit, 1));
    world.change(&unit, |seen| seen.bindings[1].inputs = vec![first.clone()]);
    world.script.tables().due.insert(second.clone(), Due::Inputs);
    world.look(at(0)).await;
    assert_eq!(world.keys().await, std::slice::from_ref(&first));
    assert_eq!(world.standing(&unit, "second", at(0)).await.blocked, Some(BlockedReason::DependencyInFlight));
    world.succeed(world.only_job().await, at(0)).await;
    assert_eq!(world.standing(&unit, "second", at(0)).await.blocked, Some(BlockedReason::InputsNotSettled));
    world.change(&unit, |seen| seen.version = 2);
    world.script.tables().due = HashMap::from([(second.clone(), Due::Rows)]);
    world.look(at(0)).await;
    assert_eq!(world.keys().await, [second]);
}

#[tokio::test]
async fn auto_01_what_is_off_unknown_or_up_to_date_costs_no_look_at_rows() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["off", "unknown", "wal", "current"]).await;
    world.change(&unit, |seen| {
        seen.bindings[0].enabled = false;
        seen.bindings[1].revision = None;
    });
    world.script.tables().due.clear();
    world.look(at(0)).await;
    assert_eq!(world.script.tables().looks, 2, "of the two that may be refreshed");
    assert_eq!(world.standing(&unit, "off", at(0)).await.state, State::Disabled);
    assert_eq!(world.standing(&unit, "unknown", at(0)).await.blocked, Some(BlockedReason::BindingRevisionMissing));
    assert_eq!(world.standing(&unit, "current", at(0)).await.state, State::UpToDate);
    for minutes in 1..100 {
        assert_eq!(world.look(at(minutes)).await, None);
        assert_eq!(world.look_again(at(minutes)).await, None);
    }
    assert_eq!(world.script.tables().looks, 2, "until there is another version");
    world.change(&unit, |seen| (seen.version, seen.has_mem_wal) = (2, true));
    world.look(at(100)).await;
    assert_eq!(world.script.tables().looks, 2, "nor while writes are in no version");
    world.change(&unit, |seen| (seen.version, seen.has_mem_wal) = (3, false));
    world.look(at(101)).await;
    assert_eq!(world.script.tables().looks, 4);
}

#[tokio::test]
async fn a_column_that_is_off_catches_up_when_it_is_on_again() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.change(&unit, |seen| seen.bindings[0].enabled = false);
    world.look(at(0)).await;
    assert!(world.active().await.is_empty());
    world.change(&unit, |seen| (seen.version, seen.bindings[0].enabled) = (2, true));
    world.look(at(1)).await;
    world.only_job().await;
}

#[tokio::test]
async fn auto_02_a_column_that_failed_too_often_waits_for_a_statement() {
    let config =
        AutoConfig { enabled: true, failures_max: 2, retry_delay: Duration::from_secs(60), ..AutoConfig::default() };
    let mut world = World::with(config).await;
    let unit = world.table("docs", &["words"]).await;
    for minutes in [0, 1] {
        world.look(at(minutes)).await;
        world.fail(world.only_job().await, at(minutes)).await;
    }
    world.look(at(1_000)).await;
    assert!(world.active().await.is_empty());
    let standing = world.standing(&unit, "words", at(1_000)).await;
    assert_eq!(standing.blocked, Some(BlockedReason::FailureThresholdReached));
    let manual = world.explicit(&unit, "words", at(1_001)).await;
    world.succeed(manual, at(1_001)).await;
    world.look(at(1_003)).await;
    world.only_job().await;
}

#[tokio::test]
async fn auto_02_waits_are_a_day_at_most_and_a_clock_that_was_set_back_does_not_lengthen_them() {
    let config = AutoConfig { enabled: true, ..AutoConfig::default() };
    assert_eq!(retry_delay(&config, 7), Duration::from_secs(960 * 60));
    for streak in [8, 9, 40, u32::MAX] {
        assert_eq!(retry_delay(&config, streak), Duration::from_secs(24 * 60 * 60));
    }
    let mut world = World::with(config).await;
    world.table("docs", &["words"]).await;
    world.look(at(10_000)).await;
    world.fail(world.only_job().await, at(10_000)).await;
    world.look(at(0)).await;
    world.only_job().await;
}

#[tokio::test]
async fn a_canceled_refresh_of_an_expression_waits_as_a_failed_one() {
    let mut world = World::new().await;
    world.table("docs", &["words"]).await;
    world.script.tables().kind = Some(JobKind::ComputedRefresh);
    world.look(at(0)).await;
    world.catalog.request_cancel(world.only_job().await, "bob", at(0)).await.unwrap();
    assert_eq!(world.look(at(0)).await, Some(at(15)));
    world.look(at(15)).await;
    world.only_job().await;
}

#[tokio::test]
async fn a_refresh_that_cannot_be_submitted_is_tried_again_later_and_when_the_table_changes() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.script.tables().refuses = Some("the Function is disabled".to_owned());
    world.look(at(0)).await;
    assert_eq!(world.look(at(0)).await, Some(at(1)));
    world.look(at(1)).await;
    assert_eq!(world.look(at(1)).await, Some(at(3)), "it doubles");
    world.script.tables().refuses = None;
    world.look(at(2)).await;
    assert!(world.active().await.is_empty());
    world.change(&unit, |seen| seen.version = 2);
    world.look(at(2)).await;
    world.only_job().await;
}

#[tokio::test]
async fn nothing_is_submitted_for_a_table_that_was_dropped_since_the_look() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.catalog.apply(vec![ObjectChange::DropTable { id: unit.table }]).await.unwrap();
    world.look(at(0)).await;
    assert!(world.active().await.is_empty());
    let histories = world.catalog.refresh_histories(None).await.unwrap();
    assert!(histories.is_empty());
}

#[tokio::test]
async fn the_history_of_a_dropped_table_is_swept() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    world.look(at(0)).await;
    world.succeed(world.only_job().await, at(0)).await;
    assert_eq!(world.catalog.refresh_histories(Some(unit.table)).await.unwrap().len(), 1);
    world.catalog.apply(vec![ObjectChange::DropTable { id: unit.table }]).await.unwrap();
    world.catalog.sweep_leftovers().await.unwrap();
    assert!(world.catalog.refresh_histories(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_late_end_of_an_earlier_declaration_says_nothing_of_the_later_one() {
    let mut world = World::new().await;
    let unit = world.table("docs", &["words"]).await;
    let old = world.binding(&unit, "words");
    let early = world.catalog.submit(refresh(&unit, &old, JobKind::FunctionRefresh, true), at(0)).await.unwrap();
    let early = world.claimed(early.id, at(0)).await;
    // The key is free again only once the job has ended, so the later one has another; its history does not.
    let revision = Some("fb_anew".to_owned());
    world.change(&unit, |seen| (seen.version, seen.bindings[0].revision) = (2, revision));
    world.catalog.request_cancel(early.id, "bob", at(1)).await.unwrap();
    world.catalog.canceled(early.id, early.epoch, None, at(1)).await.unwrap();
    world.look(at(2)).await;
    world.fail(world.only_job().await, at(2)).await;
    assert_eq!(world.look(at(2)).await, Some(at(17)), "its own first failure");
}
