//! Where a range of a device's memory is, as its owner says it to another process.

use crate::cuda::memory::{PAGE, PIECE_MAX};
use accord_types::{Error, ErrorCode, Result};

/// Most pieces of one place.
pub(crate) const PLACE_PIECES_MAX: usize = (Place::BYTES_MAX - HEADER) / PIECE;
/// Longest range of addresses that is taken from another process.
const RANGE_MAX: u64 = 16 << 40;
/// Numbers ahead of the pieces, in bytes.
const HEADER: usize = 5 * 8;
/// Number and length of a piece.
const PIECE: usize = 2 * 8;

/// Where a range of a device's memory is. An offer to a process of the same machine, and good as long as the memory stays mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The device's range of addresses, by a number that its process gives to no other.
    pub(crate) range: u64,
    pub(crate) range_len: u64,
    /// First byte, in the range.
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Start of the first piece, in the range.
    pub(crate) first: u64,
    /// Numbers and lengths of the pieces, which follow each other without holes.
    pub(crate) pieces: Vec<(u64, u64)>,
}

impl Place {
    /// Longest encoded place in bytes.
    pub const BYTES_MAX: usize = 64 << 10;

    /// As bytes, at most [`Place::BYTES_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        let header = [self.range, self.range_len, self.offset, self.len, self.first];
        let pieces = self.pieces.iter().flat_map(|&(id, len)| [id, len]);
        header.into_iter().chain(pieces).flat_map(u64::to_le_bytes).collect()
    }

    /// What [`Place::encode`] wrote, checked as a peer's word.
    ///
    /// # Errors
    /// `acc_error_implementation_defined` if it can't be one.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| {
            Error::new(ErrorCode::ImplementationDefined, format!("the peer broke the protocol: a place {what}"))
        };
        let (numbers, rest) = bytes.as_chunks::<8>();
        let number = |index: usize| numbers.get(index).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let pieces: Vec<_> = (HEADER / 8..numbers.len()).step_by(2).map(|at| (number(at), number(at + 1))).collect();
        let fits = bytes.len() > HEADER && (bytes.len() - HEADER).is_multiple_of(PIECE);
        if !fits || !rest.is_empty() || pieces.len() > PLACE_PIECES_MAX {
            return Err(wrong("of impossible length"));
        }
        let place = Self {
            range: number(0),
            range_len: number(1),
            offset: number(2),
            len: number(3),
            first: number(4),
            pieces,
        };
        if place.range_len > RANGE_MAX || !place.range_len.is_multiple_of(PAGE) || !place.first.is_multiple_of(PAGE) {
            return Err(wrong("in an impossible range"));
        }
        if place.pieces.iter().any(|&(_, len)| len == 0 || len > PIECE_MAX || !len.is_multiple_of(PAGE)) {
            return Err(wrong("with an impossible piece"));
        }
        // At most 4093 pieces of 64 MiB each: their sum can't overflow.
        let bytes: u64 = place.pieces.iter().map(|(_, len)| len).sum();
        let end = place.first.checked_add(bytes).filter(|end| *end <= place.range_len);
        let inside = place.offset.checked_add(place.len).is_some_and(|until| end.is_some_and(|end| until <= end));
        if place.len == 0 || place.offset < place.first || !inside {
            return Err(wrong("outside of its pieces"));
        }
        Ok(place)
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Offset in the range, number and length of each piece.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, u64, u64)> {
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

    fn place() -> Place {
        let pieces = vec![(7, PIECE_MAX), (9, PAGE)];
        Place { range: 3, range_len: 1 << 40, offset: 5 * PAGE + 3, len: PIECE_MAX, first: 5 * PAGE, pieces }
    }

    #[test]
    fn a_place_comes_back_as_it_was() {
        assert_eq!(Place::decode(&place().encode()).unwrap(), place());
        assert_eq!(place().pieces().collect::<Vec<_>>(), [(5 * PAGE, 7, PIECE_MAX), (5 * PAGE + PIECE_MAX, 9, PAGE)]);
    }

    #[test]
    fn impossible_places_are_refused() {
        let wrong: [fn(&mut Place); 9] = [
            |place| place.pieces.clear(),
            |place| place.range_len = 1 << 60,
            |place| place.first += 1,
            |place| place.pieces[0].1 = PIECE_MAX + PAGE,
            |place| place.pieces[1].1 = 0,
            |place| place.offset = place.first - 1,
            |place| place.len = PIECE_MAX + PAGE,
            |place| place.len = u64::MAX,
            |place| place.range_len = PIECE_MAX,
        ];
        for (index, change) in wrong.iter().enumerate() {
            let mut place = place();
            change(&mut place);
            assert!(Place::decode(&place.encode()).is_err(), "{index}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_sound_place_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(place) = Place::decode(&bytes) {
                prop_assert_eq!(place.encode(), bytes);
            }
        }
    }
}
