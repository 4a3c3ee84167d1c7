//! The process between the gateway and a worker.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{CONFINE, Mode, Policy, Report};

/// `<policy> <prefix> <program> <arguments…>`; the prefix are the arguments, joined by spaces, that make this program a worker.
pub(super) fn supervise(arguments: &[String]) -> Result<ExitCode, String> {
    let [policy_text, prefix, program @ ..] = arguments else { return Err("too few arguments".to_owned()) };
    let policy: Policy = serde_json::from_str(policy_text).map_err(|error| error.to_string())?;
    for cgroup in &policy.cgroups {
        // The limits of a cgroup are a bonus; resource limits are there without it.
        let _ = fs::write(cgroup.join("cgroup.procs"), "0");
    }
    let mut report = Report::default();
    if policy.mode != Mode::Off {
        match namespaces(&policy) {
            Ok(()) => report.namespaces = true,
            Err(error) if policy.mode == Mode::Require => return Err(format!("the sandbox is required: {error}")),
            Err(error) => report.refused.push(error),
        }
    }
    let mut ended = SigSet::empty();
    ended.add(Signal::SIGCHLD);
    ended.thread_block().map_err(|error| error.to_string())?;
    let signals = SignalFd::with_flags(&ended, SfdFlags::SFD_CLOEXEC).map_err(|error| error.to_string())?;
    let report = serde_json::to_string(&report).map_err(|error| error.to_string())?;
    let errors = std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    // Opened before there is a worker: it shares our mount namespace, and where it moves the root it moves ours too.
    let null = fs::File::open("/dev/null").map_err(|error| error.to_string())?;
    let mut child = Command::new("/proc/self/exe")
        .arg0("lancegate-worker")
        .args(prefix.split_whitespace())
        .args([CONFINE, policy_text, &report])
        .args(program)
        .stdin(Stdio::inherit())
        .stdout(Stdio::from(errors))
        .spawn()
        .map_err(|error| format!("could not start the worker: {error}"))?;
    // The worker alone holds the socket now, so that the gateway sees its end.
    nix::unistd::dup2_stdin(&null).map_err(|error| error.to_string())?;
    watch(&mut child, &signals)
}

/// Waits for the worker or for the gateway to go away, whichever is first.
fn watch(child: &mut Child, signals: &SignalFd) -> Result<ExitCode, String> {
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
            return Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)));
        }
        let gateway = std::io::stdout();
        let mut waiting =
            [PollFd::new(gateway.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.to_string()),
        }
        if waiting[0].any().unwrap_or(true) {
            // Nothing is ever written to us: the gateway closed its end.
            child.kill().map_err(|error| error.to_string())?;
        }
        let _ = signals.read_signal();
    }
}

/// Makes the namespaces; this process is root in them, and outside what it was.
fn namespaces(policy: &Policy) -> Result<(), String> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let mut flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    if !policy.network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags).map_err(|error| format!("namespaces: {error}"))?;
    map_ids(0, uid.as_raw(), gid.as_raw()).map_err(|error| format!("user namespace: {error}"))
}

/// Maps one user and group of a new user namespace to the one outside.
pub(super) fn map_ids(inside: u32, uid: u32, gid: u32) -> std::io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{inside} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{inside} {gid} 1"))
}
