//! The limit on a read's or a write's wait, for transports that block on a condition variable.

use accord_types::short_lock::ShortLock;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The limit set by [`super::Lane::limit`]; initially none.
#[derive(Debug, Default)]
pub(super) struct TimeLimit(ShortLock<Option<Duration>>);

impl TimeLimit {
    /// Sets the limit, as [`super::Lane::limit`] does.
    pub(super) fn set(&self, time: Option<Duration>) -> io::Result<()> {
        if time.is_some_and(|time| time.is_zero()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        *self.0.lock() = time;
        Ok(())
    }

    /// Returns the deadline of a read or a write that begins now.
    pub(super) fn end(&self) -> Option<Instant> {
        let limit = *self.0.lock();
        limit.map(|limit| Instant::now() + limit)
    }
}
