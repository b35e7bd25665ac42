//! The node's port: takes connections, looks who is there, hands them to executors.

use crate::metrics;
use crate::supervise::Supervisor;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::transport::mpi::MpiFabric;
use accord_fabric::transport::{Doorway, SharedLane, Visitor};
use accord_fabric::waiting_room::{Ticket, WaitingRoom};
use accord_types::{Error, ErrorCode, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Handshakes under way whose key is not proven: each has a thread. For one more the oldest ends.
const UNPROVEN_MAX: usize = 256;
/// The same of one address.
const UNPROVEN_OF_ONE_ADDRESS_MAX: usize = 128;
/// Threads of handshakes, with those that have to end and do so within [`Supervisor::key_of`]'s next look.
const THREADS_MAX: usize = 512;
/// Connections whose key is proven and that wait for their executor: each has a thread.
const PROVEN_MAX: usize = 1_024;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes connections for as long as the process lives.
pub(crate) fn accept(mut doorway: Doorway, supervisor: &Arc<Supervisor>) -> ! {
    let handshakes = Arc::new(Handshakes::default());
    loop {
        let visitor = match doorway.await_visitor() {
            Ok(visitor) => visitor,
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        introduce(&handshakes, visitor, supervisor);
    }
}

/// Takes lanes of the job's other agents until there are none any more; why.
pub(crate) fn accept_of_job(fabric: &MpiFabric, supervisor: &Arc<Supervisor>) -> std::io::Error {
    let handshakes = Arc::new(Handshakes::default());
    loop {
        let (lane, rank) = match fabric.accept() {
            Ok(accepted) => accepted,
            Err(error) => return error,
        };
        let name = format!("rank {rank}");
        introduce(&handshakes, Visitor { lane, address: name.clone(), name }, supervisor);
    }
}

/// Looks who it is, on a thread of its own.
fn introduce(handshakes: &Arc<Handshakes>, visitor: Visitor, supervisor: &Arc<Supervisor>) {
    let turn = Handshakes::begin(handshakes, &visitor);
    let supervisor = supervisor.clone();
    let work = move || {
        if let Err(error) = receive(&visitor.lane, &turn, &supervisor)
            && error.code() != ErrorCode::DeviceShutdown
        {
            metrics::refused();
            tracing::info!("a connection of {} was refused: {}", visitor.name, error.cause());
        }
    };
    if let Err(error) = std::thread::Builder::new().name("accord-hello".into()).spawn(work) {
        tracing::warn!("cannot start a thread for a connection: {error}");
    }
}

fn receive(lane: &SharedLane, turn: &Turn, supervisor: &Arc<Supervisor>) -> Result<()> {
    let key_of = |hello: &Hello| {
        check_purpose(hello)?;
        supervisor.key_of(hello.session, &|| turn.has_to_go())
    };
    let admit = |hello: &Hello| {
        turn.prove()?;
        supervisor.admit(hello, &**lane)
    };
    let client = handshake::accept_if(&**lane, HANDSHAKE_TIMEOUT, key_of, admit)?;
    supervisor.deliver(lane.clone(), client).inspect_err(|error| tracing::warn!("{error}"))?;
    metrics::connection();
    Ok(())
}

fn check_purpose(hello: &Hello) -> Result<()> {
    match hello.purpose {
        Purpose::Command | Purpose::Bulk | Purpose::Peer | Purpose::Control => Ok(()),
        Purpose::Session => Err(Error::new(
            ErrorCode::DeviceUnavailable,
            "this is a node agent, not the coordinator; check the address",
        )),
    }
}

/// Handshakes under way. Who has not proven a key yet waits here, so that others may take their place.
struct Handshakes {
    state: Mutex<Places>,
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
        let room = WaitingRoom::new(UNPROVEN_MAX, UNPROVEN_OF_ONE_ADDRESS_MAX);
        Self {
            state: Mutex::new(Places { room, unproven: HashMap::new(), proven: 0, threads: 0 }),
            fewer: Condvar::new(),
        }
    }
}

impl Handshakes {
    /// One more begins; the one that has to go for it ends at once.
    fn begin(this: &Arc<Self>, visitor: &Visitor) -> Turn {
        let many = |places: &mut Places| places.threads >= THREADS_MAX + places.proven;
        let mut state = this.fewer.wait_while(this.lock(), many).unwrap_or_else(PoisonError::into_inner);
        state.threads += 1;
        let (ticket, leaves) = state.room.enter(&visitor.address);
        let leaves = leaves.and_then(|leaves| state.unproven.remove(&leaves));
        state.unproven.insert(ticket, visitor.lane.clone());
        drop(state);
        if let Some(lane) = leaves {
            metrics::refused();
            lane.shutdown();
        }
        Turn { handshakes: this.clone(), ticket, proven: Cell::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The key is proven: nobody takes this place any more.
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
