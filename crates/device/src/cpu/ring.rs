//! The worker ring: records in shared memory, with one writer (the owner, under the stream's lock) and one reader (the
//! worker's thread of that stream).

use super::layout::{Control, RING_BYTES, STREAMS_MAX};
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
/// An entry without an operation, which fills the ring up to its end.
const SKIP: u32 = 5;

/// Head of every record, followed by the payload. Aligned to 16 bytes, for the argument block.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Record {
    /// Bytes of head and payload, rounded up to 16.
    pub(crate) bytes: u32,
    pub(crate) kind: u32,
    /// Position in the stream.
    pub(crate) seq: u64,
    /// Position that the owner must have done first.
    pub(crate) after: u64,
    /// LAUNCH: function address. STORE, COPY: destination. WAIT: stream.
    pub(crate) a: u64,
    /// LAUNCH: floating-point control state. COPY: source. WAIT: position.
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

/// An impossible value in shared memory: the other process may write any bytes there, by mistake too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Corrupt(pub(crate) &'static str);

/// The owner's end. It keeps its own write position; values in shared memory affect only the free space.
#[derive(Default)]
pub(crate) struct Writer {
    /// Number of bytes ever put into the ring.
    written: u64,
}

impl Writer {
    /// Puts a record with its payload, given in two parts, into the ring. [`Writer::publish`] makes it visible. Returns `false` if there is no space now.
    ///
    /// The caller holds the stream's lock, because there is one writer.
    ///
    /// # Errors
    /// Returns an error if the worker reports an impossible read position.
    pub(crate) fn put(
        &mut self,
        control: &Control,
        stream: u32,
        mut record: Record,
        first: &[u8],
        second: &[u8],
    ) -> Result<bool, Corrupt> {
        let used = self.used(control, stream)?;
        let bytes = (HEAD + first.len() + second.len()).next_multiple_of(16);
        let at = self.written as usize & (RING_BYTES - 1);
        let to_end = RING_BYTES - at;
        let skip = if bytes > to_end { to_end } else { 0 };
        if used + skip + bytes > RING_BYTES {
            return Ok(false);
        }
        let ring = control.ring(stream);
        // SAFETY: `written` is the owner's own and a multiple of 16, so that all accesses are within the ring: `bytes` end at or before
        // its end, or begin at its start. A SKIP record needs only its first 8 bytes, and at least 16 are left before the end. A worker that
        // reads before `publish` gets arbitrary bytes.
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
        self.written += (skip + bytes) as u64;
        Ok(true)
    }

    /// Lets the worker read the new records.
    pub(crate) fn publish(&self, control: &Control, stream: u32) {
        control.stream(stream).head.store(self.written, Ordering::Release);
    }

    fn used(&self, control: &Control, stream: u32) -> Result<usize, Corrupt> {
        let tail = control.stream(stream).tail.load(Ordering::Acquire);
        let used = usize::try_from(self.written.wrapping_sub(tail)).ok().filter(|&used| used <= RING_BYTES);
        used.ok_or(Corrupt("the number of bytes taken"))
    }
}

/// The worker's end. A region may have overwritten the ring, so that each record is read once and checked.
#[derive(Default)]
pub(crate) struct Reader {
    /// Number of bytes ever taken from the ring.
    taken: u64,
}

impl Reader {
    /// Whether the ring has an operation.
    pub(crate) fn has_more(&self, control: &Control, stream: u32) -> bool {
        control.stream(stream).head.load(Ordering::Acquire) != self.taken
    }

    /// Returns the next record and its payload, if any. The caller calls [`Reader::pop`] when done with it.
    ///
    /// # Errors
    /// Returns an error if the record is malformed.
    pub(crate) fn peek(&mut self, control: &Control, stream: u32) -> Result<Option<(Record, *mut u8)>, Corrupt> {
        loop {
            let head = control.stream(stream).head.load(Ordering::Acquire);
            let there = head.wrapping_sub(self.taken);
            if there == 0 {
                return Ok(None);
            }
            if there > RING_BYTES as u64 || !there.is_multiple_of(16) {
                return Err(Corrupt("the number of bytes put in"));
            }
            let at = self.taken as usize & (RING_BYTES - 1);
            let to_end = RING_BYTES - at;
            let most = to_end.min(there as usize);
            // SAFETY: `taken` is the reader's own and a multiple of 16, so that 16 bytes are left before the end.
            let start = unsafe { control.ring(stream).add(at) };
            // SAFETY: as above. Both values are read once, so that later writes do not affect the checks.
            let [bytes, kind] = unsafe { start.cast::<[u32; 2]>().read_volatile() };
            if kind == SKIP {
                if bytes as usize != to_end || bytes as usize > most {
                    return Err(Corrupt("a record's length"));
                }
                self.pass(control, stream, bytes);
                continue;
            }
            if most < HEAD {
                return Err(Corrupt("the number of bytes put in"));
            }
            // SAFETY: a whole head is left before the end, and aligned to 16.
            let record = unsafe { start.cast::<Record>().read_volatile() };
            record.check(most)?;
            // SAFETY: `check` has seen that the payload is within the ring.
            return Ok(Some((record, unsafe { start.add(HEAD) })));
        }
    }

    /// Frees a record's space.
    pub(crate) fn pop(&mut self, control: &Control, stream: u32, record: &Record) {
        self.pass(control, stream, record.bytes);
    }

    fn pass(&mut self, control: &Control, stream: u32, bytes: u32) {
        self.taken += u64::from(bytes);
        control.stream(stream).tail.store(self.taken, Ordering::Release);
    }
}

impl Record {
    /// Checks that the record is well-formed and fits in `most` bytes.
    fn check(&self, most: usize) -> Result<(), Corrupt> {
        let bytes = self.bytes as usize;
        if bytes < HEAD || bytes > most || !bytes.is_multiple_of(16) {
            return Err(Corrupt("a record's length"));
        }
        let payload = match (self.kind, usize::try_from(self.c)) {
            (LAUNCH, Ok(block)) if block <= ArgBlock::BYTES_MAX => block + 8 * ArgBlock::relative_words(block),
            (STORE, Ok(stored)) => stored,
            (COPY, Ok(_)) => 0,
            (WAIT, Ok(_)) if self.a < STREAMS_MAX.into() => 0,
            _ => return Err(Corrupt("what a record says")),
        };
        if payload > bytes - HEAD {
            return Err(Corrupt("what a record says"));
        }
        Ok(())
    }
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
        let (mut writer, mut reader) = (Writer::default(), Reader::default());
        let mut pushed = 0u64;
        let mut popped = 0u64;
        let empty = Record { bytes: 0, kind: STORE, seq: 0, after: 0, a: 0, b: 0, c: 0 };
        // 40,000 records of varying size wrap around the ring of 1 MiB many times.
        while popped < 40_000 {
            let len = (pushed * 37 % 1000) as usize;
            let body = vec![pushed as u8; len];
            let record = Record { seq: pushed, c: len as u64, ..empty };
            if pushed < 40_000 && writer.put(&control, 3, record, &body[..len / 2], &body[len / 2..]).unwrap() {
                writer.publish(&control, 3);
                pushed += 1;
                continue;
            }
            let (record, payload) = reader.peek(&control, 3).unwrap().expect("a full ring has a record");
            assert_eq!(record.seq, popped);
            // SAFETY: the payload holds `c` bytes.
            let body = unsafe { std::slice::from_raw_parts(payload, record.c as usize) };
            assert!(body.iter().all(|&b| b == popped as u8));
            reader.pop(&control, 3, &record);
            popped += 1;
        }
        assert!(reader.peek(&control, 3).unwrap().is_none());
    }
}
