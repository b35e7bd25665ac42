//! One program's trace.

use accord_types::{DeviceId, DeviceNum, Span};

/// Activity of one program (one rank) on its devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    /// The program's name.
    pub program: String,
    /// Its rank in an MPI job.
    pub rank: Option<u32>,
    /// The devices of its session, including unused ones.
    pub devices: Vec<TraceDevice>,
    /// The spans, in any order.
    pub spans: Vec<Span>,
    /// Number of spans that were dropped for lack of room.
    pub lost: u64,
}

/// A device as a trace names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceDevice {
    /// Node and ordinal of the device.
    pub id: DeviceId,
    /// The device's number in the program.
    pub num: DeviceNum,
    /// Its machine's name.
    pub node_name: String,
    /// Its product name.
    pub name: String,
    /// The transport of its operations, and the reason for it. Empty for a device that was not used.
    pub route: String,
}

/// Returns the path of a trace: `%r` in `pattern` becomes the rank (0 without one), `%p` the process id, `%%` a percent
/// sign.
pub fn trace_path(pattern: &str, rank: Option<u32>, pid: u32) -> String {
    let mut path = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            path.push(c);
            continue;
        }
        match chars.next() {
            Some('r') => path.push_str(&rank.unwrap_or(0).to_string()),
            Some('p') => path.push_str(&pid.to_string()),
            Some('%') | None => path.push('%'),
            Some(other) => {
                path.push('%');
                path.push(other);
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::trace_path;

    #[test]
    fn paths_take_rank_and_process() {
        assert_eq!(trace_path("/tmp/t.%r.%p.json", Some(3), 77), "/tmp/t.3.77.json");
        assert_eq!(trace_path("t%r", None, 1), "t0");
        assert_eq!(trace_path("100%%-%x-%", Some(1), 1), "100%-%x-%");
    }
}
