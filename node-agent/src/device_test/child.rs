//! The process that tests a device: writes to the device's memory, runs a region, reads back and compares.
//!
//! Errors are the device's own; no program's source is involved.

use super::words::{CPU, write};
use accord_device::cpu::{self, CpuConfig};
use accord_device::image::{Image, ImageFunction, Images};
use accord_device::{CopySink, CopySource, Device, Found, Sink, Source, StartConfig, object_identity};
use accord_types::{
    ArgBlock, DeviceFault, DeviceInfo, DeviceVerdict, Error, ErrorCode, FunctionSpec, ImageId, ImageRef, LaunchDims,
    NodeId, ObjectSpec, QueueId, Result,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first argument that makes this program test a device, print the verdict and exit. The second one is a GPU's
/// UUID, or [`CPU`].
pub const ARGUMENT: &str = "test-device";
/// Number of bytes to write and read.
const BYTES: usize = 32 << 20;
/// Memory of a CPU device while it is tested.
const CPU_MEMORY: u64 = 64 << 20;
/// Length of the written pattern: no power of two, so that neighbouring pages differ.
const PATTERN: usize = 65_521;

/// The CUDA driver's CUDA_ERROR_UNKNOWN.
const UNKNOWN_ERROR: i32 = 999;

/// The region on the host, and in the worker of a CPU device.
extern "C" fn empty(_: *mut u8) {}

/// The region on a GPU.
const PTX: &str = "// BEGIN PREAMBLE
.version 6.0
.target sm_30
.address_size 64
// END PREAMBLE
// BEGIN FUNCTION DECL: accord_test$_omp_fn$0
.entry accord_test$_omp_fn$0 (.param .u64 %in_ar0);
//:FUNC_MAP \"accord_test$_omp_fn$0\", 0x1, 0x1, 0x20
// BEGIN FUNCTION DEF: accord_test$_omp_fn$0
.entry accord_test$_omp_fn$0 (.param .u64 %in_ar0)
{
ret;
}
";

/// Tests the device that the second argument names.
pub fn main() -> ExitCode {
    let which = std::env::args().nth(2).unwrap_or_default();
    let line = write(&tested(&which));
    match std::io::stdout().write_all(line.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn tested(which: &str) -> DeviceVerdict {
    // Otherwise workers would become the agent's orphans, which it ends.
    let begun = set_parent_process_death_signal(Some(Signal::KILL)).map_err(std::io::Error::from);
    if let Err(error) = begun.and_then(|()| cpu::collect_orphans()) {
        return DeviceVerdict::Unknown(error.to_string());
    }
    let outcome = find(which).and_then(exercise);
    match outcome {
        Ok(true) => DeviceVerdict::Works,
        Ok(false) => DeviceVerdict::Faulty("a test has read other data than it has written".to_owned()),
        // This process runs no other program's region. An unknown error may be the driver's, or the machine's.
        Err(error) => match error.fault().filter(|fault| Some(*fault) != DeviceFault::cuda(UNKNOWN_ERROR)) {
            Some(fault) => DeviceVerdict::Faulty(format!("a test shows {fault}")),
            None => DeviceVerdict::Unknown(error.to_string()),
        },
    }
}

fn find(which: &str) -> Result<DeviceInfo> {
    let found = if which == CPU {
        let config = CpuConfig { devices: Some(1), memory: Some(CPU_MEMORY) };
        Found { devices: cpu::inventory(NodeId(0), "", &config), ..Found::default() }
    } else {
        accord_gpu::inventory(NodeId(0), "")
    };
    choose(found, which)
}

/// Returns the named device. It counts as missing only if the driver lists other devices and reports no problem:
/// otherwise the driver may fail here, or the machine may be out of memory or files.
fn choose(found: Found, which: &str) -> Result<DeviceInfo> {
    let Found { devices, note, failed } = found;
    let is_missing = !failed && note.is_none() && !devices.is_empty();
    devices.into_iter().find(|info| which == CPU || info.uuid == which).ok_or_else(|| {
        let note = note.map(|note| format!(": {note}")).unwrap_or_default();
        let cause = format!("the NVIDIA driver does not show {which} to this process{note}");
        Error::new(ErrorCode::DeviceInit, cause).device_fault(is_missing.then_some(DeviceFault::MISSING))
    })
}

/// Returns whether the device holds what was written.
fn exercise(info: DeviceInfo) -> Result<bool> {
    let images = Arc::new(Images::default());
    let function = ImageFunction { name: "accord_test$_omp_fn$0".to_owned(), dims: [1, 1, 32] };
    let image =
        images.add(Image { objects: vec![PTX.as_bytes().to_vec()], functions: vec![function], variables: Vec::new() });
    let start = accord_backends::backend(info.kind)?.start;
    // Scrubs other users' data first, as for a session.
    let device = start(info, &StartConfig { images, scrub: true, ..StartConfig::default() })?;
    let outcome = exchange(&*device, image);
    device.shutdown();
    outcome
}

fn exchange(device: &dyn Device, image: ImageId) -> Result<bool> {
    let stream = device.create_stream(QueueId(0))?;
    let (at, len) = (device.addresses().0, BYTES as u64);
    device.map(at, len)?;
    let function = device.function(&region(image)?)?;
    let mut is_same = true;
    for seed in [0x55, 0xaa] {
        device.copy_in(stream, at, len, CopySource::new(Pattern::new(seed)))?;
        let dims = LaunchDims { gangs: 1, workers: 1, vector: 32 };
        device.launch(stream, function, dims, ArgBlock { bytes: &[], slots: 0, relative: &[] })?;
        let differs = Arc::new(AtomicBool::new(false));
        let compare = Compare { pattern: Pattern::new(seed), differs: differs.clone() };
        let seq = device.copy_out(stream, at, len, CopySink::new(compare))?;
        device.synchronize(stream, seq)?;
        is_same &= !differs.load(Ordering::Acquire);
    }
    let seq = device.unmap(stream, at, len)?;
    device.synchronize(stream, seq)?;
    Ok(is_same)
}

/// Describes the region as an executor does for a program's.
fn region(image: ImageId) -> Result<FunctionSpec> {
    let failed = |error: std::io::Error| Error::new(ErrorCode::System, format!("this program's file: {error}"));
    let path = std::env::current_exe().map_err(failed)?;
    let build_id = object_identity::of_file(&path).map_err(failed)?;
    let path = path.to_string_lossy().into_owned();
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(failed)?;
    let line = maps.lines().find(|line| line.ends_with(&path));
    let base = line.and_then(|line| u64::from_str_radix(line.split_once('-')?.0, 16).ok());
    let base = base.ok_or_else(|| Error::new(ErrorCode::System, format!("{path} is not in this process")))?;
    Ok(FunctionSpec {
        object: ObjectSpec { path, build_id, executable: true },
        offset: (empty as extern "C" fn(*mut u8) as usize as u64).wrapping_sub(base),
        name: "accord_test._omp_fn.0".to_owned(),
        kernel: Some(ImageRef { image, index: 0 }),
    })
}

/// The stream of bytes to write and to expect.
struct Pattern {
    bytes: Vec<u8>,
    at: usize,
}

impl Pattern {
    fn new(seed: u8) -> Self {
        let byte = |at: usize| ((at ^ (at >> 8)) & 0xff) as u8 ^ seed;
        Self { bytes: (0..PATTERN).map(byte).collect(), at: 0 }
    }

    /// Calls `each` with the offset and bytes of each part of the next `len` bytes.
    fn take(&mut self, len: usize, mut each: impl FnMut(usize, &[u8])) {
        let mut done = 0;
        while done < len {
            let part = &self.bytes[self.at..(self.at + len - done).min(PATTERN)];
            each(done, part);
            done += part.len();
            self.at = (self.at + part.len()) % PATTERN;
        }
    }
}

impl Source for Pattern {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        self.take(piece.len(), |at, part| piece[at..at + part.len()].copy_from_slice(part));
        Ok(())
    }
}

/// Compares the bytes read with the pattern.
struct Compare {
    pattern: Pattern,
    differs: Arc<AtomicBool>,
}

impl Sink for Compare {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let mut is_same = true;
        self.pattern.take(piece.len(), |at, part| is_same &= piece[at..at + part.len()] == *part);
        self.differs.fetch_or(!is_same, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_test_compares_data_read_in_any_pieces() {
        let mut written = vec![0; 3 * PATTERN + 7];
        Pattern::new(0x55).fill(&mut written).expect("it is memory");
        let read = |bytes: &[u8], parts: usize| {
            let differs = Arc::new(AtomicBool::new(false));
            let mut compare = Compare { pattern: Pattern::new(0x55), differs: differs.clone() };
            bytes.chunks(parts).for_each(|part| compare.drain(part).expect("it is memory"));
            differs.load(Ordering::Acquire)
        };
        for parts in [1_000, PATTERN, PATTERN + 1, written.len()] {
            assert!(!read(&written, parts), "{parts}");
        }
        let last = written.len() - 1;
        written[last] ^= 1;
        assert!(read(&written, 1_000));
    }

    #[test]
    fn a_cpu_device_of_this_machine_is_found() {
        assert_eq!(find(CPU).map(|info| info.memory), Ok(CPU_MEMORY));
    }

    #[test]
    fn a_gpu_is_missing_only_if_the_driver_shows_others_and_reports_nothing() {
        // A CPU device stands for another GPU.
        let others = vec![find(CPU).expect("a CPU device")];
        let fault = |devices: &[DeviceInfo], note: Option<&str>, failed| {
            let found = Found { devices: devices.to_vec(), note: note.map(str::to_owned), failed };
            choose(found, "GPU-none").expect_err("there is no such GPU").fault()
        };
        assert_eq!(fault(&others, None, false), Some(DeviceFault::MISSING));
        assert_eq!(fault(&[], Some("the NVIDIA driver does not start: out of memory"), true), None);
        assert_eq!(fault(&[], Some("the NVIDIA driver shows no device"), false), None);
        assert_eq!(fault(&others, Some("GPU 1 fails: an unknown error"), true), None);
        assert_eq!(fault(&others, Some("GPU 1 is in compute mode PROHIBITED"), false), None);
    }
}
