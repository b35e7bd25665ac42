//! Constants of the program that contain relocated addresses: tables of functions and strings, and the compiler's own for classes.
//!
//! GCC maps those that a region names, like variables. A copy would contain addresses of the program. A process that runs the program's code has
//! them itself, with its own addresses: they are present on such a device from the first launch that names them.

use accord_types::HostRange;
use accord_types::short_lock::ShortLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Regions that are recorded as examined. Others are examined again.
const REGIONS: usize = 64;
/// Constants of one device. Further ones are copied.
const CONSTANTS_MAX: usize = 4096;

/// The constants of one device.
pub(crate) struct Constants {
    /// Host functions of regions whose constants are present.
    regions: [AtomicUsize; REGIONS],
    /// Their ranges in the program.
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

    /// Records that a region's constants are present, with those in `ranges` that were not before.
    pub(crate) fn add(&self, function: usize, ranges: Vec<HostRange>) {
        self.present.lock().extend(ranges);
        self.region(function).store(function, Ordering::Release);
    }

    /// Whether another one fits.
    pub(crate) fn has_room(&self) -> bool {
        self.present.lock().len() < CONSTANTS_MAX
    }

    /// Forgets all constants, as nothing is present any more. Returns their ranges.
    pub(crate) fn forget(&self) -> Vec<HostRange> {
        self.regions.iter().for_each(|region| region.store(0, Ordering::Release));
        std::mem::take(&mut *self.present.lock())
    }
}
