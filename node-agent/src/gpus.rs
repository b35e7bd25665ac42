//! This machine's GPUs, listed by a child process. So the agent survives a driver that hangs or crashes. It holds no
//! device open, so that a driver can be replaced while it runs.

use crate::ask::{self, NoAnswer};
use crate::offered_gpus::Gpus;
use crate::own_program::again;
use accord_proto::{bounds, v1};
use accord_types::{DeviceInfo, NodeId};
use prost::Message;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The first argument that makes this program list the GPUs and exit.
pub const ARGUMENT: &str = "gpus";
/// A second argument: also measure the memory that the driver takes for each process.
const CONTEXTS: &str = "contexts";
/// The time limit of the listing. Drivers of machines with many GPUs take seconds to start.
const LISTING_MAX: Duration = Duration::from_secs(30);
/// Most bytes of a [`Gpus`].
const ANSWER_MAX: u64 = 1 << 20;

/// Lists the GPUs.
pub fn main() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ =
                writeln!(std::io::stderr(), "accord-node-agent {ARGUMENT}: {error}; this is started by an agent only");
            ExitCode::FAILURE
        }
    }
}

fn print() -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut answer = std::fs::File::from(rustix::io::dup(rustix::stdio::stdout())?);
    // The driver's output must not mix with the answer.
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let mut found = accord_backends::find(NodeId(0), "");
    if std::env::args_os().nth(2).is_some_and(|argument| argument == CONTEXTS) {
        accord_gpu::measure_contexts(&mut found.devices);
    }
    let gpus = v1::Gpus {
        devices: found.devices.into_iter().map(Into::into).collect(),
        note: found.note.unwrap_or_default(),
        failed: found.failed,
    };
    answer.write_all(&gpus.encode_to_vec())
}

/// Returns the usable GPUs that are offered, listed by a child process of `program`, this one, and logs problems. With
/// `measures` the child also measures the memory that the driver takes for each process.
pub(crate) fn list(program: &Path, node_name: &str, wanted: &Gpus, measures: bool) -> Vec<DeviceInfo> {
    if *wanted == Gpus::Off {
        return Vec::new();
    }
    let found = ask(program, LISTING_MAX, measures).and_then(|gpus| {
        let devices = gpus.devices.into_iter().map(|device| {
            DeviceInfo::try_from(device).map(|info| DeviceInfo { node_name: node_name.to_owned(), ..info })
        });
        let devices: Vec<_> = devices.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        Ok((devices, gpus.note, gpus.failed))
    });
    let (devices, note, failed) =
        found.unwrap_or_else(|why| (Vec::new(), format!("{why}, or start the agent with --gpus off"), true));
    let (devices, missed) = wanted.choose(devices);
    let (offered, failed) = (devices.len(), failed || !missed.is_empty());
    let note = missed.into_iter().chain((!note.is_empty()).then_some(note)).collect::<Vec<_>>().join("; ");
    match (note.is_empty(), failed) {
        (true, _) => tracing::info!("GPUs offered: {offered}"),
        (false, true) => tracing::warn!("GPUs offered: {offered}; {note}"),
        (false, false) => tracing::info!("GPUs offered: {offered}; {note}"),
    }
    devices
}

/// Lists the GPUs by a child process. The error includes the remedy.
fn ask(program: &Path, limit: Duration, measures: bool) -> Result<v1::Gpus, String> {
    let mut command = again(program);
    command.arg(ARGUMENT).args(measures.then_some(CONTEXTS));
    let bytes = ask::ask(command, None, limit, ANSWER_MAX).map_err(|why| match why {
        NoAnswer::Refused(error) => {
            format!("the process that looks for GPUs can't be started: {error}; raise ulimit -u")
        }
        NoAnswer::Late(_) => {
            let limit = limit.as_secs();
            format!("the NVIDIA driver did not answer within {limit} s; look at the kernel's messages")
        }
        NoAnswer::Failed(status) => {
            format!("the NVIDIA driver ended the process that looked for GPUs ({status}); reinstall it")
        }
        NoAnswer::Unread(error) => error.to_string(),
    })?;
    bounds::read(&bytes).map_err(|error| {
        format!("{} did not say which GPUs there are ({error}); install one version of Accord", program.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Returns the outcome of a program that runs `script` instead of listing GPUs.
    fn ask_script(script: &str, limit: Duration) -> Result<v1::Gpus, String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n[ \"$1\" = {ARGUMENT} ] || exit 9\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        loop {
            match ask(&program, limit, false) {
                // Another test's newly forked child has the file open for writing.
                Err(why) if why.contains("Text file busy") => std::thread::yield_now(),
                answer => return answer,
            }
        }
    }

    #[test]
    fn a_driver_that_hangs_blocks_no_caller() {
        let why = ask_script("exec sleep 600", Duration::from_millis(50)).unwrap_err();
        assert!(why.contains("did not answer"), "{why}");
    }

    #[test]
    fn a_driver_that_crashes_ends_only_its_own_process() {
        let why = ask_script("kill -SEGV $$", LISTING_MAX).unwrap_err();
        assert!(why.contains("SIGSEGV"), "{why}");
        let why = ask_script("exit 3", LISTING_MAX).unwrap_err();
        assert!(why.contains("exit status: 3"), "{why}");
    }

    #[test]
    fn an_answer_without_sense_is_none() {
        let why = ask_script("echo no protobuf", LISTING_MAX).unwrap_err();
        assert!(why.contains("did not say"), "{why}");
        assert!(list(Path::new("/nonexistent"), "h", &Gpus::Auto, true).is_empty());
        // An empty output decodes as an empty message.
        assert_eq!(ask_script("true", LISTING_MAX), Ok(v1::Gpus::default()));
    }
}
