//! A test whether this machine's MPI is GPU-aware. It runs in a child process, because an MPI that is not crashes. What
//! an MPI reports about itself is not reliable.

use crate::ask::{self, NoAnswer};
use crate::config::MpiGpus;
use crate::own_program::again;
use accord_device::{CopySink, CopySource, Device, StartConfig};
use accord_fabric::transport::mpi::{MpiObject, try_native};
use accord_gpu::VISIBLE;
use accord_types::{
    DeviceInfo, DevicePtr, Error, ErrorCode, GpuAware, HostRange, NativeRange, NodeId, QueueId, Result,
};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The first argument that makes this program run the test and exit; the second one is the object linked with MPI.
pub const ARGUMENT: &str = "mpi-gpus";
/// The time limit of the test: MPI and the driver start, and a few messages are sent.
const TRY_MAX: Duration = Duration::from_secs(20);
/// The time limit of a message to the same process.
const MESSAGE_MAX: Duration = Duration::from_secs(5);
/// Bytes of the messages: MPIs handle short and long ones differently.
const SIZES: [usize; 2] = [64 << 10, 4 << 20];
/// Memory on each device: room for a message's source and target.
const SPACE: u64 = 8 << 20;
/// The answer of a GPU-aware MPI.
const YES: &[u8] = b"yes\n";
/// Prefixes of launchers' variables. A child that inherited them would take the agent's place in the world.
const OF_LAUNCHERS: &[&str] = &[
    "PMIX_",
    "PMI_",
    "PMI2_",
    "OMPI_COMM_",
    "OMPI_UNIVERSE_",
    "OMPI_WORLD_",
    "OMPI_APP_",
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
    "OMPI_MCA_pmix",
    "OMPI_MCA_prte",
    "PRTE_",
    "HYDRA_",
    "MPI_LOCAL",
    "SLURM_",
    "PALS_",
];

/// Returns whether MPI is GPU-aware, by the agent's setting or by the test. `object` is the agent's MPI object; `visible`
/// limits the GPUs of the test.
pub(crate) fn probe(setting: MpiGpus, program: &Path, object: &Path, visible: Option<&str>) -> GpuAware {
    match setting {
        MpiGpus::On => GpuAware::Yes,
        MpiGpus::Off => GpuAware::Untried,
        MpiGpus::Auto => ask(program, object, visible, TRY_MAX).map_or_else(GpuAware::No, |()| GpuAware::Yes),
    }
}

fn ask(program: &Path, object: &Path, visible: Option<&str>, limit: Duration) -> std::result::Result<(), String> {
    let mut command = again(program);
    command.arg(ARGUMENT).arg(object);
    if let Some(visible) = visible {
        command.env(VISIBLE, visible);
    }
    let names = std::env::vars_os().map(|(name, _)| name);
    let of_launcher = |name: &str| OF_LAUNCHERS.iter().any(|prefix| name.starts_with(prefix));
    names.filter(|name| name.to_str().is_some_and(of_launcher)).for_each(|name| {
        command.env_remove(name);
    });
    let answer = ask::ask(command, None, limit, 4096).map_err(|why| match why {
        NoAnswer::Refused(error) | NoAnswer::Unread(error) => format!("the process that tries it: {error}"),
        NoAnswer::Late(_) => format!("it took more than {} s", limit.as_secs()),
        NoAnswer::Failed(status) => format!("it ended the process that tried it ({status})"),
    })?;
    // MPI itself may print messages before.
    match answer.ends_with(YES) {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&answer).trim().to_owned()),
    }
}

/// Runs the process that is started with [`ARGUMENT`].
pub fn main() -> ExitCode {
    // Only the parent reads the answer.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        let _ = writeln!(std::io::stderr(), "accord-node-agent {ARGUMENT}: {error}");
        return ExitCode::FAILURE;
    }
    let answer = match std::env::args_os().nth(2).map(PathBuf::from).map(|object| try_all(&object)) {
        Some(Ok(())) => YES.to_vec(),
        Some(Err(error)) => format!("{}\n", error.cause()).into_bytes(),
        None => b"no object is named\n".to_vec(),
    };
    match std::io::stdout().write_all(&answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Starts MPI first, as an agent does, then the devices, and sends messages between neighbouring devices.
fn try_all(object: &Path) -> Result<()> {
    let system = |error: std::io::Error| Error::new(ErrorCode::System, error.to_string());
    let mut world = MpiObject::load(object).and_then(|object| object.join()).map_err(system)?;
    let found = accord_backends::find(NodeId(0), "");
    let devices: Result<Vec<_>> =
        found.devices.into_iter().map(TestDevice::start).filter_map(Result::transpose).collect();
    let devices = devices?;
    if devices.is_empty() {
        return Err(Error::new(ErrorCode::DeviceUnavailable, "there is no GPU that it could be tried with"));
    }
    for (at, from) in devices.iter().enumerate() {
        // A single GPU sends to itself.
        let to = &devices[(at + 1) % devices.len()];
        for (round, len) in SIZES.into_iter().enumerate() {
            let pattern: Vec<u8> = (0..len).map(|at| (at % 251 + round) as u8).collect();
            from.write(from.start, &pattern)?;
            let there = to.start.offset(SPACE / 2);
            let (Some(bytes), Some(space)) = (from.range(from.start, len), to.range(there, len)) else { continue };
            try_native(&mut *world, bytes, space, MESSAGE_MAX).map_err(system)?;
            if to.read(there, len)? != pattern {
                return Err(Error::new(ErrorCode::System, format!("MPI has lost {len} bytes of a GPU's memory")));
            }
        }
    }
    devices.iter().for_each(|tried| tried.device.shutdown());
    Ok(())
}

/// A device with some memory, as in an executor.
struct TestDevice {
    device: Arc<dyn Device>,
    start: DevicePtr,
}

impl TestDevice {
    /// Returns `None` if libraries can't access memory of such devices.
    fn start(info: DeviceInfo) -> Result<Option<Self>> {
        let backend = accord_backends::backend(info.kind)?;
        if !backend.capabilities.native_handles {
            return Ok(None);
        }
        let device = (backend.start)(info, &StartConfig { ipc: true, scrub: true, ..StartConfig::default() })?;
        let start = device.addresses().0;
        device.map(start, SPACE)?;
        Ok(Some(Self { device, start }))
    }

    fn range(&self, start: DevicePtr, len: usize) -> Option<NativeRange> {
        self.device.native().map(|native| native.range(start, len))
    }

    fn write(&self, to: DevicePtr, bytes: &[u8]) -> Result<()> {
        let stream = self.device.create_stream(QueueId::SYNC)?;
        let range = HostRange { start: bytes.as_ptr().expose_provenance(), len: bytes.len() };
        let seq = self.device.copy_in(stream, to, bytes.len() as u64, CopySource::program(range, true))?;
        self.device.synchronize(stream, seq)
    }

    fn read(&self, from: DevicePtr, len: usize) -> Result<Vec<u8>> {
        let stream = self.device.create_stream(QueueId::SYNC)?;
        let mut bytes = vec![0_u8; len];
        let range = HostRange { start: bytes.as_mut_ptr().expose_provenance(), len };
        let seq = self.device.copy_out(stream, from, len as u64, CopySink::program(range, true))?;
        self.device.synchronize(stream, seq)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Returns the outcome of a program that runs `script` instead of the test.
    fn ask_script(script: &str, limit: Duration) -> std::result::Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n[ \"$1 $2\" = \"{ARGUMENT} /object\" ] || exit 9\n{script}\n"))
            .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        loop {
            match ask(&program, Path::new("/object"), None, limit) {
                // Another test's newly forked child has the file open for writing.
                Err(why) if why.contains("Text file busy") => std::thread::yield_now(),
                answer => return answer,
            }
        }
    }

    #[test]
    fn only_a_process_that_has_seen_it_work_says_so() {
        assert_eq!(ask_script("echo MPI has something to say; echo yes", TRY_MAX), Ok(()));
        assert_eq!(ask_script("echo there is no GPU", TRY_MAX), Err("there is no GPU".to_owned()));
        assert!(ask_script("echo yes; kill -SEGV $$", TRY_MAX).unwrap_err().contains("SIGSEGV"));
        assert!(ask_script("echo yes; exit 3", TRY_MAX).unwrap_err().contains("exit status: 3"));
        assert!(ask_script("exec sleep 600", Duration::from_millis(50)).unwrap_err().contains("more than"));
        assert_eq!(ask_script("true", TRY_MAX), Err(String::new()));
    }

    #[test]
    fn mpi_setting_on_or_off_skips_the_test() {
        let nowhere = Path::new("/nonexistent");
        assert_eq!(probe(MpiGpus::On, nowhere, nowhere, None), GpuAware::Yes);
        assert_eq!(probe(MpiGpus::Off, nowhere, nowhere, None), GpuAware::Untried);
        assert!(matches!(probe(MpiGpus::Auto, nowhere, nowhere, None), GpuAware::No(why) if !why.is_empty()));
    }

    #[test]
    fn an_object_that_is_not_there_is_an_answer() {
        assert!(try_all(Path::new("/nonexistent")).is_err());
    }
}
