//! The bytes that elements of an MPI datatype occupy in a buffer. Pure.

/// The extents of a datatype, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extents {
    /// Bytes of data.
    pub(super) size: isize,
    /// The distance of consecutive elements.
    pub(super) extent: isize,
    /// The offset of the first byte with data.
    pub(super) true_lower: isize,
    /// The distance from there to the end of the last byte with data.
    pub(super) true_extent: isize,
}

/// Consecutive elements in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// The index of the first element.
    pub(super) displacement: isize,
    pub(super) count: isize,
}

/// Elements of a buffer that have one datatype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Bytes from the buffer's address to element 0.
    pub(super) offset: isize,
    pub(super) block: Block,
    pub(super) datatype: i32,
    pub(super) extents: Extents,
}

impl Piece {
    /// Returns the smallest range that contains all pieces; `None` if there are none with data.
    pub(super) fn range(pieces: &[Self]) -> Option<ByteRange> {
        let ranges = pieces.iter().filter_map(|piece| {
            let range = piece.extents.range(piece.block)?;
            Some(ByteRange { low: range.low + piece.offset, high: range.high + piece.offset })
        });
        ranges.reduce(|one, other| ByteRange { low: one.low.min(other.low), high: one.high.max(other.high) })
    }
}

/// A range of bytes relative to a buffer's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ByteRange {
    pub(super) low: isize,
    pub(super) high: isize,
}

impl Extents {
    /// The extents of a byte.
    pub(super) const BYTE: Self = Self { size: 1, extent: 1, true_lower: 0, true_extent: 1 };

    /// Whether consecutive elements occupy all bytes of their range.
    pub(super) fn is_dense(self) -> bool {
        self.size == self.extent && self.size == self.true_extent
    }

    /// Returns the range of a block's elements; `None` if they have no data.
    fn range(self, block: Block) -> Option<ByteRange> {
        if block.count <= 0 || self.size <= 0 {
            return None;
        }
        let first = block.displacement * self.extent + self.true_lower;
        let last = (block.displacement + block.count - 1) * self.extent + self.true_lower;
        Some(ByteRange { low: first.min(last), high: first.max(last) + self.true_extent })
    }

    /// Splits a block into parts with at most `bytes` of data, or of one element.
    pub(super) fn parts(self, block: Block, bytes: isize) -> impl Iterator<Item = Block> {
        let most = (bytes / self.size.max(1)).max(1);
        let firsts = (0..block.count).step_by(usize::try_from(most).unwrap_or(1));
        firsts
            .map(move |first| Block { displacement: block.displacement + first, count: most.min(block.count - first) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_all_elements() {
        let real = Extents { size: 8, extent: 8, true_lower: 0, true_extent: 8 };
        let block = |displacement, count| Block { displacement, count };
        let range = |extents: Extents, blocks: &[Block], offset| {
            let piece = |block: &Block| Piece { offset, block: *block, datatype: 0, extents };
            Piece::range(&blocks.iter().map(piece).collect::<Vec<_>>())
        };
        assert_eq!(range(real, &[block(0, 5)], 0), Some(ByteRange { low: 0, high: 40 }));
        assert_eq!(range(real, &[block(0, 5)], 12), Some(ByteRange { low: 12, high: 52 }));
        assert_eq!(range(real, &[block(7, 2), block(3, 1), block(90, 0)], 0), Some(ByteRange { low: 24, high: 72 }));
        assert_eq!(range(real, &[block(4, 0)], 0), None);
        assert!(real.is_dense());
        // A row of a matrix with ten rows, and one that runs backwards.
        let row = Extents { size: 24, extent: 168, true_lower: 0, true_extent: 168 };
        assert_eq!(range(row, &[block(0, 1)], 0), Some(ByteRange { low: 0, high: 168 }));
        assert!(!row.is_dense());
        let backwards = Extents { size: 8, extent: -8, true_lower: 4, true_extent: 8 };
        assert_eq!(range(backwards, &[block(0, 3)], 0), Some(ByteRange { low: -12, high: 12 }));
    }

    #[test]
    fn large_blocks_have_parts() {
        let element = Extents { size: 8, extent: 16, true_lower: 0, true_extent: 8 };
        let block = |displacement, count| Block { displacement, count };
        let parts = |count, bytes| element.parts(block(5, count), bytes).collect::<Vec<_>>();
        assert_eq!(parts(7, 24), [block(5, 3), block(8, 3), block(11, 1)]);
        assert_eq!(parts(2, 7), [block(5, 1), block(6, 1)]);
        assert!(parts(0, 24).is_empty());
        let count: isize = 3 << 31;
        let largest = element.parts(block(0, count), 1 << 26).map(|part| part.count).max();
        assert_eq!(largest, Some(1 << 23));
        assert_eq!(element.parts(block(0, count), 1 << 26).map(|part| part.count).sum::<isize>(), count);
    }
}
