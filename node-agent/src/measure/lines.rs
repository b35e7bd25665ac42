//! Figures as lines of text, from the measuring process to its agent, and in the file of kept figures.

use accord_types::{DeviceFigures, DevicePair, NodeFigures, PathTimes};
use std::fmt::Write;

/// Most lines to read.
const LINES_MAX: usize = 4_096;

/// Writes all figures, with devices by their ordinals.
pub(super) fn write(figures: &NodeFigures) -> String {
    let mut text = String::new();
    if let Some(times) = &figures.host_copy {
        let _ = writeln!(text, "host {}", words(times));
    }
    for device in &figures.devices {
        let (to, from) = (words(&device.to_device), words(&device.from_device));
        let _ = writeln!(text, "device {} {to} {from} {}", device.ordinal, device.launch_ns);
    }
    for pair in &figures.pairs {
        let _ = writeln!(text, "pair {} {} {}", pair.from, pair.to, words(&pair.times));
    }
    if !figures.note.is_empty() {
        let _ = writeln!(text, "note {}", figures.note.replace('\n', " "));
    }
    text.push_str("end\n");
    text
}

/// Parses the output of [`write`]. Replaces each device number by the ordinal at that place of `ordinals`. Returns
/// `None` if the text is malformed or incomplete.
pub(super) fn read(text: &str, ordinals: &[u32]) -> Option<NodeFigures> {
    let mut figures = NodeFigures::default();
    let ordinal = |place: u64| ordinals.get(usize::try_from(place).ok()?).copied();
    for line in text.lines().take(LINES_MAX) {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        if kind == "note" {
            rest.clone_into(&mut figures.note);
            continue;
        }
        let numbers: Option<Vec<u64>> = rest.split_whitespace().map(|word| word.parse().ok()).collect();
        match (kind, &numbers?[..]) {
            ("end", []) => return Some(figures),
            ("host", &[a, b, c]) => figures.host_copy = Some(PathTimes::new(a, b, c)),
            ("device", &[place, a, b, c, d, e, f, launch_ns]) => figures.devices.push(DeviceFigures {
                ordinal: ordinal(place)?,
                to_device: PathTimes::new(a, b, c),
                from_device: PathTimes::new(d, e, f),
                launch_ns,
            }),
            ("pair", &[from, to, a, b, c]) => {
                let times = PathTimes::new(a, b, c);
                figures.pairs.push(DevicePair { from: ordinal(from)?, to: ordinal(to)?, times });
            }
            _ => return None,
        }
    }
    None
}

fn words(times: &PathTimes) -> String {
    format!("{} {} {}", times.small_ns, times.medium_ns, times.stream_bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurement_file_round_trips_with_device_numbers() {
        let times = |ns| PathTimes::new(ns, ns + 1, ns + 2);
        let device = |ordinal| DeviceFigures { ordinal, to_device: times(1), from_device: times(4), launch_ns: 9 };
        let figures = NodeFigures {
            host_copy: Some(times(7)),
            devices: vec![device(0), device(1)],
            pairs: vec![DevicePair { from: 0, to: 1, times: times(5) }],
            note: "of two\nlines".to_owned(),
            ..NodeFigures::default()
        };
        let text = write(&figures);
        let again = read(&text, &[3, 8]).unwrap();
        assert_eq!(again.devices, [device(3), device(8)]);
        assert_eq!((again.pairs[0].from, again.pairs[0].to, again.pairs[0].times), (3, 8, times(5)));
        assert_eq!((again.host_copy, again.note.as_str()), (Some(times(7)), "of two lines"));
        assert_eq!(read(&text, &[3]), None, "a device that is not there");
        for end in 0..text.len() - 1 {
            assert_eq!(read(&text[..end], &[3, 8]).filter(|read| *read == again), None, "{end}");
        }
        for wrong in ["", "host 1 2\nend\n", "host 1 2 x\nend\n", "else 1\nend\n", "device 0 1 2 3\nend\n"] {
            assert_eq!(read(wrong, &[0]), None, "{wrong}");
        }
    }
}
