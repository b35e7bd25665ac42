//! Holds work on a GPU back while its memory is in host memory.

use accord_device::cpu::futex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const GOES_ON: u32 = 0;
const HELD: u32 = 1;

/// Longest sleep, so that a lost wake-up never becomes a hang.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Whether callers may put work into the device's streams.
#[derive(Debug, Default)]
pub(crate) struct HeldWork(AtomicU32);

impl HeldWork {
    /// Whether work is held back. A caller reads this under its stream's lock, and the locks are taken once after the change.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::SeqCst) != GOES_ON
    }

    /// Sleeps until work may go on, or for a moment.
    #[cold]
    pub(crate) fn wait(&self) {
        futex::wait(&self.0, HELD, Some(CHECK_INTERVAL));
    }

    pub(crate) fn hold(&self) {
        self.0.store(HELD, Ordering::SeqCst);
    }

    pub(crate) fn release(&self) {
        self.0.store(GOES_ON, Ordering::SeqCst);
        futex::wake_all(&self.0);
    }
}
