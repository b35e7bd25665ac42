//! Memory of posted receives, and of sends to those of other ranks.

use super::exposed_memory::{ReceiveBuffer, SendBuffer};
use crate::transport::remote_memory::ReceiveEnded;
use accord_types::signal::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// The posted receives and the sends of a rank.
#[derive(Default)]
pub(super) struct Posts {
    pub(super) receives: BTreeMap<u64, Posted>,
    /// Messages whose receive was abandoned, by tag, until they have arrived.
    pub(super) waste: BTreeMap<u16, Vec<u8>>,
    /// Notifications to deliver.
    pub(super) ended: VecDeque<(ReceiveEnded, bool)>,
    /// Sends to posted receives of other ranks.
    pub(super) sending: BTreeMap<u64, Sent>,
    pub(super) has_thread: bool,
    /// Raised when a receive was posted or is over, and when the thread has left MPI.
    pub(super) changed: Arc<Signal>,
}

/// Bytes for a posted receive of another rank, until the sender has the outcome.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) bytes: SendBuffer,
    /// Wakes the waiting sender.
    pub(super) changed: Arc<Signal>,
    /// Whether MPI has released the bytes.
    pub(super) is_sent: bool,
    /// Whether the bytes were received, once known.
    pub(super) landed: Option<bool>,
    /// Whether the sender no longer waits for the receive's outcome.
    pub(super) is_let_go: bool,
}

impl Sent {
    /// Wakes the sender once it has nothing left to wait for.
    pub(super) fn notify(&mut self) {
        if self.is_sent && (self.is_let_go || self.landed.is_some()) {
            self.changed.raise();
        }
    }
}

pub(super) struct Posted {
    pub(super) space: ReceiveBuffer,
    pub(super) reported: ReceiveEnded,
}

impl fmt::Debug for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posts")
            .field("rooms", &self.receives.keys())
            .field("sending", &self.sending)
            .finish_non_exhaustive()
    }
}

impl Posts {
    /// Returns the bytes of a send.
    pub(super) fn bytes_of(&self, id: u64) -> Option<SendBuffer> {
        self.sending.get(&id).map(|sent| sent.bytes)
    }

    /// Records that a message has arrived completely, whether its receive was abandoned or not.
    pub(super) fn received(&mut self, tag: u16) {
        self.waste.remove(&tag);
    }
}
