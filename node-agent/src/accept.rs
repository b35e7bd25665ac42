//! The node's port: accepts connections that prove their session's key, and hands them to executors.

use crate::metrics;
use crate::node::{DriverId, ExecutorId};
use crate::spare::{Spare, Work};
use crate::supervise::Supervisor;
use accord_fabric::handshake::{Hello, Introduced, Proven, Purpose};
use accord_fabric::transport::{Acceptor, IncomingLane, Outcome, SharedLane};
use accord_types::{Error, ErrorCode, Result, threads};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Most authenticated connections that wait for their executor; each has a thread.
const PROVEN_MAX: usize = 1_024;
/// The time limit for sending a welcome or a refusal to a client.
pub(crate) const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, most likely for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until the process ends.
pub(crate) fn accept(mut acceptor: Acceptor, supervisor: &Arc<Supervisor>) -> ! {
    let (proven, spare) = (Arc::new(AtomicUsize::new(0)), Spare::start());
    supervisor.wake_on_update(acceptor.waker());
    let mut key_of = |hello: &Hello, since: Instant| {
        check_purpose(hello)?;
        supervisor.key_or_wait(hello, since)
    };
    loop {
        match acceptor.next_outcome(&mut key_of) {
            Ok(Outcome::Proven(incoming, client)) if proven.load(Ordering::Relaxed) < PROVEN_MAX => {
                introduce(ProvenSlot::begin(&proven), &spare, incoming, client, supervisor);
            }
            Ok(Outcome::Proven(incoming, _)) => {
                let why = Error::new(ErrorCode::DeviceUnavailable, "the agent has too many connections to introduce");
                acceptor.turn_away(incoming, why.remedy("try again").transient());
            }
            Ok(Outcome::Refused(name, why)) => refused(&name, &why),
            Err(error) => {
                tracing::warn!("cannot take a connection: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// A place among [`PROVEN_MAX`], released on drop.
struct ProvenSlot(Arc<AtomicUsize>);

impl ProvenSlot {
    fn begin(proven: &Arc<AtomicUsize>) -> Self {
        proven.fetch_add(1, Ordering::Relaxed);
        Self(proven.clone())
    }
}

impl Drop for ProvenSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Finds the connection's executor, on a thread of its own or on the spare one.
fn introduce(turn: ProvenSlot, spare: &Spare, incoming: IncomingLane, client: Proven, supervisor: &Arc<Supervisor>) {
    let supervisor = supervisor.clone();
    let work = move || {
        let _turn = turn;
        if let Err(error) = receive(&incoming.lane, client, &supervisor) {
            refused(&incoming.name, &error);
        }
    };
    start(spare, Box::new(work));
}

fn receive(lane: &SharedLane, client: Proven, supervisor: &Arc<Supervisor>) -> Result<()> {
    let admitted = Cell::new(None);
    let welcomed = client.welcome(&**lane, WELCOME_TIMEOUT, |hello| {
        admitted.set(Some(admit(hello, lane, supervisor)?));
        Ok(())
    });
    introduced(lane, welcomed, admitted.get(), supervisor)
}

/// Hands over a lane that was admitted and welcomed, or undoes the admission.
///
/// # Errors
/// Returns the error of the handshake, or `acc_error_device_unavailable` if the executor has ended.
pub(crate) fn introduced(
    lane: &SharedLane,
    welcomed: Result<Introduced>,
    admitted: Option<Admitted>,
    supervisor: &Arc<Supervisor>,
) -> Result<()> {
    match (welcomed, admitted) {
        (Ok(client), Some(admitted)) => hand_over(lane, client, admitted, supervisor),
        (Ok(_), None) => Err(Error::new(ErrorCode::ImplementationDefined, "a lane was welcomed that was not let in")),
        (Err(error), admitted) => {
            give_up(admitted, supervisor);
            Err(error)
        }
    }
}

/// Runs `work` on a thread of its own, or on the spare one.
pub(crate) fn start(spare: &Spare, work: Work) {
    let start = |work: Work| threads::spawn("accord-hello", work).map(drop);
    if let Err(error) = spare.or_spare(work, start) {
        tracing::warn!("cannot start a thread for a connection: {error}");
    }
}

/// Counts and logs a refused connection.
pub(crate) fn refused(name: &str, why: &Error) {
    metrics::refused();
    tracing::info!("a connection of {name} was refused: {}", why.cause());
}

/// Checks that this agent serves the connection's purpose.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if only a coordinator serves the purpose.
pub(crate) fn check_purpose(hello: &Hello) -> Result<()> {
    match hello.purpose {
        Purpose::Command
        | Purpose::Bulk
        | Purpose::Peer
        | Purpose::Control
        | Purpose::Measure
        | Purpose::Memory
        | Purpose::Driver
        | Purpose::Turns => Ok(()),
        Purpose::Session => Err(Error::new(
            ErrorCode::DeviceUnavailable,
            "this is a node agent, not the coordinator; check the address",
        )),
    }
}

/// The server of an admitted lane.
#[derive(Clone, Copy)]
pub(crate) enum Admitted {
    Executor(ExecutorId),
    /// The agent, which watches a program that drives devices.
    Driver(DriverId),
    /// The agent, which counts device memory.
    Memory,
    /// The agent, which gives out turns on devices.
    Turns,
    /// The agent, which answers a measurement.
    Measurement,
}

/// Admits a lane that has proven its session's key.
///
/// # Errors
/// Returns an error with the reason for the client.
pub(crate) fn admit(hello: &Hello, lane: &SharedLane, supervisor: &Arc<Supervisor>) -> Result<Admitted> {
    match hello.purpose {
        Purpose::Measure => supervisor.admit_measurement(hello, &**lane).map(|()| Admitted::Measurement),
        Purpose::Memory => supervisor.granted(hello, &**lane).map(|_| Admitted::Memory),
        Purpose::Turns => supervisor.granted(hello, &**lane).map(|_| Admitted::Turns),
        Purpose::Driver => supervisor.admit_driver(hello, &**lane).map(Admitted::Driver),
        _ => supervisor.admit(hello, &**lane).map(Admitted::Executor),
    }
}

/// Undoes [`admit`] for a lane whose client disconnected before the welcome.
pub(crate) fn give_up(admitted: Option<Admitted>, supervisor: &Supervisor) {
    if let Some(Admitted::Driver(driver)) = admitted {
        supervisor.driver_gone(driver);
    }
}

/// Hands an admitted lane to its executor.
///
/// # Errors
/// Returns an error if the executor has ended, or the lane fails.
pub(crate) fn hand_over(
    lane: &SharedLane,
    client: Introduced,
    admitted: Admitted,
    supervisor: &Arc<Supervisor>,
) -> Result<()> {
    match admitted {
        Admitted::Driver(driver) => supervisor.watch_driver(lane.clone(), client, driver)?,
        Admitted::Memory => supervisor.count_memory(lane.clone(), client)?,
        Admitted::Turns => supervisor.give_turns(lane.clone(), client)?,
        Admitted::Measurement => Supervisor::answer_measurement(lane.clone(), client)?,
        Admitted::Executor(executor) => {
            supervisor.deliver(executor, lane.clone(), client).inspect_err(|error| tracing::warn!("{error}"))?;
        }
    }
    metrics::connection();
    Ok(())
}
