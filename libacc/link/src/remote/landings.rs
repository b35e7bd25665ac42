//! Copies out on their way to the program's memory.
//!
//! They come by several lanes and land in any order. What has to come after one waits for it here: a copy in that reads what
//! it brings, and a later copy to the same memory. Of two copies to the same memory the later one writes what both would;
//! so that it never waits for one that has not begun.

use super::outs::overlap;
use crate::host_copy::{self, Changed, Unchanged};
use accord_fabric::bulk::{Inbox, Incoming};
use accord_fabric::frame::PAYLOAD_MAX;
use accord_types::{Error, ErrorCode, HostRange, Result, TransferId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Copies whose bytes are not here yet.
#[derive(Default)]
pub(super) struct Landings {
    table: Mutex<Table>,
    changed: Condvar,
    /// Something in [`Table::held`] wants bytes that nobody may be reading for.
    holding: AtomicBool,
}

#[derive(Default)]
struct Table {
    transfers: HashMap<TransferId, Landing>,
    held: Vec<(Vec<TransferId>, Then)>,
    /// A lane failed: some bytes will never come.
    broken: Option<Error>,
    /// Copies whose bytes have come, but could not be put where they belong. Whoever waits hears of it.
    failed: HashMap<TransferId, Error>,
}

/// What is to be done when some copies have landed.
pub(super) type Then = Box<dyn FnOnce() + Send>;

struct Landing {
    dst: HostRange,
    how: How,
    /// Parts of it that a later copy writes anyway.
    leave: Vec<HostRange>,
    /// Copies to the same memory that had begun before this one was asked for.
    after: Vec<TransferId>,
}

enum How {
    /// Comes inside an event.
    Small,
    /// Comes inside an event, and may be what the program has already.
    Changed(Changed),
    /// Comes inside an event, and is to be what the program has.
    Compared(Unchanged),
    /// Comes on a bulk lane.
    Large,
    /// Its bytes are being read.
    Begun,
}

/// Bytes that are written, or left as they are.
struct Piece {
    range: HostRange,
    write: bool,
}

impl Landings {
    /// Expects a small copy, after `before`.
    pub(super) fn small(&self, transfer: TransferId, dst: HostRange, before: &[TransferId]) -> Vec<TransferId> {
        self.lock().expect(transfer, dst, How::Small, before)
    }

    /// Expects small variables that the program may have already, somewhere in `dst`.
    pub(super) fn changed(&self, transfer: TransferId, dst: HostRange, changed: Changed) {
        // It may write nothing, so that whatever comes before it has to.
        self.lock().expect(transfer, dst, How::Changed(changed), &[]);
    }

    /// Expects a large copy, whose bytes a bulk lane's thread reads straight to where they belong, after `before`.
    pub(super) fn large(
        self: &Arc<Self>,
        transfer: TransferId,
        dst: HostRange,
        inbox: &Inbox,
        before: &[TransferId],
    ) -> Vec<TransferId> {
        let over = self.lock().expect(transfer, dst, How::Large, before);
        let landings = self.clone();
        inbox.post(transfer, dst.len as u64, Box::new(move |incoming| landings.land(transfer, incoming)));
        over
    }

    fn land(&self, transfer: TransferId, mut incoming: Incoming) {
        let Some(pieces) = self.begin(transfer) else { return };
        let mut waste = Vec::new();
        let outcome = pieces.iter().try_for_each(|piece| {
            if piece.write {
                host_copy::with_bytes_mut(piece.range, |bytes| incoming.fill(bytes))
            } else {
                waste.resize(piece.range.len.min(WASTE_MAX), 0);
                (0..piece.range.len)
                    .step_by(WASTE_MAX)
                    .try_for_each(|at| incoming.fill(&mut waste[..(piece.range.len - at).min(WASTE_MAX)]))
            }
        });
        self.end(transfer, incoming, outcome.map(|()| Ok(())));
    }

    /// Expects bytes that are to be what the program has, in read-only memory.
    pub(super) fn compare(self: &Arc<Self>, transfer: TransferId, with: HostRange, inbox: &Inbox) {
        let mut unchanged = Unchanged::new(with);
        if with.len <= PAYLOAD_MAX {
            self.lock().expect(transfer, with, How::Compared(unchanged), &[]);
            return;
        }
        self.lock().expect(transfer, with, How::Large, &[]);
        let landings = self.clone();
        let land = move |mut incoming: Incoming| {
            if landings.begin(transfer).is_none() {
                return;
            }
            let mut buffer = vec![0; WASTE_MAX.min(with.len)];
            let mut compared = Ok(());
            let outcome = (0..with.len).step_by(WASTE_MAX).try_for_each(|at| {
                let piece = &mut buffer[..WASTE_MAX.min(with.len - at)];
                incoming.fill(piece)?;
                if compared.is_ok() {
                    compared = unchanged.compare(piece);
                }
                Ok(())
            });
            landings.end(transfer, incoming, outcome.map(|()| compared));
        };
        inbox.post(transfer, with.len as u64, Box::new(land));
    }

    /// The bytes of a large copy came off their lane or did not, and then were what they had to be or not.
    fn end(&self, transfer: TransferId, incoming: Incoming, outcome: Result<Result<()>>) {
        let mut table = self.lock();
        match outcome {
            Ok(landed) => table.failed.extend(landed.err().map(|error| (transfer, error))),
            // If it was the sender that gave up, its queue has failed, and the program learns of it there.
            Err(_) if incoming.aborted() => {}
            Err(error) => {
                table.broken.get_or_insert(error);
            }
        }
        drop(incoming);
        table.transfers.remove(&transfer);
        self.release(table);
    }

    /// The first bytes of a large copy are here: what of it is to be written, once that may be. None if it was cancelled: the
    /// program's memory is its own again.
    fn begin(&self, transfer: TransferId) -> Option<Vec<Piece>> {
        let table = self.after_those_before(transfer);
        let (mut table, landing) = table?;
        let pieces = pieces(landing.dst, &landing.leave);
        table.transfers.insert(transfer, Landing { how: How::Begun, ..landing });
        Some(pieces)
    }

    /// Takes a copy out of the table when those that had begun before it was asked for have ended; they hang on nothing but
    /// their own lanes.
    fn after_those_before(&self, transfer: TransferId) -> Option<(MutexGuard<'_, Table>, Landing)> {
        let mut table = self.lock();
        loop {
            let landing = table.transfers.get(&transfer)?;
            if !landing.after.iter().any(|before| table.transfers.contains_key(before)) {
                let landing = table.transfers.remove(&transfer)?;
                return Some((table, landing));
            }
            table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The bytes of a small copy are here.
    ///
    /// # Errors
    /// When they are not what was asked for.
    pub(super) fn data(&self, transfer: TransferId, bytes: &[u8]) -> Result<()> {
        // None was cancelled.
        let Some((mut table, landing)) = self.after_those_before(transfer) else { return Ok(()) };
        let Landing { dst, leave, how, .. } = landing;
        let write = |dst: HostRange, bytes: &[u8]| {
            for piece in pieces(dst, &leave).iter().filter(|piece| piece.write) {
                let from = &bytes[piece.range.start - dst.start..][..piece.range.len];
                host_copy::with_bytes_mut(piece.range, |place| place.copy_from_slice(from));
            }
        };
        let fits = |len: usize| len == bytes.len();
        let landed = match how {
            How::Small if fits(dst.len) => {
                write(dst, bytes);
                Ok(())
            }
            How::Changed(changed) if fits(changed.len()) => changed.land(bytes, write),
            How::Compared(mut unchanged) if fits(dst.len) => unchanged.compare(bytes),
            _ => {
                let cause = "the peer broke the protocol: a copy of another size came";
                return Err(Error::new(ErrorCode::DeviceUnavailable, cause));
            }
        };
        table.failed.extend(landed.err().map(|error| (transfer, error)));
        self.release(table);
        Ok(())
    }

    /// Waits until the bytes of all `transfers` are here.
    ///
    /// # Errors
    /// When a lane failed, so that they may not be, or the program's memory could not take them.
    pub(super) fn wait(&self, transfers: &[TransferId]) -> Result<()> {
        if transfers.is_empty() {
            return Ok(());
        }
        let mut table = self.lock();
        for transfer in transfers {
            while table.transfers.contains_key(transfer) {
                table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let failed = transfers.iter().filter_map(|transfer| table.failed.remove(transfer)).next();
        failed.or_else(|| table.broken.clone()).map_or(Ok(()), Err)
    }

    /// Whether a copy's bytes are not here yet.
    pub(super) fn is_open(&self, transfer: TransferId) -> bool {
        self.lock().transfers.contains_key(&transfer)
    }

    /// Does `then` when all `transfers` have landed or never will: now, or on the thread that lands the last. False if later.
    pub(super) fn when_landed(&self, transfers: Vec<TransferId>, then: Then) -> bool {
        let mut table = self.lock();
        if transfers.iter().any(|transfer| table.transfers.contains_key(transfer)) {
            table.held.push((transfers, then));
            self.holding.store(true, Ordering::Release);
            return false;
        }
        drop(table);
        then();
        true
    }

    /// Whether something waits for copies to land though no thread may be waiting for events, in which small ones come.
    pub(super) fn is_holding(&self) -> bool {
        self.holding.load(Ordering::Acquire)
    }

    /// Nothing of `transfers` may touch the program's memory any more, but for those whose bytes are
    /// being read: they are waited for as ever.
    pub(super) fn cancel(&self, transfers: &[TransferId], inbox: &Inbox) {
        let mut table = self.lock();
        for transfer in transfers {
            if table.transfers.get(transfer).is_some_and(|landing| !landing.has_begun()) {
                table.transfers.remove(transfer);
            }
        }
        self.release(table);
        transfers.iter().for_each(|&transfer| inbox.discard(transfer));
    }

    /// The link is gone: nothing comes any more. What is being read ends by itself.
    pub(super) fn lose(&self, error: &Error) {
        let mut table = self.lock();
        table.transfers.retain(|_, landing| landing.has_begun());
        table.broken.get_or_insert_with(|| error.clone());
        self.release(table);
    }

    /// Some copies are in the table no more: does what has waited for them.
    fn release(&self, mut table: MutexGuard<'_, Table>) {
        let Table { transfers, held, .. } = &mut *table;
        let due: Vec<_> =
            held.extract_if(.., |(after, _)| !after.iter().any(|transfer| transfers.contains_key(transfer))).collect();
        self.holding.store(!held.is_empty(), Ordering::Release);
        drop(table);
        self.changed.notify_all();
        due.into_iter().for_each(|(_, then)| then());
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes at a time that are read and thrown away.
const WASTE_MAX: usize = 64 << 10;

impl Table {
    /// Expects a copy after `before`, those to the same memory that come first. Returns those of them that write nothing any more.
    fn expect(&mut self, transfer: TransferId, dst: HostRange, how: How, before: &[TransferId]) -> Vec<TransferId> {
        let (mut after, mut over) = (Vec::new(), Vec::new());
        for earlier in before {
            match self.transfers.get_mut(earlier) {
                Some(landing) if landing.has_begun() => after.push(*earlier),
                Some(landing) => {
                    landing.leave_to(dst);
                    if pieces(landing.dst, &landing.leave).iter().all(|piece| !piece.write) {
                        over.push(*earlier);
                    }
                }
                None => over.push(*earlier),
            }
        }
        self.transfers.insert(transfer, Landing { dst, how, leave: Vec::new(), after });
        over
    }
}

impl Landing {
    fn has_begun(&self) -> bool {
        matches!(self.how, How::Begun)
    }

    fn leave_to(&mut self, later: HostRange) {
        let inside =
            |known: &HostRange| known.start <= later.start && later.start + later.len <= known.start + known.len;
        if overlap(self.dst, later) && !self.leave.iter().any(inside) {
            self.leave.push(later);
        }
    }
}

/// A copy's bytes in order.
fn pieces(dst: HostRange, leave: &[HostRange]) -> Vec<Piece> {
    let end = dst.start + dst.len;
    // Of variables that come together, a later copy may concern another one only.
    let inside = leave.iter().filter(|r| overlap(dst, **r));
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
