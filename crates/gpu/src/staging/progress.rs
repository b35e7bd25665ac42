//! The progress of one copy, and its outcome.

use crate::driver::DriverError;
use accord_types::short_lock::ShortLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Least and largest part of a slot for one thread.
pub(crate) const PART_MIN: usize = 64 << 10;
pub(crate) const PART_MAX: usize = 256 << 10;

/// The reason why a copy was not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyError {
    /// A call of the driver failed.
    Driver(DriverError),
    /// The device and its threads were ended deliberately.
    ShutDown,
}

impl From<DriverError> for CopyError {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

/// Tracks the jobs of one copy: slots to fill, or parts of slots to download.
#[derive(Default)]
pub(crate) struct Tracker {
    left: AtomicUsize,
    failed: AtomicBool,
    error: ShortLock<Option<CopyError>>,
}

impl Tracker {
    pub(crate) fn new(jobs: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(jobs), ..Self::default() })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Returns the number of unfinished jobs.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Records an error, after which the remaining jobs do not run.
    pub(crate) fn abort(&self, error: CopyError) {
        self.error.lock().get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.left.store(0, Ordering::Release);
    }

    /// Ends one job. Returns `true` if it was the last.
    pub(crate) fn end(&self, result: Result<(), CopyError>) -> bool {
        if let Err(error) = result {
            self.error.lock().get_or_insert(error);
            self.failed.store(true, Ordering::Release);
        }
        // After an abort there are no jobs left to count.
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)) == Ok(1)
    }

    pub(crate) fn result(&self) -> Result<(), CopyError> {
        if self.failed.load(Ordering::Acquire)
            && let Some(error) = *self.error.lock()
        {
            return Err(error);
        }
        Ok(())
    }
}
