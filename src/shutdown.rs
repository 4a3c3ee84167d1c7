//! How a gateway says where it stands, and how it is told to stop.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

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

/// Waits for SIGINT or SIGTERM and returns the signal's name.
///
/// # Errors
/// The operating system refuses the handlers.
pub async fn signal() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok("SIGINT"),
        _ = terminate.recv() => Ok("SIGTERM"),
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
