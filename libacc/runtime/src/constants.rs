//! Constants of the program in which the loader has put addresses: tables of functions and strings, and what the compiler makes for classes.
//!
//! GCC maps those that a region names, like variables. A copy would hold addresses of the program. A process that runs the program's code has
//! them itself, with addresses of its own: they are present on such a device from the first launch on that names them.

use accord_types::HostRange;
use accord_types::short_lock::ShortLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Regions that are known to have been looked at. Others are looked at again.
const REGIONS: usize = 64;
/// Constants of one device. Others are copied.
const CONSTANTS_MAX: usize = 4096;

/// The constants of one device.
pub(crate) struct Constants {
    /// Host functions of regions whose constants are present.
    regions: [AtomicUsize; REGIONS],
    /// Where the program has them.
    present: ShortLock<Vec<HostRange>>,
}

impl Default for Constants {
    fn default() -> Self {
        Self { regions: [const { AtomicUsize::new(0) }; REGIONS], present: ShortLock::default() }
    }
}

impl Constants {
    fn region(&self, function: usize) -> &AtomicUsize {
        &self.regions[(function >> 4) % REGIONS]
    }

    /// Whether the constants that a region names are present.
    #[inline]
    pub(crate) fn are_present_for(&self, function: usize) -> bool {
        self.region(function).load(Ordering::Acquire) == function
    }

    /// The constants that a region names are present, with those in `ranges` that were not before.
    pub(crate) fn add(&self, function: usize, ranges: Vec<HostRange>) {
        self.present.lock().extend(ranges);
        self.region(function).store(function, Ordering::Release);
    }

    /// Whether there is room for another one.
    pub(crate) fn has_room(&self) -> bool {
        self.present.lock().len() < CONSTANTS_MAX
    }

    /// Forgets all constants, as nothing is present any more. Returns their ranges.
    pub(crate) fn forget(&self) -> Vec<HostRange> {
        self.regions.iter().for_each(|region| region.store(0, Ordering::Release));
        std::mem::take(&mut *self.present.lock())
    }
}
