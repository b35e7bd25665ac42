//! Guard pages and patterns around the blocks of a device's memory (`ACCORD_CHECK=bounds`).
//!
//! A block ends as near as possible to the end of its pages. No memory is mapped between the pages of two blocks, so that a region's access there is a
//! fault. The bytes of the pages ahead of the block and behind it hold a pattern, which is compared when a region has ended.

use super::range::Range;
use accord_types::{DevicePtr, HostRange};

/// Memory of guarded blocks is mapped in multiples of this.
pub(super) const PAGE: u64 = 4096;
/// A block keeps its address in the program modulo this, and with it the alignment of its elements.
const ALIGNMENT: u64 = 64;
/// Least and greatest distance between the pages of two blocks. It is as long as the block, so that an index in the next row is in it.
const GAP_MIN: u64 = 64 << 10;
const GAP_MAX: u64 = 16 << 20;
/// Most blocks with guard pages. Each divides the worker's mapping of its memory twice, and Linux allows a process 65,530 mappings.
const GUARDED_BLOCKS_MAX: usize = 16 << 10;

/// The state of guarding a device's blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Guards {
    /// All blocks have guard pages.
    #[default]
    Complete,
    /// Some block got none, which the user does not know yet.
    Lacking,
    /// Some block got none, which the user knows.
    LackingTold,
}

/// The place of a block in its pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placement {
    /// Bytes of all of its pages.
    pub(super) len: u64,
    /// Bytes of the pages before the block.
    pub(super) ahead: u64,
}

impl Placement {
    /// Returns the place of a block of `bytes` bytes for memory at `host` in the program; `None` if it exceeds all addresses.
    pub(super) fn of(bytes: u64, host: usize) -> Option<Self> {
        let (bytes, rest) = (bytes.max(1), host as u64 % ALIGNMENT);
        let len = bytes.checked_add(rest)?.checked_next_multiple_of(PAGE)?;
        let slack = len - bytes;
        Some(Self { len, ahead: slack - (slack - rest) % ALIGNMENT })
    }
}

/// Returns how many addresses to leave free before `len` bytes of pages, of `spare` addresses that no memory will need. It is 0 if there are too few, or
/// too many `blocks`.
pub(super) fn gap(len: u64, spare: u64, blocks: usize) -> u64 {
    let wanted = len.clamp(GAP_MIN, GAP_MAX);
    match spare {
        _ if blocks >= GUARDED_BLOCKS_MAX => 0,
        0..PAGE => 0,
        _ if spare < wanted => PAGE,
        _ => wanted,
    }
}

/// A block whose surrounding bytes hold the pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GuardedBlock {
    /// The number that no other block of the device ever has.
    pub(crate) serial: u64,
    pub(crate) start: DevicePtr,
    pub(crate) bytes: u64,
    /// Its range in the program; `None` for memory of `acc_malloc`.
    pub(crate) host: Option<HostRange>,
    /// Its pages.
    pub(crate) pages: Range,
}

/// The place of bytes beside a block that do not hold the pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// Behind the end: `bytes` changed, the first at this distance from the end.
    Behind { distance: u64, bytes: usize },
    /// Ahead of the begin: `bytes` changed, of which the last ones begin at this distance from it.
    Ahead { distance: u64, bytes: usize },
}

impl GuardedBlock {
    /// Returns its range in the program, or on the device if it is memory of `acc_malloc`, to which a pointer of the program leads.
    pub(crate) fn range(&self) -> HostRange {
        self.host.unwrap_or(HostRange { start: self.start.0 as usize, len: self.bytes as usize })
    }

    /// Returns the ranges with the pattern: ahead of the block and behind it.
    pub(crate) fn pads(&self) -> [(DevicePtr, u64); 2] {
        let end = self.start.offset(self.bytes);
        let behind = (self.pages.start.0 + self.pages.len).saturating_sub(end.0);
        [(self.pages.start, self.start.0 - self.pages.start.0), (end, behind)]
    }

    /// Compares the bytes of [`GuardedBlock::pads`] with the pattern.
    pub(crate) fn damage(&self, ahead: &[u8], behind: &[u8]) -> Option<Damage> {
        let [(first, _), (end, _)] = self.pads();
        let changed = |from: DevicePtr, bytes: &[u8]| -> Vec<usize> {
            (0..bytes.len()).filter(|at| bytes[*at] != pattern(from.0 + *at as u64)).collect()
        };
        let wrong = changed(end, behind);
        if let Some(first) = wrong.first() {
            return Some(Damage::Behind { distance: *first as u64, bytes: wrong.len() });
        }
        let wrong = changed(first, ahead);
        // The last bytes without a gap between are one element, or several of them.
        let run = wrong.iter().rev().zip((0..ahead.len()).rev().skip_while(|at| Some(at) != wrong.last()));
        let start = run.take_while(|(at, next)| *at == next).last().map(|(at, _)| *at);
        start.map(|start| Damage::Ahead { distance: (ahead.len() - start) as u64, bytes: wrong.len() })
    }
}

/// Returns the byte of the pattern at an address. It is never 0, and differs from that of its neighbours.
pub(crate) fn pattern(address: u64) -> u8 {
    0xa5 ^ (address & 0x3f) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_alignment_and_ends_near_the_end_of_its_pages() {
        for (bytes, host) in [(1, 0x10), (8000, 0x5010), (4096, 0x1000), (4090, 0x103f), (100_000, 0x20), (0, 0)] {
            let Placement { len, ahead } = Placement::of(bytes, host).expect("addresses");
            assert_eq!((len % PAGE, ahead % ALIGNMENT), (0, host as u64 % ALIGNMENT), "{bytes} at {host:#x}");
            let behind = len - ahead - bytes.max(1);
            assert!(behind < ALIGNMENT && ahead < PAGE, "{bytes} at {host:#x}: {ahead}, {behind}");
        }
        assert_eq!(Placement::of(4096, 0), Some(Placement { len: 4096, ahead: 0 }));
        assert_eq!(Placement::of(u64::MAX - 10, 0), None);
    }

    #[test]
    fn gaps_are_as_long_as_the_block_where_there_are_addresses() {
        assert_eq!(gap(1 << 20, 1 << 40, 0), 1 << 20);
        assert_eq!(gap(PAGE, 1 << 40, 0), GAP_MIN);
        assert_eq!(gap(1 << 30, 1 << 40, 0), GAP_MAX);
        assert_eq!(gap(1 << 20, 3 * PAGE, 0), PAGE);
        assert_eq!(gap(1 << 20, PAGE - 1, 0), 0);
        assert_eq!(gap(1 << 20, 1 << 40, GUARDED_BLOCKS_MAX), 0);
    }

    #[test]
    fn damage_is_measured_from_the_nearer_end() {
        let start = DevicePtr(0x10_0000 + 100);
        let pages = Range { start: DevicePtr(0x10_0000), len: PAGE };
        let block = GuardedBlock { serial: 1, start, bytes: PAGE - 140, host: None, pages };
        let [ahead, behind] = block.pads();
        assert_eq!((ahead, behind), ((pages.start, 100), (DevicePtr(0x10_0000 + PAGE - 40), 40)));
        let filled = |(at, len): (DevicePtr, u64)| (at.0..at.0 + len).map(pattern).collect::<Vec<_>>();
        let (before, after) = (filled(ahead), filled(behind));
        assert_eq!(block.damage(&before, &after), None);
        let with = |bytes: &[u8], changed: &[usize]| {
            let mut bytes = bytes.to_vec();
            changed.iter().for_each(|at| bytes[*at] = 0);
            bytes
        };
        let wrong = with(&after, &[0, 1, 2, 3]);
        assert_eq!(block.damage(&before, &wrong), Some(Damage::Behind { distance: 0, bytes: 4 }));
        let wrong = with(&before, &[91, 90, 80]);
        assert_eq!(block.damage(&wrong, &after), Some(Damage::Ahead { distance: 10, bytes: 3 }));
    }
}
