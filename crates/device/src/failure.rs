//! A device's failure, of which the first one stays.

use accord_types::{Error, ErrorCode, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub struct Failure {
    failed: AtomicBool,
    error: OnceLock<Error>,
}

impl Failure {
    /// Sets the failure if it is the first. Returns the kept one.
    pub fn set(&self, error: Error) -> Error {
        let first = self.error.get_or_init(|| error).clone();
        self.failed.store(true, Ordering::Release);
        first
    }

    /// Returns the failure, if any. Costs one load otherwise.
    pub fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(self.error.get().cloned().unwrap_or_else(shut_down));
        }
        Ok(())
    }
}

/// The device was ended on purpose.
pub fn shut_down() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "the device has been shut down")
}

/// Returns the error of a thread that can't be started.
pub fn no_thread(error: &std::io::Error) -> Error {
    Error::new(ErrorCode::System, format!("cannot start a thread: {error}")).remedy(accord_types::scarce::THREADS)
}
