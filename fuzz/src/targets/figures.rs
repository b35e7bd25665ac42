//! Figures of a node: the output of the measuring process, and the file that caches it.

use crate::{Memory, Target};
use accord_types::{DeviceFigures, DevicePair, NodeFigures, PathTimes};

/// The module is private to the agent, so this includes its file.
#[allow(dead_code, unreachable_pub, reason = "the agent uses all of it")]
#[path = "../../../node-agent/src/measure/lines.rs"]
mod code;

/// Figures as lines.
pub(super) const FIGURES: Target = Target {
    name: "figures",
    run: figures,
    seeds,
    words: &["host ", "device ", "pair ", "note ", "end\n", " 18446744073709551615", " 0", "\n", "\r\n"],
    input_max: 2 << 10,
    memory: Memory { fixed: 8 << 10, per_byte: 128 },
    inputs: 30_000,
};

const ORDINALS: [u32; 4] = [0, 1, 2, 3];

fn figures(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(mut figures) = code::read(&text, &ORDINALS) else { return };
    assert!(figures.devices.iter().all(|device| ORDINALS.contains(&device.ordinal)));
    let mut again = code::read(&code::write(&figures), &ORDINALS).unwrap();
    // A carriage return at the end of a note is part of the line's end.
    figures.note = figures.note.trim_end_matches('\r').to_owned();
    again.note = again.note.trim_end_matches('\r').to_owned();
    assert_eq!(again, figures);
}

fn seeds() -> Vec<Vec<u8>> {
    let times = |ns| PathTimes::new(ns, 3 * ns, 1 << 30);
    let device = |ordinal| DeviceFigures { ordinal, to_device: times(900), from_device: times(800), launch_ns: 7_000 };
    let figures = NodeFigures {
        host_copy: Some(times(50)),
        devices: vec![device(0), device(3)],
        pairs: vec![DevicePair { from: 0, to: 3, times: times(1_000) }],
        note: "a GPU is busy".to_owned(),
        ..NodeFigures::default()
    };
    vec![code::write(&figures).into_bytes(), code::write(&NodeFigures::default()).into_bytes()]
}
