//! Short writes, queued for the thread that owns MPI. That thread usually has the lanes' table in its cache, and locking
//! the table on another core moves a dozen cache lines there and back. So short writes bypass the table.

use super::message::{DATA_MAX, HEADER_LEN, LaneKey};
use super::send_queue::QUEUE_MAX;
use super::slots::{BYTES_MAX, Slots};
use accord_types::short_lock::ShortLock;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most queued writes, of all lanes.
const WRITES_MAX: usize = 64;
/// Bytes of a write's lane key.
const KEY_LEN: usize = 9;
/// Most bytes of one write.
pub(super) const WRITE_MAX: usize = BYTES_MAX - KEY_LEN;
/// Most bytes that a lane may have queued for its short writes to be queued here. All of these then fit too, and a message
/// written after the check.
const SPACIOUS: usize = QUEUE_MAX / 2;
const _: () = assert!(SPACIOUS + DATA_MAX + WRITES_MAX * WRITE_MAX <= QUEUE_MAX);

/// The queue of short writes. The consumer empties it with the table locked.
#[derive(Debug, Default)]
pub(super) struct Intake {
    writes: Slots<WRITES_MAX>,
    /// Locked by producers. `true` once the consumer has gone.
    closed: ShortLock<bool>,
}

impl Intake {
    /// Queues a write of at most [`WRITE_MAX`] bytes. Returns `false` if there is no space or the consumer has gone.
    pub(super) fn put(&self, key: LaneKey, parts: &[IoSlice<'_>]) -> bool {
        let closed = self.closed.lock();
        let key = encode(key);
        !*closed && self.writes.put([&key[..]].into_iter().chain(parts.iter().map(|part| &**part)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Passes all writes in their order to `take`, as messages with space for their headers.
    pub(super) fn take_each(&self, mut take: impl FnMut(LaneKey, Vec<u8>)) {
        let mut take_one = |bytes: &[u8]| {
            if let Some((key, bytes)) = bytes.split_first_chunk() {
                let mut message = Vec::with_capacity(HEADER_LEN + bytes.len());
                message.extend_from_slice(&[0; HEADER_LEN]);
                message.extend_from_slice(bytes);
                take(decode(*key), message);
            }
            ((), true)
        };
        while self.writes.take(&mut take_one).is_some() {}
    }

    /// Records that the consumer has gone.
    pub(super) fn close(&self) {
        *self.closed.lock() = true;
    }
}

fn encode(key: LaneKey) -> [u8; KEY_LEN] {
    let mut bytes = [0; KEY_LEN];
    bytes[..4].copy_from_slice(&key.peer.to_le_bytes());
    bytes[4..8].copy_from_slice(&key.number.to_le_bytes());
    bytes[8] = u8::from(key.opened_here);
    bytes
}

fn decode([a, b, c, d, e, f, g, h, opened_here]: [u8; KEY_LEN]) -> LaneKey {
    let (peer, number) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    LaneKey { peer, opened_here: opened_here != 0, number }
}

/// Whether a lane's short writes may be queued: when the table was last read, the lane accepted bytes and had space.
#[derive(Debug, Default)]
pub(super) struct ShortWriteSpace(AtomicBool);

impl ShortWriteSpace {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the value by the number of bytes that the lane has queued; `None` if it accepts no more.
    pub(super) fn set(&self, queued: Option<usize>) {
        let roomy = queued.is_some_and(|queued| queued <= SPACIOUS);
        // Stored only on a change, because a store costs the writers that poll it a cache miss.
        if self.get() != roomy {
            self.0.store(roomy, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> LaneKey {
        LaneKey { peer: 1, opened_here: true, number }
    }

    #[test]
    fn writes_come_out_in_their_order_and_there_are_few() {
        let intake = Intake::default();
        let put =
            |number, bytes: &[u8]| intake.put(key(number), &[IoSlice::new(&bytes[..1]), IoSlice::new(&bytes[1..])]);
        for round in 0..3 {
            for number in 0..u32::try_from(WRITES_MAX).unwrap() {
                assert!(put(number << 20, &[round, 1, 2]));
            }
            assert!(!put(0, &[9]) && !intake.is_empty(), "it is full");
            let mut all = Vec::new();
            intake.take_each(|key, message| all.push((key, message)));
            assert!(all.iter().map(|(key, _)| *key).eq((0..u32::try_from(WRITES_MAX).unwrap()).map(|n| key(n << 20))));
            assert!(all.iter().all(|(_, message)| message[HEADER_LEN..] == [round, 1, 2]) && intake.is_empty());
        }
        assert!(put(0, &[7; WRITE_MAX]) && !put(0, &[7; WRITE_MAX + 1]));
        intake.close();
        assert!(!put(0, &[9]), "the consumer has gone");
    }

    #[test]
    fn keys_come_back() {
        for opened_here in [false, true] {
            let key = LaneKey { peer: 0x0102_0304, opened_here, number: 0xf506_0708 };
            assert_eq!(decode(encode(key)), key);
        }
    }

    #[test]
    fn a_lane_is_roomy_while_all_that_is_handed_in_has_room() {
        let roomy = ShortWriteSpace::default();
        for (queued, is_roomy) in [(Some(0), true), (Some(SPACIOUS), true), (Some(SPACIOUS + 1), false), (None, false)]
        {
            roomy.set(queued);
            assert_eq!(roomy.get(), is_roomy, "{queued:?}");
        }
    }
}
