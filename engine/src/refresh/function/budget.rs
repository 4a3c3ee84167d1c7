//! The caps of a refresh over all its workers together (OP-02).
//!
//! A budget reserves nothing. It bounds how many workers run at one time and what each may take, so that together they
//! never take more.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Thousandths of a CPU that a worker is counted as when their number is chosen.
const WORKER_CPU_MILLIS: u64 = 1_000;

/// The caps; `None` is what the deployment gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Thousandths of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u64>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_count: Option<u32>,
}

/// What comes of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Workers at one time, at least one.
    pub(super) workers: usize,
    /// Memory of each.
    pub(super) memory_bytes: u64,
    /// CPU of each, if it is bounded.
    pub(super) cpu_millis: Option<u64>,
}

impl Budget {
    /// Returns whether nothing is capped.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Shares GPUs out among at most `workers`, if the class has `devices` and gives a worker at most so many: returns the
    /// number of workers and of the GPUs of each, at least one (GPU-02).
    pub(super) fn gpus(&self, workers: usize, devices: usize, per_worker_max: Option<usize>) -> (usize, usize) {
        let cap = self.gpu_count.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX));
        let total = devices.min(cap).max(1);
        let workers = workers.min(total).max(1);
        (workers, (total / workers).min(per_worker_max.unwrap_or(usize::MAX)).max(1))
    }

    /// Shares the caps out among at most `workers`, of which each takes at most `memory_bytes`.
    pub(super) fn share(&self, workers: usize, memory_bytes: u64) -> Share {
        let fitting = |total: Option<u64>, each: u64| {
            total.map_or(usize::MAX, |total| usize::try_from(total / each.max(1)).unwrap_or(usize::MAX))
        };
        let workers = workers
            .min(fitting(self.cpu_millis, WORKER_CPU_MILLIS))
            .min(fitting(self.memory_bytes, memory_bytes))
            .max(1);
        let shares = u64::try_from(workers).unwrap_or(u64::MAX);
        Share {
            workers,
            memory_bytes: self.memory_bytes.map_or(memory_bytes, |total| memory_bytes.min(total / shares)),
            cpu_millis: self.cpu_millis.map(|total| (total / shares).max(1)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = [
            ("cpu_millis", self.cpu_millis),
            ("memory_bytes", self.memory_bytes),
            ("gpu_count", self.gpu_count.map(u64::from)),
        ];
        let set = set.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={value}")));
        f.write_str(&set.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn gpu_02_a_class_bounds_the_gpus_of_one_worker() {
        for (count, workers, devices, most, expected) in [
            (None, 2, 8, None, (2, 4)),
            (None, 2, 8, Some(1), (2, 1)),
            (Some(3), 2, 8, Some(2), (2, 1)),
            (Some(6), 2, 8, Some(2), (2, 2)),
            (Some(1), 4, 8, None, (1, 1)),
            (Some(16), 1, 2, None, (1, 2)),
        ] {
            let budget = Budget { gpu_count: count, ..Budget::default() };
            assert_eq!(budget.gpus(workers, devices, most), expected, "{budget} {workers} {devices} {most:?}");
        }
    }

    #[test]
    fn op_02_a_budget_bounds_the_workers_and_what_they_take_together() {
        let budget = |cpu, memory| Budget { cpu_millis: cpu, memory_bytes: memory, gpu_count: None };
        for (budget, workers, expected) in [
            (budget(None, None), 8, (8, 2 * GIB, None)),
            (budget(Some(4_000), Some(16 * GIB)), 8, (4, 2 * GIB, Some(1_000))),
            (budget(Some(8_000), Some(5 * GIB)), 8, (2, 2 * GIB, Some(4_000))),
            (budget(Some(500), Some(GIB)), 8, (1, GIB, Some(500))),
            (budget(Some(8_000), Some(64 * GIB)), 2, (2, 2 * GIB, Some(4_000))),
        ] {
            let share = budget.share(workers, 2 * GIB);
            assert_eq!((share.workers, share.memory_bytes, share.cpu_millis), expected, "{budget}");
        }
    }
}
