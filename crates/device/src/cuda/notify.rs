//! Tells others when a stream has got somewhere, from a thread of its own: the driver's callbacks hold up
//! the stream that they are in, and may not call the driver.

use super::stream::Stream;
use crate::failure::shut_down;
use accord_types::Result;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// How often the thread looks while somebody waits for work that is under way.
const LOOK: Duration = Duration::from_micros(20);
/// How often it looks for those who want to hear of a failure only.
const LOOK_FOR_FAILURES: Duration = Duration::from_millis(100);

type Done = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
pub(crate) struct Notifier(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: ShortLock<Waiting>,
    work_available: Condvar,
}

#[derive(Default)]
struct Waiting {
    waiting: Vec<(Arc<Stream>, u64, Done)>,
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
            match threads::spawn("accord-notify", move || shared.serve()) {
                Ok(_) => state.started = true,
                Err(_) => {
                    // Late is better than never.
                    drop(state);
                    return done(wait(stream, seq));
                }
            }
        }
        state.waiting.push((Arc::clone(stream), seq, done));
        drop(state);
        self.0.work_available.notify_one();
    }

    /// Ends the thread; everybody who waits is told.
    pub(crate) fn close(&self) {
        let mut state = self.0.state.lock();
        state.closing = true;
        let left = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.work_available.notify_one();
        for (_, _, done) in left {
            done(Err(shut_down()));
        }
    }
}

impl Shared {
    fn serve(&self) {
        // SAFETY: changes this thread's timers only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
        let mut state = self.state.lock();
        let mut looked_for_failures = Instant::now();
        while !state.closing {
            if state.waiting.is_empty() {
                state = ShortGuard::wait(state, &self.work_available);
                continue;
            }
            // Without the lock: a stream that is asked may wait for the driver, and whoever adds something must not.
            let mut waiting = std::mem::take(&mut state.waiting);
            drop(state);
            let all = looked_for_failures.elapsed() >= LOOK_FOR_FAILURES;
            // What was never put in can't be reached.
            let under_way = |(stream, seq, _): &(Arc<Stream>, u64, Done)| *seq <= stream.last().0;
            let sleeps = !all && !waiting.iter().any(under_way);
            if all {
                looked_for_failures = Instant::now();
            }
            let mut left = Vec::with_capacity(waiting.len());
            let mut none = true;
            if sleeps {
                left.append(&mut waiting);
            }
            for (stream, seq, done) in waiting {
                let sleeps = seq > stream.last().0;
                match if sleeps && !all { Ok(false) } else { look(&stream, seq) } {
                    Ok(false) => {
                        none &= sleeps;
                        left.push((stream, seq, done));
                    }
                    result => done(result.map(drop)),
                }
            }
            state = self.state.lock();
            if state.closing {
                drop(state);
                for (_, _, done) in left {
                    done(Err(shut_down()));
                }
                return;
            }
            // Older ones first.
            let more = !state.waiting.is_empty();
            left.append(&mut state.waiting);
            state.waiting = left;
            if sleeps && !more {
                (state, _) = ShortGuard::wait_timeout(state, &self.work_available, LOOK_FOR_FAILURES);
            } else if !none {
                drop(state);
                std::thread::sleep(LOOK);
                state = self.state.lock();
            }
        }
    }
}

fn look(stream: &Stream, seq: u64) -> Result<bool> {
    let _current =
        stream.shared.context.enter().map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))?;
    let last = stream.last().0;
    // Of a position that was not put in yet only a failure can be told.
    Ok(stream.reached(seq.min(last))? && seq <= last)
}

fn wait(stream: &Stream, seq: u64) -> Result<()> {
    let _current =
        stream.shared.context.enter().map_err(|error| stream.shared.driver_failed(error, Some(stream.queue)))?;
    stream.synchronize(seq)
}
