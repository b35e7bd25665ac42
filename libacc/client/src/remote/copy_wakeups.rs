//! Sleep and wake-ups of the threads that send copies, for each of the two lines.

use crate::connection::{Machine, Way};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::thread::Thread;

/// Wakes the threads of the two lines.
#[derive(Default)]
pub(super) struct CopyWakeups {
    eager: Condvar,
    asked: Condvar,
}

impl CopyWakeups {
    fn of(&self, way: Way) -> &Condvar {
        match way {
            Way::Eager => &self.eager,
            Way::Asked => &self.asked,
        }
    }

    pub(super) fn wake(&self, way: Way) {
        self.of(way).notify_one();
    }

    /// The connection is lost.
    pub(super) fn end(&self) {
        self.eager.notify_all();
        self.asked.notify_all();
    }

    pub(super) fn sleep<'a>(
        &self,
        way: Way,
        machine: MutexGuard<'a, Machine<Thread>>,
    ) -> MutexGuard<'a, Machine<Thread>> {
        self.of(way).wait(machine).unwrap_or_else(PoisonError::into_inner)
    }
}
