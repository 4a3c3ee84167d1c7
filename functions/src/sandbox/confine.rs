//! The process that becomes the worker.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, pivot_root};

use super::supervise::map_ids;
use super::{Mode, PROBE, Policy, Report, filter};

/// What every Python needs of the system, where it exists.
const SYSTEM: &[&str] = &[
    "/usr",
    "/lib",
    "/lib64",
    "/lib32",
    "/bin",
    "/sbin",
    "/etc/ld.so.cache",
    "/etc/ssl",
    "/etc/localtime",
    "/etc/ca-certificates",
    "/etc/mime.types",
];
/// What name resolution needs besides.
const NETWORK: &[&str] = &["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols"];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// The user and group that the Function sees itself as.
const NOBODY: u32 = 65_534;
const OPEN_FILES_MAX: u64 = 1_024;
const INODES_MAX: u32 = 16_384;

/// `<policy> <report> <program> <arguments…>`; adds the number of the socket as the last argument.
pub(super) fn confine(arguments: &[String]) -> Result<ExitCode, String> {
    let [policy, report, program, program_arguments @ ..] = arguments else {
        return Err("too few arguments".to_owned());
    };
    let policy: Policy = serde_json::from_str(policy).map_err(|error| error.to_string())?;
    let mut report: Report = serde_json::from_str(report).map_err(|error| error.to_string())?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| error.to_string())?;
    SigSet::all().thread_unblock().map_err(|error| error.to_string())?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    if policy.mode != Mode::Off {
        enter(&policy, &mut report)?;
    }
    limit(&policy)?;
    if policy.mode != Mode::Off {
        restrict(&policy, &mut report)?;
    }
    if policy.mode == Mode::Require && !report.complete() {
        return Err(format!("the sandbox is required: {}", report.refused.join("; ")));
    }
    if program == PROBE {
        eprintln!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
        return Ok(ExitCode::SUCCESS);
    }
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|error| error.to_string())?;
    let error =
        Command::new(program).args(program_arguments).arg(socket.as_raw_fd().to_string()).stdin(Stdio::null()).exec();
    Err(format!("could not execute {program}: {error}"))
}

/// Changes to a root file system of its own, if there is a namespace to have it in.
fn enter(policy: &Policy, report: &mut Report) -> Result<(), String> {
    if !report.namespaces {
        return Ok(());
    }
    let none: Option<&str> = None;
    // The first step decides whether the kernel lets us at all.
    let private = mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .and_then(|()| mount(Some("tmpfs"), "/tmp", Some("tmpfs"), MsFlags::empty(), Some("size=1m,mode=0755")));
    if let Err(error) = private {
        report.refused.push(format!("private root: {error}"));
        return if policy.mode == Mode::Require { Err(report.refused.join("; ")) } else { Ok(()) };
    }
    private_root(policy).map_err(|error| format!("private root: {error}"))?;
    report.private_root = true;
    // Out of the namespace in which this process is root: nothing can be mounted from here on.
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| format!("user namespace: {error}"))?;
    map_ids(NOBODY, 0, 0).map_err(|error| format!("user namespace: {error}"))
}

fn private_root(policy: &Policy) -> Result<(), String> {
    let shown = |what: &'static str| move |error: nix::errno::Errno| format!("{what}: {error}");
    let none: Option<&str> = None;
    let io = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    fs::create_dir("/tmp/old").and_then(|()| fs::create_dir("/tmp/new")).map_err(io("folders"))?;
    pivot_root("/tmp", "/tmp/old").map_err(shown("pivot"))?;
    chdir("/").map_err(shown("chdir"))?;
    let inner = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), "/new", Some("tmpfs"), inner, Some("size=4m,mode=0755")).map_err(shown("tmpfs"))?;
    for path in SYSTEM.iter().chain(if policy.network { NETWORK } else { &[] }) {
        bind(Path::new(path), true).map_err(|error| format!("{path}: {error}"))?;
    }
    for path in &policy.readable {
        // The worker has a `/tmp` of its own: what is in that of the system cannot be seen there.
        if path.starts_with("/tmp") {
            return Err(format!("{} is below /tmp; it must be in another folder", path.display()));
        }
        bind(path, true).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for path in DEVICES.iter().map(Path::new).chain(policy.devices.iter().map(PathBuf::as_path)) {
        bind(path, false).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for folder in ["/new/tmp", "/new/proc"] {
        fs::create_dir_all(folder).map_err(io("folders"))?;
    }
    let quota = format!("size={},nr_inodes={INODES_MAX},mode=1777", policy.tmp_bytes);
    mount(Some("tmpfs"), "/new/tmp", Some("tmpfs"), inner, Some(quota.as_str())).map_err(shown("tmpfs"))?;
    symlink("/tmp", "/new/dev/shm").map_err(io("/dev/shm"))?;
    let proc = inner | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/new/proc", Some("proc"), proc, none).map_err(shown("proc"))?;
    chdir("/new").map_err(shown("chdir"))?;
    pivot_root(".", ".").map_err(shown("pivot"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(shown("umount"))?;
    chdir("/tmp").map_err(shown("chdir"))?;
    let sealed = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | inner;
    mount(none, "/", none, sealed, none).map_err(shown("read-only root"))
}

/// Shows `path` of the old root at the same place of the new one. A symbolic link is made anew.
fn bind(path: &Path, read_only: bool) -> Result<(), String> {
    let relative = path.strip_prefix("/").map_err(|error| error.to_string())?;
    let (from, to) = (Path::new("/old").join(relative), Path::new("/new").join(relative));
    let Ok(metadata) = fs::symlink_metadata(&from) else { return Ok(()) };
    if to.symlink_metadata().is_ok() {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    }
    if metadata.is_symlink() {
        let target = fs::read_link(&from).map_err(|error| error.to_string())?;
        return symlink(target, &to).map_err(|error| error.to_string());
    }
    if metadata.is_dir() {
        fs::create_dir_all(&to).map_err(|error| error.to_string())?;
    } else {
        fs::write(&to, "").map_err(|error| error.to_string())?;
    }
    let none: Option<&str> = None;
    mount(Some(&from), &to, none, MsFlags::MS_BIND | MsFlags::MS_REC, none).map_err(|error| error.to_string())?;
    if !read_only {
        return Ok(());
    }
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(none, &to, none, flags | locked(&to), none).map_err(|error| error.to_string())
}

/// Flags that a mount has and must keep in a user namespace.
fn locked(path: &Path) -> MsFlags {
    let flags = statvfs(path).map_or(FsFlags::empty(), |found| found.flags());
    let pairs = [
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    pairs.into_iter().filter(|(has, _)| flags.contains(*has)).fold(MsFlags::empty(), |all, (_, flag)| all | flag)
}

fn limit(policy: &Policy) -> Result<(), String> {
    let mut limits = vec![
        (Resource::RLIMIT_CORE, 0),
        (Resource::RLIMIT_NOFILE, OPEN_FILES_MAX),
        (Resource::RLIMIT_FSIZE, policy.tmp_bytes),
        (Resource::RLIMIT_MEMLOCK, 64 << 10),
        (Resource::RLIMIT_NPROC, policy.processes_max),
    ];
    if policy.cgroups.is_empty() {
        limits.push((Resource::RLIMIT_DATA, policy.memory_bytes));
    }
    for (resource, limit) in limits {
        setrlimit(resource, limit, limit).map_err(|error| format!("{resource:?}: {error}"))?;
    }
    // The kernel ends a worker before anything else.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}

fn restrict(policy: &Policy, report: &mut Report) -> Result<(), String> {
    let system = SYSTEM.iter().chain(NETWORK).chain(DEVICES).map(|path| Path::new(*path));
    let proc = report.private_root.then_some(Path::new("/proc"));
    let readable = system.chain(policy.readable.iter().map(PathBuf::as_path)).chain(proc);
    // Without a private root the shared folder for temporary files stays closed.
    let writable = ["/dev/null"].into_iter().chain(report.private_root.then_some("/tmp")).map(Path::new);
    let writable = writable.chain(policy.devices.iter().map(PathBuf::as_path));
    match filter::landlock(readable, writable, policy.network) {
        Ok(true) => report.landlock = true,
        Ok(false) => report.refused.push("landlock: not in this kernel".to_owned()),
        Err(error) => report.refused.push(error),
    }
    match filter::seccomp(policy.network) {
        Ok(()) => report.seccomp = true,
        Err(error) => report.refused.push(error),
    }
    Ok(())
}
