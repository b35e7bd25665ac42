//! What is known of a device's queues without asking it: how much went in, how much is done.
//!
//! Time is the device's own count of operations put into its queues (OpenACC 3.3, 2.16).

use accord_types::{HostRange, QueueId};

/// A moment: everything put into a queue up to this count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Moment(pub(crate) u64);

/// After whose work, up to when, something may be touched again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct After {
    /// This queue's work, or that of all queues.
    pub(crate) queue: Option<QueueId>,
    /// Put in up to then.
    pub(crate) moment: Moment,
}

/// Queues other than the synchronous one, in little room: it may have some that were never put in.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct QueueSet(u32);

impl QueueSet {
    /// Puts a queue in.
    pub(crate) fn insert(&mut self, queue: QueueId) {
        if queue != QueueId::SYNC {
            self.0 |= Self::bit(queue);
        }
    }

    /// Puts in what another set has.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// False if the queue was not put in.
    pub(crate) fn may_have(self, queue: QueueId) -> bool {
        self.0 & Self::bit(queue) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn bit(queue: QueueId) -> u32 {
        1 << (queue.0 % u32::BITS)
    }
}

impl After {
    /// Nothing has to happen first.
    pub(crate) const NOTHING: Self = Self { queue: None, moment: Moment(0) };
}

/// Most copies to the program's memory that are remembered one by one per queue.
const ARRIVALS_MAX: usize = 256;

/// The queues of one device.
#[derive(Default)]
pub(crate) struct Queues {
    now: Moment,
    /// In order of their ids.
    queues: Vec<Queue>,
    /// When something was last put into the synchronous queue that its caller did not wait for.
    left_behind: Moment,
}

struct Queue {
    id: QueueId,
    /// When something was last put in.
    filled: Moment,
    /// Everything up to then is done.
    done: Moment,
    /// Everything that the synchronous queue had been given up to then comes first.
    joined: Moment,
    /// Host ranges that a copy in this queue will write.
    arrivals: Arrivals,
    /// The program puts work of its own into it, so that it is never known to be done.
    shared: bool,
}

enum Arrivals {
    Some(Vec<HostRange>),
    /// More than are remembered.
    Many,
}

/// Whether queued copies will still write some host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arriving {
    /// No.
    No,
    /// Yes.
    Yes,
    /// There are too many to know.
    Unknown,
}

impl Queues {
    /// The moment now.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Something was put into `queue`. `left_behind`: its caller will not wait for it, yet what
    /// the program does later in other queues has to come after it.
    pub(crate) fn filled(&mut self, queue: QueueId, left_behind: bool) {
        self.now.0 += 1;
        let now = self.now;
        self.queue(queue).filled = now;
        if left_behind && queue == QueueId::SYNC {
            self.left_behind = now;
        }
    }

    /// From now on the program may put work of its own into `queue`.
    pub(crate) fn share(&mut self, queue: QueueId) {
        self.filled(queue, false);
        self.queue(queue).shared = true;
    }

    /// Everything put into `queues` up to `moment` is done.
    pub(crate) fn done(&mut self, queues: &[QueueId], moment: Moment) {
        for id in queues {
            let queue = self.queue(*id);
            if queue.filled <= moment {
                match &mut queue.arrivals {
                    Arrivals::Some(list) => list.clear(),
                    many => *many = Arrivals::Some(Vec::new()),
                }
            }
            queue.done = queue.done.max(moment.min(queue.last()));
        }
    }

    /// Whether `queue` still has to be made to wait for the synchronous queue. If so, the caller does that
    /// before it puts anything in, and the answer is no from now on.
    pub(crate) fn joins(&mut self, queue: QueueId) -> bool {
        let left = self.left_behind;
        if queue == QueueId::SYNC || left.0 == 0 || self.queue(QueueId::SYNC).done >= left {
            return false;
        }
        let queue = self.queue(queue);
        let due = queue.joined < left;
        queue.joined = left;
        due
    }

    /// Whether everything before `after` is known to be done.
    pub(crate) fn passed(&self, after: After) -> bool {
        !self.queues.iter().any(|other| other.holds_up(after))
    }

    /// Whether what `queue` does next comes after `after` anyway.
    pub(crate) fn clear(&self, queue: QueueId, after: After) -> bool {
        !self.queues.iter().any(|other| !self.orders(queue, other) && other.holds_up(after))
    }

    /// The queues that `queue` has to wait for before it may touch what is free after `after`.
    pub(crate) fn before(&self, queue: QueueId, after: After) -> impl Iterator<Item = QueueId> + '_ {
        let holds_up = move |other: &&Queue| !self.orders(queue, other) && other.holds_up(after);
        self.queues.iter().filter(holds_up).map(|other| other.id)
    }

    /// The queues that have to be waited for until everything before `after` is done.
    pub(crate) fn until(&self, after: After) -> impl Iterator<Item = QueueId> + '_ {
        self.queues.iter().filter(move |other| other.holds_up(after)).map(|other| other.id)
    }

    /// Whether there may be work in the queue that nobody has waited for.
    pub(crate) fn busy(&self, queue: QueueId) -> bool {
        self.find(queue).is_ok_and(|at| self.queues[at].is_busy())
    }

    /// Whether everything that the runtime put into the queue is done.
    pub(crate) fn drained(&self, queue: QueueId) -> bool {
        self.find(queue).is_ok_and(|at| self.queues[at].done >= self.queues[at].filled)
    }

    /// The queues of the program that may have work left.
    pub(crate) fn all_busy(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.queues.iter().filter(|q| q.id != QueueId::SYNC && q.is_busy()).map(|q| q.id)
    }

    /// A copy in `queue` will write this host range.
    pub(crate) fn arrival(&mut self, queue: QueueId, range: HostRange) {
        let arrivals = &mut self.queue(queue).arrivals;
        if let Arrivals::Some(list) = arrivals {
            if list.len() < ARRIVALS_MAX {
                list.push(range);
            } else {
                *arrivals = Arrivals::Many;
            }
        }
    }

    /// Whether a copy in some queue will still write into this host range.
    pub(crate) fn arriving(&self, range: HostRange) -> Arriving {
        let end = range.start.saturating_add(range.len);
        let mut answer = Arriving::No;
        for queue in &self.queues {
            match &queue.arrivals {
                Arrivals::Some(list) => {
                    if list.iter().any(|r| r.start < end && range.start < r.start.saturating_add(r.len)) {
                        return Arriving::Yes;
                    }
                }
                Arrivals::Many => answer = Arriving::Unknown,
            }
        }
        answer
    }

    /// Whether all that `other` was given comes before what `queue` does next: it is the same queue, or the
    /// synchronous one, which `queue` joins first.
    fn orders(&self, queue: QueueId, other: &Queue) -> bool {
        other.id == queue || (other.id == QueueId::SYNC && other.filled <= self.left_behind)
    }

    fn find(&self, id: QueueId) -> Result<usize, usize> {
        self.queues.binary_search_by_key(&id, |queue| queue.id)
    }

    fn queue(&mut self, id: QueueId) -> &mut Queue {
        let at = self.find(id).unwrap_or_else(|at| {
            let zero = Moment::default();
            let arrivals = Arrivals::Some(Vec::new());
            self.queues.insert(at, Queue { id, filled: zero, done: zero, joined: zero, arrivals, shared: false });
            at
        });
        &mut self.queues[at]
    }
}

impl Queue {
    fn holds_up(&self, after: After) -> bool {
        after.queue.is_none_or(|only| only == self.id) && self.done < after.moment.min(self.last())
    }

    /// When something was last put in, as far as anybody knows.
    fn last(&self) -> Moment {
        if self.shared { Moment(u64::MAX) } else { self.filled }
    }

    fn is_busy(&self) -> bool {
        self.done < self.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: QueueId = QueueId(1);
    const TWO: QueueId = QueueId(2);

    #[test]
    fn a_queue_holds_others_up_until_it_was_waited_for() {
        let mut queues = Queues::default();
        queues.filled(ONE, false);
        let after = After { queue: Some(ONE), moment: queues.now() };
        queues.filled(ONE, false);
        assert!(queues.clear(ONE, after), "its own order is enough");
        assert!(!queues.clear(TWO, after));
        assert_eq!(queues.before(TWO, after).collect::<Vec<_>>(), [ONE]);
        queues.done(&[ONE], after.moment);
        assert!(queues.clear(TWO, after));
        assert!(queues.busy(ONE), "the second operation is not known to be done");
        assert!(queues.clear(TWO, After::NOTHING) && queues.passed(After::NOTHING));
        assert!(queues.passed(after) && !queues.passed(After { queue: None, moment: queues.now() }));
    }

    #[test]
    fn a_shared_queue_is_always_busy_but_what_was_freed_before_a_wait_is_free() {
        let mut queues = Queues::default();
        queues.share(ONE);
        queues.filled(TWO, false);
        let after = After { queue: None, moment: queues.now() };
        queues.done(&[TWO], queues.now());
        assert_eq!(queues.until(after).collect::<Vec<_>>(), [ONE], "the program may have put in anything since");
        queues.done(&[ONE], queues.now());
        assert!(queues.busy(ONE) && queues.drained(ONE) && queues.passed(after));
    }

    #[test]
    fn after_all_queues_means_all_that_had_work_then() {
        let mut queues = Queues::default();
        queues.filled(ONE, false);
        let after = After { queue: None, moment: queues.now() };
        queues.filled(TWO, false);
        assert!(queues.clear(ONE, after) || queues.before(ONE, after).all(|q| q == TWO));
        queues.done(&[ONE], queues.now());
        queues.done(&[TWO], queues.now());
        assert!(queues.clear(QueueId::SYNC, after));
    }

    #[test]
    fn each_queue_joins_what_was_left_behind_once() {
        let mut queues = Queues::default();
        assert!(!queues.joins(ONE));
        queues.filled(QueueId::SYNC, true);
        assert!(queues.joins(ONE));
        assert!(!queues.joins(ONE));
        assert!(queues.joins(TWO));
        queues.filled(QueueId::SYNC, true);
        queues.done(&[QueueId::SYNC], queues.now());
        assert!(!queues.joins(ONE), "the host has waited");
        // What the synchronous queue leaves behind comes first in every queue.
        queues.filled(QueueId::SYNC, true);
        let after = After { queue: None, moment: queues.now() };
        assert!(queues.clear(TWO, after) && !queues.passed(after));
        queues.filled(QueueId::SYNC, false);
        assert!(!queues.clear(TWO, after));
        assert!(!queues.joins(QueueId::SYNC));
    }

    #[test]
    fn arrivals_are_forgotten_when_the_queue_is_drained() {
        let mut queues = Queues::default();
        let range = HostRange { start: 100, len: 50 };
        queues.arrival(ONE, range);
        queues.filled(ONE, false);
        assert_eq!(queues.arriving(HostRange { start: 149, len: 1 }), Arriving::Yes);
        assert_eq!(queues.arriving(HostRange { start: 150, len: 1 }), Arriving::No);
        for start in 0..ARRIVALS_MAX {
            queues.arrival(ONE, HostRange { start: 1000 + start, len: 1 });
        }
        assert_eq!(queues.arriving(HostRange { start: 150, len: 1 }), Arriving::Unknown);
        queues.done(&[ONE], queues.now());
        assert_eq!(queues.arriving(range), Arriving::No);
    }
}
