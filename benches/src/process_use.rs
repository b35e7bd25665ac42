//! Use of the machine by another process.

use std::fs;

/// Clock ticks of `/proc/PID/stat` in a second.
const TICKS: f64 = 100.0;
/// Places of user and system time after the program's name.
const TIMES_AT: [usize; 2] = [11, 12];

/// Returns the processor time of a process so far.
pub(crate) fn processor_ms(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let words: Vec<&str> = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let ticks = TIMES_AT.map(|at| words.get(at).and_then(|word| word.parse::<f64>().ok()));
    match ticks {
        [Some(user), Some(system)] => Ok((user + system) * 1e3 / TICKS),
        _ => Err(format!("{path} has no times")),
    }
}

/// Returns the resident memory of a process.
pub(crate) fn resident_bytes(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib * 1_024.0).ok_or_else(|| format!("{path} has no VmRSS"))
}
