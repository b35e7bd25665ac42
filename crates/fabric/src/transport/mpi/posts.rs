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
    /// What is sent into room of other ranks, and who waits until it has been.
    pub(super) sending: BTreeMap<u64, (LentBytes, Arc<Signal>)>,
    pub(super) has_thread: bool,
    /// Room was posted, or has ended, or MPI was left.
    pub(super) changed: Arc<Signal>,
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
        self.sending.get(&id).map(|(bytes, _)| *bytes)
    }

    /// A message is wholly there, be it for nobody.
    pub(super) fn came(&mut self, tag: u16) {
        self.waste.remove(&tag);
    }
}
