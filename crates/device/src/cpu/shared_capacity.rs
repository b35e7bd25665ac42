//! The capacity of a device's memory, which all sessions of the node share.

use crate::memory_account::MemoryAccount;
use accord_types::{DeviceInfo, Error, ErrorCode, MemoryClaim, Result};
use std::sync::Arc;

/// One session's share of the capacity.
pub(crate) struct SharedCapacity {
    ordinal: u32,
    capacity: u64,
    /// `None`: only this process uses the device.
    account: Option<Arc<dyn MemoryAccount>>,
}

impl SharedCapacity {
    pub(crate) fn new(info: &DeviceInfo, account: Option<Arc<dyn MemoryAccount>>) -> Self {
        Self { ordinal: info.id.ordinal, capacity: info.memory, account }
    }

    /// Claims bytes in addition to the session's `own`. May wait for the process that counts.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory` if other sessions hold too much, or the session's quota is exceeded, and
    /// `acc_error_system` if the process does not answer.
    pub(crate) fn claim(&self, len: u64, own: u64) -> Result<()> {
        let Some(account) = &self.account else { return Ok(()) };
        let capacity = self.capacity;
        let (cause, remedy) = match account.claim(self.ordinal, len)? {
            MemoryClaim::Granted => return Ok(()),
            MemoryClaim::OthersHold(others) => (
                format!(
                    "{len} bytes asked for; of {capacity} bytes of device memory other sessions hold {others}, and this one {own}"
                ),
                "wait until other sessions have ended (accord info lists them), or use another device",
            ),
            MemoryClaim::OverQuota(quota) => (
                format!(
                    "{len} bytes asked for, and {own} of the quota of {quota} bytes a session and device are in use (--memory-quota of \
                     the coordinator)"
                ),
                "free data that is no longer needed, spread it over more devices, or ask the site for a larger quota",
            ),
        };
        Err(Error::new(ErrorCode::OutOfMemory, cause).remedy(remedy))
    }

    pub(crate) fn give_back(&self, len: u64) {
        if let Some(account) = self.account.as_ref().filter(|_| len > 0) {
            account.give_back(self.ordinal, len);
        }
    }

    /// Bytes that other sessions hold.
    pub(crate) fn others(&self) -> u64 {
        self.account.as_ref().map_or(0, |account| account.others(self.ordinal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::arena::Arena;
    use crate::cpu::{CpuConfig, inventory};
    use accord_types::NodeId;
    use std::sync::atomic::{AtomicU64, Ordering};

    const MIB: u64 = 1 << 20;

    /// The bytes of one session, while others hold 5 MiB of 8.
    #[derive(Default)]
    struct Account(AtomicU64);

    impl MemoryAccount for Account {
        fn claim(&self, ordinal: u32, bytes: u64) -> Result<MemoryClaim> {
            assert_eq!(ordinal, 2);
            if self.0.load(Ordering::Relaxed) + bytes > 3 * MIB {
                return Ok(MemoryClaim::OthersHold(5 * MIB));
            }
            self.0.fetch_add(bytes, Ordering::Relaxed);
            Ok(MemoryClaim::Granted)
        }

        fn give_back(&self, _ordinal: u32, bytes: u64) {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }

        fn others(&self, _ordinal: u32) -> u64 {
            5 * MIB
        }
    }

    #[test]
    fn mapped_memory_is_claimed_and_given_back() {
        let info = &inventory(NodeId(0), "here", &CpuConfig { devices: Some(3), memory: Some(8 * MIB) })[2];
        let account = Arc::new(Account::default());
        let held = || account.0.load(Ordering::Relaxed);
        let shared = SharedCapacity::new(info, Some(account.clone()));
        let arena = Arena::new(info, None).expect("address space").sharing(shared);
        let (start, _) = arena.addresses();
        arena.map(start, 2 * MIB).expect("it fits");
        assert_eq!((held(), arena.free()), (2 * MIB, MIB));
        let error = arena.map(start.offset(2 * MIB), 2 * MIB).expect_err("others have it");
        assert_eq!(error.code(), ErrorCode::OutOfMemory);
        assert!(error.cause().contains("2097152 bytes asked for") && error.cause().contains("hold 5242880"), "{error}");
        assert!(arena.unmap(start.offset(2 * MIB), MIB).is_err(), "it is not mapped");
        arena.map(start.offset(2 * MIB), MIB).expect("it fits");
        arena.unmap(start, MIB).expect("it is mapped");
        assert_eq!(held(), 2 * MIB);
        drop(arena);
        assert_eq!(held(), 0);
    }
}
