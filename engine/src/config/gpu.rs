//! GPU classes: the hardware that an operator has configured, by name.

use serde::Deserialize;

use super::layer::Origins;
use super::problem::Problems;

/// The name of the legacy default class.
pub const DEFAULT_CLASS: &str = "default";

/// The fields that every class has; an unset one is NULL in `gpu_classes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuDefault {
    /// What the cluster calls the resource.
    pub resource_name: Option<String>,
    /// The model.
    pub gpu_model: Option<String>,
    /// Memory of one GPU.
    pub gpu_memory_bytes: Option<i64>,
    /// The most GPUs of one worker.
    pub max_gpu_count_per_worker: Option<i64>,
    /// CPU of one worker, in thousandths of a processor.
    pub cpu_millis: Option<i64>,
    /// Memory of one worker.
    pub memory_bytes: Option<i64>,
    /// Disk of one worker.
    pub ephemeral_storage_bytes: Option<i64>,
    /// The devices on this machine, as `CUDA_VISIBLE_DEVICES` names them, with commas between.
    pub devices: Option<String>,
}

/// One class as `SHOW GPU CLASSES` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuClass {
    /// A DNS label.
    pub name: String,
    /// What the cluster calls the resource; set for every named class.
    pub resource_name: Option<String>,
    /// The model.
    pub gpu_model: Option<String>,
    /// Memory of one GPU.
    pub gpu_memory_bytes: Option<i64>,
    /// The most GPUs of one worker; unset: the refresh's whole budget.
    pub max_gpu_count_per_worker: Option<i64>,
    /// CPU of one worker, in thousandths of a processor.
    pub cpu_millis: Option<i64>,
    /// Memory of one worker.
    pub memory_bytes: Option<i64>,
    /// Disk of one worker.
    pub ephemeral_storage_bytes: Option<i64>,
    /// The devices on this machine, as `CUDA_VISIBLE_DEVICES` names them, with commas between.
    pub devices: Option<String>,
}

impl GpuClass {
    /// Returns the devices that the class names; `None` if it names none.
    pub fn devices(&self) -> Option<Vec<String>> {
        let devices = self.devices.as_ref()?.split(',').map(|device| device.trim().to_owned());
        Some(devices.collect())
    }
}

impl GpuDefault {
    fn to_class(&self) -> GpuClass {
        GpuClass {
            name: DEFAULT_CLASS.to_owned(),
            resource_name: self.resource_name.clone(),
            gpu_model: self.gpu_model.clone(),
            gpu_memory_bytes: self.gpu_memory_bytes,
            max_gpu_count_per_worker: self.max_gpu_count_per_worker,
            cpu_millis: self.cpu_millis,
            memory_bytes: self.memory_bytes,
            ephemeral_storage_bytes: self.ephemeral_storage_bytes,
            devices: self.devices.clone(),
        }
    }
}

/// Returns the legacy default class and then the named ones, in the order of the file.
pub(super) fn all(default: &GpuDefault, named: &[GpuClass]) -> Vec<GpuClass> {
    std::iter::once(default.to_class()).chain(named.iter().cloned()).collect()
}

/// Refuses a name that stands twice, and devices that cannot be named.
pub(super) fn check(default: &GpuDefault, named: &[GpuClass], origins: &Origins, problems: &mut Problems) {
    for (index, class) in named.iter().enumerate() {
        if named[..index].iter().any(|earlier| earlier.name == class.name) {
            let what = format!("GPU class \"{}\" is defined twice; give each class its own name", class.name);
            problems.push(origins.problem("gpu_classes", what));
        }
    }
    let is_device = |device: &String| {
        !device.is_empty() && device.chars().all(|c| c.is_ascii_alphanumeric() || "-:._/".contains(c))
    };
    for class in all(default, named) {
        if let Some(device) = class.devices().iter().flatten().find(|device| !is_device(device)) {
            let what = format!("\"{device}\" of GPU class \"{}\" is no device such as 0 or GPU-8932f937", class.name);
            problems.push(origins.problem("gpu_classes", what));
        }
    }
}
