//! Calls back when a stream has reached a position, from a thread of its own: the driver's callbacks delay the stream that
//! they are in, and must not call the driver.

use super::stream::Stream;
use super::timer_slack;
use accord_device::failure::{no_thread, shut_down};
use accord_types::Result;
use accord_types::short_lock::ShortLock;
use accord_types::signal::Signal;
use accord_types::spin_policy::{OVERSUBSCRIBED, SpinPolicy};
use accord_types::threads;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval of the thread's polls while a waiter's work takes longer than recent work.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// The interval of polls for waiters that need only a failure.
const POLL_FOR_FAILURES: Duration = Duration::from_millis(100);

type Done = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
pub(crate) struct Notifier(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: ShortLock<Waiting>,
    /// Raised when there is another waiter, or the thread must end.
    work_available: Signal,
}

/// A waiter.
struct PositionWaiter {
    stream: Arc<Stream>,
    seq: u64,
    since: Instant,
    done: Done,
}

#[derive(Default)]
struct Waiting {
    waiting: Vec<PositionWaiter>,
    started: bool,
    closing: bool,
}

impl Notifier {
    pub(crate) fn add(&self, stream: &Arc<Stream>, seq: u64, done: Done) {
        let mut state = self.0.state.lock();
        if state.closing {
            drop(state);
            return done(Err(shut_down()));
        }
        if !state.started {
            let shared = Arc::clone(&self.0);
            if let Err(error) = threads::spawn("accord-notify", move || shared.serve()) {
                drop(state);
                // Waiting here could take for ever: some waiters expect a later operation, or a failure.
                return done(Err(no_thread(&error).queue(stream.queue)));
            }
            state.started = true;
        }
        state.waiting.push(PositionWaiter { stream: Arc::clone(stream), seq, since: Instant::now(), done });
        self.0.work_available.raise();
        drop(state);
    }

    /// Ends the thread, and notifies all waiters.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.closing = true;
        let left = std::mem::take(&mut state.waiting);
        self.0.work_available.raise();
        drop(state);
        for awaited in left {
            (awaited.done)(Err(shut_down()));
        }
    }
}

impl Shared {
    fn serve(&self) {
        timer_slack::wake_in_time();
        let (mut idle, mut work) = (SpinPolicy::long_spin(), SpinPolicy::default());
        let mut state = self.state.lock();
        let mut looked_for_failures = Instant::now();
        while !state.closing {
            if state.waiting.is_empty() {
                state = self.work_available.spin_then_wait(&self.state, state, None, &mut idle);
                continue;
            }
            // Without the lock: a query of a stream may block on the driver, and adding a waiter must not.
            let mut waiting = std::mem::take(&mut state.waiting);
            drop(state);
            let all = looked_for_failures.elapsed() >= POLL_FOR_FAILURES;
            // A position without an operation can't be reached.
            let sleeps = !all && !waiting.iter().any(PositionWaiter::is_under_way);
            if all {
                looked_for_failures = Instant::now();
            }
            let mut left = Vec::with_capacity(waiting.len());
            let mut newest = None;
            if sleeps {
                left.append(&mut waiting);
            }
            for awaited in waiting {
                let under_way = awaited.is_under_way();
                match if under_way || all { poll(&awaited.stream, awaited.seq) } else { Ok(false) } {
                    Ok(false) => {
                        if under_way {
                            newest = newest.max(Some(awaited.since));
                        }
                        left.push(awaited);
                    }
                    result => {
                        work.waited(awaited.since.elapsed());
                        (awaited.done)(result.map(drop));
                    }
                }
            }
            state = self.state.lock();
            if state.closing {
                drop(state);
                for awaited in left {
                    (awaited.done)(Err(shut_down()));
                }
                return;
            }
            // Older waiters are first.
            let more = !state.waiting.is_empty();
            left.append(&mut state.waiting);
            state.waiting = left;
            if sleeps && !more {
                let end = Some(Instant::now() + POLL_FOR_FAILURES);
                state = self.work_available.spin_then_wait(&self.state, state, end, &mut idle);
            } else if let Some(since) = newest {
                drop(state);
                pause(since, &mut work);
                state = self.state.lock();
            }
        }
    }
}

impl PositionWaiter {
    /// Whether the position's operation was enqueued.
    fn is_under_way(&self) -> bool {
        self.seq <= self.stream.last().0
    }
}

/// Pauses between two polls. Only yields the core while the last operation may be done as soon as recent ones were.
fn pause(since: Instant, work: &mut SpinPolicy) {
    let now = Instant::now();
    if now - since >= work.limit() {
        return std::thread::sleep(POLL_INTERVAL);
    }
    std::thread::yield_now();
    if now.elapsed() > OVERSUBSCRIBED {
        work.oversubscribed();
    }
}

fn poll(stream: &Stream, seq: u64) -> Result<bool> {
    let last = stream.last().0;
    // For a position without an operation only a failure counts.
    Ok(stream.reached(seq.min(last))? && seq <= last)
}
