//! Measurements of a lane by agents: requests of the measuring agent, and their answers.

use super::first;
use super::lanes::lane_with;
use crate::{Memory, Target};
use accord_fabric::measurement::{BYTES_MAX, answer, measure};

/// Requests, and answers.
pub(super) const MEASUREMENTS: Target = Target {
    name: "measurements",
    run: measurements,
    seeds,
    words: &[],
    input_max: 1 << 10,
    // A lane's buffers hold 2 MiB.
    memory: Memory { fixed: 5 << 20, per_byte: 64 },
    inputs: 2_000,
};

/// One word each to warm up, for a small message, for a bundle and for a stream.
const ANSWERS_MIN: usize = 4 * 8;

/// The first byte selects the receiving side.
fn measurements(mut bytes: &[u8]) {
    let side = first(&mut bytes);
    let (lane, far) = lane_with(bytes);
    if side & 1 == 0 {
        let answered = answer(&*lane);
        let mut back = Vec::new();
        let _ = far.read_to_end(&mut back);
        assert!(back.len() as u64 <= BYTES_MAX);
        assert!(answered.is_ok() || !bytes.is_empty(), "who asks for nothing is answered");
        return;
    }
    let measured = std::thread::scope(|scope| {
        // A reader consumes the answers, because a full lane blocks its writer.
        scope.spawn(|| {
            let mut space = vec![0; 64 << 10];
            while far.read(&mut space).is_ok_and(|read| read > 0) {}
        });
        measure(&*lane)
    });
    if let Ok(times) = measured {
        assert!(bytes.len() >= ANSWERS_MIN && times.small_ns <= times.medium_ns, "{times:?}");
    }
}

fn request(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], &(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let asked = [request(1, &[7; 8]), request(2, &[8; 100]), request(1, &[])].concat();
    vec![[&[0], &asked[..]].concat(), vec![1; 256]]
}
