//! Waits for queues of several devices, one after the other: each would cost a round trip. So a thread that waits for
//! one device's queues also queries those of other remote devices, as far as the program has waited for them before
//! (docs/design/processes.md, Waits in turn).

use crate::ports::DeviceClient;
use accord_types::short_lock::ShortLock;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices that one wait asks: of more the next wait asks the next ones.
const ASKED_MAX: usize = 32;
/// The number of queues that need nothing from the heap.
const FEW: usize = 8;

/// The far devices whose queues the program has waited for.
pub(crate) struct WaitsInTurn {
    devices: ShortLock<Ring>,
    /// Which of all devices they are.
    known: Vec<AtomicBool>,
    /// Whether there are some.
    any: AtomicBool,
}

#[derive(Default)]
struct Ring {
    devices: Vec<(usize, Arc<dyn DeviceClient>)>,
    next: usize,
}

impl WaitsInTurn {
    /// None of so many devices yet.
    pub(crate) fn new(devices: usize) -> Self {
        let known = (0..devices).map(|_| AtomicBool::new(false)).collect();
        Self { devices: ShortLock::default(), known, any: AtomicBool::new(false) }
    }

    /// The program waits for queues of a device now: asks others.
    pub(crate) fn ask_others(&self, device: usize) {
        if self.any.load(Ordering::Relaxed) {
            self.others(device).iter().for_each(|other| other.ask_ahead());
        }
    }

    /// The program has waited for queues of a device, and may do so again.
    pub(crate) fn waited(&self, device: usize, client: &Arc<dyn DeviceClient>) {
        if client.is_remote() && !self.known[device].swap(true, Ordering::Relaxed) {
            self.devices.lock().devices.push((device, client.clone()));
            self.any.store(true, Ordering::Relaxed);
        }
    }

    fn others(&self, device: usize) -> SmallVec<[Arc<dyn DeviceClient>; FEW]> {
        let mut ring = self.devices.lock();
        let count = ring.devices.len();
        let first = ring.next;
        ring.next = (first + count.min(ASKED_MAX)) % count.max(1);
        let some = (0..count.min(ASKED_MAX)).map(|at| &ring.devices[(first + at) % count]);
        some.filter(|(known, _)| *known != device).map(|(_, client)| client.clone()).collect()
    }
}
