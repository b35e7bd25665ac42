//! Copies in that don't fit in a command, queued for bulk lanes: decisions only.
//!
//! The executor reads the bytes of an eager copy when it has reached the command, and its stream the copy. Both may
//! wait for any earlier operation of the program, so no copy may wait for a later one:
//!
//! * Eager copies get their lanes in the order of their commands.
//! * Requested copies, which the executor reads at once, have lanes of their own, without eager copies.

use super::effects::{CopyLine, Effect, Effects};
use super::lane_queue::{Call, LaneQueue};
use super::waits::WaitId;
use accord_types::{HostRange, QueueId, TransferId};
use std::collections::BTreeMap;

/// Number of lanes for eager copies in. Copies out use any lane.
pub const EAGER_LANES: usize = 2;
/// Number of lanes for requested copies, see [`EAGER_LANES`].
pub const ASKED_LANES: usize = 2;

/// Most copies in flight between the program's memory and devices. A further copy blocks its caller.
pub const TRANSFERS_MAX: usize = 16 << 10;
/// Most cancelled copies to remember, because the executor may just have requested them: as many as can be in flight.
const GONE_MAX: usize = TRANSFERS_MAX;

/// A copy in.
#[derive(Debug)]
pub struct Job {
    /// Its number.
    pub transfer: TransferId,
    /// The device and the queue.
    pub(super) place: (u32, QueueId),
    /// The bytes to send.
    pub bytes: Bytes,
    /// The copies out that must end first, because they write to the memory that this copy reads.
    pub(super) after: Vec<TransferId>,
    /// The thread that waits until the bytes were read.
    pub(super) waiter: Option<WaitId>,
}

impl Job {
    /// Whether the copy belongs to a queue, or with `None` to any queue of a device.
    pub(super) fn is_of(&self, device: u32, queue: Option<QueueId>) -> bool {
        is_of(self.place, device, queue)
    }

    fn gone(transfer: TransferId, place: (u32, QueueId), len: usize) -> Self {
        Self { transfer, place, bytes: Bytes::Gone(len), after: Vec::new(), waiter: None }
    }
}

/// Whether a queue is this one, or with `None` any of a device.
pub(super) fn is_of(place: (u32, QueueId), device: u32, queue: Option<QueueId>) -> bool {
    place.0 == device && queue.is_none_or(|queue| queue == place.1)
}

/// The bytes of a copy in.
#[derive(Debug)]
pub enum Bytes {
    /// The program's memory, which is unchanged until the program waits.
    Host(HostRange),
    /// A staging copy.
    Staged(Vec<u8>),
    /// The size of a cancelled copy, whose queue has failed or whose device was shut down. The executor is informed if
    /// it expects the bytes.
    Gone(usize),
}

impl Bytes {
    /// Returns the number of bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Host(range) => range.len,
            Self::Staged(bytes) => bytes.len(),
            Self::Gone(len) => *len,
        }
    }
}

/// Copies in that are not being sent yet.
pub(super) struct Transfers {
    eager: LaneQueue<Job>,
    asked: LaneQueue<Job>,
    /// Copies to be sent when the executor requests them.
    unasked: BTreeMap<TransferId, Job>,
    /// Cancelled copies with their lengths, whose requests may be in flight. At most [`GONE_MAX`].
    gone: BTreeMap<TransferId, (u32, QueueId, usize)>,
    /// Copies that threads are sending out of the program's memory, with their queues: at most one per thread.
    in_hand: Vec<(TransferId, (u32, QueueId))>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self {
            eager: LaneQueue::new(EAGER_LANES),
            asked: LaneQueue::new(ASKED_LANES),
            unasked: BTreeMap::new(),
            gone: BTreeMap::new(),
            in_hand: Vec::new(),
        }
    }
}

impl Transfers {
    fn line(&mut self, way: CopyLine) -> &mut LaneQueue<Job> {
        match way {
            CopyLine::Eager => &mut self.eager,
            CopyLine::Asked => &mut self.asked,
        }
    }

    /// Whether an eager copy may bypass the line, on a free lane.
    pub(super) fn is_line_empty(&self) -> bool {
        self.eager.is_empty()
    }

    /// Number of copies that are not being sent yet.
    pub(super) fn len(&self) -> usize {
        self.eager.len() + self.asked.len() + self.unasked.len()
    }

    /// Appends a copy to a line.
    pub(super) fn join<W>(&mut self, way: CopyLine, job: Job, effects: &mut Effects<W>) {
        self.line(way).join(job);
        self.call(way, effects);
    }

    /// Keeps a copy until the executor requests it.
    pub(super) fn wait_for_request(&mut self, job: Job) {
        self.unasked.insert(job.transfer, job);
    }

    /// Removes and returns a requested copy; `None` if it is unknown.
    pub(super) fn requested(&mut self, transfer: TransferId) -> Option<Job> {
        let gone = |(device, queue, len)| Job::gone(transfer, (device, queue), len);
        self.unasked.remove(&transfer).or_else(|| self.gone.remove(&transfer).map(gone))
    }

    /// Takes the next copy of a line, for a thread of it.
    pub(super) fn take(&mut self, way: CopyLine) -> Option<Job> {
        let job = self.line(way).take()?;
        if matches!(job.bytes, Bytes::Host(_)) {
            self.in_hand.push((job.transfer, job.place));
        }
        Some(job)
    }

    /// Records that the last taken copy has its lane.
    pub(super) fn has_lane<W>(&mut self, way: CopyLine, effects: &mut Effects<W>) {
        self.line(way).has_lane();
        self.call(way, effects);
    }

    /// Records that a thread is done with its copy.
    pub(super) fn ended(&mut self, way: CopyLine, transfer: TransferId) {
        self.in_hand.retain(|&(in_hand, _)| in_hand != transfer);
        self.line(way).ended();
    }

    /// Returns the copies of a queue, or with `None` of all of a device, that threads are sending out of the program's
    /// memory.
    pub(super) fn in_hand(&self, device: u32, queue: Option<QueueId>) -> impl Iterator<Item = TransferId> {
        let fits = move |place: (u32, QueueId)| is_of(place, device, queue);
        self.in_hand.iter().filter(move |(_, place)| fits(*place)).map(|(transfer, _)| *transfer)
    }

    /// Makes a thread take the next copy of a line.
    fn call<W>(&mut self, way: CopyLine, effects: &mut Effects<W>) {
        effects.extend(self.line(way).call().map(|call| match call {
            Call::Wake => Effect::WakeCopyThread(way),
            Call::Start => Effect::StartCopyThread(way),
        }));
    }

    /// Cancels the copies of a failed queue, or of a whole device. Unsent bytes are not read any more, so that the
    /// program may reuse its memory.
    pub(super) fn cancel(&mut self, device: u32, queue: Option<QueueId>) -> Vec<Job> {
        let fits = |job: &Job| job.is_of(device, queue);
        let all = std::mem::take(&mut self.unasked);
        let (cancelled, kept): (BTreeMap<_, _>, _) = all.into_iter().partition(|(_, job)| fits(job));
        self.unasked = kept;
        let mut cancelled: Vec<_> = cancelled.into_values().collect();
        self.gone.extend(cancelled.iter().map(|job| (job.transfer, (job.place.0, job.place.1, job.bytes.size()))));
        while self.gone.len() > GONE_MAX {
            self.gone.pop_first();
        }
        // The executor expects the copies in the lines.
        for job in self.eager.waiting_mut().chain(self.asked.waiting_mut()).filter(|job| fits(job)) {
            let gone = Job::gone(job.transfer, job.place, job.bytes.size());
            cancelled.push(std::mem::replace(job, gone));
        }
        cancelled
    }

    /// Removes and returns all copies that no thread has taken, because the connection is lost.
    pub(super) fn lose(&mut self) -> Vec<Job> {
        let mut jobs: Vec<_> = self.eager.leave().collect();
        jobs.extend(self.asked.leave());
        jobs.extend(std::mem::take(&mut self.unasked).into_values());
        jobs
    }
}
