//! What a worker on this machine would be confined by.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::{Mode, PROBE, Policy, Report, SUPERVISE};
use crate::cgroup::Cgroup;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Confines a process as a worker under this policy and asks what is in force in it. `program` and `prefix` are those of
/// [`crate::Launch`].
///
/// # Errors
/// Why no worker could be started, for example what a kernel refuses of a sandbox that is required.
pub async fn probe(program: &Path, prefix: &[String], policy: &Policy) -> Result<Report, String> {
    let mut policy = policy.clone();
    let cgroup = match policy.mode {
        Mode::Off => None,
        Mode::Prefer | Mode::Require => Cgroup::create(&policy),
    };
    policy.cgroups = cgroup.as_ref().map(|cgroup| cgroup.folders().to_vec()).unwrap_or_default();
    let text = serde_json::to_string(&policy).map_err(|error| error.to_string())?;
    // The worker ends when the other end of its standard output does.
    let (_alive, supervised) = std::os::unix::net::UnixStream::pair().map_err(|error| error.to_string())?;
    let child = Command::new(program)
        .args(prefix)
        .args([SUPERVISE, &text, &prefix.join(" "), PROBE])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(supervised)))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let ended = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
    let output = ended.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    if !output.status.success() {
        return Err(last.trim_start_matches("lancegate worker: ").to_owned());
    }
    let report: Report = serde_json::from_str(last).map_err(|_| format!("unexpected answer: {last}"))?;
    Ok(Report { cgroups: cgroup.is_some(), ..report })
}
