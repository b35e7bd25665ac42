//! Copies to the program's memory that queues have not done yet. Whoever reads that memory comes after them, also where
//! the program has forgotten to say so.

use crate::queues::Moment;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{HostRange, QueueId};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most copies that are remembered one by one per queue.
pub(crate) const ARRIVALS_MAX: usize = 256;

/// The copies of all devices. The innermost of locks: none is taken with it held.
pub(crate) struct Arrivals {
    devices: Box<[OfDevice]>,
    /// Devices that have some: what costs a look when there are none.
    busy: AtomicUsize,
}

#[derive(Default)]
struct OfDevice {
    busy: AtomicBool,
    queues: ShortLock<Vec<OfQueue>>,
}

struct OfQueue {
    queue: QueueId,
    /// In the order in which they were put in.
    list: Vec<(HostRange, Moment)>,
    /// More than are remembered were put in, the last one then.
    more: Option<Moment>,
}

/// A queue that will still write some memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arriving {
    pub(crate) queue: QueueId,
    /// The last copy that does was put in then.
    pub(crate) moment: Moment,
    /// Or it may: there are too many copies to know.
    pub(crate) unknown: bool,
}

impl Arrivals {
    pub(crate) fn new(devices: usize) -> Self {
        Self { devices: (0..devices).map(|_| OfDevice::default()).collect(), busy: AtomicUsize::new(0) }
    }

    /// What was put into `queue` at `moment` copies to `range`.
    pub(crate) fn add(&self, device: usize, queue: QueueId, range: HostRange, moment: Moment) {
        let mut queues = self.lock(device);
        let at = queues.iter().position(|of| of.queue == queue).unwrap_or_else(|| {
            queues.push(OfQueue { queue, list: Vec::new(), more: None });
            queues.len() - 1
        });
        let of = &mut queues[at];
        if of.list.len() < ARRIVALS_MAX {
            of.list.push((range, moment));
        } else {
            of.more = Some(moment);
        }
        self.set_busy(device, true);
    }

    /// Everything put into `queue` up to `moment` is done.
    pub(crate) fn done(&self, device: usize, queue: QueueId, moment: Moment) {
        let mut queues = self.lock(device);
        if let Some(of) = queues.iter_mut().find(|of| of.queue == queue) {
            of.list.retain(|(_, at)| *at > moment);
            of.more = of.more.filter(|at| *at > moment);
        }
        let left = queues.iter().any(OfQueue::is_busy);
        self.set_busy(device, left);
    }

    /// The device has ended.
    pub(crate) fn forget(&self, device: usize) {
        let mut queues = self.lock(device);
        queues.clear();
        self.set_busy(device, false);
    }

    /// Whether there are none at all: one look.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }

    /// Whether the device has any.
    pub(crate) fn any(&self, device: usize) -> bool {
        self.busy.load(Ordering::Acquire) > 0 && self.devices[device].busy.load(Ordering::Acquire)
    }

    /// The queues of the device that will still write into a range.
    pub(crate) fn here(&self, device: usize, range: HostRange) -> Vec<Arriving> {
        if !self.any(device) {
            return Vec::new();
        }
        self.lock(device).iter().filter_map(|of| of.arriving(range)).collect()
    }

    /// The same for devices other than this.
    pub(crate) fn elsewhere(&self, device: Option<usize>, range: HostRange) -> Vec<(usize, QueueId)> {
        let own = device.is_some_and(|device| self.devices[device].busy.load(Ordering::Acquire));
        if self.busy.load(Ordering::Acquire) <= usize::from(own) {
            return Vec::new();
        }
        let others = (0..self.devices.len()).filter(|other| device != Some(*other));
        others.flat_map(|other| self.here(other, range).into_iter().map(move |of| (other, of.queue))).collect()
    }

    fn lock(&self, device: usize) -> ShortGuard<'_, Vec<OfQueue>> {
        self.devices[device].queues.lock()
    }

    /// With the device's lock held.
    fn set_busy(&self, device: usize, busy: bool) {
        match (self.devices[device].busy.swap(busy, Ordering::AcqRel), busy) {
            (false, true) => drop(self.busy.fetch_add(1, Ordering::AcqRel)),
            (true, false) => drop(self.busy.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
    }
}

impl OfQueue {
    fn is_busy(&self) -> bool {
        !self.list.is_empty() || self.more.is_some()
    }

    fn arriving(&self, range: HostRange) -> Option<Arriving> {
        let end = range.start.saturating_add(range.len);
        let writes = |r: &HostRange| r.start < end && range.start < r.start.saturating_add(r.len);
        let last = self.list.iter().rev().find(|(r, _)| writes(r)).map(|(_, moment)| *moment);
        let moment = self.more.or(last)?;
        Some(Arriving { queue: self.queue, moment, unknown: self.more.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: QueueId = QueueId(1);
    const TWO: QueueId = QueueId(2);
    const RANGE: HostRange = HostRange { start: 100, len: 50 };

    #[test]
    fn they_are_known_until_their_queue_has_come_that_far() {
        let arrivals = Arrivals::new(2);
        arrivals.add(0, ONE, RANGE, Moment(1));
        arrivals.add(0, ONE, RANGE, Moment(3));
        arrivals.add(1, TWO, RANGE, Moment(1));
        let last = HostRange { start: 149, len: 1 };
        assert_eq!(arrivals.here(0, last), [Arriving { queue: ONE, moment: Moment(3), unknown: false }]);
        assert_eq!(arrivals.here(0, HostRange { start: 150, len: 1 }), []);
        assert_eq!(arrivals.elsewhere(Some(0), last), [(1, TWO)]);
        assert_eq!(arrivals.elsewhere(None, last), [(0, ONE), (1, TWO)]);
        arrivals.done(0, ONE, Moment(2));
        assert!(arrivals.any(0));
        arrivals.done(0, ONE, Moment(3));
        assert!(!arrivals.any(0) && arrivals.any(1));
        assert_eq!(arrivals.elsewhere(Some(1), last), []);
        arrivals.forget(1);
        assert!(!arrivals.any(1));
    }

    #[test]
    fn too_many_of_them_may_be_anywhere() {
        let arrivals = Arrivals::new(1);
        for i in 0..=ARRIVALS_MAX {
            arrivals.add(0, ONE, HostRange { start: 1000 + i, len: 1 }, Moment(i as u64));
        }
        let moment = Moment(ARRIVALS_MAX as u64);
        assert_eq!(arrivals.here(0, RANGE), [Arriving { queue: ONE, moment, unknown: true }]);
        arrivals.done(0, ONE, moment);
        assert_eq!(arrivals.here(0, RANGE), []);
    }
}
