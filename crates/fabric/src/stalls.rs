//! Threads blocked on a peer that may never read bytes or post receives.

use crate::transport::Lane;
use accord_types::short_lock::assert_none_held;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of blocked threads, and a callback for each.
#[derive(Default)]
pub struct Stalls {
    stalled: AtomicU32,
    reported: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Stalls {
    /// Calls `reported` before a thread blocks.
    pub fn notify(&self, reported: impl Fn() + Send + Sync + 'static) {
        // A link has one user, so that only the first callback is set.
        let _ = self.reported.set(Box::new(reported));
    }

    /// Whether any thread is blocked.
    pub fn any(&self) -> bool {
        self.stalled.load(Ordering::SeqCst) > 0
    }

    /// Writes all of `parts`.
    ///
    /// # Errors
    /// Returns the errors of [`Lane::write`].
    pub fn write_all(&self, lane: &dyn Lane, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        assert_none_held();
        match lane.try_write(parts) {
            Ok(written) => IoSlice::advance_slices(&mut parts, written),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if parts.is_empty() {
            return Ok(());
        }
        let _stalled = self.begin();
        lane.write_all(parts)
    }

    /// Marks the calling thread as blocked.
    pub fn begin(&self) -> Stalled<'_> {
        self.stalled.fetch_add(1, Ordering::SeqCst);
        if let Some(reported) = self.reported.get() {
            reported();
        }
        Stalled(self)
    }
}

/// Marks a thread as blocked until it is dropped.
pub struct Stalled<'a>(&'a Stalls);

impl Drop for Stalled<'_> {
    fn drop(&mut self) {
        self.0.stalled.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::pair;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn only_a_blocked_write_is_reported() {
        let (near, far) = pair().unwrap();
        let stalls = Arc::new(Stalls::default());
        let reported = Arc::new(AtomicU32::new(0));
        let count = reported.clone();
        stalls.notify(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        stalls.write_all(&*near, &mut [IoSlice::new(b"1234"), IoSlice::new(b"5")]).unwrap();
        assert_eq!(reported.load(Ordering::SeqCst), 0);
        // More than the sockets hold.
        let many = vec![7u8; 64 << 20];
        let sender = {
            let (stalls, many) = (stalls.clone(), many.clone());
            std::thread::spawn(move || stalls.write_all(&*near, &mut [IoSlice::new(&many)]).unwrap())
        };
        while reported.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(stalls.any());
        let mut received = vec![0; many.len() + 5];
        far.read_exact(&mut received).unwrap();
        sender.join().unwrap();
        assert!(!stalls.any());
        assert_eq!(&received[..5], b"12345");
        assert!(received[5..] == many[..]);
    }
}
