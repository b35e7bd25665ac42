//! Copies in that don't fit into a command, on their way to bulk lanes: decisions only.
//!
//! Nobody may take the bytes of an eager copy before the executor has got to its command, and its stream to it. Both may
//! wait for whatever the program has put in before, so no copy may have to wait for one that was put in later:
//!
//! * Eager copies get their lanes in the order of their commands.
//! * What the executor asks for, and takes at once, has lanes of its own. No eager copy, however old, is on them.

use super::effects::{Effect, Effects, Way};
use super::lane_queue::{Call, LaneQueue};
use super::waits::WaitId;
use accord_types::{HostRange, QueueId, TransferId};
use std::collections::BTreeMap;

/// Lanes for the bytes of transfers: for eager copies in, and for what is asked for. Copies out take any.
pub const EAGER_LANES: usize = 2;
/// See [`EAGER_LANES`].
pub const ASKED_LANES: usize = 2;

/// A copy in.
#[derive(Debug)]
pub struct Job {
    /// Its number.
    pub transfer: TransferId,
    /// What is sent.
    pub bytes: Bytes,
    /// Copies out that bring what it reads.
    pub(super) after: Vec<TransferId>,
    /// Who waits until its bytes were read.
    pub(super) waiter: Option<WaitId>,
}

/// The bytes of a copy in.
#[derive(Debug)]
pub enum Bytes {
    /// The program's memory, which it leaves alone until it waits.
    Host(HostRange),
    /// A copy of it.
    Staged(Vec<u8>),
}

/// Copies in that wait for their turn.
pub(super) struct Transfers {
    eager: LaneQueue<Job>,
    asked: LaneQueue<Job>,
    /// To be sent when the executor asks for them.
    unasked: BTreeMap<TransferId, (u32, QueueId, Job)>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self { eager: LaneQueue::new(EAGER_LANES), asked: LaneQueue::new(ASKED_LANES), unasked: BTreeMap::new() }
    }
}

impl Transfers {
    fn line(&mut self, way: Way) -> &mut LaneQueue<Job> {
        match way {
            Way::Eager => &mut self.eager,
            Way::Asked => &mut self.asked,
        }
    }

    /// Whether the bytes of an eager copy may go past the line, on a lane that is free.
    pub(super) fn is_line_empty(&self) -> bool {
        self.eager.is_empty()
    }

    /// Number of copies that wait for their turn.
    pub(super) fn len(&self) -> usize {
        self.eager.len() + self.asked.len() + self.unasked.len()
    }

    /// Puts a copy into a line.
    pub(super) fn join<W>(&mut self, way: Way, job: Job, effects: &mut Effects<W>) {
        self.line(way).join(job);
        self.call(way, effects);
    }

    /// Keeps a copy until the executor asks for it.
    pub(super) fn wait_for_request(&mut self, device: u32, queue: QueueId, job: Job) {
        self.unasked.insert(job.transfer, (device, queue, job));
    }

    /// The executor asks for a copy; none if it is not one of these.
    pub(super) fn requested(&mut self, transfer: TransferId) -> Option<Job> {
        self.unasked.remove(&transfer).map(|(_, _, job)| job)
    }

    /// The next copy of a line, for a thread of it.
    pub(super) fn take(&mut self, way: Way) -> Option<Job> {
        self.line(way).take()
    }

    /// The copy that was taken last has its lane.
    pub(super) fn has_lane<W>(&mut self, way: Way, effects: &mut Effects<W>) {
        self.line(way).has_lane();
        self.call(way, effects);
    }

    /// A thread is done with its copy.
    pub(super) fn ended(&mut self, way: Way) {
        self.line(way).ended();
    }

    /// Sees to it that the next copy of a line is taken.
    fn call<W>(&mut self, way: Way, effects: &mut Effects<W>) {
        effects.extend(self.line(way).call().map(|call| match call {
            Call::Wake => Effect::WakeCopyThread(way),
            Call::Start => Effect::StartCopyThread(way),
        }));
    }

    /// The executor will not ask for the bytes of a failed queue, or of all of a device.
    pub(super) fn cancel(&mut self, device: u32, queue: Option<QueueId>) -> Vec<Job> {
        let fits = |(of, in_queue): (u32, QueueId)| of == device && queue.is_none_or(|queue| queue == in_queue);
        let all = std::mem::take(&mut self.unasked);
        let (cancelled, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, (of, queue, _))| fits((*of, *queue)));
        self.unasked = kept.into_iter().collect();
        cancelled.into_iter().map(|(_, (_, _, job))| job).collect()
    }

    /// The connection is gone: everything that no thread has taken.
    pub(super) fn lose(&mut self) -> Vec<Job> {
        let mut jobs: Vec<_> = self.eager.leave().collect();
        jobs.extend(self.asked.leave());
        jobs.extend(std::mem::take(&mut self.unasked).into_values().map(|(_, _, job)| job));
        jobs
    }
}
