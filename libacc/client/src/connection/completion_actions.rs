//! Copies out in flight to the program's memory, and the actions that wait for their completion.
//!
//! They arrive on several lanes, and complete in any order. Operations that must follow one wait for it here: a copy in
//! that reads its target, and a later copy out to the same memory. Of two copies to the same memory, the later one
//! writes what both would, so that it never waits for one that has not begun. Only a copy that writes changed bytes
//! waits for all earlier ones: it is small, so its bytes hold up no lane.

use super::effects::Effects;
use super::transfers::{Job, is_of};
use super::waits::{AwaitedEvent, Waits};
use crate::host_copy::{Changed, Unchanged};
use accord_device::Sink as _;
use accord_types::{Error, HostRange, QueueId, Result, TransferId};
use std::collections::BTreeMap;

/// Most failures that are kept for waits on just these copies. Further ones fail all later waits.
const FAILED_MAX: usize = 1 << 10;
/// Most ranges that earlier copies leave to later ones, in total. Beyond that the program's next copy waits until
/// earlier ones complete.
const LEFT_MAX: usize = 1 << 18;

/// Copies whose bytes have not arrived completely.
#[derive(Default)]
pub(super) struct CompletionActions {
    copies: BTreeMap<TransferId, CopyOut>,
    /// Copies in that the executor has requested, with the copies out that write what they read.
    held: Vec<(Vec<TransferId>, Job)>,
    /// Number of ranges in [`CopyOut::leave`] of all copies.
    left: usize,
    /// The error of a failed lane, or of one failure too many: some bytes will never be stored.
    broken: Option<Error>,
    /// Copies whose bytes arrived but could not be stored at their target. The next wait for one returns its error. At
    /// most [`FAILED_MAX`].
    failed: BTreeMap<TransferId, Error>,
}

/// The use of a copy's bytes.
pub enum Completion {
    /// The bytes are written.
    Write,
    /// The bytes arrive inside an event, and are written only if they have changed.
    Changed(Changed),
    /// The bytes are compared with the program's.
    Compare(Unchanged),
}

/// A copy whose bytes may be stored now. [`super::Machine::landed`] follows.
pub struct StorableCopy {
    /// The target in the program's memory.
    pub dst: HostRange,
    /// The use of the bytes.
    pub completion: Completion,
    /// Ranges of the target that a later copy writes, so that this copy skips them.
    pub leave: Vec<HostRange>,
}

/// Whether a copy's bytes may be stored.
pub enum StoreDecision {
    /// The bytes may be stored.
    Now(StorableCopy),
    /// An earlier copy must be stored in the same memory first. [`AwaitedEvent::Landed`] with this one says when to ask again.
    /// The earlier copy depends on nothing but its own lane.
    After(TransferId),
    /// The bytes are discarded: the copy was cancelled, and the program may reuse its memory.
    Cancelled,
}

struct CopyOut {
    place: (u32, QueueId),
    dst: HostRange,
    /// `None` while its bytes are being stored.
    completion: Option<Completion>,
    /// Ranges of the target that a later copy writes anyway.
    leave: Vec<HostRange>,
    /// Copies to the same memory that must be stored before.
    after: Vec<TransferId>,
}

/// A range of bytes that is written or skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The target of the piece.
    pub range: HostRange,
    /// Whether the piece is written.
    pub write: bool,
}

impl CompletionActions {
    /// Adds a copy after `before`, the earlier ones to the same memory. Returns those of them that no longer write
    /// anything.
    pub(super) fn expect(
        &mut self,
        transfer: TransferId,
        place: (u32, QueueId),
        dst: HostRange,
        completion: Completion,
        before: &[TransferId],
    ) -> Vec<TransferId> {
        let (mut after, mut over) = (Vec::new(), Vec::new());
        for earlier in before {
            match (self.copies.get_mut(earlier), &completion) {
                // The later copy may write nothing, so that the earlier one must still write.
                (Some(copy), Completion::Changed(changed)) => {
                    after.extend(changed.may_write(copy.dst).then_some(*earlier));
                }
                (Some(copy), _) if copy.has_begun() => after.push(*earlier),
                (Some(copy), _) => {
                    self.left += usize::from(copy.leave_to(dst));
                    if pieces(copy.dst, &copy.leave).iter().all(|piece| !piece.write) {
                        over.push(*earlier);
                    }
                }
                (None, _) => over.push(*earlier),
            }
        }
        self.copies.insert(transfer, CopyOut { place, dst, completion: Some(completion), leave: Vec::new(), after });
        over
    }

    /// Decides on a copy whose bytes have arrived.
    pub(super) fn begin(&mut self, transfer: TransferId) -> StoreDecision {
        let Some(copy) = self.copies.get(&transfer) else { return StoreDecision::Cancelled };
        if let Some(before) = copy.after.iter().find(|before| self.copies.contains_key(before)) {
            return StoreDecision::After(*before);
        }
        let Some(copy) = self.copies.get_mut(&transfer) else { return StoreDecision::Cancelled };
        match copy.completion.take() {
            Some(completion) => {
                let leave = std::mem::take(&mut copy.leave);
                self.left -= leave.len();
                StoreDecision::Now(StorableCopy { dst: copy.dst, completion, leave })
            }
            None => StoreDecision::Cancelled,
        }
    }

    /// Records the completion of a copy that had begun. Returns the copies in that may be sent now.
    pub(super) fn landed<W: Clone>(
        &mut self,
        transfer: TransferId,
        outcome: Result<()>,
        waits: &mut Waits<W>,
        effects: &mut Effects<W>,
    ) -> Vec<Job> {
        match outcome {
            // The list is full of failures without a wait: the next wait, whatever it is for, returns this error.
            Err(error) if self.failed.len() >= FAILED_MAX => self.broke(error),
            Err(error) => drop(self.failed.insert(transfer, error)),
            Ok(()) => {}
        }
        self.remove(transfer, waits, effects);
        self.due()
    }

    /// Records that the lane of a copy that had begun has failed: some bytes will never arrive.
    pub(super) fn broke(&mut self, error: Error) {
        self.broken.get_or_insert(error);
    }

    /// Returns the outcome of awaited copies, none of which is still open.
    ///
    /// # Errors
    /// Returns an error if a lane failed, so that their bytes may be missing, or if the program's memory could not be
    /// written.
    pub(super) fn outcome(&mut self, transfers: &[TransferId]) -> Result<()> {
        if transfers.is_empty() {
            return Ok(());
        }
        // Removes all failures of these copies, because no later wait asks for them.
        let failed = transfers.iter().filter_map(|transfer| self.failed.remove(transfer)).reduce(|first, _| first);
        failed.or_else(|| self.broken.clone()).map_or(Ok(()), Err)
    }

    /// Whether a copy is still open.
    pub(super) fn is_open(&self, transfer: TransferId) -> bool {
        self.copies.contains_key(&transfer)
    }

    /// Returns the copies of a queue, or with `None` of a whole device, whose bytes are being written to the program's
    /// memory.
    pub(super) fn in_hand(&self, device: u32, queue: Option<QueueId>) -> impl Iterator<Item = TransferId> {
        let fits = move |copy: &CopyOut| copy.has_begun() && is_of(copy.place, device, queue);
        self.copies.iter().filter(move |(_, copy)| fits(copy)).map(|(transfer, _)| *transfer)
    }

    /// Whether earlier copies must complete before another one may be added.
    pub(super) fn must_wait(&self) -> bool {
        self.left >= LEFT_MAX
    }

    /// Number of open copies, and of copies in that wait for them.
    pub(super) fn len(&self) -> usize {
        self.copies.len() + self.held.len()
    }

    /// Keeps a copy in until all of `after` have completed or were cancelled. Returns it if that is so already.
    pub(super) fn hold(&mut self, after: Vec<TransferId>, job: Job) -> Option<Job> {
        if !after.iter().any(|transfer| self.is_open(*transfer)) {
            return Some(job);
        }
        self.held.push((after, job));
        None
    }

    /// Whether a copy in waits for copies out. Small ones arrive in events, which no thread may be reading.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Removes and returns the held copies in of a queue, or with `None` of a whole device.
    pub(super) fn release(&mut self, device: u32, queue: Option<QueueId>) -> Vec<Job> {
        self.held.extract_if(.., |(_, job)| job.is_of(device, queue)).map(|(_, job)| job).collect()
    }

    /// Cancels `transfers`, which do not touch the program's memory any more, except those whose bytes are being read:
    /// these complete as usual. Returns the copies in that may be sent now.
    pub(super) fn cancel<W: Clone>(
        &mut self,
        transfers: &[TransferId],
        waits: &mut Waits<W>,
        effects: &mut Effects<W>,
    ) -> Vec<Job> {
        for &transfer in transfers {
            if self.copies.get(&transfer).is_some_and(|copy| !copy.has_begun()) {
                self.remove(transfer, waits, effects);
            }
        }
        self.due()
    }

    /// Cancels everything because the connection is lost, except copies that are being read. Returns the held copies
    /// in.
    pub(super) fn lose<W: Clone>(
        &mut self,
        error: &Error,
        waits: &mut Waits<W>,
        effects: &mut Effects<W>,
    ) -> impl Iterator<Item = Job> {
        self.broken.get_or_insert_with(|| error.clone());
        let waiting = self.copies.iter().filter(|(_, copy)| !copy.has_begun()).map(|(transfer, _)| *transfer);
        for transfer in waiting.collect::<Vec<_>>() {
            self.remove(transfer, waits, effects);
        }
        std::mem::take(&mut self.held).into_iter().map(|(_, job)| job)
    }

    fn remove<W: Clone>(&mut self, transfer: TransferId, waits: &mut Waits<W>, effects: &mut Effects<W>) {
        if let Some(copy) = self.copies.remove(&transfer) {
            self.left -= copy.leave.len();
        }
        waits.complete_all(AwaitedEvent::Landed(transfer), effects);
        waits.complete_all(AwaitedEvent::Room, effects);
    }

    /// Removes and returns the jobs that waited for copies which are no longer in the table.
    fn due(&mut self) -> Vec<Job> {
        let Self { copies, held, .. } = self;
        let due = held.extract_if(.., |(after, _)| !after.iter().any(|transfer| copies.contains_key(transfer)));
        due.map(|(_, job)| job).collect()
    }
}

impl CopyOut {
    fn has_begun(&self) -> bool {
        self.completion.is_none()
    }

    /// Leaves the range of a later copy to that copy. Returns whether this adds a range.
    fn leave_to(&mut self, later: HostRange) -> bool {
        let inside =
            |known: &HostRange| known.start <= later.start && later.start + later.len <= known.start + known.len;
        let is_more = self.dst.overlaps(later) && !self.leave.iter().any(inside);
        if is_more {
            self.leave.push(later);
        }
        is_more
    }
}

/// Splits a copy's target into pieces, and marks those of `leave` as skipped.
pub fn pieces(dst: HostRange, leave: &[HostRange]) -> Vec<Piece> {
    let end = dst.start + dst.len;
    // With several variables in one copy, a later copy may concern only one of them.
    let inside = leave.iter().filter(|r| dst.overlaps(**r));
    let mut leave: Vec<_> = inside.map(|r| (r.start.max(dst.start), (r.start + r.len).min(end))).collect();
    leave.sort_unstable();
    let (mut pieces, mut at) = (Vec::new(), dst.start);
    let mut piece = |from: usize, to: usize, write| {
        if from < to {
            pieces.push(Piece { range: HostRange { start: from, len: to - from }, write });
        }
    };
    for (from, to) in leave {
        piece(at, from, true);
        piece(at.max(from), to, false);
        at = at.max(to);
    }
    piece(at, end, true);
    pieces
}

#[cfg(test)]
mod tests;
