//! The node's port: takes connections, looks who is there, hands them to executors.

use crate::metrics;
use crate::supervise::Supervisor;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::transport::{Lane, Listener};
use accord_types::{Error, ErrorCode, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Handshakes under way: each has a thread. More connections wait.
const HANDSHAKES_MAX: usize = 256;
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system could not give a connection: most likely it is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes connections for as long as the process lives.
pub(crate) fn accept(listener: &Listener, supervisor: &Arc<Supervisor>) -> ! {
    let handshakes = Arc::new(Handshakes::default());
    loop {
        let (lane, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let turn = Handshakes::begin(&handshakes);
        let supervisor = supervisor.clone();
        let work = move || {
            let _turn = turn;
            if let Err(error) = receive(&*lane, &supervisor)
                && error.code() != ErrorCode::DeviceShutdown
            {
                metrics::refused();
                tracing::info!("a connection of {peer} was refused: {}", error.cause());
            }
        };
        if let Err(error) = std::thread::Builder::new().name("accord-hello".into()).spawn(work) {
            tracing::warn!("cannot start a thread for a connection: {error}");
        }
    }
}

fn receive(lane: &dyn Lane, supervisor: &Arc<Supervisor>) -> Result<()> {
    let key_of = |hello: &Hello| {
        check_purpose(hello)?;
        supervisor.key_of(hello.session)
    };
    let hello =
        handshake::accept_if(lane, HANDSHAKE_TIMEOUT, key_of, |hello| supervisor.admit(hello, lane.peer_user()))?;
    supervisor.deliver(lane, &hello).inspect_err(|error| tracing::warn!("{error}"))?;
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

/// Counts handshakes under way.
#[derive(Default)]
struct Handshakes {
    count: Mutex<usize>,
    fewer: Condvar,
}

struct Turn(Arc<Handshakes>);

impl Handshakes {
    /// Waits until there are few enough. They all have a deadline, so that this ends.
    fn begin(this: &Arc<Self>) -> Turn {
        let count = this.count.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count =
            this.fewer.wait_while(count, |count| *count >= HANDSHAKES_MAX).unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        drop(count);
        Turn(this.clone())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.fewer.notify_one();
    }
}
