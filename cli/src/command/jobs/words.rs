//! Devices and times of jobs, for tables and JSON.

use crate::output::{age, bytes, runs};
use accord_proto::v1::JobDevices;

/// Writes nodes with the ordinals of their devices, and each device's share if it is not whole: `gpu01/0-3
/// gpu02/0:50%`.
pub(crate) fn devices(devices: &[JobDevices]) -> String {
    let words = devices.iter().map(|on| {
        let memory = (on.memory > 0).then(|| bytes(on.memory).replace(' ', ""));
        let share = (!on.exclusive && on.share_milli > 0).then(|| format!("{}%", f64::from(on.share_milli) / 10.0));
        let part: String = memory.into_iter().chain(share).map(|part| format!(":{part}")).collect();
        format!("{}/{}{part}", on.node_name, runs(&on.ordinals))
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

/// Returns the number of devices.
pub(super) fn device_count(devices: &[JobDevices]) -> usize {
    devices.iter().map(|on| on.ordinals.len()).sum()
}

/// Writes a future time: `in 12 min`.
pub(super) fn ahead(at_unix_ms: u64, unix_ms: u64) -> String {
    match at_unix_ms.saturating_sub(unix_ms) {
        0 => "now".to_owned(),
        ms => format!("in {}", age(ms)),
    }
}

/// Writes a past time: `12 min ago`.
pub(crate) fn ago(at_unix_ms: u64, unix_ms: u64) -> String {
    format!("{} ago", age(unix_ms.saturating_sub(at_unix_ms)))
}

/// Device time in hours, with three decimals.
pub(super) fn hours(ms: u64) -> String {
    // Thousandths of an hour, rounded.
    let milli = ms.saturating_add(1_800) / 3_600;
    format!("{}.{:03}", milli / 1_000, milli % 1_000)
}

/// Writes the busy part of device time: `75 %`, or `75 % of 1.500` if the rest is unknown.
pub(super) fn busy_part(held_ms: u64, unknown_ms: u64, busy_ms: u64) -> String {
    let known = held_ms.saturating_sub(unknown_ms);
    match (held_ms, known) {
        (0, _) => "-".to_owned(),
        (_, 0) => "unknown".to_owned(),
        _ => {
            // Samples are rounded up.
            let busy = u128::from(busy_ms.min(known)) * 100 / u128::from(known);
            let of = if unknown_ms > 0 { format!(" of {}", hours(known)) } else { String::new() };
            format!("{busy} %{of}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_short() {
        let whole = JobDevices {
            node_name: "gpu01".into(),
            ordinals: vec![0, 1, 2],
            exclusive: true,
            share_milli: 1_000,
            ..JobDevices::default()
        };
        let part = JobDevices {
            node_name: "gpu02".into(),
            ordinals: vec![7],
            share_milli: 125,
            memory: 20 << 30,
            ..JobDevices::default()
        };
        assert_eq!(devices(&[whole, part]), "gpu01/0-2 gpu02/7:20.0GiB:12.5%");
        assert_eq!(devices(&[]), "-");
    }

    #[test]
    fn unknown_time_is_not_idle() {
        let displayed = [busy_part(0, 0, 0), busy_part(4_000, 0, 3_000), busy_part(4_000, 0, 9_000)];
        assert_eq!(displayed, ["-", "75 %", "100 %"]);
        assert_eq!([busy_part(4_000, 4_000, 0), busy_part(7_200_000, 1_800_000, 0)], ["unknown", "0 % of 1.500"]);
    }

    #[test]
    fn times_are_short() {
        assert_eq!([ahead(5_000, 5_000), ahead(3_000, 5_000), ahead(725_000, 5_000)], ["now", "now", "in 12 min"]);
        assert_eq!(ago(5_000, 65_000), "60 s ago");
        assert_eq!([hours(0), hours(1_800), hours(3_600_000), hours(9_000_000)], ["0.000", "0.001", "1.000", "2.500"]);
    }
}
