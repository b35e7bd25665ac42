//! Short writes on their way to the thread that owns MPI. The lanes' table is that thread's, most of the time: whoever locks it on another
//! core takes a dozen of its cache lines along, and it takes them back. So short writes are handed in without it.

use super::message::{DATA_MAX, LaneKey};
use super::streams::QUEUE_MAX;
use accord_types::short_lock::ShortLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Writes that may wait there, of all lanes.
const WRITES_MAX: usize = 64;
/// Most bytes of one.
pub(super) const WRITE_MAX: usize = 4 << 10;
/// What a lane may have queued whose writes are handed in: all that may be there fit, and a message that was written since its room was looked at.
const ROOMY: usize = QUEUE_MAX / 2;
const _: () = assert!(ROOMY + DATA_MAX + WRITES_MAX * WRITE_MAX <= QUEUE_MAX);

/// A lane's writes, as messages with room for their headers.
type Writes = Vec<(LaneKey, Vec<u8>)>;

/// See the module.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Intake {
    /// None once nobody takes them any more.
    writes: ShortLock<Option<Writes>>,
    /// How many there are, for whoever looks without the lock; changed with it.
    waiting: AtomicUsize,
}

impl Default for Intake {
    fn default() -> Self {
        Self { writes: ShortLock::new(Some(Vec::with_capacity(WRITES_MAX))), waiting: AtomicUsize::new(0) }
    }
}

impl Intake {
    /// Hands a message in; gives it back if there is no room, or nobody takes it any more.
    pub(super) fn put(&self, key: LaneKey, message: Vec<u8>) -> Option<Vec<u8>> {
        match &mut *self.writes.lock() {
            Some(writes) if writes.len() < WRITES_MAX => {
                writes.push((key, message));
                self.waiting.store(writes.len(), Ordering::SeqCst);
                None
            }
            _ => Some(message),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Gives all of them to `take`, in their order.
    pub(super) fn take_each(&self, mut take: impl FnMut(LaneKey, Vec<u8>)) {
        if self.is_empty() {
            return;
        }
        if let Some(writes) = &mut *self.writes.lock() {
            self.waiting.store(0, Ordering::SeqCst);
            writes.drain(..).for_each(|(key, message)| take(key, message));
        }
    }

    /// Nobody takes them any more.
    pub(super) fn close(&self) {
        *self.writes.lock() = None;
    }
}

/// Whether a lane's short writes may be handed in: it takes bytes, and has room. Known since the table was last looked at.
#[derive(Debug, Default)]
pub(super) struct Roomy(AtomicBool);

impl Roomy {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The lane has so many bytes queued; none if it takes no more.
    pub(super) fn set(&self, queued: Option<usize>) {
        let roomy = queued.is_some_and(|queued| queued <= ROOMY);
        // Writers read it again and again.
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
        for round in 0..3 {
            for number in 0..u32::try_from(WRITES_MAX).unwrap() {
                assert_eq!(intake.put(key(number), vec![round]), None);
            }
            assert_eq!(intake.put(key(0), vec![9]), Some(vec![9]), "it is full");
            let mut all = Vec::new();
            intake.take_each(|key, message| all.push((key.number, message)));
            assert!(all.iter().map(|(number, _)| *number).eq(0..u32::try_from(WRITES_MAX).unwrap()));
            assert!(all.iter().all(|(_, message)| *message == [round]) && intake.is_empty());
        }
        intake.close();
        assert_eq!(intake.put(key(0), vec![9]), Some(vec![9]), "nobody takes it");
    }

    #[test]
    fn a_lane_is_roomy_while_all_that_is_handed_in_has_room() {
        let roomy = Roomy::default();
        for (queued, is_roomy) in [(Some(0), true), (Some(ROOMY), true), (Some(ROOMY + 1), false), (None, false)] {
            roomy.set(queued);
            assert_eq!(roomy.get(), is_roomy, "{queued:?}");
        }
    }
}
