//! The second runtime: where queries compute.
//!
//! Sockets, authentication and leases live on the caller's runtime, so that a
//! scan that keeps every thread here busy delays no heartbeat.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// The stack of a compute thread; deep expression trees recurse.
const STACK_BYTES: usize = 8 << 20;

/// A runtime that may be dropped anywhere.
#[derive(Debug)]
pub(super) struct Compute(Option<Runtime>);

impl Compute {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("refresh")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Returns what spawns work here.
    pub(super) fn handle(&self) -> Handle {
        self.0.as_ref().expect("the runtime is taken only by stopping").handle().clone()
    }

    /// Ends the runtime; work that does not yield for `deadline` is left behind.
    pub(super) async fn stop(mut self, deadline: Duration) {
        let Some(runtime) = self.0.take() else { return };
        // Waiting for threads blocks, which an async thread must not.
        let _ = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(deadline)).await;
    }
}

impl Drop for Compute {
    fn drop(&mut self) {
        // The plain drop of a runtime panics inside another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
