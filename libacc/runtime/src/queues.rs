//! What is known of a device's queues without a query: how many operations they got, and how many are done.
//!
//! Time is the device's own count of operations put into its queues (OpenACC 3.3, 2.16).

use accord_types::QueueId;
use smallvec::SmallVec;

/// A moment: everything put into a queue up to this count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Moment(pub(crate) u64);

/// The work after which something may be accessed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct After {
    /// This queue's work, or that of all queues.
    pub(crate) queue: Option<QueueId>,
    /// Work up to this moment.
    pub(crate) moment: Moment,
}

/// Queues other than the synchronous one, in a compact set with false positives.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct QueueSet(u32);

impl QueueSet {
    /// Inserts a queue.
    pub(crate) fn insert(&mut self, queue: QueueId) {
        if queue != QueueId::SYNC {
            self.0 |= Self::bit(queue);
        }
    }

    /// Inserts the queues of another set.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether the queue may have been inserted; false is certain.
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
    /// The empty condition, which holds at once.
    pub(crate) const NOTHING: Self = Self { queue: None, moment: Moment(0) };
}

/// The queues of one device.
#[derive(Default)]
pub(crate) struct Queues {
    now: Moment,
    /// Sorted by id.
    queues: Vec<QueueProgress>,
    /// When the synchronous queue last got an operation that its caller did not wait for.
    left_behind: Moment,
}

struct QueueProgress {
    id: QueueId,
    /// When it last got an operation.
    filled: Moment,
    /// Everything up to this moment is done.
    done: Moment,
    /// Everything up to this moment is done or has failed: a queue that was waited for had waited for it.
    passed: Moment,
    /// Everything that the synchronous queue got up to this moment comes first.
    joined: Moment,
    /// The queues that it has waited for, and those that they had waited for: one entry for each queue.
    follows: Vec<QueueDependency>,
    /// Whether the program puts its own work into it, so that it is never known to be done.
    shared: bool,
}

/// The operations left behind in the synchronous queue, and the time of that query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Due {
    left: Moment,
    now: Moment,
}

/// The number of other queues that a queue has waited for and that are remembered. A queue may wait for others once
/// more.
const FOLLOWS_MAX: usize = 64;

/// Some queues, usually few enough to need no heap memory.
pub(crate) type QueueList = SmallVec<[QueueId; 8]>;

/// The operations that come before the rest of a queue.
#[derive(Clone, Copy)]
struct QueueDependency {
    queue: QueueId,
    /// Everything that it got up to this moment.
    until: Moment,
    /// When this queue was made to wait for it.
    since: Moment,
}

impl Queues {
    /// The moment now.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Records an operation in `queue`. `left_behind`: its caller will not wait for it, yet later operations of the program
    /// in other queues have to come after it.
    pub(crate) fn filled(&mut self, queue: QueueId, left_behind: bool) {
        self.now.0 += 1;
        let now = self.now;
        self.queue(queue).filled = now;
        if left_behind && queue == QueueId::SYNC {
            self.left_behind = now;
        }
    }

    /// Records that `queue` was made to wait for what was in `other` at the moment `until`; `left_behind` as for [`Queues::filled`].
    pub(crate) fn waits(&mut self, queue: QueueId, other: QueueId, until: Moment, left_behind: bool) {
        self.filled(queue, left_behind);
        self.follow(queue, other, until, self.now);
    }

    /// Records that `queue` was made to wait for the synchronous one, before its next operation: that had all of `due` then.
    pub(crate) fn joined(&mut self, queue: QueueId, due: Due) {
        let joined = &mut self.queue(queue).joined;
        *joined = due.left.max(*joined);
        self.follow(queue, QueueId::SYNC, due.now, Moment(self.now.0 + 1));
    }

    fn follow(&mut self, queue: QueueId, other: QueueId, until: Moment, since: Moment) {
        self.queue(queue);
        let other_at = self.find(other).ok();
        let inherited = other_at.map_or(0, |at| self.queues[at].follows.len());
        // The synchronous queue's work comes first anyway.
        let direct = (other != QueueId::SYNC).then_some(QueueDependency { queue: other, until, since });
        for nth in 0..=inherited {
            let new = match other_at {
                Some(at) if nth < inherited => Some(self.queues[at].follows[nth]),
                _ => direct,
            };
            let Some(new) = new else { continue };
            let new = QueueDependency { since, ..new };
            let follows = &mut self.queue(queue).follows;
            match follows.iter().position(|known| known.queue == new.queue) {
                Some(at) if follows[at].until < new.until => follows[at] = new,
                None if new.queue != queue && follows.len() < FOLLOWS_MAX => follows.push(new),
                _ => {}
            }
        }
    }

    /// Whether the next operation of `queue` comes after what `other` got up to `moment`.
    pub(crate) fn is_ordered_after(&self, queue: QueueId, other: QueueId, moment: Moment) -> bool {
        let follows = |at: usize| self.queues[at].follows.iter().any(|f| f.queue == other && f.until >= moment);
        queue == other || self.find(queue).is_ok_and(follows)
    }

    /// Calls `each` for the moments that are passed when `queue` has done everything up to `moment`, as it has waited
    /// for them.
    pub(crate) fn passed_with(&self, queue: QueueId, moment: Moment, mut each: impl FnMut(QueueId, Moment)) {
        let Ok(at) = self.find(queue) else { return };
        for follow in self.queues[at].follows.iter().filter(|follow| follow.since <= moment) {
            each(follow.queue, follow.until);
        }
    }

    /// Marks a queue into which the program may put its own work from now on.
    pub(crate) fn share(&mut self, queue: QueueId) {
        self.filled(queue, false);
        self.queue(queue).shared = true;
    }

    /// Records that everything put into `queues` up to `moment` is done.
    pub(crate) fn done(&mut self, queues: &[QueueId], moment: Moment) {
        for id in queues {
            let queue = self.queue(*id);
            queue.done = queue.done.max(moment.min(queue.last()));
            let Ok(at) = self.find(*id) else { continue };
            for k in 0..self.queues[at].follows.len() {
                let follow = self.queues[at].follows[k];
                if follow.since <= moment
                    && let Ok(other) = self.find(follow.queue)
                {
                    let passed = &mut self.queues[other].passed;
                    *passed = follow.until.max(*passed);
                }
            }
        }
    }

    /// Returns the operations of the synchronous queue that `queue` still has to wait for. The caller makes it wait
    /// before it adds anything, and reports it with [`Queues::joined`]; another caller that asks before that does the
    /// same.
    pub(crate) fn due(&mut self, queue: QueueId) -> Option<Due> {
        let left = self.left_behind;
        if queue == QueueId::SYNC || left.0 == 0 || self.queue(QueueId::SYNC).done >= left {
            return None;
        }
        (self.queue(queue).joined < left).then_some(Due { left, now: self.now })
    }

    /// Whether everything before `after` is known to be done.
    pub(crate) fn passed(&self, after: After) -> bool {
        !self.queues.iter().any(|other| other.holds_up(after))
    }

    /// Whether the next operation of `queue` comes after `after` anyway.
    pub(crate) fn clear(&self, queue: QueueId, after: After) -> bool {
        !self.queues.iter().any(|other| !self.orders(queue, other) && other.holds_up(after))
    }

    /// Returns the queues that `queue` has to wait for before it may access what is free after `after`.
    pub(crate) fn before(&self, queue: QueueId, after: After) -> impl Iterator<Item = QueueId> + '_ {
        let holds_up = move |other: &&QueueProgress| !self.orders(queue, other) && other.holds_up(after);
        self.queues.iter().filter(holds_up).map(|other| other.id)
    }

    /// Returns the queues that have to be waited for until everything before `after` is done.
    pub(crate) fn until(&self, after: After) -> impl Iterator<Item = QueueId> + '_ {
        self.queues.iter().filter(move |other| other.holds_up(after)).map(|other| other.id)
    }

    /// Whether there may be work in the queue that was not waited for.
    pub(crate) fn busy(&self, queue: QueueId) -> bool {
        self.find(queue).is_ok_and(|at| self.queues[at].is_busy())
    }

    /// Whether everything that the runtime put into the queue is done, or has failed.
    pub(crate) fn drained(&self, queue: QueueId) -> bool {
        self.find(queue).is_ok_and(|at| self.has_passed(queue, self.queues[at].filled))
    }

    /// Whether everything that the queue got up to `moment` is known to be done, or has failed.
    pub(crate) fn has_passed(&self, queue: QueueId, moment: Moment) -> bool {
        self.find(queue).is_ok_and(|at| self.queues[at].done.max(self.queues[at].passed) >= moment)
    }

    /// Returns the queues of the program that may have work left.
    pub(crate) fn all_busy(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.queues.iter().filter(|q| q.id != QueueId::SYNC && q.is_busy()).map(|q| q.id)
    }

    /// Returns the streams of CUDA Fortran that may have work left and come before synchronous operations, which
    /// use the default stream in CUDA.
    pub(crate) fn busy_streams(&self) -> impl Iterator<Item = QueueId> + '_ {
        let first = self.queues.partition_point(|queue| queue.id < QueueId::DEFAULT_STREAM);
        let streams = self.queues[first..].iter().take_while(|queue| queue.id < QueueId::NON_BLOCKING_STREAMS);
        streams.filter(|queue| queue.is_busy()).map(|queue| queue.id)
    }

    /// Whether all operations of `other` come before the next of `queue`: it is the same queue, or the
    /// synchronous one, which `queue` joins first.
    fn orders(&self, queue: QueueId, other: &QueueProgress) -> bool {
        other.id == queue || (other.id == QueueId::SYNC && other.filled <= self.left_behind)
    }

    fn find(&self, id: QueueId) -> Result<usize, usize> {
        self.queues.binary_search_by_key(&id, |queue| queue.id)
    }

    fn queue(&mut self, id: QueueId) -> &mut QueueProgress {
        let at = self.find(id).unwrap_or_else(|at| {
            let zero = Moment::default();
            let follows = Vec::new();
            self.queues.insert(
                at,
                QueueProgress { id, filled: zero, done: zero, passed: zero, joined: zero, follows, shared: false },
            );
            at
        });
        &mut self.queues[at]
    }
}

impl QueueProgress {
    fn holds_up(&self, after: After) -> bool {
        after.queue.is_none_or(|only| only == self.id) && self.done < after.moment.min(self.last())
    }

    /// Returns the moment of the last known operation.
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
        assert_eq!(queues.due(ONE), None);
        queues.filled(QueueId::SYNC, true);
        let due = queues.due(ONE).unwrap();
        assert_eq!(queues.due(ONE), Some(due), "it was not done yet");
        queues.filled(QueueId::SYNC, true);
        queues.joined(ONE, due);
        let rest = queues.due(ONE).unwrap();
        queues.joined(ONE, rest);
        queues.joined(ONE, due);
        assert_eq!(queues.due(ONE), None);
        assert!(queues.due(TWO).is_some());
        queues.filled(QueueId::SYNC, true);
        queues.done(&[QueueId::SYNC], queues.now());
        assert_eq!(queues.due(ONE), None, "the host has waited");
        // What the synchronous queue leaves behind comes first in every queue.
        queues.filled(QueueId::SYNC, true);
        let after = After { queue: None, moment: queues.now() };
        assert!(queues.clear(TWO, after) && !queues.passed(after));
        queues.filled(QueueId::SYNC, false);
        assert!(!queues.clear(TWO, after));
        assert_eq!(queues.due(QueueId::SYNC), None);
    }

    #[test]
    fn a_queue_comes_after_what_it_waited_for_and_what_that_had_waited_for() {
        let mut queues = Queues::default();
        let three = QueueId(3);
        queues.filled(ONE, false);
        let first = queues.now();
        queues.waits(TWO, ONE, queues.now(), false);
        queues.filled(ONE, false);
        let second = queues.now();
        queues.waits(three, TWO, queues.now(), false);
        assert!(queues.is_ordered_after(three, ONE, first) && !queues.is_ordered_after(three, ONE, second));
        assert!(queues.is_ordered_after(ONE, ONE, second) && !queues.is_ordered_after(ONE, TWO, first));
        let passed = |queues: &Queues, id| {
            let mut passed = Vec::new();
            queues.passed_with(id, queues.now(), |queue, moment| passed.push((queue, moment)));
            passed
        };
        assert_eq!(passed(&queues, TWO), [(ONE, first)]);
        queues.waits(TWO, ONE, queues.now(), false);
        assert_eq!(passed(&queues, TWO), [(ONE, Moment(second.0 + 1))]);
        queues.passed_with(TWO, second, |_, _| panic!("that wait was put in later"));
        assert!(!queues.is_ordered_after(three, ONE, second), "it has waited before");
    }
}
