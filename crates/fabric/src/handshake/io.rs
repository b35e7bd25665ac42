//! Exact reads and writes that end at a deadline, however slowly the peer sends.

use crate::transport::Lane;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// The longest wait for a refused client to close the connection, so that it can read the reason.
const LINGER: Duration = Duration::from_millis(200);

/// The time by which a handshake must be over.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `timeout` from now.
    pub fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Returns the time left from now.
    ///
    /// # Errors
    /// Returns an error if the deadline has passed.
    pub(crate) fn left(self) -> io::Result<Duration> {
        match self.0.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
            left => Ok(left),
        }
    }
}

/// Reads exactly `bytes.len()` bytes.
pub(crate) fn read(lane: &dyn Lane, mut bytes: &mut [u8], deadline: Deadline) -> io::Result<()> {
    while !bytes.is_empty() {
        lane.limit(Some(deadline.left()?))?;
        match lane.read(bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(n) => bytes = &mut bytes[n..],
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes`.
pub(crate) fn write(lane: &dyn Lane, mut bytes: &[u8], deadline: Deadline) -> io::Result<()> {
    while !bytes.is_empty() {
        lane.limit(Some(deadline.left()?))?;
        match lane.write(&[IoSlice::new(bytes)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Closes the connection so that written bytes arrive: unread input would reset it.
pub(crate) fn close_gently(lane: &dyn Lane, deadline: Deadline) {
    let end = Deadline(deadline.0.min(Instant::now() + LINGER));
    if lane.finish().is_err() {
        return;
    }
    let mut waste = [0; 4096];
    while let Ok(left) = end.left() {
        if lane.limit(Some(left)).is_err() || !matches!(lane.read(&mut waste), Ok(1..)) {
            break;
        }
    }
    lane.shutdown();
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns the `N` bytes at `at`, which must exist.
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
