//! Threads as futures, of which a random one takes the next step.

use crate::random::Random;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A simulated thread.
pub(super) type Thread = Pin<Box<dyn Future<Output = ()>>>;

/// Lets other threads go on.
pub(super) fn step() -> Step {
    Step { over: false }
}

pub(super) struct Step {
    over: bool,
}

impl Future for Step {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.over, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Runs all threads to their ends. Returns `false` if they take more than `most` steps, or `stopped` holds.
pub(super) fn run(mut threads: Vec<Thread>, random: &mut Random, most: u64, stopped: impl Fn() -> bool) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..most {
        if threads.is_empty() {
            return true;
        }
        if stopped() {
            return false;
        }
        let next = random.index(threads.len());
        if threads[next].as_mut().poll(&mut context).is_ready() {
            drop(threads.swap_remove(next));
        }
    }
    false
}
