//! Posts receives for transfers, and handles their ends.

use super::rooms::{DeviceRoom, TransferRoom};
use super::{Exchange, Present};
use crate::copy_way::CopyWay;
use crate::peer::PeerId;
use crate::transfer::control::RoomWord;
use crate::transport::PostedReceive;
use accord_types::{AddressRange, DevicePtr, Error, ErrorCode, TransferId};
use std::sync::Arc;

impl Exchange {
    /// Posts a receive for a transfer. Returns its announcement, or `None` if the bytes can't be received that way.
    pub(super) fn post_room(
        self: &Arc<Self>,
        (transfer, len): (TransferId, u64),
        peer: PeerId,
        room: DeviceRoom,
        present: &Present,
    ) -> Option<RoomWord> {
        if !CopyWay::DeviceMpi.takes(len) {
            return None;
        }
        // Dropped without locks, because `place` may hold the last reference to the device.
        let DeviceRoom { device, place } = room;
        let (range, exchange, of, posted) = (place.range()?, self.clone(), present.clone(), device.clone());
        let told = move |filled| {
            exchange.room_ended(transfer, peer, &of, (len, filled));
            posted.remove(transfer);
        };
        let mut state = self.lock();
        if !state.peers.contains_key(&peer) {
            return None;
        }
        // The lock is held so that the receive's callback finds its entry.
        let at = AddressRange { start: DevicePtr(range.address), len: range.len as u64 };
        let (number, room) = present.control.post(range, Box::new(told))?;
        if let Some(overlaps) = device.add(transfer, &room, at)
            && place.is_free()
        {
            state.rooms.insert(transfer, TransferRoom { device, room });
            return Some(RoomWord { number, overlaps });
        }
        drop(state);
        // The device has ended or writes there, and the receive was not announced.
        TransferRoom { device, room }.withdraw(transfer);
        None
    }

    /// Handles the end of a transfer's receive, whether `filled` or not.
    fn room_ended(self: &Arc<Self>, transfer: TransferId, peer: PeerId, present: &Present, (len, filled): (u64, bool)) {
        let mut state = self.lock();
        let room = state.rooms.remove(&transfer);
        // Otherwise the transfer has ended another way, or the peer is gone.
        let begun = state.core.begin(transfer, peer, false) == Ok(true);
        drop(state);
        drop(room);
        if begun {
            // Dropped without locks, because the lane's receive may hold the last reference to the device.
            present.inbox.came_otherwise(transfer, if filled { len } else { 0 });
            let mut state = self.lock();
            if filled {
                // The library has notified the pusher.
                state.core.landed_unsaid(transfer);
            } else {
                state.core.ended(transfer, peer, Err(not_taken()));
            }
            self.act(state, None);
        }
    }

    /// Abandons the receives of these transfers.
    pub(super) fn abandon_rooms(&self, transfers: &[TransferId]) {
        self.rooms(|transfer| transfers.contains(transfer)).iter().for_each(|room| room.abandon());
    }

    /// Ends all receives. After the return no device memory is written.
    pub(super) fn end_rooms(&self) {
        self.rooms(|_| true).iter().for_each(|room| room.await_free());
    }

    fn rooms(&self, which: impl Fn(&TransferId) -> bool) -> Vec<Arc<dyn PostedReceive>> {
        let state = self.lock();
        let rooms = state.rooms.iter().filter(|(transfer, _)| which(transfer));
        rooms.map(|(_, posted)| posted.room.clone()).collect()
    }
}

fn not_taken() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the device that a copy goes to was shut down before its bytes came")
}
