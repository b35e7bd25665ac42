//! Copies out that precede a queue's next operation: its own, and those of queues that it was made to wait for. An
//! executor's queue continues once it has sent their bytes, which may be stored here later.

use accord_types::{HostRange, TransferId};

/// Number of remembered copies from which completed ones are removed.
const PRUNE_AT: usize = 64;

/// The copies out that precede a point of a queue.
pub(super) struct EarlierCopies {
    list: Vec<Earlier>,
    prune_at: usize,
}

#[derive(Clone, Copy)]
struct Earlier {
    /// The queue's position from which on the copy precedes it.
    at: u64,
    transfer: TransferId,
    dst: HostRange,
    /// Whether the copy is this queue's own.
    own: bool,
    /// Whether the order is ensured without it: the queue's next operation waits for its bytes anyway, or it writes
    /// nothing any more.
    settled: bool,
}

impl Default for EarlierCopies {
    fn default() -> Self {
        Self { list: Vec::new(), prune_at: PRUNE_AT }
    }
}

impl EarlierCopies {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds the copy of the queue's operation at `at`. `open` says which copies have not completed.
    pub(super) fn push(&mut self, at: u64, transfer: TransferId, dst: HostRange, open: impl Fn(TransferId) -> bool) {
        self.list.push(Earlier { at, transfer, dst, own: true, settled: false });
        self.prune(open);
    }

    /// Orders the queue after all copies of `other`, from `at` on.
    pub(super) fn follow(&mut self, at: u64, other: &Self, open: impl Fn(TransferId) -> bool) {
        for copy in &other.list {
            match self.list.iter_mut().find(|known| known.transfer == copy.transfer) {
                Some(known) => known.settled |= copy.settled,
                None => self.list.push(Earlier { at, own: false, ..*copy }),
            }
        }
        self.prune(open);
    }

    /// Returns the copies that must complete for the queue's position `seq`.
    pub(super) fn until(&self, seq: u64) -> impl Iterator<Item = TransferId> + '_ {
        self.list.iter().filter(move |copy| copy.at <= seq).map(|copy| copy.transfer)
    }

    /// Removes the copies up to `seq`, which have completed.
    pub(super) fn landed(&mut self, seq: u64) {
        self.list.retain(|copy| copy.at > seq);
    }

    /// Returns the copies that write into `range` and must precede the queue's next write there.
    pub(super) fn writing(&self, range: HostRange) -> impl Iterator<Item = TransferId> + '_ {
        self.list.iter().filter(move |copy| !copy.settled && copy.dst.overlaps(range)).map(|copy| copy.transfer)
    }

    /// Returns the copies that write into `range` and must precede the queue's next read there. Includes those that an
    /// earlier copy in has waited for, because the executor may request a later one before the queue reaches the
    /// earlier one.
    pub(super) fn before_reading(&self, range: HostRange) -> impl Iterator<Item = TransferId> + '_ {
        self.list.iter().filter(move |copy| copy.dst.overlaps(range)).map(|copy| copy.transfer)
    }

    /// Whether any open copy before the queue's next operation writes into `range`, settled or not. The range can then
    /// be read in the queue's order, but not yet.
    pub(super) fn any_writing(&self, range: HostRange, open: impl Fn(TransferId) -> bool) -> bool {
        self.before_reading(range).any(open)
    }

    /// Marks copies as settled: the queue continues after their bytes, or they write nothing any more.
    pub(super) fn settle(&mut self, transfers: &[TransferId]) {
        for copy in self.list.iter_mut().filter(|copy| transfers.contains(&copy.transfer)) {
            copy.settled = true;
        }
    }

    /// Removes all copies, and returns the queue's own, which end with it.
    pub(super) fn take_own(&mut self) -> impl Iterator<Item = TransferId> + use<> {
        std::mem::take(&mut self.list).into_iter().filter(|copy| copy.own).map(|copy| copy.transfer)
    }

    fn prune(&mut self, open: impl Fn(TransferId) -> bool) {
        if self.list.len() >= self.prune_at {
            self.list.retain(|copy| open(copy.transfer));
            self.prune_at = PRUNE_AT.max(2 * self.list.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HostRange = HostRange { start: 1000, len: 100 };
    const B: HostRange = HostRange { start: 1100, len: 100 };

    fn ids(transfers: impl Iterator<Item = TransferId>) -> Vec<u64> {
        transfers.map(|transfer| transfer.0).collect()
    }

    #[test]
    fn a_queue_that_waits_for_another_comes_after_its_copies_and_ends_only_its_own() {
        let (mut one, mut two) = (EarlierCopies::default(), EarlierCopies::default());
        one.push(1, TransferId(1), A, |_| true);
        one.push(2, TransferId(2), B, |_| true);
        two.push(5, TransferId(3), A, |_| true);
        two.follow(6, &one, |_| true);
        two.follow(9, &one, |_| true);
        assert_eq!(ids(two.writing(A)), [3, 1]);
        assert_eq!(ids(two.until(5)), [3]);
        assert_eq!(ids(two.until(6)), [3, 1, 2], "from the first wait on");
        two.landed(5);
        assert_eq!(ids(two.writing(A)), [1]);
        assert_eq!(ids(two.take_own()), [] as [u64; 0]);
        assert_eq!(ids(one.take_own()), [1, 2]);
    }

    #[test]
    fn copies_read_in_order_delay_no_following_queue() {
        let (mut one, mut two) = (EarlierCopies::default(), EarlierCopies::default());
        one.push(1, TransferId(1), A, |_| true);
        two.follow(1, &one, |_| true);
        two.settle(&[TransferId(1)]);
        assert_eq!(ids(two.writing(A)), [] as [u64; 0]);
        assert!(two.any_writing(A, |_| true), "not before the queue gets there");
        assert_eq!(
            (ids(two.before_reading(A)), ids(two.before_reading(B))),
            (vec![1], vec![]),
            "also who reads it again"
        );
        assert!(!two.any_writing(A, |_| false) && !two.any_writing(B, |_| true));
        assert_eq!(ids(two.until(1)), [1], "a wait for position 1 includes it");
        assert_eq!(ids(one.writing(A)), [1]);
        one.follow(2, &two, |_| true);
        assert_eq!(ids(one.writing(A)), [] as [u64; 0]);
    }

    #[test]
    fn copies_that_have_landed_are_forgotten_without_a_wait() {
        let mut outs = EarlierCopies::default();
        (0..10_000).for_each(|i| outs.push(i, TransferId(i), A, |transfer| transfer.0 + 3 > i));
        assert!(outs.list.len() <= PRUNE_AT);
    }
}
