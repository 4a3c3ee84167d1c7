//! What a worker process may do, and how it is made unable to do more.
//!
//! The gateway starts its own program again, twice, and the second one becomes Python:
//!
//! 1. [`supervise`] joins the cgroups, makes user, mount, PID, IPC and network namespaces, starts the second and
//!    waits. It ends the worker when the gateway goes away: the gateway holds the other end of its standard output.
//! 2. [`confine`] sees a root file system of its own (read-only libraries, Python and its packages; a private `/tmp` with
//!    a quota), sets resource limits, Landlock and seccomp, and executes Python with the one socket.
//!
//! What the kernel refuses is left out with [`Mode::Prefer`] and ends the worker with [`Mode::Require`]. A worker never
//! has the gateway's descriptors, environment, files, or processes in view; without `network` it has no network.

mod confine;
mod filter;
mod probe;
mod supervise;

pub use self::probe::probe;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// How much of the sandbox must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All of it, or no worker runs.
    Require,
    /// What the kernel gives.
    #[default]
    Prefer,
    /// None; resource limits and the clean environment stay.
    Off,
}

/// What one worker gets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// See [`Mode`].
    pub mode: Mode,
    /// Whether it may use the network.
    pub network: bool,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Thousandths of a CPU, where the kernel lets us limit it; `None` is no limit.
    #[serde(default)]
    pub cpu_millis: Option<u64>,
    /// What it may write to its `/tmp`, in bytes.
    pub tmp_bytes: u64,
    /// Processes and threads.
    pub processes_max: u64,
    /// Files and folders that it may read, beside the system's libraries.
    pub readable: Vec<PathBuf>,
    /// Device files that it may use: those of its GPUs.
    #[serde(default)]
    pub devices: Vec<PathBuf>,
    /// Folders of cgroups to join.
    #[serde(default)]
    pub cgroups: Vec<PathBuf>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Prefer,
            network: false,
            memory_bytes: 2 << 30,
            cpu_millis: None,
            tmp_bytes: 256 << 20,
            processes_max: 128,
            readable: Vec::new(),
            devices: Vec::new(),
            cgroups: Vec::new(),
        }
    }
}

/// What is in force in a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Namespaces of users, mounts, processes, IPC, and of the network unless it is allowed.
    pub namespaces: bool,
    /// A root file system of its own.
    pub private_root: bool,
    /// Landlock, in full or in part.
    pub landlock: bool,
    /// The filter of system calls.
    pub seccomp: bool,
    /// Limits of a cgroup on memory, processes and CPU; without them each process of a worker has its own limits.
    #[serde(default)]
    pub cgroups: bool,
    /// What was refused, for people.
    pub refused: Vec<String>,
}

impl Report {
    /// What is in force, for people.
    pub fn shown(&self) -> String {
        let parts = [
            ("namespaces", self.namespaces),
            ("private root", self.private_root),
            ("landlock", self.landlock),
            ("seccomp", self.seccomp),
            ("cgroups", self.cgroups),
        ];
        let names: Vec<&str> = parts.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    }

    /// Whether all that keeps a worker to itself is in force. Cgroups bound what it takes and are not part of this.
    pub fn complete(&self) -> bool {
        self.namespaces && self.private_root && self.landlock && self.seccomp
    }
}

/// The first argument of the process that supervises a worker.
pub const SUPERVISE: &str = "supervise";
/// The first argument of the process that becomes the worker.
const CONFINE: &str = "confine";
/// Instead of a program: print the report and end.
pub const PROBE: &str = "probe";

/// Runs as a worker process: `supervise <policy> <report> <program> <arguments…>`.
///
/// The program must call this, and nothing before it that starts a thread, when its own first argument says so.
pub fn worker_main(arguments: &[String]) -> ExitCode {
    let ended = match arguments.split_first() {
        Some((stage, rest)) if stage == SUPERVISE => supervise::supervise(rest),
        Some((stage, rest)) if stage == CONFINE => confine::confine(rest),
        _ => Err("usage: worker supervise <policy> <prefix> <program> <arguments…>".to_owned()),
    };
    ended.unwrap_or_else(|message| {
        eprintln!("lancegate worker: {message}");
        ExitCode::from(125)
    })
}
