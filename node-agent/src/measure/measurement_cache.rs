//! A file of figures that stays valid while hardware and software are the same.

use super::lines;
use accord_types::{DeviceInfo, NodeFigures};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Most bytes to read.
const BYTES_MAX: u64 = 1 << 20;
/// Identifies the file's format.
const FORM: &str = "accord figures 1";

/// The file with figures of this hardware and software.
pub(super) struct MeasurementCache {
    file: PathBuf,
    fingerprint: String,
    /// The devices' ordinals, by their numbers in the file.
    ordinals: Vec<u32>,
}

impl MeasurementCache {
    /// Names the file in `folder` after a hash of the processor, the kernel, the devices with their drivers, and
    /// Accord's own files.
    pub(super) fn of(folder: &Path, program: &Path, libacc: Option<&Path>, devices: &[DeviceInfo]) -> Self {
        let mut fingerprint = format!("{FORM}\n= accord {}\n", env!("CARGO_PKG_VERSION"));
        for file in [Some(program), libacc].into_iter().flatten() {
            let _ = writeln!(fingerprint, "= file {}", stamp(file));
        }
        let first = |path: &str, key: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned()
        };
        let _ = writeln!(fingerprint, "= processor {}", first("/proc/cpuinfo", "model name"));
        let _ = writeln!(fingerprint, "= kernel {}", first("/proc/sys/kernel/osrelease", ""));
        for device in devices {
            let DeviceInfo { name, driver, uuid, units, cpus, .. } = device;
            let _ =
                writeln!(fingerprint, "= device {:?} {name:?} {driver:?} {uuid:?} {units} {cpus:?}", device.id.ordinal);
        }
        let mut hasher = DefaultHasher::new();
        fingerprint.hash(&mut hasher);
        let file = folder.join("figures").join(format!("{:016x}.txt", hasher.finish()));
        let largest = devices.iter().map(|device| device.id.ordinal).max();
        // Devices have their ordinals in the file.
        let ordinals = largest.map_or_else(Vec::new, |largest| (0..=largest).collect());
        Self { file, fingerprint, ordinals }
    }

    /// Reads the kept figures; `None` if there are none, or they are of another machine.
    pub(super) fn read(&self) -> Option<NodeFigures> {
        if std::fs::metadata(&self.file).ok()?.len() > BYTES_MAX {
            return None;
        }
        let text = std::fs::read_to_string(&self.file).ok()?;
        lines::read(text.strip_prefix(&self.fingerprint)?, &self.ordinals)
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub(super) fn write(&self, figures: &NodeFigures) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)?;
        let new = self.file.with_extension(format!("{}.new", std::process::id()));
        let written = std::fs::write(&new, format!("{}{}", self.fingerprint, lines::write(figures)))
            .and_then(|()| std::fs::rename(&new, &self.file));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }
}

/// Returns a text that identifies one build of a file.
fn stamp(path: &Path) -> String {
    let Ok(file) = std::fs::metadata(path) else { return format!("{} absent", path.display()) };
    let changed = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{} {} {}", path.display(), file.len(), changed.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, DeviceKind, NodeId, PathTimes};

    fn device(driver: &str) -> DeviceInfo {
        DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal: 2 },
            node_name: "h1".to_owned(),
            kind: DeviceKind::from_number(9),
            name: "d".to_owned(),
            vendor: "v".to_owned(),
            driver: driver.to_owned(),
            uuid: "GPU-1".to_owned(),
            memory: 1,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn figures_are_found_again_until_hardware_or_software_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "one").unwrap();
        let kept = |driver: &str| MeasurementCache::of(folder.path(), &program, None, &[device(driver)]);
        let figures = NodeFigures { host_copy: Some(PathTimes::new(1, 2, 3)), ..NodeFigures::default() };
        assert_eq!(kept("1").read(), None);
        kept("1").write(&figures).unwrap();
        assert_eq!(kept("1").read(), Some(figures));
        assert_eq!(kept("2").read(), None);
        // The fingerprint also distinguishes machines whose file names collide.
        let other = MeasurementCache { file: kept("1").file, ..kept("2") };
        assert_eq!(other.read(), None);
        std::fs::write(&program, "another").unwrap();
        assert_eq!(kept("1").read(), None);
    }
}
