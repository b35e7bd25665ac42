//! Receives posted into device memory for transfers. The bytes are sent there as one message, which saves the round
//! trip of an offer and a request on a lane.
//!
//! A pusher uses either the posted receive or a lane. If it uses neither, it reports that on a lane, and the receive is
//! withdrawn. When the pusher is lost or the device ends, the receive is abandoned, because a message may be in flight.

use crate::transport::PostedReceive;
use accord_types::short_lock::ShortLock;
use accord_types::{AddressRange, TransferId};
use std::collections::HashMap;
use std::sync::Arc;

/// The posted receives of a device. They must end before the device's memory is freed.
#[derive(Default)]
pub struct DeviceReceives(ShortLock<Posted>);

#[derive(Default)]
struct Posted {
    /// Whether no receive may be posted any more.
    ended: bool,
    receives: HashMap<TransferId, (Arc<dyn PostedReceive>, AddressRange)>,
}

impl DeviceReceives {
    /// Ends all receives. After the return no receive writes to the device's memory.
    pub fn end(&self) {
        let mut posted = self.0.lock();
        posted.ended = true;
        let receives: Vec<_> = posted.receives.values().map(|(receive, _)| receive.clone()).collect();
        drop(posted);
        receives.iter().for_each(|receive| receive.await_free());
    }

    /// Adds a receive that was not announced yet. Returns whether it overlaps another one, or `None` if the caller must not
    /// announce it.
    pub(super) fn add(&self, transfer: TransferId, receive: &Arc<dyn PostedReceive>, at: AddressRange) -> Option<bool> {
        let mut posted = self.0.lock();
        if posted.ended {
            return None;
        }
        let overlaps = posted.overlaps(at);
        posted.receives.insert(transfer, (receive.clone(), at));
        Some(overlaps)
    }

    /// Whether a posted receive that is in use overlaps `at`.
    pub fn overlaps(&self, at: AddressRange) -> bool {
        self.0.lock().overlaps(at)
    }

    pub(super) fn remove(&self, transfer: TransferId) {
        let receive = self.0.lock().receives.remove(&transfer);
        // Dropped without the lock, because that may take long.
        drop(receive);
    }
}

impl Posted {
    fn overlaps(&self, at: AddressRange) -> bool {
        self.receives.values().any(|(receive, other)| other.overlaps(at) && !receive.has_ended())
    }
}

/// A receive posted for a transfer.
#[derive(Clone)]
pub(super) struct TransferReceive {
    pub(super) device: Arc<DeviceReceives>,
    pub(super) receive: Arc<dyn PostedReceive>,
}

impl TransferReceive {
    /// Withdraws the receive, as the pusher has reported that it does not use it.
    pub(super) fn withdraw(&self, transfer: TransferId) {
        // If a message is arriving nevertheless, the device's memory must stay until it has arrived.
        if self.receive.withdraw() {
            self.device.remove(transfer);
        }
    }
}
