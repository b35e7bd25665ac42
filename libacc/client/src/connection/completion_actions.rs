//! Copies out on their way to the program's memory, and what is to be done when they have landed.
//!
//! They come by several lanes and land in any order. What has to come after one waits for it here: a copy in that reads what
//! it brings, and a later copy to the same memory. Of two copies to the same memory the later one writes what both would;
//! so that it never waits for one that has not begun. Only what is written if it has changed waits for all before it: it is small, so its
//! bytes stand on no lane of theirs.

use super::effects::Effects;
use super::transfers::{Job, is_of};
use super::waits::{Waits, Want};
use crate::host_copy::{Changed, Unchanged};
use accord_device::Sink as _;
use accord_types::{Error, HostRange, QueueId, Result, TransferId};
use std::collections::BTreeMap;

/// Failures that are kept for those who wait for just these copies. One more is everybody's.
const FAILED_MAX: usize = 1 << 10;
/// Parts of copies that later ones write, of all together. The program's next copy waits while there are so many: the earlier ones have to land.
const LEFT_MAX: usize = 1 << 18;

/// Copies whose bytes are not here yet.
#[derive(Default)]
pub(super) struct CompletionActions {
    copies: BTreeMap<TransferId, CopyOut>,
    /// Copies in that the executor has asked for, and the copies out that bring what they read.
    held: Vec<(Vec<TransferId>, Job)>,
    /// Ranges in [`CopyOut::leave`] of all copies.
    left: usize,
    /// A lane failed, or too much has: some bytes will never be where they belong.
    broken: Option<Error>,
    /// Copies whose bytes arrived but could not be stored at their target. The next wait for one returns its error. At
    /// most [`FAILED_MAX`].
    failed: BTreeMap<TransferId, Error>,
}

/// The use of a copy's bytes.
pub enum Completion {
    /// They are written.
    Write,
    /// They come inside an event, and may be what the program has already.
    Changed(Changed),
    /// They are to be what the program has.
    Compare(Unchanged),
}

/// A copy whose bytes may be put where they belong now. [`super::Machine::landed`] follows.
pub struct Begun {
    /// The target in the program's memory.
    pub dst: HostRange,
    /// The use of the bytes.
    pub completion: Completion,
    /// Parts of it that a later copy writes, so that this one leaves them as they are.
    pub leave: Vec<HostRange>,
}

/// Whether a copy's bytes may be put where they belong.
pub enum Begin {
    /// They may.
    Now(Begun),
    /// An earlier copy has to be written to the same memory first: [`Want::Landed`] with this says when to ask again. That hangs on
    /// nothing but its own lane.
    After(TransferId),
    /// They are thrown away: the copy was cancelled, and the program's memory is its own again.
    Cancelled,
}

struct CopyOut {
    place: (u32, QueueId),
    dst: HostRange,
    /// None: its bytes are being written.
    completion: Option<Completion>,
    /// Parts of it that a later copy writes anyway.
    leave: Vec<HostRange>,
    /// Copies to the same memory that this one has to come after.
    after: Vec<TransferId>,
}

/// Bytes that are written, or left as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The target of the piece.
    pub range: HostRange,
    /// Whether they are written.
    pub write: bool,
}

impl CompletionActions {
    /// Expects a copy after `before`, those to the same memory that come first. Returns those of them that write nothing any more.
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
                // It may write nothing: what comes first is written all the same.
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

    /// The bytes of a copy are here.
    pub(super) fn begin(&mut self, transfer: TransferId) -> Begin {
        let Some(copy) = self.copies.get(&transfer) else { return Begin::Cancelled };
        if let Some(before) = copy.after.iter().find(|before| self.copies.contains_key(before)) {
            return Begin::After(*before);
        }
        let Some(copy) = self.copies.get_mut(&transfer) else { return Begin::Cancelled };
        match copy.completion.take() {
            Some(completion) => {
                let leave = std::mem::take(&mut copy.leave);
                self.left -= leave.len();
                Begin::Now(Begun { dst: copy.dst, completion, leave })
            }
            None => Begin::Cancelled,
        }
    }

    /// A copy that had begun is over. Returns the copies in that may be sent now.
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

    /// The lane of a copy that had begun has failed: some bytes will never come.
    pub(super) fn broke(&mut self, error: Error) {
        self.broken.get_or_insert(error);
    }

    /// Returns the outcome of copies that were waited for, of which none is open any more.
    ///
    /// # Errors
    /// Returns an error if a lane failed, so that their bytes may not be here, or the program's memory could not take
    /// them.
    pub(super) fn outcome(&mut self, transfers: &[TransferId]) -> Result<()> {
        if transfers.is_empty() {
            return Ok(());
        }
        // Takes every failure of the list: no later wait asks for it again.
        let failed = transfers.iter().filter_map(|transfer| self.failed.remove(transfer)).reduce(|first, _| first);
        failed.or_else(|| self.broken.clone()).map_or(Ok(()), Err)
    }

    /// Whether a copy's bytes are not here yet.
    pub(super) fn is_open(&self, transfer: TransferId) -> bool {
        self.copies.contains_key(&transfer)
    }

    /// Returns the copies of a queue, or with `None` of all of a device, whose bytes are being written to the program's
    /// memory.
    pub(super) fn in_hand(&self, device: u32, queue: Option<QueueId>) -> impl Iterator<Item = TransferId> {
        let fits = move |copy: &CopyOut| copy.has_begun() && is_of(copy.place, device, queue);
        self.copies.iter().filter(move |(_, copy)| fits(copy)).map(|(transfer, _)| *transfer)
    }

    /// Whether earlier copies have to land before one more may come.
    pub(super) fn is_crowded(&self) -> bool {
        self.left >= LEFT_MAX
    }

    /// Number of copies whose bytes are not here yet, and of those that wait for them.
    pub(super) fn len(&self) -> usize {
        self.copies.len() + self.held.len()
    }

    /// Keeps a copy in until all `after` have landed or never will. Gives it back if that is so already.
    pub(super) fn hold(&mut self, after: Vec<TransferId>, job: Job) -> Option<Job> {
        if !after.iter().any(|transfer| self.is_open(*transfer)) {
            return Some(job);
        }
        self.held.push((after, job));
        None
    }

    /// Whether something waits for copies to land though no thread may be waiting for events, in which small ones come.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Copies in of a queue, or with none of all of a device, that are held. They come to nothing.
    pub(super) fn release(&mut self, device: u32, queue: Option<QueueId>) -> Vec<Job> {
        self.held.extract_if(.., |(_, job)| job.is_of(device, queue)).map(|(_, job)| job).collect()
    }

    /// Cancels `transfers`: they do not touch the program's memory any more, but for those whose bytes are being read,
    /// which are waited for as ever. Returns the copies in that may be sent now.
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

    /// The connection is gone: nothing comes any more. What is being read ends by itself. Returns the copies in that were held.
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
        waits.came_for_all(Want::Landed(transfer), effects);
        waits.came_for_all(Want::Room, effects);
    }

    /// Takes the jobs that have waited for copies which are no longer in the table.
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

    /// Leaves what a later copy writes to that. Whether there is more to leave by it.
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

/// A copy's bytes in order, of which it leaves those of `leave` as they are.
pub fn pieces(dst: HostRange, leave: &[HostRange]) -> Vec<Piece> {
    let end = dst.start + dst.len;
    // Of variables that come together, a later copy may concern another one only.
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
