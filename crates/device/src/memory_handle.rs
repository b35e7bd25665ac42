//! Handles of device memory for other processes, which access it directly.

use accord_types::{Error, ErrorCode, Result};

/// Size that shared memory is a multiple of.
pub const PAGE: u64 = 2 << 20;
/// Largest piece of memory that is shared, mapped and freed as a whole.
pub const PIECE_MAX: u64 = 256 << 20;

/// Most pieces of one handle.
pub const HANDLE_PIECES_MAX: usize = (MemoryHandle::BYTES_MAX - HEADER) / PIECE;
/// Longest range of addresses that is imported from another process.
const RANGE_MAX: u64 = 16 << 40;
/// Bytes of the numbers before the pieces.
const HEADER: usize = 5 * 8;
/// Number and length of a piece.
const PIECE: usize = 2 * 8;

/// An exported range of a device's memory, for a process of the same machine. Valid as long as the memory stays mapped. Each piece has a descriptor, which
/// is sent over the socket of an exporter and an importer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryHandle {
    /// The number of the device's range of addresses, unique in its process.
    pub range: u64,
    pub range_len: u64,
    /// Offset of the first byte in the range.
    pub offset: u64,
    pub len: u64,
    /// Offset of the first piece in the range.
    pub first: u64,
    /// Numbers and lengths of the pieces, which are contiguous.
    pub pieces: Vec<(u64, u64)>,
}

impl MemoryHandle {
    /// Longest encoded handle in bytes.
    pub const BYTES_MAX: usize = 64 << 10;

    /// Encodes the handle in at most [`MemoryHandle::BYTES_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let header = [self.range, self.range_len, self.offset, self.len, self.first];
        let pieces = self.pieces.iter().flat_map(|&(id, len)| [id, len]);
        header.into_iter().chain(pieces).flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes untrusted output of [`MemoryHandle::encode`].
    ///
    /// # Errors
    /// Returns `acc_error_implementation_defined` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| {
            Error::new(ErrorCode::ImplementationDefined, format!("the peer broke the protocol: a memory handle {what}"))
        };
        let (numbers, rest) = bytes.as_chunks::<8>();
        let number = |index: usize| numbers.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let pieces: Vec<_> = (HEADER / 8..numbers.len()).step_by(2).map(|at| (number(at), number(at + 1))).collect();
        let fits = bytes.len() > HEADER && (bytes.len() - HEADER).is_multiple_of(PIECE);
        if !fits || !rest.is_empty() || pieces.len() > HANDLE_PIECES_MAX {
            return Err(wrong("of impossible length"));
        }
        let handle = Self {
            range: number(0),
            range_len: number(1),
            offset: number(2),
            len: number(3),
            first: number(4),
            pieces,
        };
        if handle.range_len > RANGE_MAX || !handle.range_len.is_multiple_of(PAGE) || !handle.first.is_multiple_of(PAGE)
        {
            return Err(wrong("in an impossible range"));
        }
        // An allocation of the driver's own is a range, and a piece, of any length.
        let whole = handle.first == 0 && handle.pieces.len() == 1 && handle.pieces[0].1 == handle.range_len;
        let longest = if whole { RANGE_MAX } else { PIECE_MAX };
        if handle.pieces.iter().any(|&(_, len)| len == 0 || len > longest || !len.is_multiple_of(PAGE)) {
            return Err(wrong("with an impossible piece"));
        }
        // At most 4093 pieces of 256 MiB each, or one of 16 TiB, so that their sum can't overflow.
        let bytes: u64 = handle.pieces.iter().map(|(_, len)| len).sum();
        let end = handle.first.checked_add(bytes).filter(|end| *end <= handle.range_len);
        let inside = handle.offset.checked_add(handle.len).is_some_and(|until| end.is_some_and(|end| until <= end));
        if handle.len == 0 || handle.offset < handle.first || !inside {
            return Err(wrong("outside of its pieces"));
        }
        Ok(handle)
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Returns offset in the range, number and length of each piece.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.pieces.iter().scan(self.first, |at, &(id, len)| {
            let offset = *at;
            *at += len;
            Some((offset, id, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn handle() -> MemoryHandle {
        let pieces = vec![(7, PIECE_MAX), (9, PAGE)];
        MemoryHandle { range: 3, range_len: 1 << 40, offset: 5 * PAGE + 3, len: PIECE_MAX, first: 5 * PAGE, pieces }
    }

    #[test]
    fn a_handle_comes_back_as_it_was() {
        assert_eq!(MemoryHandle::decode(&handle().encode()).unwrap(), handle());
        assert_eq!(handle().pieces().collect::<Vec<_>>(), [(5 * PAGE, 7, PIECE_MAX), (5 * PAGE + PIECE_MAX, 9, PAGE)]);
    }

    #[test]
    fn an_allocation_is_one_piece_of_any_length() {
        let len = 100 * PIECE_MAX;
        let whole =
            MemoryHandle { range: 7, range_len: len, offset: 3, len: len - 3, first: 0, pieces: vec![(7, len)] };
        assert_eq!(MemoryHandle::decode(&whole.encode()).unwrap(), whole);
        let longer = MemoryHandle { range_len: len + PAGE, ..whole };
        assert!(MemoryHandle::decode(&longer.encode()).is_err());
    }

    #[test]
    fn impossible_handles_are_refused() {
        let wrong: [fn(&mut MemoryHandle); 9] = [
            |handle| handle.pieces.clear(),
            |handle| handle.range_len = 1 << 60,
            |handle| handle.first += 1,
            |handle| handle.pieces[0].1 = PIECE_MAX + PAGE,
            |handle| handle.pieces[1].1 = 0,
            |handle| handle.offset = handle.first - 1,
            |handle| handle.len = PIECE_MAX + PAGE,
            |handle| handle.len = u64::MAX,
            |handle| handle.range_len = PIECE_MAX,
        ];
        for (index, change) in wrong.iter().enumerate() {
            let mut handle = handle();
            change(&mut handle);
            assert!(MemoryHandle::decode(&handle.encode()).is_err(), "{index}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_sound_place_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(handle) = MemoryHandle::decode(&bytes) {
                prop_assert_eq!(handle.encode(), bytes);
            }
        }
    }
}
