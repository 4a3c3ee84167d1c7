//! System calls that no Function needs, and files that it may open.

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// Always refused with EPERM.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_personality,
    libc::SYS_vhangup,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
];

/// Flags of `clone` that make namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Installs the filter of system calls; it cannot be taken off again.
pub(super) fn seccomp(network: bool) -> Result<(), String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, sockets(network)?);
    let mut clone = Vec::new();
    for bit in (0..31).map(|bit| 1_u64 << bit).filter(|bit| u64::try_from(NAMESPACES).unwrap_or_default() & bit != 0) {
        clone.push(rule(0, SeccompCmpOp::MaskedEq(bit), bit)?);
    }
    rules.insert(libc::SYS_clone, clone);
    apply(rules, libc::EPERM)?;
    // The C library falls back to clone, whose flags a filter can see.
    apply(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn sockets(network: bool) -> Result<Vec<SeccompRule>, String> {
    let mut rules = vec![rule(1, SeccompCmpOp::MaskedEq(0xf), u64::try_from(libc::SOCK_RAW).unwrap_or_default())?];
    if !network {
        rules.push(rule(0, SeccompCmpOp::Ne, u64::try_from(libc::AF_UNIX).unwrap_or_default())?);
    }
    for family in [libc::AF_PACKET, libc::AF_VSOCK, libc::AF_ALG, libc::AF_XDP] {
        rules.push(rule(0, SeccompCmpOp::Eq, u64::try_from(family).unwrap_or_default())?);
    }
    Ok(rules)
}

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| format!("seccomp: {error}"))
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<(), String> {
    let shown = |error: &dyn std::fmt::Display| format!("seccomp: {error}");
    let arch = std::env::consts::ARCH.try_into().map_err(|error: seccompiler::BackendError| shown(&error))?;
    let refuse = SeccompAction::Errno(u32::try_from(errno).unwrap_or_default());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(|error| shown(&error))?;
    let program: BpfProgram = filter.try_into().map_err(|error: seccompiler::BackendError| shown(&error))?;
    apply_filter(&program).map_err(|error| shown(&error))
}

/// Lets the process read and execute below `readable`, write below `writable`, and nothing else. Returns whether the
/// kernel enforces any of it.
pub(super) fn landlock<'a>(
    readable: impl Iterator<Item = &'a Path>,
    writable: impl Iterator<Item = &'a Path>,
    network: bool,
) -> Result<bool, String> {
    let shown = |error: &dyn std::fmt::Display| format!("landlock: {error}");
    let abi = ABI::V6;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .map_err(|error| shown(&error))?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(abi)).map_err(|error| shown(&error))?;
    }
    let mut rules = rules.create().map_err(|error| shown(&error))?;
    let read = readable.map(|path| (path, AccessFs::from_read(abi)));
    let write = writable.map(|path| (path, AccessFs::from_all(abi)));
    for (path, access) in read.chain(write) {
        // What does not exist needs no permission.
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
        rules = rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| shown(&error))?;
    }
    let status = rules.restrict_self().map_err(|error| shown(&error))?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}
