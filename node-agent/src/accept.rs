//! The node's port: takes connections, looks who is there, hands them to executors.

use crate::metrics;
use crate::supervise::Supervisor;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::transport::mpi::MpiFabric;
use accord_fabric::transport::{DeferredAccept, SharedLane, Visitor};
use accord_fabric::waiting_room::{Ticket, WaitingRoom};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar};
use std::time::Duration;

/// Handshakes under way whose key is not proven: each has a thread. For one more the oldest ends.
const UNPROVEN_MAX: usize = 256;
/// The same of one address.
const UNPROVEN_OF_ONE_ADDRESS_MAX: usize = 128;
/// Threads of handshakes, with those that have to end and do so within [`Supervisor::key_of`]'s next look.
const THREADS_MAX: usize = 512;
/// Connections whose key is proven and that wait for their executor: each has a thread.
const PROVEN_MAX: usize = 1_024;
/// Connections that wait for the spare thread.
const SPARE_WAITING_MAX: usize = 64;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes connections for as long as the process lives.
pub(crate) fn accept(mut visitors: DeferredAccept, supervisor: &Arc<Supervisor>) -> ! {
    let (handshakes, spare) = (Arc::new(Handshakes::default()), Spare::start());
    loop {
        let visitor = match visitors.await_visitor() {
            Ok(visitor) => visitor,
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        introduce(&handshakes, &spare, visitor, supervisor);
    }
}

/// Takes lanes of the job's other agents until there are none any more; why.
pub(crate) fn accept_of_job(fabric: &MpiFabric, supervisor: &Arc<Supervisor>) -> std::io::Error {
    let (handshakes, spare) = (Arc::new(Handshakes::default()), Spare::start());
    loop {
        let (lane, rank) = match fabric.accept() {
            Ok(accepted) => accepted,
            Err(error) => return error,
        };
        let name = format!("rank {rank}");
        introduce(&handshakes, &spare, Visitor { lane, address: name.clone(), name }, supervisor);
    }
}

/// Looks who it is, on a thread of its own, or on the spare one.
fn introduce(handshakes: &Arc<Handshakes>, spare: &Spare, visitor: Visitor, supervisor: &Arc<Supervisor>) {
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
    let start = |work: Work| std::thread::Builder::new().name("accord-hello".into()).spawn(work).map(drop);
    if let Err(error) = spare.or_spare(Box::new(work), start) {
        tracing::warn!("cannot start a thread for a connection: {error}");
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// A thread that is there before it is needed: where the system has no more threads, connections of running sessions are still introduced, one
/// after the other.
struct Spare(Option<SyncSender<Work>>);

impl Spare {
    fn start() -> Self {
        let (waiting, works) = sync_channel::<Work>(SPARE_WAITING_MAX);
        let work = move || works.into_iter().for_each(|work| work());
        let started = std::thread::Builder::new().name("accord-spare".into()).spawn(work);
        Self(started.is_ok().then_some(waiting))
    }

    /// Has it done by a thread that `start` makes; if there is none, by this one.
    fn or_spare(&self, work: Work, start: impl FnOnce(Work) -> std::io::Result<()>) -> std::io::Result<()> {
        let kept = Arc::new(ShortLock::new(Some(work)));
        let take = |kept: &ShortLock<Option<Work>>| kept.lock().take();
        let own = kept.clone();
        let Err(error) = start(Box::new(move || {
            if let Some(work) = take(&own) {
                work();
            }
        })) else {
            return Ok(());
        };
        let (Some(waiting), Some(work)) = (&self.0, take(&kept)) else { return Err(error) };
        waiting.try_send(work).map_err(|_| error)
    }
}

fn receive(lane: &SharedLane, turn: &Turn, supervisor: &Arc<Supervisor>) -> Result<()> {
    let key_of = |hello: &Hello| {
        check_purpose(hello)?;
        if hello.purpose == Purpose::Measure {
            let key = supervisor.look(|node, now| node.key_of_measurement(now, hello.session))?;
            return Ok(key.into());
        }
        supervisor.key_of(hello.session, &|| turn.has_to_go())
    };
    let admitted = Cell::new(None);
    let admit = |hello: &Hello| {
        turn.prove()?;
        if hello.purpose == Purpose::Measure {
            return supervisor.admit_measurement(hello, &**lane);
        }
        admitted.set(Some(supervisor.admit(hello, &**lane)?));
        Ok(())
    };
    let client = handshake::accept_if(&**lane, HANDSHAKE_TIMEOUT, key_of, admit)?;
    if client.hello.purpose == Purpose::Measure {
        Supervisor::answer_measurement(lane.clone(), client)?;
    } else if let Some(executor) = admitted.get() {
        supervisor.deliver(executor, lane.clone(), client).inspect_err(|error| tracing::warn!("{error}"))?;
    }
    metrics::connection();
    Ok(())
}

fn check_purpose(hello: &Hello) -> Result<()> {
    match hello.purpose {
        Purpose::Command | Purpose::Bulk | Purpose::Peer | Purpose::Control | Purpose::Measure => Ok(()),
        Purpose::Session => Err(Error::new(
            ErrorCode::DeviceUnavailable,
            "this is a node agent, not the coordinator; check the address",
        )),
    }
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
        let room = WaitingRoom::new(UNPROVEN_MAX, UNPROVEN_OF_ONE_ADDRESS_MAX);
        Self {
            state: ShortLock::new(Places { room, unproven: HashMap::new(), proven: 0, threads: 0 }),
            fewer: Condvar::new(),
        }
    }
}

impl Handshakes {
    /// One more begins; the one that has to go for it ends at once.
    fn begin(this: &Arc<Self>, visitor: &Visitor) -> Turn {
        let many = |places: &mut Places| places.threads >= THREADS_MAX + places.proven;
        let mut state = ShortGuard::wait_while(this.lock(), &this.fewer, many);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn without_threads_the_spare_one_does_the_work() {
        let (spare, (did, done)) = (Spare::start(), channel());
        let said = |what: u32| -> Work {
            let did = did.clone();
            Box::new(move || did.send((what, std::thread::current().name().map(str::to_owned))).unwrap())
        };
        let none = |_: Work| Err(std::io::Error::from_raw_os_error(11));
        let soon = Duration::from_secs(10);
        for what in [1, 2] {
            spare.or_spare(said(what), none).unwrap();
            assert_eq!(done.recv_timeout(soon).unwrap(), (what, Some("accord-spare".to_owned())));
        }
        spare.or_spare(said(3), |work| std::thread::Builder::new().spawn(work).map(drop)).unwrap();
        assert_eq!(done.recv_timeout(soon).unwrap(), (3, None));

        // It is one, and few wait for it.
        let (hold, held) = channel::<()>();
        spare.or_spare(Box::new(move || held.recv().unwrap()), none).unwrap();
        let begun = std::time::Instant::now();
        while spare.or_spare(said(4), none).is_ok() {
            assert!(begun.elapsed() < soon, "nobody counts them");
        }
        hold.send(()).unwrap();
        assert_eq!(done.recv_timeout(soon).unwrap().0, 4);
        assert!(Spare(None).or_spare(said(5), none).is_err());
    }
}
