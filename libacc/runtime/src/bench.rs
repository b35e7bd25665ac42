//! The present table alone, for the benchmark of lookups.

use crate::present::{Backing, Counter, DataLocation, Entry, Lifetime, Table};
use accord_types::{DevicePtr, HostRange};

/// Length of an entry in bytes, and its distance from the next one's start.
const LEN: usize = 4000;
const STRIDE: usize = 4096;
/// Address of the first entry.
const BASE: usize = 0x7f00_0000_0000;

/// A present table with many entries.
pub struct PresentLookups {
    table: Table,
}

impl PresentLookups {
    /// A table with `entries` entries of 4,000 bytes.
    pub fn new(entries: usize) -> Self {
        let mut table = Table::default();
        for n in 0..entries {
            let device = DataLocation::At(DevicePtr(0x1000_0000_0000 + (n * LEN) as u64));
            let range = HostRange { start: start(n), len: LEN };
            let mut entry = Entry::new(range, device, Backing::Foreign, Lifetime::Counted);
            entry.hold(Counter::Dynamic);
            table.insert(entry);
        }
        Self { table }
    }

    /// Whether `len` bytes, `inside` bytes after the start of entry `n`, are wholly present and have a device address.
    pub fn found(&self, n: usize, inside: usize, len: usize) -> bool {
        self.table.locate(start(n) + inside, len).is_some()
    }
}

fn start(n: usize) -> usize {
    BASE + n * STRIDE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_from_start_to_end() {
        let lookups = PresentLookups::new(3);
        assert!(lookups.found(2, 0, LEN) && lookups.found(0, LEN - 8, 8));
        assert!(!lookups.found(0, LEN - 8, 9) && !lookups.found(3, 0, 1));
    }
}
