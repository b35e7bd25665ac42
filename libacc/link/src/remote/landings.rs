//! Copies out on their way to the program's memory.

use crate::host_copy::{self, Changed};
use accord_fabric::bulk::{Inbox, Incoming};
use accord_types::{Error, ErrorCode, HostRange, Result, TransferId};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Copies whose bytes are not here yet.
#[derive(Default)]
pub(super) struct Landings {
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Default)]
struct Table {
    transfers: HashMap<TransferId, State>,
    /// A lane failed: some bytes will never come.
    broken: Option<Error>,
}

enum State {
    /// Comes inside an event.
    Small(HostRange),
    /// Comes inside an event, and may be what the program has already.
    Changed(Changed),
    /// Comes on a bulk lane.
    Large,
    /// Its bytes are being read.
    Landing,
}

impl Landings {
    /// Expects a small copy.
    pub(super) fn small(&self, transfer: TransferId, dst: HostRange) {
        self.lock().transfers.insert(transfer, State::Small(dst));
    }

    /// Expects a small copy of what the program may have already.
    pub(super) fn changed(&self, transfer: TransferId, changed: Changed) {
        self.lock().transfers.insert(transfer, State::Changed(changed));
    }

    /// Expects a large copy, whose bytes a bulk lane's thread reads straight to where they belong.
    pub(super) fn large(self: &Arc<Self>, transfer: TransferId, dst: HostRange, inbox: &Inbox) {
        self.lock().transfers.insert(transfer, State::Large);
        let landings = self.clone();
        inbox.post(transfer, dst.len as u64, Box::new(move |incoming| landings.land(transfer, dst, incoming)));
    }

    fn land(&self, transfer: TransferId, dst: HostRange, mut incoming: Incoming) {
        match self.lock().transfers.get_mut(&transfer) {
            Some(state) => *state = State::Landing,
            // Cancelled: the program's memory is its own again.
            None => return,
        }
        let outcome = host_copy::with_bytes_mut(dst, |bytes| incoming.fill(bytes));
        // If it was the sender that gave up, its queue has failed, and the program learns of it there.
        let broken = outcome.err().filter(|_| !incoming.aborted());
        drop(incoming);
        let mut table = self.lock();
        table.transfers.remove(&transfer);
        table.broken = table.broken.take().or(broken);
        drop(table);
        self.changed.notify_all();
    }

    /// The bytes of a small copy are here.
    ///
    /// # Errors
    /// When they are not what was asked for.
    pub(super) fn data(&self, transfer: TransferId, bytes: &[u8]) -> Result<()> {
        let mut table = self.lock();
        match table.transfers.get(&transfer) {
            Some(State::Small(dst)) if dst.len == bytes.len() => {
                host_copy::with_bytes_mut(*dst, |place| place.copy_from_slice(bytes));
                table.transfers.remove(&transfer);
                Ok(())
            }
            Some(State::Changed(changed)) if changed.len() == bytes.len() => {
                changed.land(bytes);
                table.transfers.remove(&transfer);
                Ok(())
            }
            // Cancelled.
            None => Ok(()),
            Some(_) => Err(Error::new(
                ErrorCode::DeviceUnavailable,
                "the peer broke the protocol: a copy of another size came",
            )),
        }
    }

    /// Waits until the bytes of all `transfers` are here.
    ///
    /// # Errors
    /// When a lane failed, so that they may not be.
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
        table.broken.clone().map_or(Ok(()), Err)
    }

    /// Nothing of `transfers` may touch the program's memory any more, but for those whose bytes are
    /// being read: they are waited for as ever.
    pub(super) fn cancel(&self, transfers: &[TransferId], inbox: &Inbox) {
        let mut table = self.lock();
        for transfer in transfers {
            if !matches!(table.transfers.get(transfer), Some(State::Landing)) {
                table.transfers.remove(transfer);
            }
        }
        drop(table);
        transfers.iter().for_each(|&transfer| inbox.discard(transfer));
        self.changed.notify_all();
    }

    /// The link is gone: nothing comes any more. What is being read ends by itself.
    pub(super) fn lose(&self, error: &Error) {
        let mut table = self.lock();
        table.transfers.retain(|_, state| matches!(state, State::Landing));
        table.broken.get_or_insert_with(|| error.clone());
        drop(table);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
