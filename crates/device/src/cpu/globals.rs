//! Tracks the pages of the program's `declare` variables in the memory file.
//!
//! Variables are placed one by one, when a copy first names them, and share pages with their neighbours. A page enters the
//! file once, so that a variable's pages may be in several pieces of it.

use super::layout::{GLOBALS_BYTES, GLOBALS_OFFSET};
use accord_types::{Error, ErrorCode, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Size of the unit in which variables enter the file.
pub(crate) const PAGE: u64 = 4096;
/// The end of every process's addresses, on any processor; sums of two addresses, lengths and pages fit.
const ADDRESSES_END: u64 = 1 << 60;

/// Pages that are contiguous in the worker and in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) file_offset: u64,
}

/// The pieces of one device, by address in the worker.
#[derive(Default)]
pub(crate) struct Globals {
    pieces: BTreeMap<u64, Piece>,
    used: u64,
}

impl Globals {
    /// Returns the range of a variable that the worker reported, if it is possible.
    pub(crate) fn variable(address: u64, len: u64) -> Option<Range<u64>> {
        let end = address.checked_add(len).filter(|&end| end < ADDRESSES_END)?;
        Some(address..end)
    }

    /// Returns the pages of `variable` that are in no piece yet, as few ranges as possible.
    pub(crate) fn missing(&self, variable: &Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut from = variable.start & !(PAGE - 1);
        let end = variable.end.next_multiple_of(PAGE);
        for piece in self.meeting(&(from..end)) {
            if from < piece.start {
                missing.push(from..piece.start);
            }
            from = piece.start + piece.len;
        }
        if from < end {
            missing.push(from..end);
        }
        missing
    }

    /// Reserves space in the file for whole pages. The space is lost if they are not added.
    pub(crate) fn reserve(&mut self, pages: &Range<u64>) -> Result<Piece> {
        let len = pages.end - pages.start;
        if len > GLOBALS_BYTES - self.used {
            return Err(Error::new(
                ErrorCode::OutOfMemory,
                format!("declare variables need {} bytes, {GLOBALS_BYTES} are possible", self.used.saturating_add(len)),
            )
            .remedy("allocate large arrays, and map them by enter data"));
        }
        let file_offset = GLOBALS_OFFSET + self.used;
        self.used += len;
        Ok(Piece { start: pages.start, len, file_offset })
    }

    /// Records that the worker has mapped the piece.
    pub(crate) fn add(&mut self, piece: Piece) {
        self.pieces.insert(piece.start, piece);
    }

    /// All pieces that hold a byte of `range`, in order.
    pub(crate) fn meeting(&self, range: &Range<u64>) -> impl Iterator<Item = Piece> {
        // Pieces don't overlap, so that only the last one that begins before the range can extend into it.
        let first = self.pieces.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        let from = range.start;
        self.pieces.range(first..range.end).map(|(_, &piece)| piece).filter(move |p| p.start + p.len > from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(globals: &mut Globals, variable: Range<u64>) -> Vec<Piece> {
        for pages in globals.missing(&variable) {
            let piece = globals.reserve(&pages).expect("room");
            globals.add(piece);
        }
        assert_eq!(globals.missing(&variable), []);
        globals.meeting(&variable).collect()
    }

    #[test]
    fn a_variable_between_two_others_lies_in_three_pieces() {
        let mut globals = Globals::default();
        assert_eq!(place(&mut globals, 0x1010..0x1020).len(), 1);
        assert_eq!(place(&mut globals, 0x5010..0x5020).len(), 1);
        let pieces = place(&mut globals, 0x1020..0x5010);
        let starts: Vec<_> = pieces.iter().map(|p| (p.start, p.len)).collect();
        assert_eq!(starts, [(0x1000, 0x1000), (0x2000, 0x3000), (0x5000, 0x1000)]);
        assert_eq!(place(&mut globals, 0x1ff0..0x2010).len(), 2);
        assert_eq!(place(&mut globals, 0x3000..0x3001).len(), 1);
    }

    #[test]
    fn no_page_is_in_two_pieces_whatever_the_order() {
        let mut globals = Globals::default();
        let mut seed = 7u64;
        for _ in 0..200 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let start = (seed >> 33) % 0x40000;
            place(&mut globals, start..start + 1 + (seed >> 17) % 0x3000);
        }
        let pieces: Vec<_> = globals.meeting(&(0..u64::MAX)).collect();
        assert!(pieces.windows(2).all(|w| w[0].start + w[0].len <= w[1].start));
        let mut offsets: Vec<_> = pieces.iter().map(|p| (p.file_offset, p.len)).collect();
        offsets.sort_unstable();
        assert!(offsets.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
    }

    #[test]
    fn a_variable_where_nothing_can_be_is_none() {
        assert_eq!(Globals::variable(4096, 8), Some(4096..4104));
        for (address, len) in [(u64::MAX, 1), (u64::MAX - 7, 8), (1 << 60, 0), (8, u64::MAX)] {
            assert_eq!(Globals::variable(address, len), None, "{address} {len}");
        }
    }

    #[test]
    fn more_than_there_is_room_for_is_refused() {
        let mut globals = Globals::default();
        globals.reserve(&(0..GLOBALS_BYTES)).expect("all of it");
        assert_eq!(globals.reserve(&(0..PAGE)).expect_err("full").code(), ErrorCode::OutOfMemory);
    }
}
