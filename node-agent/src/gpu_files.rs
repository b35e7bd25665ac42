//! The device files of the node's GPUs, as the NVIDIA driver names them in /proc.

use crate::device_filter::DeviceFile;
use accord_types::DeviceInfo;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The major number of the driver's device files, fixed in the kernel's list of devices.
const MAJOR: u32 = 195;
/// The minor number of the file by which processes reach the driver at all (/dev/nvidiactl).
const CONTROL: u32 = 255;

/// The device files of the GPUs that an agent offers.
#[derive(Debug, Default)]
pub(crate) struct GpuFiles {
    /// By the GPUs' UUIDs.
    minors: BTreeMap<String, u32>,
    /// Whether the machine has no further GPUs.
    are_all: bool,
}

impl GpuFiles {
    /// Finds the files of the offered devices in `proc`, the folder of the kernel's own files.
    ///
    /// # Errors
    /// Returns the reason if the file of an offered GPU is unknown.
    pub(crate) fn find(proc: &Path, offered: &[DeviceInfo]) -> Result<Self, String> {
        let known = listed(&proc.join("driver/nvidia/gpus"));
        let mut minors = BTreeMap::new();
        // Other devices have no UUID.
        for gpu in offered.iter().filter(|device| !device.uuid.is_empty()) {
            let minor = known.get(&gpu.uuid).ok_or_else(|| {
                format!("the driver does not say which device file is that of GPU {}", gpu.id.ordinal)
            })?;
            minors.insert(gpu.uuid.clone(), *minor);
        }
        Ok(Self { are_all: minors.len() == known.len(), minors })
    }

    /// Whether there is no file to deny.
    pub(crate) fn is_empty(&self) -> bool {
        self.minors.is_empty()
    }

    /// Returns the files that a session with these GPUs must not open. GPUs that the agent does not offer stay open for
    /// direct copies to other agents of the machine.
    pub(crate) fn denied<'a>(&self, leased: impl IntoIterator<Item = &'a str>) -> Vec<DeviceFile> {
        let leased: Vec<&str> = leased.into_iter().filter(|uuid| !uuid.is_empty()).collect();
        let others = self.minors.iter().filter(|(uuid, _)| !leased.contains(&uuid.as_str()));
        let control = (leased.is_empty() && self.are_all && !self.is_empty()).then_some(CONTROL);
        others.map(|(_, minor)| *minor).chain(control).map(|minor| DeviceFile { major: MAJOR, minor }).collect()
    }
}

/// Returns the minor numbers of all GPUs by UUID. Each GPU has a folder with a file of lines `Name: value`.
fn listed(folder: &Path) -> BTreeMap<String, u32> {
    let gpus = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |gpu: fs::DirEntry| {
        let text = fs::read_to_string(gpu.path().join("information")).ok()?;
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        Some((value("GPU UUID")?.to_owned(), value("Device Minor")?.parse().ok()?))
    };
    gpus.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{InventoryConfig, inventory};
    use crate::topology::Topology;

    fn gpu(uuid: &str) -> DeviceInfo {
        let config = InventoryConfig { cpu_devices: Some(1), cpu_memory: Some(1) };
        let cpu = inventory("h", Vec::new(), &config, &Topology::default()).remove(0);
        DeviceInfo { uuid: uuid.to_owned(), ..cpu }
    }

    /// Returns a folder as the driver shows it, with two GPUs.
    fn proc() -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (at, uuid, minor) in [("0000:00:06.0", "GPU-a", 0), ("0000:00:07.0", "GPU-b", 3)] {
            let folder = proc.path().join("driver/nvidia/gpus").join(at);
            fs::create_dir_all(&folder).unwrap();
            let text = format!("Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n");
            fs::write(folder.join("information"), text).unwrap();
        }
        proc
    }

    fn minors(files: &GpuFiles, leased: &[&str]) -> Vec<u32> {
        files.denied(leased.iter().copied()).into_iter().map(|file| file.minor).collect()
    }

    #[test]
    fn a_session_may_open_the_files_of_its_gpus_only() {
        let proc = proc();
        let files = GpuFiles::find(proc.path(), &[gpu("GPU-a"), gpu("GPU-b")]).unwrap();
        assert_eq!(minors(&files, &["GPU-a", "GPU-b"]), Vec::<u32>::new());
        assert_eq!(minors(&files, &["GPU-a"]), [3]);
        assert_eq!(minors(&files, &[""]), [0, 3, CONTROL], "a CPU device has no UUID");
        // The other GPU may be that of another agent.
        let files = GpuFiles::find(proc.path(), &[gpu("GPU-b")]).unwrap();
        assert_eq!((minors(&files, &["GPU-b"]), minors(&files, &[])), (vec![], vec![3]));
    }

    #[test]
    fn a_gpu_whose_file_is_unknown_is_named() {
        let proc = proc();
        let error = GpuFiles::find(proc.path(), &[gpu("MIG-1")]).unwrap_err();
        assert!(error.contains("which device file is that of GPU 0"), "{error}");
        let none = tempfile::tempdir().unwrap();
        assert!(GpuFiles::find(none.path(), &[]).unwrap().is_empty());
    }
}
