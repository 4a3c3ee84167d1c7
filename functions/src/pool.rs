//! Workers between jobs (RC-13): an instance and its state may serve several refreshes, one at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::worker::Worker;

type Idle = HashMap<String, Vec<(Worker, Instant)>>;

/// Idle workers by what they are instances of.
#[derive(Debug, Clone)]
pub struct Pool {
    idle: Arc<Mutex<Idle>>,
    idle_max: usize,
    keep: Duration,
}

impl Pool {
    /// Keeps at most `idle_max` workers, each no longer than `keep` after its last use.
    pub fn new(idle_max: usize, keep: Duration) -> Self {
        Self { idle: Arc::default(), idle_max, keep }
    }

    /// Takes an idle worker out, the one used last.
    pub(crate) fn take(&self, key: &str) -> Option<Worker> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.expire(&mut idle);
        idle.get_mut(key)?.pop().map(|(worker, _)| worker)
    }

    /// Puts a worker back, if there is room.
    pub(crate) fn give_back(&self, key: &str, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.expire(&mut idle);
        if idle.values().map(Vec::len).sum::<usize>() < self.idle_max {
            idle.entry(key.to_owned()).or_default().push((worker, Instant::now()));
        }
    }

    /// Ends idle workers that hold one of these GPUs, but for those of `key`: the devices are somebody else's now.
    pub fn free(&self, devices: &[String], key: &str) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, workers) in idle.iter_mut().filter(|(other, _)| *other != key) {
            workers.retain(|(worker, _)| !worker.devices().iter().any(|device| devices.contains(device)));
        }
        idle.retain(|_, workers| !workers.is_empty());
    }

    /// Ends workers that nobody used for a while.
    pub fn sweep(&self) {
        self.expire(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Ends all idle workers.
    pub fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn expire(&self, idle: &mut Idle) {
        idle.retain(|_, workers| {
            workers.retain(|(_, used)| used.elapsed() < self.keep);
            !workers.is_empty()
        });
    }
}
