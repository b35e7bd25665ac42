//! Lanes of an MPI world's other agents, and of their machines' processes. MPI can't wait for several of them at once, so that each has a thread
//! until its key is proven, too.

use crate::accept::{self, WELCOME_TIMEOUT, admit, check_purpose, introduced, refused};
use crate::metrics;
use crate::spare::Spare;
use crate::supervise::Supervisor;
use accord_fabric::handshake::{self, Hello};
use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::MpiFabric;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::waiting_room::{Ticket, WaitingRoom};
use accord_types::{Error, ErrorCode, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Condvar};

/// Handshakes under way whose key is not proven. For one more the oldest ends.
const UNPROVEN_MAX: usize = 256;
/// The same of one rank.
const UNPROVEN_OF_ONE_RANK_MAX: usize = 128;
/// Threads of handshakes, with those that have to end and do so within [`Supervisor::key_of`]'s next look.
const THREADS_MAX: usize = 512;
/// Lanes whose key is proven and that wait for their executor.
const PROVEN_MAX: usize = 1_024;

/// Takes lanes until there are none any more; why.
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

/// Looks who it is, on a thread of its own, or on the spare one.
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

fn receive(lane: &SharedLane, turn: &Turn, supervisor: &Arc<Supervisor>) -> Result<()> {
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

/// Handshakes under way. Who has not proven a key yet waits here, so that others may take their place.
struct Handshakes {
    state: ShortLock<Places>,
    /// A thread has ended.
    fewer: Condvar,
}

struct Places {
    room: WaitingRoom,
    unproven: HashMap<Ticket, SharedLane>,
    proven: usize,
    threads: usize,
}

impl Default for Handshakes {
    fn default() -> Self {
        let room = WaitingRoom::new(UNPROVEN_MAX, UNPROVEN_OF_ONE_RANK_MAX);
        Self {
            state: ShortLock::new(Places { room, unproven: HashMap::new(), proven: 0, threads: 0 }),
            fewer: Condvar::new(),
        }
    }
}

impl Handshakes {
    /// One more begins; the one that has to go for it ends at once.
    fn begin(this: &Arc<Self>, rank: &str, lane: &SharedLane) -> Turn {
        let many = |places: &mut Places| places.threads >= THREADS_MAX + places.proven;
        let mut state = ShortGuard::wait_while(this.lock(), &this.fewer, many);
        state.threads += 1;
        let (ticket, leaves) = state.room.enter(rank);
        let leaves = leaves.and_then(|leaves| state.unproven.remove(&leaves));
        state.unproven.insert(ticket, lane.clone());
        drop(state);
        if let Some(lane) = leaves {
            metrics::refused();
            lane.shutdown();
        }
        Turn { handshakes: this.clone(), ticket, proven: Cell::new(false) }
    }

    fn lock(&self) -> ShortGuard<'_, Places> {
        self.state.lock()
    }
}

/// One handshake. Dropping it ends it.
struct Turn {
    handshakes: Arc<Handshakes>,
    ticket: Ticket,
    proven: Cell<bool>,
}

impl Turn {
    /// Another one has taken its place.
    fn has_to_go(&self) -> bool {
        !self.proven.get() && !self.handshakes.lock().unproven.contains_key(&self.ticket)
    }

    /// The key is proven: this connection keeps its place.
    fn prove(&self) -> Result<()> {
        let mut state = self.handshakes.lock();
        if !state.room.leave(self.ticket) || state.proven >= PROVEN_MAX {
            return Err(Error::new(ErrorCode::DeviceUnavailable, "the agent has too many connections to introduce")
                .remedy("try again"));
        }
        state.unproven.remove(&self.ticket);
        state.proven += 1;
        self.proven.set(true);
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.handshakes.lock();
        state.room.leave(self.ticket);
        state.unproven.remove(&self.ticket);
        state.proven -= usize::from(self.proven.get());
        state.threads -= 1;
        drop(state);
        self.handshakes.fewer.notify_one();
    }
}
