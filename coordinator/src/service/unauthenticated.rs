//! Bounds the connections that are not authenticated yet, in all and for one address. At the limit the oldest one is
//! closed.

use accord_types::connection_slots::{ConnectionSlots, Ticket};
use accord_types::short_lock::{ShortGuard, ShortLock};
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Most unauthenticated connections, and their part of this process's descriptors.
const UNKNOWN_MAX: usize = 1_024;
const PART_OF_DESCRIPTORS: u64 = 4;
/// Most of one address, as a part of all. Many programs may start on one machine at the same time.
const PART_OF_ONE_ADDRESS: usize = 2;

/// The unauthenticated connections.
pub(super) struct UnauthenticatedConnections {
    state: ShortLock<UnauthenticatedTable>,
}

struct UnauthenticatedTable {
    slots: ConnectionSlots,
    /// Dropping a sender closes the connection.
    stays: HashMap<Ticket, oneshot::Sender<()>>,
}

/// The slot of an unauthenticated connection. Dropping it frees the slot.
pub(super) struct ConnectionSlot {
    entrance: Arc<UnauthenticatedConnections>,
    ticket: Ticket,
    stays: oneshot::Receiver<()>,
}

/// Returns the limit on this process's descriptors; `None` if there is no limit.
pub(super) fn descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

impl UnauthenticatedConnections {
    /// Creates an entrance for a process with this many descriptors; `None` if there is no limit.
    pub(super) fn new(descriptors: Option<u64>) -> Arc<Self> {
        let part = descriptors.and_then(|many| usize::try_from(many / PART_OF_DESCRIPTORS).ok());
        Self::with_limits(part.map_or(UNKNOWN_MAX, |part| part.clamp(1, UNKNOWN_MAX)))
    }

    /// Creates an entrance with room for so many.
    pub(super) fn with_limits(most: usize) -> Arc<Self> {
        let slots = ConnectionSlots::new(most, most.div_ceil(PART_OF_ONE_ADDRESS));
        Arc::new(Self { state: ShortLock::new(UnauthenticatedTable { slots, stays: HashMap::new() }) })
    }

    /// Adds a connection of a place: an address, or a user of this machine.
    pub(super) fn enter(self: &Arc<Self>, place: &str) -> ConnectionSlot {
        let (stay, stays) = oneshot::channel();
        let mut state = self.lock();
        let (ticket, leaves) = state.slots.enter(place);
        if let Some(leaves) = leaves {
            state.stays.remove(&leaves);
        }
        state.stays.insert(ticket, stay);
        drop(state);
        ConnectionSlot { entrance: self.clone(), ticket, stays }
    }

    /// Closes the oldest connection to free a descriptor. Returns whether there was one.
    pub(super) fn make_space(&self) -> bool {
        let mut state = self.lock();
        let Some(oldest) = state.slots.oldest() else { return false };
        state.slots.leave(oldest);
        state.stays.remove(&oldest).is_some()
    }

    fn lock(&self) -> ShortGuard<'_, UnauthenticatedTable> {
        self.state.lock()
    }
}

impl ConnectionSlot {
    /// Waits until the slot is needed for another connection.
    pub(super) async fn over(&mut self) {
        let _ = (&mut self.stays).await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.entrance.lock();
        state.slots.leave(self.ticket);
        state.stays.remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn oldest_unauthenticated_connection_is_closed_first() {
        let entrance = UnauthenticatedConnections::new(None);
        let (crowd, alone) = ("10.0.0.1", "user 7");
        let mut honest = entrance.enter(alone);
        let mut turns: Vec<ConnectionSlot> =
            (0..UNKNOWN_MAX / PART_OF_ONE_ADDRESS).map(|_| entrance.enter(crowd)).collect();
        turns.push(entrance.enter(crowd));
        turns[0].over().await;
        assert!(turns[1].stays.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        assert!(entrance.make_space());
        turns[1].over().await;
        assert!(honest.stays.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        drop((turns, honest));
        assert!(!entrance.make_space() && entrance.lock().stays.is_empty());
    }
}
