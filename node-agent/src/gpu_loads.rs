//! How busy this machine's GPUs are, whichever programs use them, as the driver's management library tells it. A child
//! process asks: it keeps the driver open, and may hang with it.

use crate::own_program::again;
use crate::process::{self, Spawner};
use crate::supervise::Supervisor;
use accord_gpu::nvml::Nvml;
use accord_types::{DeviceInfo, DeviceLoad, threads};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal, set_parent_process_death_signal};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{ChildStdout, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// The first argument that makes this program print the GPUs' loads. Names of GPUs follow: `ORDINAL=UUID`.
pub const ARGUMENT: &str = "gpu-loads";
/// The begin of the driver's names of GPUs, which the library knows.
const UUID_PREFIX: &str = "GPU-";
/// Time between two samples.
const PERIOD: Duration = Duration::from_secs(1);
/// Silence of the child after which the loads are unknown: the driver hangs.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Pause before the next child after one that failed.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Longest line of the child.
const LINE_MAX: usize = 128;
/// The child's exit code if the library is missing.
const ABSENT: u8 = 3;

/// Prints loads that have changed, a line each, and an empty line after each sample.
pub fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::from(ABSENT),
        Err(error) => {
            let _ = writeln!(io::stderr(), "accord-node-agent {ARGUMENT}: {error}; this is started by an agent only");
            ExitCode::FAILURE
        }
    }
}

/// Returns only if there is no library.
fn print() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut output = std::fs::File::from(rustix::io::dup(rustix::stdio::stdout())?);
    // The library's output must not mix with the lines.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let Some(nvml) = Nvml::load() else { return Ok(()) };
    let gpus = std::env::args().skip(2).filter_map(|name| {
        let (ordinal, uuid) = name.split_once('=')?;
        Some((ordinal.parse::<u32>().ok()?, nvml.gpu(uuid)?))
    });
    let gpus: Vec<_> = gpus.collect();
    let mut printed: BTreeMap<u32, DeviceLoad> = BTreeMap::new();
    loop {
        let mut lines = String::new();
        for (ordinal, gpu) in &gpus {
            let load = nvml.load_of(*gpu);
            if printed.insert(*ordinal, load) != Some(load) {
                lines += &format!("{ordinal} {load}\n");
            }
        }
        lines.push('\n');
        output.write_all(lines.as_bytes())?;
        std::thread::sleep(PERIOD);
    }
}

/// Watches the load of the GPUs among `devices`, on a thread of its own.
///
/// # Errors
/// Returns the system's error if it has no thread.
pub(crate) fn watch(
    program: &Path,
    spawner: Option<&Spawner>,
    devices: &[DeviceInfo],
    supervisor: &Arc<Supervisor>,
) -> io::Result<()> {
    let gpus = devices.iter().filter(|device| device.uuid.starts_with(UUID_PREFIX));
    let (known, names): (Vec<u32>, Vec<String>) =
        gpus.map(|gpu| (gpu.id.ordinal, format!("{}={}", gpu.id.ordinal, gpu.uuid))).unzip();
    if names.is_empty() {
        return Ok(());
    }
    let (program, spawner, supervisor) = (program.to_owned(), spawner.cloned(), supervisor.clone());
    let follow = move || {
        let take = |ordinal, load| supervisor.apply(|node, _, _| node.loaded(ordinal, load));
        while follow_child(&program, spawner.as_ref(), (&known, &names), &take) {
            supervisor.apply(|node, _, _| node.loads_unknown());
            std::thread::sleep(AGAIN_AFTER);
        }
    };
    threads::spawn("accord-loads", follow).map(drop)
}

/// Starts a child and passes its loads on until it ends, or is silent and is ended. Returns whether another one may
/// succeed.
fn follow_child(
    program: &Path,
    spawner: Option<&Spawner>,
    (known, names): (&[u32], &[String]),
    take: &dyn Fn(u32, DeviceLoad),
) -> bool {
    let mut command = again(program);
    command.arg(ARGUMENT).args(names).stdin(Stdio::null()).stdout(Stdio::piped());
    let started = match spawner {
        Some(spawner) => spawner.spawn(command),
        None => process::start(&mut command).map(|(child, handle, _)| (child, handle)),
    };
    let (mut child, handle) = match started {
        Ok(started) => started,
        Err(error) => {
            tracing::info!("the load of GPUs is unknown: the process that asks for it can't be started: {error}");
            return true;
        }
    };
    let read = child.stdout.take().map(|output| read_loads(output, known, take));
    if let Some(Err(error)) = read {
        tracing::warn!("the load of GPUs is unknown: {error}; look at the kernel's messages");
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        known.iter().for_each(|ordinal| take(*ordinal, DeviceLoad::default()));
        // One that hangs inside the driver is waited for: the next one would hang there, too.
        let _ = child.wait();
        return true;
    }
    let absent = child.wait().is_ok_and(|status| status.code() == Some(ABSENT.into()));
    if absent {
        tracing::info!("the load of GPUs is unknown: there is no usable libnvidia-ml.so.1");
    }
    !absent
}

/// Reads lines until the output ends.
///
/// # Errors
/// Returns `TimedOut` if the process is silent for too long, or an error of reading, or of a line that is too long.
fn read_loads(mut output: ChildStdout, known: &[u32], take: &dyn Fn(u32, DeviceLoad)) -> io::Result<()> {
    let silence = Timespec { tv_sec: SILENCE_MAX.as_secs().cast_signed(), tv_nsec: 0 };
    let mut bytes = Vec::new();
    loop {
        if poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&silence))? == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the NVIDIA driver does not answer"));
        }
        let mut piece = [0; LINE_MAX];
        match output.read(&mut piece)? {
            0 => return Ok(()),
            read => bytes.extend_from_slice(&piece[..read]),
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            if let Some((ordinal, load)) = parse(&line)
                && known.contains(&ordinal)
            {
                take(ordinal, load);
            }
        }
        if bytes.len() > LINE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line about GPUs is too long"));
        }
    }
}

fn parse(line: &[u8]) -> Option<(u32, DeviceLoad)> {
    let (ordinal, load) = std::str::from_utf8(line).ok()?.trim_end().split_once(' ')?;
    Some((ordinal.parse().ok()?, load.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::short_lock::ShortLock;
    use std::process::Command;

    /// Returns the loads from a program that runs `script`, and whether another one may succeed.
    fn follow(script: &str) -> (Vec<(u32, DeviceLoad)>, bool) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let text = format!("#!/bin/sh\n[ \"$1 $2\" = \"{ARGUMENT} 0=GPU-1\" ] || exit 9\n{script}\n");
        // Another process writes it: a new child of this one may have the open file, which could not be executed then.
        let write = "printf %s \"$1\" >\"$0\" && chmod 700 \"$0\"";
        assert!(Command::new("sh").args(["-c", write]).arg(&program).arg(text).status().unwrap().success());
        let loads = ShortLock::new(Vec::new());
        let take = |ordinal, load| loads.lock().push((ordinal, load));
        let again = follow_child(&program, None, (&[0], &["0=GPU-1".to_owned()]), &take);
        let loads = loads.lock().clone();
        (loads, again)
    }

    #[test]
    fn loads_of_known_gpus_are_passed_on() {
        let (loads, again) = follow("echo '0 97 1024'; echo; echo '7 1 1'; echo nonsense; echo '0 - -'; echo");
        let load = DeviceLoad { busy_percent: Some(97), memory_used: Some(1_024) };
        assert_eq!((loads, again), (vec![(0, load), (0, DeviceLoad::default())], true));
    }

    #[test]
    fn without_the_library_no_further_process_is_started() {
        assert_eq!(follow(&format!("exit {ABSENT}")), (Vec::new(), false));
    }

    #[test]
    fn endless_lines_end_the_process() {
        let (loads, again) = follow("while :; do printf 0123456789; done");
        assert!(loads.iter().all(|(_, load)| *load == DeviceLoad::default()) && again, "{loads:?}");
    }
}
