//! Room in devices' memory that is posted for transfers: their bytes come there as one message, which takes a way less than to offer them by a
//! lane, to be asked for them, and to send them.
//!
//! Whoever pushes uses either the room or a lane. On a lane comes also the word that it uses neither: then the room is withdrawn. Who loses the
//! pusher, or ends the device, abandons the room, since a message may be on its way.

use crate::transport::PostedRoom;
use accord_types::short_lock::ShortLock;
use accord_types::{AddressRange, NativeRange, TransferId};
use std::collections::HashMap;
use std::sync::Arc;

/// Memory that a transfer goes to, for a library that writes there.
pub struct DeviceRoom {
    /// What is posted of its device.
    pub device: Arc<DeviceRooms>,
    /// Where it is.
    pub place: Box<dyn RoomPlace>,
}

/// Where a transfer goes in its device's memory.
pub trait RoomPlace: Send {
    /// Once nothing else writes there; none if a library can't reach it. Called without locks, when the bytes may come.
    fn range(&self) -> Option<NativeRange>;

    /// Whether nothing else writes there still, as far as that is known without a look at the device. Asked once it is posted: whoever writes there sees
    /// that, or is seen here. Called with locks.
    fn is_free(&self) -> bool;
}

/// What is posted of a device. To be ended before its memory is given back.
#[derive(Default)]
pub struct DeviceRooms(ShortLock<Posted>);

#[derive(Default)]
struct Posted {
    /// Nothing is posted any more.
    ended: bool,
    rooms: HashMap<TransferId, (Arc<dyn PostedRoom>, AddressRange)>,
}

impl DeviceRooms {
    /// Nothing of the device is written to any more when this returns, nor later.
    pub fn end(&self) {
        let mut posted = self.0.lock();
        posted.ended = true;
        let rooms: Vec<_> = posted.rooms.values().map(|(room, _)| room.clone()).collect();
        drop(posted);
        rooms.iter().for_each(|room| room.await_free());
    }

    /// Adds what was posted at these addresses, and nobody was told of: whether other such room overlaps. None if nobody may be told.
    pub(super) fn add(&self, transfer: TransferId, room: &Arc<dyn PostedRoom>, at: AddressRange) -> Option<bool> {
        let mut posted = self.0.lock();
        if posted.ended {
            return None;
        }
        let overlaps = posted.overlaps(at);
        posted.rooms.insert(transfer, (room.clone(), at));
        Some(overlaps)
    }

    /// Whether somebody may write there into what was posted.
    pub fn overlaps(&self, at: AddressRange) -> bool {
        self.0.lock().overlaps(at)
    }

    pub(super) fn remove(&self, transfer: TransferId) {
        let room = self.0.lock().rooms.remove(&transfer);
        // What goes with it may take its time.
        drop(room);
    }
}

impl Posted {
    fn overlaps(&self, at: AddressRange) -> bool {
        self.rooms.values().any(|(room, other)| other.overlaps(at) && !room.has_ended())
    }
}

/// Room that is posted.
pub(super) struct TransferRoom {
    pub(super) device: Arc<DeviceRooms>,
    pub(super) room: Arc<dyn PostedRoom>,
}

impl TransferRoom {
    /// The pusher has said that it does not use it.
    pub(super) fn withdraw(&self, transfer: TransferId) {
        // Else it sends there all the same, and the device's memory has to stay until that is there.
        if self.room.withdraw() {
            self.device.remove(transfer);
        }
    }
}
