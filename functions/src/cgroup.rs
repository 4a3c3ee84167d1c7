//! Limits on memory, CPU and processes of one worker, where the kernel lets us make cgroups (version 1 or 2).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sandbox::Policy;

static NEXT: AtomicU64 = AtomicU64::new(0);
/// The time over which CPU is measured.
const CPU_PERIOD_MICROS: u64 = 100_000;

/// The cgroups of one worker; removed when dropped, after their processes are gone.
#[derive(Debug)]
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes them below our own. `None` where that is not allowed, or memory is not limited by it.
    pub(crate) fn create(policy: &Policy) -> Option<Self> {
        let (memory, processes) = (policy.memory_bytes.to_string(), policy.processes_max.to_string());
        // Microseconds of CPU in each tenth of a second.
        let quota = policy.cpu_millis.map(|millis| millis.saturating_mul(CPU_PERIOD_MICROS / 1_000).max(1_000));
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("lancegate-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let below = |controller: &str| {
            let line = own
                .lines()
                .find(|line| line.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == controller)))?;
            let path = line.splitn(3, ':').nth(2)?.trim_start_matches('/');
            let root = Path::new("/sys/fs/cgroup").join(controller);
            // In a container the path may be the one of the host.
            [root.join(path), root].into_iter().find(|folder| folder.is_dir()).map(|folder| folder.join(&name))
        };
        let mut made = Self { folders: Vec::new() };
        if let Some(folder) = below("memory") {
            made.add(&folder, &[("memory.limit_in_bytes", &memory), ("memory.swappiness", "0")])?;
            if let Some(folder) = below("pids") {
                made.add(&folder, &[("pids.max", &processes)]);
            }
            if let (Some(quota), Some(folder)) = (quota, below("cpu")) {
                let period = CPU_PERIOD_MICROS.to_string();
                made.add(&folder, &[("cpu.cfs_period_us", &period), ("cpu.cfs_quota_us", &quota.to_string())]);
            }
            return Some(made);
        }
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let folder = Path::new("/sys/fs/cgroup").join(path).join(&name);
        let cpu = quota.map_or_else(|| "max".to_owned(), |quota| format!("{quota} {CPU_PERIOD_MICROS}"));
        made.add(&folder, &[("memory.max", &memory), ("pids.max", &processes), ("cpu.max", &cpu)])?;
        Some(made)
    }

    fn add(&mut self, folder: &Path, limits: &[(&str, &str)]) -> Option<()> {
        fs::create_dir(folder).ok()?;
        self.folders.push(folder.to_owned());
        let (first, others) = limits.split_first()?;
        fs::write(folder.join(first.0), first.1).ok()?;
        for (file, limit) in others {
            // A controller may be missing or fixed by the parent.
            let _ = fs::write(folder.join(file), limit);
        }
        Some(())
    }

    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Whether the kernel ended a process here for want of memory.
    pub(crate) fn out_of_memory(&self) -> bool {
        let killed = |folder: &PathBuf, file: &str| {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
        };
        self.folders.iter().any(|folder| killed(folder, "memory.oom_control") || killed(folder, "memory.events"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let folders = std::mem::take(&mut self.folders);
        // The processes need a moment to be gone; a thread of its own, because drops also happen outside a runtime.
        let remove = move || {
            for folder in folders {
                for _ in 0..100 {
                    match fs::remove_dir(&folder) {
                        Err(error) if error.raw_os_error() == Some(nix::libc::EBUSY) => {
                            std::thread::sleep(std::time::Duration::from_millis(20));
                        }
                        _ => break,
                    }
                }
            }
        };
        let _ = std::thread::Builder::new().name("cgroup-remove".to_owned()).spawn(remove);
    }
}
