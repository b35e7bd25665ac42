//! The worker ring: a ring of records in shared memory, one writer (the owner, under the
//! stream's lock) and one reader (the worker's thread of that stream).

use super::layout::{Control, RING_BYTES};
use accord_types::ArgBlock;
use std::sync::atomic::Ordering;

/// Runs a function.
pub(crate) const LAUNCH: u32 = 1;
/// Writes the bytes that follow.
pub(crate) const STORE: u32 = 2;
/// Moves bytes within the device.
pub(crate) const COPY: u32 = 3;
/// Waits for another stream of the device.
pub(crate) const WAIT: u32 = 4;
/// Nothing: the rest of the ring up to its end.
const SKIP: u32 = 5;

/// Head of every record; the payload follows. 16-byte aligned, so that the argument block is.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Record {
    /// Bytes of head and payload, rounded up to 16.
    pub(crate) bytes: u32,
    pub(crate) kind: u32,
    /// Position in the stream.
    pub(crate) seq: u64,
    /// The owner queue must have done this position first.
    pub(crate) after: u64,
    /// LAUNCH: function address. STORE, COPY: destination. WAIT: stream.
    pub(crate) a: u64,
    /// COPY: source. WAIT: position.
    pub(crate) b: u64,
    /// LAUNCH: bytes of the block. STORE, COPY: bytes.
    pub(crate) c: u64,
}

/// Bytes of a record's head.
pub(super) const HEAD: usize = size_of::<Record>();

/// Largest store that goes through the ring.
pub(crate) const STORE_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(HEAD == 48);
const _: () = assert!(RING_BYTES >= 8 * (HEAD + STORE_BYTES_MAX));
const _: () = assert!(STORE_BYTES_MAX > 2 * ArgBlock::BYTES_MAX);

/// Puts a record with its payload, given in two parts, into the ring. False: no room now.
///
/// The caller holds the stream's lock: there is one writer.
pub(crate) fn push(control: &Control, stream: u32, mut record: Record, first: &[u8], second: &[u8]) -> bool {
    let shared = control.stream(stream);
    let payload = first.len() + second.len();
    let bytes = (HEAD + payload).next_multiple_of(16);
    let head = shared.head.load(Ordering::Relaxed);
    let tail = shared.tail.load(Ordering::Acquire);
    let at = head as usize & (RING_BYTES - 1);
    let to_end = RING_BYTES - at;
    let skip = if bytes > to_end { to_end } else { 0 };
    if head + (skip + bytes) as u64 - tail > RING_BYTES as u64 {
        return false;
    }
    let ring = control.ring(stream);
    // SAFETY: [head, head + skip + bytes) is free: the reader has passed it (tail), and no other
    // writer exists. Offsets are multiples of 16 below RING_BYTES; a SKIP record needs only its
    // first 8 bytes, and at least 16 are left before the end.
    unsafe {
        let start = if skip == 0 {
            at
        } else {
            ring.add(at).cast::<[u32; 2]>().write([to_end as u32, SKIP]);
            0
        };
        record.bytes = bytes as u32;
        ring.add(start).cast::<Record>().write(record);
        let body = ring.add(start + HEAD);
        body.copy_from_nonoverlapping(first.as_ptr(), first.len());
        body.add(first.len()).copy_from_nonoverlapping(second.as_ptr(), second.len());
    }
    shared.head.store(head + (skip + bytes) as u64, Ordering::Release);
    true
}

/// The next record and its payload, if there is one. Call [`pop`] when done with it.
pub(crate) fn peek(control: &Control, stream: u32) -> Option<(Record, *mut u8)> {
    let shared = control.stream(stream);
    loop {
        let tail = shared.tail.load(Ordering::Relaxed);
        if shared.head.load(Ordering::Acquire) == tail {
            return None;
        }
        let at = tail as usize & (RING_BYTES - 1);
        // SAFETY: head > tail, so a whole record (or the first 8 bytes of a SKIP) was written at `at`
        // before head was published, and stays until tail passes it.
        unsafe {
            let start = control.ring(stream).add(at);
            let [bytes, kind] = start.cast::<[u32; 2]>().read();
            if kind == SKIP {
                shared.tail.store(tail + u64::from(bytes), Ordering::Release);
                continue;
            }
            return Some((start.cast::<Record>().read(), start.add(HEAD)));
        }
    }
}

/// Gives a record's place back.
pub(crate) fn pop(control: &Control, stream: u32, record: &Record) {
    let tail = &control.stream(stream).tail;
    tail.store(tail.load(Ordering::Relaxed) + u64::from(record.bytes), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::super::arena::Arena;
    use super::*;
    use crate::cpu::{CpuConfig, inventory};

    #[test]
    fn records_come_out_as_they_went_in_around_the_end() {
        let config = CpuConfig { devices: None, memory: Some(1 << 20) };
        let arena = Arena::new(&inventory(accord_types::NodeId(0), "here", &config)[0], None).expect("address space");
        let control = arena.control();
        let mut pushed = 0u64;
        let mut popped = 0u64;
        let empty = Record { bytes: 0, kind: STORE, seq: 0, after: 0, a: 0, b: 0, c: 0 };
        // 40,000 records of changing size go around the ring of 1 MiB many times.
        while popped < 40_000 {
            let len = (pushed * 37 % 1000) as usize;
            let body = vec![pushed as u8; len];
            if pushed < 40_000
                && push(&control, 3, Record { seq: pushed, c: len as u64, ..empty }, &body[..len / 2], &body[len / 2..])
            {
                pushed += 1;
                continue;
            }
            let (record, payload) = peek(&control, 3).expect("a full ring has a record");
            assert_eq!(record.seq, popped);
            // SAFETY: the payload holds `c` bytes.
            let body = unsafe { std::slice::from_raw_parts(payload, record.c as usize) };
            assert!(body.iter().all(|&b| b == popped as u8));
            pop(&control, 3, &record);
            popped += 1;
        }
        assert!(peek(&control, 3).is_none());
    }
}
