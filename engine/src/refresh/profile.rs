//! Where a refresh spent its time (DESCRIBE JOB).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::progress::Progress;
use super::stage::StageTimes;

/// One phase on the job's timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// `planning`, `running splits` or `committing`.
    pub phase: String,
    /// Milliseconds since the Unix epoch at which it was first entered.
    pub started_at_millis: i64,
    /// Wall time in it, all visits together.
    pub millis: u64,
}

/// What the workers' time went to, summed over workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerTime {
    /// `read`, `evaluate` or `write`.
    pub component: String,
    /// Worker time.
    pub millis: u64,
    /// Fragments.
    pub count: u64,
}

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// In the order in which they were first entered.
    pub phases: Vec<PhaseTime>,
    /// For the phase that runs on many workers.
    pub workers: Vec<WorkerTime>,
    /// Value commits made.
    pub commits: u64,
    /// Fragments staged, again ones included.
    pub fragments: u64,
}

/// Measures phases as they follow each other and shows them in the progress.
#[derive(Debug)]
pub(super) struct PhaseClock {
    progress: Arc<Progress>,
    phases: Vec<(&'static str, i64, Duration)>,
    current: Option<(usize, Instant)>,
}

impl PhaseClock {
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, phases: Vec::new(), current: None }
    }

    /// Ends the current phase and begins (or goes on with) another.
    pub(super) fn enter(&mut self, phase: &'static str) {
        self.leave();
        let index = self.phases.iter().position(|(name, ..)| *name == phase).unwrap_or_else(|| {
            self.phases.push((phase, crate::clock::now().timestamp_millis(), Duration::ZERO));
            self.phases.len() - 1
        });
        self.current = Some((index, Instant::now()));
        self.progress.enter(phase);
    }

    fn leave(&mut self) {
        if let Some((index, since)) = self.current.take() {
            self.phases[index].2 += since.elapsed();
        }
    }

    /// Ends the current phase and returns the profile.
    pub(super) fn finish(mut self, times: StageTimes, fragments: u64, commits: u64) -> Profile {
        self.leave();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let phases = self.phases.iter().map(|(phase, started_at_millis, time)| PhaseTime {
            phase: (*phase).to_owned(),
            started_at_millis: *started_at_millis,
            millis: millis(*time),
        });
        let components = [("read", times.read), ("evaluate", times.evaluate), ("write", times.write)];
        let workers = components.map(|(component, time)| WorkerTime {
            component: component.to_owned(),
            millis: millis(time),
            count: fragments,
        });
        let workers = if fragments == 0 { Vec::new() } else { workers.to_vec() };
        Profile { phases: phases.collect(), workers, commits, fragments }
    }
}
