//! False events of an executor. The program ignores them or takes the connection for lost. Either way each of its waits
//! ends, and its other executors go on.

use super::world::World;
use accord_fabric::frame::{Event, Failure};
use accord_fabric::peer::PeerId;
use accord_types::NodeId;

/// A ticket, transfer, device or queue that does not exist.
const NONE: u32 = 0x00ff_ffff;
/// More bytes than were ever in flight.
const HUGE: u64 = 1 << 60;

impl World {
    /// Sometimes sends a false event.
    pub(super) fn maybe_lie(&mut self) {
        if !self.executor.false_commands || self.cut || !self.random.chance(5) {
            return;
        }
        let device = u32::try_from(self.random.within(0..u64::from(self.devices) + 1)).unwrap_or(NONE);
        let queue = u32::try_from(self.random.within(0..4)).unwrap_or(NONE);
        let none = u64::from(NONE) + self.random.within(0..1_000);
        let event = match self.random.index(12) {
            0 => Event::Credit { bytes: HUGE },
            1 => Event::Exchanged { pushes: u32::MAX, expects: u32::MAX },
            2 => Event::Done { device, queue, bytes: HUGE },
            3 => Event::Done { device: NONE, queue: NONE, bytes: 1 },
            4 | 5 => match PeerId::executor(NodeId(1_000), 0) {
                Ok(peer) => Event::PeerLost { peer },
                Err(error) => return self.violation(format!("no such peer can be named: {error:?}")),
            },
            6 => Event::Failed { device: NONE, queue, failure: Failure::new(1) },
            7 => Event::Failed { device, queue: NONE, failure: Failure::new(1) },
            8 => Event::Data { transfer: none },
            9 => Event::Reply { ticket: none, value: 1, extra: 1 },
            10 => Event::ReplyFailed { ticket: none, failure: Failure::new(1) },
            _ => return self.send_garbage(),
        };
        // A program that uses false credit exceeds its windows, which ends the session.
        self.broken |= matches!(event, Event::Credit { .. } | Event::Exchanged { .. } | Event::Done { .. });
        self.send_as_it_is(&event, b"not so");
    }

    fn send_garbage(&mut self) {
        let garbage: Vec<_> = (0..64).flat_map(|_| self.random.number().to_le_bytes()).collect();
        self.send_bytes(garbage);
    }
}
