//! Where room is whose message comes unasked, and bytes that go to such.

use super::lent::{LentBytes, LentRoom};
use crate::transport::lane::RoomTold;
use accord_types::signal::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Room and bytes of a rank.
#[derive(Default)]
pub(super) struct Posts {
    pub(super) rooms: BTreeMap<u64, Posted>,
    /// What comes for nobody, by its tag.
    pub(super) waste: BTreeMap<u16, Vec<u8>>,
    /// Who is to be told what.
    pub(super) ended: VecDeque<(RoomTold, bool)>,
    /// What is sent into room of other ranks.
    pub(super) sending: BTreeMap<u64, Sent>,
    pub(super) has_thread: bool,
    /// Room was posted, or has ended, or MPI was left.
    pub(super) changed: Arc<Signal>,
}

/// Bytes for room of another rank, until whoever sends them knows what became of them.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) bytes: LentBytes,
    /// Raised for who waits.
    pub(super) changed: Arc<Signal>,
    /// MPI does not need them any more.
    pub(super) is_sent: bool,
    /// Whether they are there, once that is known.
    pub(super) landed: Option<bool>,
    /// Nobody wants to know whether they are there.
    pub(super) is_let_go: bool,
}

impl Sent {
    /// One more is known. Who waits for both is woken once.
    pub(super) fn tell(&mut self) {
        if self.is_sent && (self.is_let_go || self.landed.is_some()) {
            self.changed.raise();
        }
    }
}

pub(super) struct Posted {
    pub(super) room: LentRoom,
    pub(super) told: RoomTold,
}

impl fmt::Debug for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posts")
            .field("rooms", &self.rooms.keys())
            .field("sending", &self.sending)
            .finish_non_exhaustive()
    }
}

impl Posts {
    /// Bytes that are sent.
    pub(super) fn bytes_of(&self, id: u64) -> Option<LentBytes> {
        self.sending.get(&id).map(|sent| sent.bytes)
    }

    /// A message is wholly there, be it for nobody.
    pub(super) fn came(&mut self, tag: u16) {
        self.waste.remove(&tag);
    }
}
