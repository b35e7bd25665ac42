//! Incoming copies reported complete while the device still executes them. A fence orders later work in its streams
//! after them ([`accord_device::Device::fence`]); every other access to their memory checks here first.

use accord_types::short_lock::ShortLock;
use accord_types::{AddressRange, Seq, StreamId};

/// The fenced copies of one device.
#[derive(Default)]
pub(crate) struct FencedCopies(ShortLock<Option<Open>>);

/// All fenced copies, as one.
#[derive(Clone, PartialEq, Debug)]
struct Open {
    /// The smallest range that contains their targets.
    at: AddressRange,
    /// The last copy. Incoming copies share one stream. If that has failed, all of its copies are over, and another stream replaces it.
    last: (StreamId, Seq),
}

impl FencedCopies {
    /// Adds a copy.
    pub(crate) fn add(&self, at: AddressRange, stream: StreamId, seq: Seq) {
        let mut state = self.0.lock();
        let open = state.get_or_insert_with(|| Open { at, last: (stream, seq) });
        let (start, end) = (open.at.start.min(at.start), open.at.end().max(at.end()));
        open.at = AddressRange { start, len: end - start.0 };
        open.last = if open.last.0 == stream { (stream, open.last.1.max(seq)) } else { (stream, seq) };
    }

    /// Whether the device may still write there.
    pub(crate) fn overlap(&self, at: AddressRange) -> bool {
        self.0.lock().as_ref().is_some_and(|open| open.at.overlaps(at))
    }

    /// Whether the device still writes there. `is_over` asks the device whether it has reached a position.
    pub(crate) fn still_overlap(&self, at: AddressRange, is_over: impl FnOnce(StreamId, Seq) -> bool) -> bool {
        let Some(open) = self.0.lock().clone().filter(|open| open.at.overlaps(at)) else { return false };
        // Called without the lock.
        if !is_over(open.last.0, open.last.1) {
            return true;
        }
        let mut state = self.0.lock();
        if state.as_ref() == Some(&open) {
            *state = None;
        }
        state.as_ref().is_some_and(|open| open.at.overlaps(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::DevicePtr;

    const STREAM: StreamId = StreamId(3);
    const ALL: AddressRange = AddressRange { start: DevicePtr(0), len: u64::MAX };

    fn at(start: u64, end: u64) -> AddressRange {
        AddressRange { start: DevicePtr(start), len: end - start }
    }

    #[test]
    fn fenced_copies_overlap_until_the_last_completes() {
        let copies = FencedCopies::default();
        assert!(!copies.overlap(ALL));
        copies.add(at(100, 200), STREAM, Seq(1));
        copies.add(at(300, 400), STREAM, Seq(2));
        assert!(copies.overlap(at(199, 200)) && copies.overlap(at(250, 260)), "what lies between as well");
        assert!(!copies.overlap(at(0, 100)) && !copies.overlap(at(400, 500)));
        let never = |_, _| unreachable!("they are elsewhere");
        assert!(!copies.still_overlap(at(0, 100), never));
        let asked = |is_over| move |stream, seq| (stream, seq) == (STREAM, Seq(2)) && is_over;
        assert!(copies.still_overlap(at(150, 160), asked(false)));
        assert!(!copies.still_overlap(at(150, 160), asked(true)));
        assert!(!copies.overlap(ALL));
    }

    #[test]
    fn waiter_added_during_a_query_is_kept() {
        let copies = FencedCopies::default();
        copies.add(at(100, 200), STREAM, Seq(1));
        let meanwhile = |_, _| {
            copies.add(at(150, 160), STREAM, Seq(2));
            true
        };
        assert!(copies.still_overlap(at(100, 110), meanwhile));
        assert!(copies.overlap(at(100, 110)));
    }

    #[test]
    fn another_stream_takes_the_place_of_one_that_has_failed() {
        let copies = FencedCopies::default();
        copies.add(at(100, 200), STREAM, Seq(7));
        copies.add(at(100, 200), StreamId(4), Seq(1));
        let last = |stream, seq| (stream, seq) == (StreamId(4), Seq(1));
        assert!(!copies.still_overlap(at(100, 200), last));
    }
}
