//! Sleep and wake-ups of the threads that send copies, for each of the two lines.

use crate::connection::{CopyLine, Machine};
use accord_types::short_lock::ShortGuard;
use std::sync::Condvar;
use std::thread::Thread;

/// Wakes the threads of the two lines.
#[derive(Default)]
pub(super) struct CopyWakeups {
    eager: Condvar,
    asked: Condvar,
}

impl CopyWakeups {
    fn of(&self, way: CopyLine) -> &Condvar {
        match way {
            CopyLine::Eager => &self.eager,
            CopyLine::Asked => &self.asked,
        }
    }

    pub(super) fn wake(&self, way: CopyLine) {
        self.of(way).notify_one();
    }

    /// Wakes all threads, because the connection is lost.
    pub(super) fn end(&self) {
        self.eager.notify_all();
        self.asked.notify_all();
    }

    pub(super) fn sleep<'a>(
        &self,
        way: CopyLine,
        machine: ShortGuard<'a, Machine<Thread>>,
    ) -> ShortGuard<'a, Machine<Thread>> {
        ShortGuard::wait(machine, self.of(way))
    }
}
