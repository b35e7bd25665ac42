//! Copies from other devices of which it was said that they are there though the device may still be at them: what is put into its streams comes after
//! them by itself ([`accord_device::Device::fence`]), and whoever reaches its memory otherwise asks here.

use accord_types::short_lock::ShortLock;
use accord_types::{Seq, StreamId};
use std::ops::Range;

/// Of one device.
#[derive(Default)]
pub(crate) struct FencedCopies(ShortLock<Option<Open>>);

/// All of them, as one.
#[derive(Clone, PartialEq, Debug)]
struct Open {
    /// Where they go, with what lies between.
    at: Range<u64>,
    /// The last of them. Copies from other devices are put into one stream; where that has failed, all of it is over, and another takes its place.
    last: (StreamId, Seq),
}

impl Open {
    fn overlaps(&self, at: &Range<u64>) -> bool {
        self.at.start < at.end && at.start < self.at.end
    }
}

impl FencedCopies {
    /// One more.
    pub(crate) fn add(&self, at: &Range<u64>, stream: StreamId, seq: Seq) {
        let mut state = self.0.lock();
        let open = state.get_or_insert_with(|| Open { at: at.clone(), last: (stream, seq) });
        open.at = open.at.start.min(at.start)..open.at.end.max(at.end);
        open.last = if open.last.0 == stream { (stream, open.last.1.max(seq)) } else { (stream, seq) };
    }

    /// Whether the device may still write there.
    pub(crate) fn overlap(&self, at: &Range<u64>) -> bool {
        self.0.lock().as_ref().is_some_and(|open| open.overlaps(at))
    }

    /// The same, once `is_over` has asked the device whether it has got to a position.
    pub(crate) fn still_overlap(&self, at: &Range<u64>, is_over: impl FnOnce(StreamId, Seq) -> bool) -> bool {
        let Some(open) = self.0.lock().clone().filter(|open| open.overlaps(at)) else { return false };
        // Without the lock.
        if !is_over(open.last.0, open.last.1) {
            return true;
        }
        let mut state = self.0.lock();
        if state.as_ref() == Some(&open) {
            *state = None;
        }
        state.as_ref().is_some_and(|open| open.overlaps(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(3);

    #[test]
    fn they_are_in_the_way_until_the_last_one_is_over() {
        let copies = FencedCopies::default();
        assert!(!copies.overlap(&(0..u64::MAX)));
        copies.add(&(100..200), STREAM, Seq(1));
        copies.add(&(300..400), STREAM, Seq(2));
        assert!(copies.overlap(&(199..200)) && copies.overlap(&(250..260)), "what lies between as well");
        assert!(!copies.overlap(&(0..100)) && !copies.overlap(&(400..500)));
        let never = |_, _| unreachable!("they are elsewhere");
        assert!(!copies.still_overlap(&(0..100), never));
        let asked = |is_over| move |stream, seq| (stream, seq) == (STREAM, Seq(2)) && is_over;
        assert!(copies.still_overlap(&(150..160), asked(false)));
        assert!(!copies.still_overlap(&(150..160), asked(true)));
        assert!(!copies.overlap(&(0..u64::MAX)));
    }

    #[test]
    fn one_that_comes_while_the_device_is_asked_stays() {
        let copies = FencedCopies::default();
        copies.add(&(100..200), STREAM, Seq(1));
        let meanwhile = |_, _| {
            copies.add(&(150..160), STREAM, Seq(2));
            true
        };
        assert!(copies.still_overlap(&(100..110), meanwhile));
        assert!(copies.overlap(&(100..110)));
    }

    #[test]
    fn another_stream_takes_the_place_of_one_that_has_failed() {
        let copies = FencedCopies::default();
        copies.add(&(100..200), STREAM, Seq(7));
        copies.add(&(100..200), StreamId(4), Seq(1));
        let last = |stream, seq| (stream, seq) == (StreamId(4), Seq(1));
        assert!(!copies.still_overlap(&(100..200), last));
    }
}
