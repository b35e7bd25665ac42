//! Posts receives for transfers, and handles their ends.

use super::receives::TransferReceive;
use super::{Exchange, Present, TransferEnd, TransferTarget};
use crate::copy_way::CopyWay;
use crate::peer::PeerId;
use crate::transfer::control::ReceiveAnnouncement;
use crate::transport::PostedReceive;
use accord_types::{AddressRange, DevicePtr, Error, ErrorCode, TransferId};
use std::sync::Arc;

impl Exchange {
    /// Posts a receive for a transfer. Returns its announcement, or `None` if the bytes can't be received that way.
    pub(super) fn post(
        self: &Arc<Self>,
        (transfer, len): (TransferId, u64),
        peer: PeerId,
        target: &dyn TransferTarget,
        present: &Present,
    ) -> Option<ReceiveAnnouncement> {
        if !CopyWay::DeviceMpi.takes(len) {
            return None;
        }
        let (device, range) = target.native()?;
        let (exchange, of, posted) = (self.clone(), present.clone(), device.clone());
        let reported = move |filled| {
            exchange.receive_ended(transfer, peer, &of, (len, filled));
            posted.remove(transfer);
        };
        let mut state = self.lock();
        if !state.peers.contains_key(&peer) {
            return None;
        }
        // The lock is held so that the receive's callback finds it.
        let at = AddressRange { start: DevicePtr(range.address), len: range.len as u64 };
        let (number, receive) = present.control.post(range, Box::new(reported))?;
        let overlaps = device.add(transfer, &receive, at).filter(|_| target.is_free());
        let receive = TransferReceive { device, receive };
        if let Some(overlaps) = overlaps
            && state.table.keep(transfer, TransferEnd::Posted(receive.clone())).is_none()
        {
            return Some(ReceiveAnnouncement { number, overlaps });
        }
        drop(state);
        // The device has ended or writes there, or the source has begun unasked. The receive was not announced.
        receive.withdraw(transfer);
        None
    }

    /// Handles the end of a transfer's receive, whether `filled` or not.
    fn receive_ended(
        self: &Arc<Self>,
        transfer: TransferId,
        peer: PeerId,
        present: &Present,
        (len, filled): (u64, bool),
    ) {
        let begun = self.lock().table.begin(transfer, peer, false);
        // Otherwise the transfer has ended another way, or the peer is gone.
        let Ok(receive) = begun else { return };
        drop(receive);
        // Dropped without locks, because the lane's receive may hold the last reference to the device.
        present.inbox.complete_without_lane(transfer, if filled { len } else { 0 });
        let mut state = self.lock();
        if filled {
            // The library has notified the pusher.
            state.table.landed_unsaid(transfer);
        } else {
            state.table.ended(transfer, peer, Err(not_taken()));
        }
        self.act(state, None);
    }
}

impl TransferEnd {
    /// Returns the posted receive, if there is one.
    pub(super) fn receive(&self) -> Option<Arc<dyn PostedReceive>> {
        if let Self::Posted(receive) = self { Some(receive.receive.clone()) } else { None }
    }
}

fn not_taken() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the device that a copy goes to was shut down before its bytes came")
}
