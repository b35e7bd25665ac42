//! Accepts lanes from other agents of an MPI world and from processes of their machines. MPI can't wait for several
//! lanes at once, so each has a thread even before its key is proven.

use crate::accept::{self, WELCOME_TIMEOUT, admit, check_purpose, introduced, refused};
use crate::metrics;
use crate::spare::Spare;
use crate::supervise::Supervisor;
use accord_fabric::handshake::{self, Hello};
use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::MpiFabric;
use accord_types::connection_slots::{ConnectionSlots, Ticket};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Condvar};

/// Most handshakes in progress whose key is not proven. One more evicts the oldest.
const UNPROVEN_MAX: usize = 256;
/// Most unproven handshakes of one rank.
const UNPROVEN_OF_ONE_RANK_MAX: usize = 128;
/// Most threads of handshakes, including evicted ones, which end at their next check in [`Supervisor::key_of`].
const THREADS_MAX: usize = 512;
/// Most lanes whose key is proven and that wait for their executor.
const PROVEN_MAX: usize = 1_024;

/// Accepts lanes until the fabric fails, and returns that error.
pub(crate) fn accept_of_world(fabric: &MpiFabric, supervisor: &Arc<Supervisor>) -> std::io::Error {
    let (handshakes, spare) = (Arc::new(Handshakes::default()), Spare::start());
    loop {
        let (lane, rank) = match fabric.accept() {
            Ok(accepted) => accepted,
            Err(error) => return error,
        };
        introduce(&handshakes, &spare, lane, format!("rank {rank}"), supervisor);
    }
}

/// Performs the handshake, on a thread of its own or on the spare one.
fn introduce(
    handshakes: &Arc<Handshakes>,
    spare: &Spare,
    lane: SharedLane,
    name: String,
    supervisor: &Arc<Supervisor>,
) {
    let turn = Handshakes::begin(handshakes, &name, &lane);
    let supervisor = supervisor.clone();
    let work = move || {
        if let Err(error) = receive(&lane, &turn, &supervisor)
            && error.code() != ErrorCode::DeviceShutdown
        {
            refused(&name, &error);
        }
    };
    accept::start(spare, Box::new(work));
}

fn receive(lane: &SharedLane, turn: &HandshakeSlot, supervisor: &Arc<Supervisor>) -> Result<()> {
    let key_of = |hello: &Hello| {
        check_purpose(hello)?;
        supervisor.key_of(hello, &|| turn.has_to_go())
    };
    let admitted = Cell::new(None);
    let condition = |hello: &Hello| {
        turn.prove()?;
        admitted.set(Some(admit(hello, lane, supervisor)?));
        Ok(())
    };
    let welcomed = handshake::accept_if(&**lane, WELCOME_TIMEOUT, key_of, condition);
    introduced(lane, welcomed, admitted.get(), supervisor)
}

/// Handshakes in progress. Those without a proven key are bounded by eviction of the oldest.
struct Handshakes {
    state: ShortLock<Places>,
    /// Notified when a handshake's thread ends.
    fewer: Condvar,
}

struct Places {
    slots: ConnectionSlots,
    unproven: HashMap<Ticket, SharedLane>,
    proven: usize,
    threads: usize,
}

impl Default for Handshakes {
    fn default() -> Self {
        let slots = ConnectionSlots::new(UNPROVEN_MAX, UNPROVEN_OF_ONE_RANK_MAX);
        Self {
            state: ShortLock::new(Places { slots, unproven: HashMap::new(), proven: 0, threads: 0 }),
            fewer: Condvar::new(),
        }
    }
}

impl Handshakes {
    /// Begins a handshake. Shuts down the lane that it evicts.
    fn begin(this: &Arc<Self>, rank: &str, lane: &SharedLane) -> HandshakeSlot {
        let many = |places: &mut Places| places.threads >= THREADS_MAX + places.proven;
        let mut state = ShortGuard::wait_while(this.lock(), &this.fewer, many);
        state.threads += 1;
        let (ticket, leaves) = state.slots.enter(rank);
        let leaves = leaves.and_then(|leaves| state.unproven.remove(&leaves));
        state.unproven.insert(ticket, lane.clone());
        drop(state);
        if let Some(lane) = leaves {
            metrics::refused();
            lane.shutdown();
        }
        HandshakeSlot { handshakes: this.clone(), ticket, proven: Cell::new(false) }
    }

    fn lock(&self) -> ShortGuard<'_, Places> {
        self.state.lock()
    }
}

/// One handshake, which ends on drop.
struct HandshakeSlot {
    handshakes: Arc<Handshakes>,
    ticket: Ticket,
    proven: Cell<bool>,
}

impl HandshakeSlot {
    /// Whether another handshake has evicted this one.
    fn has_to_go(&self) -> bool {
        !self.proven.get() && !self.handshakes.lock().unproven.contains_key(&self.ticket)
    }

    /// Records that the key is proven: this handshake can't be evicted any more.
    fn prove(&self) -> Result<()> {
        let mut state = self.handshakes.lock();
        if !state.slots.leave(self.ticket) || state.proven >= PROVEN_MAX {
            return Err(Error::new(ErrorCode::DeviceUnavailable, "the agent has too many connections to introduce")
                .remedy("try again"));
        }
        state.unproven.remove(&self.ticket);
        state.proven += 1;
        self.proven.set(true);
        Ok(())
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        let mut state = self.handshakes.lock();
        state.slots.leave(self.ticket);
        state.unproven.remove(&self.ticket);
        state.proven -= usize::from(self.proven.get());
        state.threads -= 1;
        drop(state);
        self.handshakes.fewer.notify_one();
    }
}
