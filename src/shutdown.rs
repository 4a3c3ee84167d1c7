//! How a gateway says where it stands, and how it is told to stop.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Where a gateway stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Opening stores and listeners.
    Starting,
    /// Answering statements.
    Ready,
    /// Finishing what runs; nothing new is taken.
    Stopping,
}

/// The stage of one gateway, shared by its parts.
#[derive(Debug, Default)]
pub struct Readiness(AtomicU8);

impl Readiness {
    /// Returns the stage now.
    pub fn stage(&self) -> Stage {
        match self.0.load(Ordering::Acquire) {
            0 => Stage::Starting,
            1 => Stage::Ready,
            _ => Stage::Stopping,
        }
    }

    /// Moves on; a gateway never goes back to an earlier stage.
    pub fn advance(&self, stage: Stage) {
        let number = match stage {
            Stage::Starting => 0,
            Stage::Ready => 1,
            Stage::Stopping => 2,
        };
        self.0.fetch_max(number, Ordering::AcqRel);
    }
}

/// Runs one step of stopping, at most for `deadline`. Returns whether it
/// ended by itself; what it left behind is dropped otherwise.
pub async fn step(name: &'static str, deadline: Duration, work: impl Future<Output = ()>) -> bool {
    let done = tokio::time::timeout(deadline, work).await.is_ok();
    if !done {
        tracing::warn!(step = name, ?deadline, "a step of stopping did not end in time");
    }
    done
}

/// SIGINT, SIGTERM and SIGHUP, heard from the moment of [`Signals::listen`] on, so
/// that none is lost between two waits.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To stop, with the signal's name.
    Stop(&'static str),
    /// To read again what may change.
    Reload,
}

impl Signals {
    /// Begins to listen; the signals do not end the process from now on.
    ///
    /// # Errors
    /// The operating system refuses the handlers.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal that stops and returns its name. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn asked(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_never_becomes_ready_again_once_it_stops() {
        let readiness = Readiness::default();
        assert_eq!(readiness.stage(), Stage::Starting);
        readiness.advance(Stage::Ready);
        assert_eq!(readiness.stage(), Stage::Ready);
        readiness.advance(Stage::Stopping);
        readiness.advance(Stage::Ready);
        assert_eq!(readiness.stage(), Stage::Stopping);
    }

    #[tokio::test]
    async fn a_step_that_hangs_is_left_behind() {
        assert!(step("quick", Duration::from_secs(60), async {}).await);
        assert!(!step("stuck", Duration::from_millis(1), std::future::pending()).await);
    }
}
