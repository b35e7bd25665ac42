//! Stores the bytes of copies out when the machine permits it.

use super::connection::Connection;
use crate::connection::{AwaitedEvent, Completion, StorableCopy, StoreDecision, pieces};
use crate::host_copy;
use accord_fabric::frame::PAYLOAD_MAX;
use accord_fabric::transfer::Incoming;
use accord_types::{Error, ErrorCode, HostRange, Result, TransferId};
use std::sync::Arc;

/// Most bytes that are read at a time for discarding or comparing.
const PIECE_MAX: usize = 64 << 10;

impl Connection {
    /// Prepares for a copy of this many bytes: a bulk lane's thread will read them directly into their target. The
    /// threads are running.
    pub(super) fn expect_large(self: &Arc<Self>, transfer: TransferId, len: usize) {
        let connection = self.clone();
        self.link.inbox().post(
            transfer,
            len as u64,
            Box::new(move |incoming| connection.land_large(transfer, incoming)),
        );
    }

    /// Whether this many bytes arrive on a bulk lane rather than inside an event.
    pub(super) fn is_large(len: usize) -> bool {
        len > PAYLOAD_MAX
    }

    /// Waits until a copy's bytes may be stored. Returns `None` if it was cancelled.
    fn begin(self: &Arc<Self>, transfer: TransferId) -> Option<StorableCopy> {
        loop {
            let mut machine = self.machine();
            match machine.begin(transfer) {
                StoreDecision::Now(begun) => return Some(begun),
                StoreDecision::Cancelled => return None,
                StoreDecision::After(before) => {
                    let id = machine.wait(AwaitedEvent::Landed(before), std::thread::current());
                    self.act(machine);
                    let _ = self.wait(id);
                }
            }
        }
    }

    fn landed(self: &Arc<Self>, transfer: TransferId, outcome: Result<()>) {
        let mut machine = self.machine();
        machine.landed(transfer, outcome);
        self.act(machine);
    }

    fn land_large(self: &Arc<Self>, transfer: TransferId, mut incoming: Incoming) {
        let Some(begun) = self.begin(transfer) else { return };
        let outcome = read(begun, &mut incoming);
        let aborted = incoming.aborted();
        drop(incoming);
        match outcome {
            Ok(landed) => self.landed(transfer, landed),
            // If the sender gave up, its queue has failed, which the program learns there.
            Err(_) if aborted => self.landed(transfer, Ok(())),
            Err(error) => {
                // A lost lane ends the connection, whose reason may be reported elsewhere.
                let is_lost = error.code() == ErrorCode::DeviceUnavailable;
                let error = if is_lost { self.lose_aside(error.cause()) } else { error };
                let mut machine = self.machine();
                machine.broke(transfer, error);
                self.act(machine);
            }
        }
    }

    /// Stores the bytes of a small copy.
    ///
    /// # Errors
    /// Returns an error if the bytes are not the requested ones.
    pub(super) fn land_small(self: &Arc<Self>, transfer: TransferId, bytes: &[u8]) -> Result<()> {
        // `None` means cancelled.
        let Some(StorableCopy { dst, completion, leave }) = self.begin(transfer) else { return Ok(()) };
        let write = |dst: HostRange, bytes: &[u8]| {
            for piece in pieces(dst, &leave).iter().filter(|piece| piece.write) {
                let from = &bytes[piece.range.start - dst.start..][..piece.range.len];
                host_copy::with_bytes_mut(piece.range, |place| place.copy_from_slice(from));
            }
        };
        let fits = |len: usize| len == bytes.len();
        let landed = match completion {
            Completion::Write if fits(dst.len) => {
                write(dst, bytes);
                Ok(())
            }
            Completion::Changed(changed) if fits(changed.size()) => changed.land(bytes, write),
            Completion::Compare(mut unchanged) if fits(dst.len) => unchanged.compare(bytes),
            _ => {
                let error = unfit();
                self.landed(transfer, Err(error.clone()));
                return Err(error);
            }
        };
        self.landed(transfer, landed);
        Ok(())
    }

    /// Waits until all `transfers` are complete.
    ///
    /// # Errors
    /// Returns an error if a lane failed, so that bytes may be missing, or if the program's memory could not be
    /// written.
    pub(super) fn wait_until_landed(self: &Arc<Self>, transfers: &[TransferId]) -> Result<()> {
        for &transfer in transfers {
            let mut machine = self.machine();
            if machine.is_open(transfer) {
                let id = machine.wait(AwaitedEvent::Landed(transfer), std::thread::current());
                self.act(machine);
                self.wait(id)?;
            }
        }
        self.machine().outcome(transfers)
    }
}

/// Reads a large copy's bytes. The outer error is the lane's, the inner one the memory's.
fn read(begun: StorableCopy, incoming: &mut Incoming) -> Result<Result<()>> {
    let StorableCopy { dst, completion, leave } = begun;
    match completion {
        Completion::Write => {
            let mut waste = Vec::new();
            for piece in pieces(dst, &leave) {
                if piece.write {
                    host_copy::with_bytes_mut(piece.range, |bytes| incoming.fill(bytes))?;
                    continue;
                }
                waste.resize(piece.range.len.min(PIECE_MAX), 0);
                for at in (0..piece.range.len).step_by(PIECE_MAX) {
                    incoming.fill(&mut waste[..(piece.range.len - at).min(PIECE_MAX)])?;
                }
            }
            Ok(Ok(()))
        }
        Completion::Compare(mut unchanged) => {
            let mut buffer = vec![0; PIECE_MAX.min(dst.len)];
            let mut compared = Ok(());
            for at in (0..dst.len).step_by(PIECE_MAX) {
                let piece = &mut buffer[..PIECE_MAX.min(dst.len - at)];
                incoming.fill(piece)?;
                if compared.is_ok() {
                    compared = unchanged.compare(piece);
                }
            }
            Ok(compared)
        }
        // At most 4 KiB: they arrive inside an event.
        Completion::Changed(_) => Err(unfit()),
    }
}

fn unfit() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the peer broke the protocol: a copy of another size came")
}
