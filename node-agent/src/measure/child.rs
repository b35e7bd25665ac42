//! The process that measures a node, which is an ordinary program with libacc.so.

use super::lines;
use super::sampling::{STREAM, median, path};
use accord_device::cpu::collect_orphans;
use accord_openacc::OpenAcc;
use accord_types::{DeviceFigures, DevicePair, NodeFigures};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::hint::black_box;
use std::io::Write;
use std::process::ExitCode;

/// The first argument that makes this program measure its machine, print the figures and exit.
pub const ARGUMENT: &str = "measure";
/// Most measured devices; the others are assumed equal.
const DEVICES_MAX: u32 = 16;
/// Most measured pairs: each device with the next, in both directions.
const PAIRS_MAX: usize = 16;

/// Measures. Devices are identified by their numbers in this process.
pub fn main() -> ExitCode {
    match measured() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ =
                writeln!(std::io::stderr(), "accord-node-agent {ARGUMENT}: {why}; this is started by an agent only");
            ExitCode::FAILURE
        }
    }
}

fn measured() -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    // Otherwise workers would become the agent's orphans, which it ends.
    collect_orphans().map_err(|error| error.to_string())?;
    let openacc = OpenAcc::here().ok_or("libacc.so is not loaded")?;
    let text = lines::write(&figures(&openacc));
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

fn figures(openacc: &OpenAcc) -> NodeFigures {
    let (source, mut target) = (vec![1u8; STREAM], vec![0u8; STREAM]);
    let host_copy = path(|bytes| black_box(&mut target)[..bytes].copy_from_slice(&black_box(&source)[..bytes]));
    drop((source, target));

    let all = openacc.devices();
    let count = all.min(DEVICES_MAX);
    let mut memory = openacc.present(STREAM);
    let devices = (0..count).map(|number| DeviceFigures {
        ordinal: number,
        to_device: path(|bytes| memory.to_device(number, bytes)),
        from_device: path(|bytes| memory.from_device(number, bytes)),
        launch_ns: u64::try_from(median(|| openacc.launch(number)).as_nanos()).unwrap_or(u64::MAX),
    });
    let devices = devices.collect();
    let ring = (0..count).map(|first| (first, (first + 1) % count)).filter(|(first, next)| first != next);
    let both = ring.flat_map(|(first, next)| [(first, next), (next, first)]);
    let mut pairs: Vec<(u32, u32)> = both.collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs.truncate(PAIRS_MAX);
    let pairs = pairs.into_iter().map(|(from, to)| DevicePair {
        from,
        to,
        times: path(|bytes| memory.between(from, to, bytes)),
    });
    let note = if all > count { format!("{count} of {all} devices were measured") } else { String::new() };
    NodeFigures { host_copy: Some(host_copy), devices, pairs: pairs.collect(), note, ..NodeFigures::default() }
}
