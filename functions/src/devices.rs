//! The GPUs of this machine: which classes have which, and which worker has them now.
//!
//! A device is one that `CUDA_VISIBLE_DEVICES` can name: a number or an identifier. It may be in several classes and is used
//! by one worker at a time. A worker sees the devices that it was given and no others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The variable that names the devices of a process.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// Device files that every process with a GPU opens.
const SHARED: [&str; 4] = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"];
/// What the libraries read of a GPU.
const READ: [&str; 2] = ["/sys/devices", "/sys/module/nvidia"];

/// The devices of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceClass {
    /// The devices on this machine.
    pub devices: Vec<String>,
    /// The most of one worker (GPU-02); `None` is as many as a refresh may use.
    pub per_worker_max: Option<usize>,
    /// Memory of one worker, in bytes, if the class says so.
    pub memory_bytes: Option<u64>,
}

/// The devices of this machine. Clones are one inventory.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    classes: Arc<BTreeMap<String, DeviceClass>>,
    state: Arc<Mutex<State>>,
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    used: HashSet<String>,
    /// When each was given back: the last one first, because a warm worker may wait for it.
    given_back: HashMap<String, u64>,
    clock: u64,
}

/// Devices that somebody uses until it is dropped.
#[derive(Debug)]
pub struct Lease {
    devices: Vec<String>,
    of: Devices,
}

impl Devices {
    /// Makes an inventory of classes by name.
    pub fn new(classes: BTreeMap<String, DeviceClass>) -> Self {
        Self { classes: Arc::new(classes), ..Self::default() }
    }

    /// Returns a class that has devices here.
    pub fn class(&self, name: &str) -> Option<&DeviceClass> {
        self.classes.get(name).filter(|class| !class.devices.is_empty())
    }

    /// Takes so many devices of a class, all at once; waits until they are free. `None` if the class has not so many.
    pub async fn acquire(&self, class: &str, count: usize) -> Option<Lease> {
        let class = self.class(class).filter(|class| (1..=class.devices.len()).contains(&count))?;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on no release is missed.
            freed.as_mut().enable();
            if let Some(devices) = self.take(class, count) {
                return Some(Lease { devices, of: self.clone() });
            }
            freed.await;
        }
    }

    fn take(&self, class: &DeviceClass, count: usize) -> Option<Vec<String>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free: Vec<&String> = class.devices.iter().filter(|device| !state.used.contains(*device)).collect();
        free.sort_by_key(|device| std::cmp::Reverse(state.given_back.get(*device).copied().unwrap_or_default()));
        let mut taken: Vec<String> = free.get(..count)?.iter().map(|device| (*device).clone()).collect();
        taken.sort();
        state.used.extend(taken.iter().cloned());
        Some(taken)
    }
}

impl Lease {
    /// Returns the devices.
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Returns the device files of these devices that are there.
    pub fn files(&self) -> Vec<PathBuf> {
        let numbered = self.devices.iter().all(|device| device.bytes().all(|byte| byte.is_ascii_digit()));
        let own = match numbered {
            true => self.devices.iter().map(|device| PathBuf::from(format!("/dev/nvidia{device}"))).collect(),
            // An identifier does not tell its file.
            false => numbers().iter().map(|number| PathBuf::from(format!("/dev/nvidia{number}"))).collect::<Vec<_>>(),
        };
        own.into_iter().chain(SHARED.map(PathBuf::from)).filter(|path| path.exists()).collect()
    }

    /// Returns what the libraries read of a GPU, where it is there.
    pub fn readable(&self) -> impl Iterator<Item = PathBuf> {
        READ.iter().map(Path::new).filter(|path| path.exists()).map(Path::to_owned)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.of.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clock += 1;
        let now = state.clock;
        for device in &self.devices {
            state.used.remove(device);
            state.given_back.insert(device.clone(), now);
        }
        drop(state);
        self.of.freed.notify_waiters();
    }
}

/// Returns the devices that the process itself sees: those that its own environment names, or those that there are.
pub fn visible() -> Vec<String> {
    match std::env::var(VISIBLE) {
        Ok(named) => named.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        Err(_) => numbers().iter().map(u32::to_string).collect(),
    }
}

/// The numbers of the device files of GPUs.
fn numbers() -> Vec<u32> {
    let names = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("nvidia")?.parse().ok();
    let mut numbers: Vec<u32> = names.filter_map(|entry| number(entry.file_name())).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn devices() -> Devices {
        let class = |names: &[&str]| DeviceClass {
            devices: names.iter().map(|name| (*name).to_owned()).collect(),
            ..DeviceClass::default()
        };
        let classes = [("all", class(&["0", "1", "2"])), ("one", class(&["2"])), ("none", class(&[]))];
        Devices::new(classes.map(|(name, class)| (name.to_owned(), class)).into())
    }

    #[tokio::test]
    async fn gpu_02_a_device_is_used_by_one_at_a_time_whatever_class_it_is_asked_for_in() {
        let devices = devices();
        let two = devices.acquire("all", 2).await.unwrap();
        assert_eq!(two.devices(), ["0", "1"]);
        let one = devices.acquire("one", 1).await.unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(50), devices.acquire("all", 1)).await;
        assert!(waits.is_err(), "all are used");
        let waiting = tokio::spawn({
            let devices = devices.clone();
            async move { devices.acquire("all", 2).await.unwrap().devices().to_vec() }
        });
        drop(one);
        drop(two);
        assert_eq!(waiting.await.unwrap(), ["0", "1"], "those that were given back last");
    }

    #[tokio::test]
    async fn a_class_gives_no_more_than_it_has() {
        let devices = devices();
        assert!(devices.acquire("none", 1).await.is_none());
        assert!(devices.acquire("nowhere", 1).await.is_none());
        assert!(devices.acquire("one", 2).await.is_none());
        assert!(devices.acquire("all", 0).await.is_none());
    }
}
