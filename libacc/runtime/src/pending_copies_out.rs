//! Copies to the program's memory that queues have not done yet. Reads of that memory come after them, also if the
//! program lacks the necessary `wait`.

use crate::queues::Moment;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{HostRange, QueueId};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most copies per queue that are recorded one by one.
pub(crate) const PENDING_COPIES_MAX: usize = 256;

/// The copies of all devices. The innermost lock: none is taken with it held.
pub(crate) struct PendingCopiesOut {
    devices: Box<[DeviceCopies]>,
    /// Devices that have some, so that a check is cheap if there are none.
    busy: AtomicUsize,
}

#[derive(Default)]
struct DeviceCopies {
    busy: AtomicBool,
    queues: ShortLock<Vec<QueueCopies>>,
}

struct QueueCopies {
    queue: QueueId,
    /// In the order in which they were queued.
    list: Vec<Copy>,
    /// When the last one was queued, if there were more than are recorded.
    more: Option<Moment>,
}

struct Copy {
    range: HostRange,
    moment: Moment,
    /// Whether it copies back a small variable that a region has changed.
    is_variable: bool,
}

/// A queue that will still write some memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingCopyOut {
    pub(crate) queue: QueueId,
    /// The moment at which the last such copy was enqueued.
    pub(crate) moment: Moment,
    /// Whether it is only possible: there are too many copies to know.
    pub(crate) unknown: bool,
    /// Whether it writes nothing there except small variables that regions have changed.
    pub(crate) only_variables: bool,
}

impl PendingCopiesOut {
    pub(crate) fn new(devices: usize) -> Self {
        Self { devices: (0..devices).map(|_| DeviceCopies::default()).collect(), busy: AtomicUsize::new(0) }
    }

    /// Records that the operation put into `queue` at `moment` copies to `range`.
    pub(crate) fn add(&self, device: usize, queue: QueueId, range: HostRange, moment: Moment) {
        let mut queues = self.lock(device);
        let of = QueueCopies::of(&mut queues, queue);
        of.add(Copy { range, moment, is_variable: false });
        self.set_busy(device, true);
    }

    /// Does the same for a small variable that a region may change. The last copy of each counts.
    pub(crate) fn add_variable(&self, device: usize, queue: QueueId, range: HostRange, moment: Moment) {
        let mut queues = self.lock(device);
        let of = QueueCopies::of(&mut queues, queue);
        match of.list.iter_mut().find(|copy| copy.is_variable && copy.range == range) {
            Some(known) => known.moment = moment,
            None => of.add(Copy { range, moment, is_variable: true }),
        }
        self.set_busy(device, true);
    }

    /// Records that everything put into `queue` up to `moment` is done.
    pub(crate) fn done(&self, device: usize, queue: QueueId, moment: Moment) {
        let mut queues = self.lock(device);
        if let Some(of) = queues.iter_mut().find(|of| of.queue == queue) {
            of.list.retain(|copy| copy.moment > moment);
            of.more = of.more.filter(|at| *at > moment);
        }
        let left = queues.iter().any(QueueCopies::is_busy);
        self.set_busy(device, left);
    }

    /// The device has ended.
    pub(crate) fn forget(&self, device: usize) {
        let mut queues = self.lock(device);
        queues.clear();
        self.set_busy(device, false);
    }

    /// Whether there are none at all: one load.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    /// Whether the device has any.
    pub(crate) fn any(&self, device: usize) -> bool {
        self.busy.load(Ordering::Acquire) > 0 && self.devices[device].busy.load(Ordering::Acquire)
    }

    /// The queues of the device that will still write into a range.
    pub(crate) fn here(&self, device: usize, range: HostRange) -> Vec<PendingCopyOut> {
        let mut all = Vec::new();
        self.each_here(device, range, |one| all.push(one));
        all
    }

    /// Calls `act` with each of them. `act` takes no lock.
    pub(crate) fn each_here(&self, device: usize, range: HostRange, act: impl FnMut(PendingCopyOut)) {
        if self.any(device) {
            self.lock(device).iter().filter_map(|of| of.pending(range)).for_each(act);
        }
    }

    /// The queues of other devices that will.
    pub(crate) fn elsewhere(&self, device: Option<usize>, range: HostRange) -> Vec<(usize, PendingCopyOut)> {
        let own = device.is_some_and(|device| self.devices[device].busy.load(Ordering::Acquire));
        if self.busy.load(Ordering::Acquire) <= usize::from(own) {
            return Vec::new();
        }
        let others = (0..self.devices.len()).filter(|other| device != Some(*other));
        others.flat_map(|other| self.here(other, range).into_iter().map(move |one| (other, one))).collect()
    }

    fn lock(&self, device: usize) -> ShortGuard<'_, Vec<QueueCopies>> {
        self.devices[device].queues.lock()
    }

    /// Counts the devices with copies. Call it with the device's lock held.
    fn set_busy(&self, device: usize, busy: bool) {
        match (self.devices[device].busy.swap(busy, Ordering::AcqRel), busy) {
            (false, true) => drop(self.busy.fetch_add(1, Ordering::AcqRel)),
            (true, false) => drop(self.busy.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
    }
}

impl QueueCopies {
    fn of(queues: &mut Vec<Self>, queue: QueueId) -> &mut Self {
        let at = queues.iter().position(|of| of.queue == queue).unwrap_or_else(|| {
            queues.push(Self { queue, list: Vec::new(), more: None });
            queues.len() - 1
        });
        &mut queues[at]
    }

    fn add(&mut self, copy: Copy) {
        if self.list.len() < PENDING_COPIES_MAX {
            self.list.push(copy);
        } else {
            self.more = Some(copy.moment);
        }
    }

    fn is_busy(&self) -> bool {
        !self.list.is_empty() || self.more.is_some()
    }

    fn pending(&self, range: HostRange) -> Option<PendingCopyOut> {
        let (mut last, mut only_variables) = (None, self.more.is_none());
        for copy in self.list.iter().filter(|copy| copy.range.overlaps(range)) {
            last = last.max(Some(copy.moment));
            only_variables &= copy.is_variable;
        }
        let moment = self.more.or(last)?;
        Some(PendingCopyOut { queue: self.queue, moment, unknown: self.more.is_some(), only_variables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: QueueId = QueueId(1);
    const TWO: QueueId = QueueId(2);
    const RANGE: HostRange = HostRange { start: 100, len: 50 };

    #[test]
    fn pending_copies_are_recorded_until_their_queue_passes_them() {
        let copies = PendingCopiesOut::new(2);
        copies.add(0, ONE, RANGE, Moment(1));
        copies.add(0, ONE, RANGE, Moment(3));
        copies.add(1, TWO, RANGE, Moment(1));
        let last = HostRange { start: 149, len: 1 };
        assert_eq!(
            copies.here(0, last),
            [PendingCopyOut { queue: ONE, moment: Moment(3), unknown: false, only_variables: false }]
        );
        assert_eq!(copies.here(0, HostRange { start: 150, len: 1 }), []);
        let elsewhere =
            |device| copies.elsewhere(device, last).iter().map(|(on, one)| (*on, one.queue)).collect::<Vec<_>>();
        assert_eq!(elsewhere(Some(0)), [(1, TWO)]);
        assert_eq!(elsewhere(None), [(0, ONE), (1, TWO)]);
        copies.done(0, ONE, Moment(2));
        assert!(copies.any(0));
        copies.done(0, ONE, Moment(3));
        assert!(!copies.any(0) && copies.any(1));
        assert_eq!(copies.elsewhere(Some(1), last), []);
        copies.forget(1);
        assert!(!copies.any(1));
    }

    #[test]
    fn last_pending_copy_of_a_variable_is_recorded() {
        let copies = PendingCopiesOut::new(1);
        for i in 0..2 * PENDING_COPIES_MAX {
            copies.add_variable(0, ONE, RANGE, Moment(i as u64));
        }
        let moment = Moment(2 * PENDING_COPIES_MAX as u64 - 1);
        let arriving = PendingCopyOut { queue: ONE, moment, unknown: false, only_variables: true };
        assert_eq!(copies.here(0, RANGE), [arriving]);
        copies.add(0, ONE, RANGE, moment);
        assert_eq!(copies.here(0, RANGE), [PendingCopyOut { only_variables: false, ..arriving }]);
        copies.done(0, ONE, moment);
        assert!(!copies.any(0));
    }

    #[test]
    fn pending_copies_beyond_the_limit_cover_all_memory() {
        let copies = PendingCopiesOut::new(1);
        for i in 0..=PENDING_COPIES_MAX {
            copies.add(0, ONE, HostRange { start: 1000 + i, len: 1 }, Moment(i as u64));
        }
        let moment = Moment(PENDING_COPIES_MAX as u64);
        assert_eq!(
            copies.here(0, RANGE),
            [PendingCopyOut { queue: ONE, moment, unknown: true, only_variables: false }]
        );
        copies.done(0, ONE, moment);
        assert_eq!(copies.here(0, RANGE), []);
    }
}
