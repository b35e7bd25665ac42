//! Waits of the program for one or more queues.

use crate::executor::broken;
use crate::session::Session;
use accord_device::Device;
use accord_fabric::transport::Lane;
use accord_types::short_lock::ShortLock;
use accord_types::spin_policy::{SpinOutcome, poll_until};
use accord_types::{Error, Result, Seq, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The least time for which the thread that reads commands spins for the end of a wait: most regions are shorter, and
/// waking another thread, which polls at intervals, would take longer than they do. The time grows with recent waits.
const SPIN_MIN: Duration = Duration::from_micros(100);

/// Most positions for which a program may wait at once: far more than threads that each wait for all their queues. The devices remember
/// them.
const POSITIONS_MAX: usize = 1 << 18;

/// A position in a stream of a device.
type AwaitedPosition = (Arc<dyn Device>, StreamId, Seq);

fn check_space(session: &Session) -> Result<()> {
    let waited = session.positions_waited.load(Ordering::Relaxed);
    if waited > POSITIONS_MAX {
        return Err(broken(&format!("it waits for {waited} positions at the same time")));
    }
    Ok(())
}

/// A position that the executor itself waits for, counted until it is dropped.
pub(crate) struct Waited(Arc<Session>);

impl Waited {
    /// Counts a position.
    ///
    /// # Errors
    /// Returns the errors of [`Wait::new`].
    pub(crate) fn new(session: &Arc<Session>) -> Result<Self> {
        check_space(session)?;
        session.positions_waited.fetch_add(1, Ordering::Relaxed);
        Ok(Self(session.clone()))
    }
}

impl Drop for Waited {
    fn drop(&mut self) {
        self.0.positions_waited.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A wait of the program's.
pub(crate) struct Wait {
    ticket: u64,
    since: Instant,
    places: Vec<AwaitedPosition>,
    /// The failure of one of the queues.
    failure: Option<Error>,
}

impl Wait {
    /// Creates a wait without queues, whose reply has `ticket`.
    ///
    /// # Errors
    /// Returns an error if the program waits for too many positions.
    pub(crate) fn new(ticket: u64, session: &Session) -> Result<Self> {
        check_space(session)?;
        Ok(Self { ticket, since: Instant::now(), places: Vec::new(), failure: None })
    }

    /// Adds a queue, if it has operations.
    pub(crate) fn add(&mut self, place: Result<Option<AwaitedPosition>>) {
        match place {
            Ok(place) => self.places.extend(place),
            Err(error) => drop(self.failure.get_or_insert(error)),
        }
    }

    /// Whether polling is cheap, and faster than a notification.
    pub(crate) fn is_for_looking(&self) -> bool {
        self.places.iter().all(|(device, ..)| device.capabilities().quick_to_ask)
    }

    /// Spins for a limited time until all queues have got there, while no command arrives and no other thread needs the core.
    /// Then waits as [`Wait::notify_later`].
    pub(crate) fn spin_then_notify(mut self, session: &Arc<Session>, lane: &dyn Lane) {
        let limit = session.wait_policy.lock().limit().max(SPIN_MIN);
        let looked = poll_until(Instant::now(), limit, lane.properties().polls_per_yield, || {
            self.poll_once(session);
            (self.places.is_empty() || lane.is_readable()).then_some(())
        });
        if looked == Err(SpinOutcome::Oversubscribed) {
            session.wait_policy.lock().oversubscribed();
        }
        self.notify_later(session);
    }

    fn poll_once(&mut self, session: &Session) {
        let failure = &mut self.failure;
        self.places.retain(|(device, stream, seq)| match device.reached(*stream, *seq) {
            Ok(reached) => !reached,
            Err(error) => {
                session.uses.failed(device.info().id.ordinal, &error);
                failure.get_or_insert(error);
                false
            }
        });
    }

    /// Sends the reply from the thread that observes the last queue reach its position.
    pub(crate) fn notify_later(self, session: &Arc<Session>) {
        let Self { ticket, since, places, failure } = self;
        if places.is_empty() {
            return answer(session, (ticket, since), failure);
        }
        session.positions_waited.fetch_add(places.len(), Ordering::Relaxed);
        let all = Arc::new(AllOf { left: AtomicUsize::new(places.len()), failure: ShortLock::new(failure) });
        for (device, stream, seq) in places {
            let (all, session, ordinal) = (all.clone(), session.clone(), device.info().id.ordinal);
            let done = move |outcome: Result<()>| {
                session.positions_waited.fetch_sub(1, Ordering::Relaxed);
                if let Err(error) = &outcome {
                    session.uses.failed(ordinal, error);
                }
                if let Some(failure) = all.one(outcome) {
                    answer(&session, (ticket, since), failure);
                }
            };
            device.notify(stream, seq, Box::new(done));
        }
    }
}

fn answer(session: &Session, (ticket, since): (u64, Instant), failure: Option<Error>) {
    session.wait_policy.lock().waited(since.elapsed());
    session.pass_on_printed();
    session.events.reply_done(ticket, failure.map_or(Ok(0), Err));
}

/// Several queues with one reply.
struct AllOf {
    left: AtomicUsize,
    failure: ShortLock<Option<Error>>,
}

impl AllOf {
    /// Records that one queue is over. Returns the first failure, if any, to the last one.
    fn one(&self, outcome: Result<()>) -> Option<Option<Error>> {
        if let Err(error) = outcome {
            self.failure.lock().get_or_insert(error);
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        Some(self.failure.lock().take())
    }
}
