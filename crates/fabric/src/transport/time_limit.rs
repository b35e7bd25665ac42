//! How long whoever reads or writes a lane may wait, for transports that wait on a condition variable.

use accord_types::short_lock::ShortLock;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// What [`super::Lane::limit`] has set; none at first.
#[derive(Debug, Default)]
pub(super) struct TimeLimit(ShortLock<Option<Duration>>);

impl TimeLimit {
    /// As [`super::Lane::limit`].
    pub(super) fn set(&self, time: Option<Duration>) -> io::Result<()> {
        if time.is_some_and(|time| time.is_zero()) {
            return Err(ErrorKind::InvalidInput.into());
        }
        *self.0.lock() = time;
        Ok(())
    }

    /// When a read or a write that begins now gives up.
    pub(super) fn end(&self) -> Option<Instant> {
        let limit = *self.0.lock();
        limit.map(|limit| Instant::now() + limit)
    }
}
