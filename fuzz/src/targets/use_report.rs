//! Reports of an executor to its agent. A program's regions may make the executor write anything.

use super::first;
use crate::{Memory, Target};
use accord_fabric::use_report::{UseReader, encode};
use accord_types::DeviceUse;

/// Reports as bytes, in parts.
pub(super) const REPORTS: Target = Target {
    name: "use_reports",
    run: reports,
    seeds,
    words: &[],
    input_max: 1 << 10,
    memory: Memory { fixed: 4 << 10, per_byte: 16 },
    inputs: 60_000,
};

fn reports(mut bytes: &[u8]) {
    let part = usize::from(first(&mut bytes)) + 1;
    let whole = UseReader::default().take(bytes);
    let mut reader = UseReader::default();
    let parts: Vec<_> = bytes.chunks(part).flat_map(|part| reader.take(part)).collect();
    assert_eq!(parts, whole);
    assert_eq!(UseReader::default().take(&encode(&whole)), whole);
}

fn seeds() -> Vec<Vec<u8>> {
    let known = DeviceUse { busy_ms: Some(7), bytes_in: 1 << 40, bytes_out: u64::MAX, held: 2, fault: None };
    let unknown = DeviceUse { busy_ms: None, ..known };
    let seed = |part: u8, uses: &[(u32, DeviceUse)]| [&[part][..], &encode(uses)].concat();
    vec![seed(39, &[(3, known)]), seed(6, &[(0, unknown), (u32::MAX, known)])]
}
