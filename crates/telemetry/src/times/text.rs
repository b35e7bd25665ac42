//! Times as text.

use super::{DeviceTimes, PlaceTimes, Tally, Times};
use accord_types::ONE_THREAD;
use std::fmt::Write;

impl Times {
    /// Returns all details of each place, device and wire.
    pub fn details(&self) -> String {
        let mut out = String::new();
        // Writing to a String can't fail.
        let _ = write(self, &mut out);
        out
    }
}

fn write(times: &Times, out: &mut String) -> std::fmt::Result {
    if let Some(rank) = times.rank {
        writeln!(out, "\nRank {rank}")?;
    }
    let mut last: Option<&PlaceTimes> = None;
    for place in &times.places {
        let same = last.is_some_and(|last| {
            (&last.file, last.line, &last.function, &last.construct)
                == (&place.file, place.line, &place.function, &place.construct)
        });
        if !same {
            writeln!(out, "\n{}", heading(place))?;
        }
        last = Some(place);
        write_place(place, times, out)?;
    }
    if !times.devices.is_empty() {
        writeln!(out, "\nDevices, by their own clocks")?;
    }
    for device in &times.devices {
        writeln!(out, "  {}: {}", label(device), device.name)?;
        for (what, tally, bytes) in [
            ("regions", device.launches, None),
            ("copied in", device.copies_in.times, Some(device.copies_in.bytes)),
            ("copied out", device.copies_out.times, Some(device.copies_out.bytes)),
            ("copied within", device.copies.times, Some(device.copies.bytes)),
            ("sent to devices", device.pushes.times, Some(device.pushes.bytes)),
            ("from devices", device.arrivals.times, Some(device.arrivals.bytes)),
        ] {
            if tally.count > 0 {
                let bytes = bytes.map_or(String::new(), |bytes| format!("  {}", size(bytes)));
                writeln!(out, "    {what:<16}{}{bytes}", line(&tally))?;
            }
        }
        for (what, tally) in [("waited for", device.waits), ("started", device.starts)] {
            if tally.count > 0 {
                writeln!(out, "    {what:<16}{}  (by the program's clock)", line(&tally))?;
            }
        }
    }
    if !times.nodes.is_empty() {
        writeln!(out, "\nOn the wire, by the program's clock")?;
    }
    for node in &times.nodes {
        for (way, traffic) in [("to", node.sent), ("from", node.received)] {
            if traffic.bytes > 0 {
                writeln!(out, "  {way:<4} node {}: {} in {}", node.node, size(traffic.bytes), time(traffic.wire_ns))?;
            }
        }
    }
    Ok(())
}

/// Returns the heading of a place: `laplace.c:52-58, main: compute construct`.
pub(super) fn heading(place: &PlaceTimes) -> String {
    let mut text = match place.file.rsplit('/').next() {
        Some(file) if !file.is_empty() => file.to_owned(),
        _ => "(no debug information)".to_owned(),
    };
    if let Some(line) = place.line {
        let _ = write!(text, ":{line}");
        if let Some(end) = place.end_line.filter(|end| *end > line) {
            let _ = write!(text, "-{end}");
        }
    }
    if !place.function.is_empty() {
        let _ = write!(text, ", {}", place.function);
    }
    format!("{text}: {}", place.construct)
}

fn write_place(place: &PlaceTimes, times: &Times, out: &mut String) -> std::fmt::Result {
    let device = place.device.and_then(|num| times.devices.iter().find(|device| device.num == num));
    writeln!(out, "  {}", device.map_or("host".to_owned(), label))?;
    if place.elapsed.count > 0 {
        writeln!(out, "    {:<16}{}", "elapsed", line(&place.elapsed))?;
    }
    for launches in &place.launches {
        let dims = [launches.gangs, launches.workers, launches.vector];
        let [gangs, workers, vector] = dims.map(|dim| if dim == 0 { "?".to_owned() } else { dim.to_string() });
        let vary = if launches.dims_vary { " (the last; they vary)" } else { "" };
        writeln!(
            out,
            "    {:<16}{:>8} x  {}  gangs {gangs}, workers {workers}, vector {vector}{vary}",
            "launched", launches.count, launches.kernel
        )?;
        if launches.one_thread {
            writeln!(out, "    {:<16}{ONE_THREAD}", "")?;
        }
        if launches.on_device.count > 0 {
            let shared = if launches.shared { "  (all regions of this name)" } else { "" };
            writeln!(out, "    {:<16}{}{shared}", "on the device", line(&launches.on_device))?;
        }
    }
    for (what, copies) in [("to the device", place.copies_in), ("from the device", place.copies_out)] {
        if copies.count > 0 {
            writeln!(out, "    {what:<16}{:>8} x  {}", copies.count, size(copies.bytes))?;
        }
    }
    if place.waits.count > 0 {
        writeln!(out, "    {:<16}{}", "waited", line(&place.waits))?;
    }
    Ok(())
}

fn label(device: &DeviceTimes) -> String {
    let remote = if device.remote { ", remote" } else { "" };
    format!("device {} (node {}{remote})", device.num, device.node)
}

fn line(tally: &Tally) -> String {
    let Tally { count, total_ns, min_ns, max_ns } = *tally;
    format!(
        "{count:>8} x  total {:>9}  min {:>9}  max {:>9}  avg {:>9}",
        time(total_ns),
        time(min_ns),
        time(max_ns),
        time(tally.average_ns())
    )
}

/// Writes a time with at least three significant digits and a suitable unit.
pub(super) fn time(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.3} s", value / 1e9),
    }
}

pub(super) fn size(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.2} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} MB", value / 1e6),
        _ => format!("{:.3} GB", value / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Copies, Launches, Moved, NodeTimes, Traffic};
    use super::*;

    fn tally(times: &[u64]) -> Tally {
        let mut tally = Tally::default();
        times.iter().for_each(|ns| tally.add(*ns));
        tally
    }

    fn example() -> Times {
        let device = DeviceTimes {
            num: 1,
            node: "n2".into(),
            name: "A CPU".into(),
            remote: true,
            launches: tally(&[1_000, 3_000]),
            copies_in: Moved { times: tally(&[500]), bytes: 4_000 },
            ..DeviceTimes::default()
        };
        let place = PlaceTimes {
            file: "/home/me/laplace.c".into(),
            function: "main".into(),
            line: Some(52),
            end_line: Some(58),
            construct: "compute construct".into(),
            device: Some(1),
            elapsed: tally(&[2_000_000, 4_000_000]),
            launches: vec![Launches {
                kernel: "main._omp_fn.0".into(),
                count: 2,
                gangs: 8,
                workers: 1,
                on_device: tally(&[1_000, 3_000]),
                ..Launches::default()
            }],
            copies_in: Copies { count: 1, bytes: 4_000 },
            ..PlaceTimes::default()
        };
        Times {
            program: "laplace".into(),
            rank: Some(3),
            wall_ns: 5_000_000,
            devices: vec![device],
            ended: true,
            nodes: vec![NodeTimes {
                node: "n2".into(),
                sent: Traffic { bytes: 8_000_000, wire_ns: 2_000_000 },
                received: Traffic::default(),
            }],
            places: vec![place],
        }
    }

    #[test]
    fn a_report_says_where_what_and_how_long() {
        let text = example().text();
        for part in [
            "Accord times: laplace, 5.00 ms",
            "\nRank 3\n",
            "laplace.c:52-58, main: compute construct\n  device 1 (node n2, remote)\n",
            "2 x  total   6.00 ms  min   2.00 ms  max   4.00 ms  avg   3.00 ms",
            "2 x  main._omp_fn.0  gangs 8, workers 1, vector ?",
            "2 x  total   4.00 us  min   1.00 us  max   3.00 us  avg   2.00 us",
            "1 x  4.00 kB",
            "On the wire, by the program's clock\n  to   node n2: 8.00 MB in 2.00 ms\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn programs_read_the_same() {
        let value: serde_json::Value = serde_json::from_str(&example().json()).unwrap();
        assert_eq!(value["rank"], 3);
        assert_eq!(value["places"][0]["device"], 1);
        assert_eq!(value["places"][0]["elapsed"]["average_ns"], 3_000_000);
        assert_eq!(value["places"][0]["launches"][0]["on_device"]["max_ns"], 3_000);
        assert_eq!(value["devices"][0]["copies_in"]["bytes"], 4_000);
        assert_eq!(Times::from_json(&example().json()), Ok(example()));
        assert_eq!(value["nodes"][0]["sent"], serde_json::json!({ "bytes": 8_000_000, "wire_ns": 2_000_000 }));
    }
}
