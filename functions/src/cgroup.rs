//! Limits on memory and processes of one worker, where the kernel lets us make cgroups (version 1 or 2).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The cgroups of one worker; removed when dropped, after their processes are gone.
#[derive(Debug)]
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes them below our own. `None` where that is not allowed, or memory is not limited by it.
    pub(crate) fn create(memory_bytes: u64, processes_max: u64) -> Option<Self> {
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
            made.add(&folder, &[("memory.limit_in_bytes", memory_bytes), ("memory.swappiness", 0)])?;
            if let Some(folder) = below("pids") {
                made.add(&folder, &[("pids.max", processes_max)]);
            }
            return Some(made);
        }
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let folder = Path::new("/sys/fs/cgroup").join(path).join(&name);
        made.add(&folder, &[("memory.max", memory_bytes), ("pids.max", processes_max)])?;
        Some(made)
    }

    fn add(&mut self, folder: &Path, limits: &[(&str, u64)]) -> Option<()> {
        fs::create_dir(folder).ok()?;
        self.folders.push(folder.to_owned());
        let (first, others) = limits.split_first()?;
        fs::write(folder.join(first.0), first.1.to_string()).ok()?;
        for (file, limit) in others {
            // A controller may be missing or fixed by the parent.
            let _ = fs::write(folder.join(file), limit.to_string());
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
