//! The workers of one job, as their supervisor sees them.
//!
//! A worker is *launched* when its process was started, *ready* once it can be given work, and then goes through the
//! handshake: inside `Initialize`, initialized, running. One that comes from the pool has that behind it. It is a member
//! as long as the job holds it; one that has died, or went back to the pool, is none any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// How far a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Its process was started.
    Launched,
    /// It can be given work.
    Ready,
    /// It makes the instance.
    Initializing,
    /// The instance is there.
    Initialized,
    /// It has been called.
    Running,
}

/// The members of a job. Clones are one fleet.
#[derive(Debug, Clone, Default)]
pub struct Fleet(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    plan: Option<Plan>,
    members: BTreeMap<u64, Stage>,
    next: u64,
    /// Whether one came from the pool, and whether one was started.
    warm: bool,
    cold: bool,
    first_launched: Option<u64>,
    first_ready: Option<u64>,
    last_ready: Option<u64>,
    /// What workers that are not launched yet wait for.
    waits: Vec<&'static str>,
}

#[derive(Debug, Clone)]
struct Plan {
    desired: usize,
    class: String,
    gpus_each: u32,
}

/// One observation: the documented object. What was not observed is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// Workers that the job wants.
    pub desired: usize,
    /// Those that are there.
    pub launched: usize,
    /// Those of them that cannot be given work yet.
    pub pending_workers: usize,
    /// Those that can.
    pub ready: usize,
    /// The classes of hardware that they are on.
    pub resource_classes: Vec<String>,
    /// GPUs of the workers that are there.
    pub requested_gpus: u64,
    /// GPUs of those that can be given work.
    pub ready_gpus: u64,
    /// Whether one came from the pool; absent before there was any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_reused: Option<bool>,
    /// When the first was started, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_launched_at_millis: Option<u64>,
    /// When the first was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ready_at_millis: Option<u64>,
    /// When the last was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_ready_at_millis: Option<u64>,
    /// Why none is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<&'static str>,
    /// Those inside `Initialize`.
    #[serde(skip)]
    pub initializing: usize,
    /// Those that have it behind them.
    #[serde(skip)]
    pub initialized: usize,
    /// The furthest that one is.
    #[serde(skip)]
    pub furthest: Option<Stage>,
}

impl Fleet {
    /// Says what the job wants. Before that there is nothing to observe.
    pub fn plan(&self, desired: usize, class: &str, gpus_each: u32) {
        self.inner().plan = Some(Plan { desired, class: class.to_owned(), gpus_each });
    }

    /// A worker's process is started.
    pub fn launch(&self) -> Member {
        self.join(Stage::Launched, false)
    }

    /// A worker comes from the pool, with its instance.
    pub fn reuse(&self) -> Member {
        self.join(Stage::Initialized, true)
    }

    /// Looks at the fleet; `None` before the job has said what it wants.
    pub fn observe(&self) -> Option<Observation> {
        let inner = self.inner();
        let Plan { desired, class, gpus_each } = inner.plan.clone()?;
        let launched = inner.members.len();
        let at_least = |stage| inner.members.values().filter(|reached| **reached >= stage).count();
        let ready = at_least(Stage::Ready);
        let initializing = inner.members.values().filter(|reached| **reached == Stage::Initializing).count();
        Some(Observation {
            desired,
            launched,
            pending_workers: launched - ready,
            ready,
            resource_classes: if launched > 0 { vec![class] } else { Vec::new() },
            requested_gpus: launched as u64 * u64::from(gpus_each),
            ready_gpus: ready as u64 * u64::from(gpus_each),
            warm_reused: if inner.warm { Some(true) } else { inner.cold.then_some(false) },
            first_launched_at_millis: inner.first_launched,
            first_ready_at_millis: inner.first_ready,
            last_ready_at_millis: inner.last_ready,
            wait_reason: (ready == 0).then(|| match (launched, inner.waits.last()) {
                (0, Some(reason)) => *reason,
                (0, None) => "no worker was launched yet",
                (_, _) => "workers are starting",
            }),
            initializing,
            initialized: at_least(Stage::Initialized),
            furthest: inner.members.values().max().copied(),
        })
    }

    /// A worker that is wanted cannot be launched, for this reason, until the result is dropped.
    pub fn wait_for(&self, reason: &'static str) -> Wait {
        self.inner().waits.push(reason);
        Wait { fleet: self.clone(), reason }
    }

    fn join(&self, stage: Stage, warm: bool) -> Member {
        let mut inner = self.inner();
        inner.next += 1;
        let id = inner.next;
        inner.members.insert(id, Stage::Launched);
        inner.first_launched.get_or_insert_with(now);
        inner.warm |= warm;
        inner.cold |= !warm;
        inner.reach(id, stage);
        drop(inner);
        Member { fleet: self.clone(), id }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn reach(&mut self, id: u64, stage: Stage) {
        let Some(reached) = self.members.get_mut(&id) else { return };
        let was_ready = *reached >= Stage::Ready;
        *reached = stage.max(*reached);
        if !was_ready && stage >= Stage::Ready {
            let now = now();
            self.first_ready.get_or_insert(now);
            self.last_ready = Some(now);
        }
    }
}

/// See [`Fleet::wait_for`].
#[derive(Debug)]
pub struct Wait {
    fleet: Fleet,
    reason: &'static str,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut inner = self.fleet.inner();
        if let Some(at) = inner.waits.iter().position(|reason| *reason == self.reason) {
            inner.waits.remove(at);
        }
    }
}

/// A worker that a job holds. Dropping it takes the worker out of the fleet.
#[derive(Debug)]
pub struct Member {
    fleet: Fleet,
    id: u64,
}

impl Member {
    /// The worker has got so far.
    pub fn reached(&self, stage: Stage) {
        self.fleet.inner().reach(self.id, stage);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.fleet.inner().members.remove(&self.id);
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(fleet: &Fleet) -> [usize; 6] {
        let seen = fleet.observe().unwrap();
        [seen.desired, seen.launched, seen.pending_workers, seen.ready, seen.initializing, seen.initialized]
    }

    #[test]
    fn prog_04_a_fleet_is_observed_from_the_plan_to_the_last_worker() {
        let fleet = Fleet::default();
        assert_eq!(fleet.observe(), None);
        fleet.plan(2, "h100", 4);
        assert_eq!(counts(&fleet), [2, 0, 0, 0, 0, 0]);
        assert_eq!(fleet.observe().unwrap().warm_reused, None);
        let reason = || fleet.observe().unwrap().wait_reason;
        let wait = fleet.wait_for("no GPUs are free");
        assert_eq!(reason(), Some("no GPUs are free"));
        drop(wait);
        assert_eq!(reason(), Some("no worker was launched yet"));
        let first = fleet.launch();
        assert_eq!(counts(&fleet), [2, 1, 1, 0, 0, 0]);
        let seen = fleet.observe().unwrap();
        assert_eq!((seen.requested_gpus, seen.ready_gpus, seen.warm_reused), (4, 0, Some(false)));
        assert!(seen.wait_reason.is_some() && seen.first_ready_at_millis.is_none());
        first.reached(Stage::Ready);
        first.reached(Stage::Initializing);
        assert_eq!(counts(&fleet), [2, 1, 0, 1, 1, 0]);
        let second = fleet.reuse();
        first.reached(Stage::Initialized);
        assert_eq!(counts(&fleet), [2, 2, 0, 2, 0, 2]);
        let seen = fleet.observe().unwrap();
        assert_eq!((seen.ready_gpus, seen.warm_reused, seen.wait_reason), (8, Some(true), None));
        assert_eq!(seen.resource_classes, ["h100"]);
        second.reached(Stage::Running);
        assert_eq!(fleet.observe().unwrap().furthest, Some(Stage::Running));
        drop(second);
        drop(first);
        assert_eq!(counts(&fleet), [2, 0, 0, 0, 0, 0]);
        assert!(fleet.observe().unwrap().last_ready_at_millis.is_some(), "milestones stay");
    }

    #[test]
    fn a_worker_does_not_go_back() {
        let fleet = Fleet::default();
        fleet.plan(1, "default", 0);
        let member = fleet.launch();
        member.reached(Stage::Running);
        member.reached(Stage::Ready);
        assert_eq!(fleet.observe().unwrap().furthest, Some(Stage::Running));
    }
}
