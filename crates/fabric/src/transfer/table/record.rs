//! A transfer: one copy between two devices of different processes, as each of the two knows it.
//!
//! The program notifies source and target each on its own link, and the two communicate on a third. So events may arrive
//! in any order:
//!
//! ```text
//!   source                                target
//!   push ──┐ (from the program)           expect ──┐ (from the program)
//!   …stream gets there                    …all work ahead of it is done
//!          │ <────────── ready ─────────────────── │
//!          │ ──────────── bytes ─────────────────> │ copy, in the incoming stream
//!          │ <────────── landed ────────────────── │
//! ```
//!
//! No byte is sent before `ready`, and `ready` is sent only once the target has processed the program's `expect`. So
//! the copy stays ordered after all earlier work of the program on the target, however late the links are.

use crate::peer::PeerId;
use crate::transfer::control::ReceiveAnnouncement;
use accord_types::{Error, ErrorCode, Result, TransferId};

/// Most transfers that a process has on each side, which bounds what a peer can allocate here.
pub const TRANSFERS_MAX: usize = 1 << 16;

/// The end of a copy that this process has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Side {
    /// The device with the bytes.
    Source,
    /// The device that gets them.
    Target,
}

/// A copy between a device of this process and one of another.
#[derive(Debug)]
pub(super) struct Transfer<T> {
    /// The other process. `None` at the source until the program's command has arrived.
    pub(super) peer: Option<PeerId>,
    pub(super) state: TransferState,
    /// The caller's value for the transfer.
    pub(super) value: Option<T>,
}

/// The progress of a transfer, from its announcement to its end, whatever carries the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TransferState {
    /// The program has announced the copy. The target is not ready.
    Announced,
    /// At the target: the bytes may be sent, but the source has no lane to this process yet.
    Due,
    /// The target takes the bytes, and has sent its offer to the source.
    Ready(Offer),
    /// The way is chosen, and bytes may be under way.
    Moving,
    /// At the source: the bytes are in the target's memory.
    Landed,
    /// The bytes will not land. The device at this end has not ended the copy yet.
    Failed(Error),
    /// At the target: it can't take the bytes, and notifies the source once the source has a lane.
    Refused(Error),
    /// At the source: it gave the copy up, and notifies the target once the target is ready.
    Abandoned,
}

/// The ways that a ready target offers for the bytes. Lanes carry them in any case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offer {
    /// Only a lane.
    Lane,
    /// The target's memory itself, which a process with this handle may import.
    Memory(Vec<u8>),
    /// A posted receive, for all bytes as one message.
    Receive(ReceiveAnnouncement),
}

impl Offer {
    /// Returns the number of bytes that are kept for it.
    pub(super) fn bytes(&self) -> usize {
        if let Self::Memory(handle) = self { handle.len() } else { 0 }
    }
}

/// The next step of a push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushStep {
    /// Wait for an event.
    Wait,
    /// Send the bytes, or the remaining ones.
    Send,
    /// End with this outcome.
    End(Result<()>),
}

impl<T> Transfer<T> {
    /// Whether the transfer uses a lane of `peer`, or an earlier lane of the same process.
    pub(super) fn is_up_to(&self, peer: PeerId) -> bool {
        self.peer.is_some_and(|own| own.process() == peer.process() && own.lane() <= peer.lane())
    }

    /// Returns what its source does next.
    pub(super) fn step(&self) -> PushStep {
        match &self.state {
            TransferState::Announced | TransferState::Due | TransferState::Abandoned => PushStep::Wait,
            TransferState::Ready(_) | TransferState::Moving => PushStep::Send,
            TransferState::Landed => PushStep::End(Ok(())),
            TransferState::Failed(error) | TransferState::Refused(error) => PushStep::End(Err(error.clone())),
        }
    }
}

pub(super) fn twice(transfer: TransferId) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("transfer {transfer} was announced twice"))
}

pub(super) fn unknown(transfer: TransferId) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("transfer {transfer} is not under way"))
}

pub(super) fn too_many() -> Error {
    Error::new(
        ErrorCode::ImplementationDefined,
        format!("more than {TRANSFERS_MAX} copies between devices are under way"),
    )
}
