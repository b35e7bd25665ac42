//! Answers of a CPU device's worker, in whose process the program's own code runs.

use crate::{Memory, Target};
use accord_device::cpu::answer_len;

/// Answers, one after the other.
pub(super) const ANSWERS: Target = Target {
    name: "worker_answers",
    run: answers,
    seeds,
    words: &[],
    input_max: 512,
    // The longest text, which is read into allocated memory.
    memory: Memory { fixed: 68 << 10, per_byte: 16 },
    inputs: 60_000,
};

fn answers(mut bytes: &[u8]) {
    while let Some(len) = answer_len(bytes) {
        assert!((1..=bytes.len()).contains(&len));
        bytes = &bytes[len..];
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let done = [&[1][..], &0x7000_u64.to_ne_bytes(), &0x4000_u64.to_ne_bytes()].concat();
    let failed = [&[2][..], &14_u64.to_ne_bytes(), b"no such object"].concat();
    vec![[&done[..], &failed].concat(), failed, done]
}
