//! The account of the memory that all sessions of a node have on a device without a driver's count.

use accord_types::{MemoryClaim, Result};

/// One session's account of the memory of a node's devices. Calls may wait for the process that counts, so that the caller must hold no lock.
pub trait MemoryAccount: Send + Sync {
    /// Claims so many bytes more on the device with this ordinal.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the process that counts does not answer.
    fn claim(&self, ordinal: u32, bytes: u64) -> Result<MemoryClaim>;

    /// Returns so many bytes to the account.
    fn give_back(&self, ordinal: u32, bytes: u64);

    /// Returns how many bytes other sessions hold on the device; 0 if that is not known.
    fn others(&self, ordinal: u32) -> u64;
}
