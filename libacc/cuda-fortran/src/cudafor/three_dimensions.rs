//! Copies and `cudaMemset` of memory in three dimensions. All sizes are bytes.

use super::allocations::{Extent, PitchedPointer};
use super::copies;
use crate::errors::{INVALID_RESOURCE_HANDLE, INVALID_VALUE, SUCCESS, keep};
use crate::memory::{self, Kind};
use crate::{streams, transfer};

/// `cudaPos`.
#[repr(C)]
struct Position {
    x: usize,
    y: usize,
    z: usize,
}

/// `cudaMemcpy3DParms`, without arrays of textures.
#[repr(C)]
struct Copy3d {
    from_at: Position,
    from: PitchedPointer,
    to_at: Position,
    to: PitchedPointer,
    extent: Extent,
    kind: i32,
}

/// A box in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Box3 {
    start: usize,
    pitch: usize,
    /// Bytes from one plane to the next.
    plane: usize,
}

impl Box3 {
    /// Returns the box of this extent at a position; `None` if it exceeds the rows, the planes or the allocation.
    fn new(memory: &PitchedPointer, at: &Position, extent: &Extent) -> Option<Self> {
        let plane = memory.pitch.checked_mul(memory.height)?;
        let fits_row = at.x.checked_add(extent.width)? <= memory.pitch;
        let is_one_plane = at.z == 0 && extent.depth == 1;
        let fits_plane = is_one_plane || at.y.checked_add(extent.height)? <= memory.height;
        let before = at.z.checked_mul(plane)?.checked_add(at.y.checked_mul(memory.pitch)?)?.checked_add(at.x)?;
        let start = memory.address.checked_add(before)?;
        let new = Self { start, pitch: memory.pitch, plane };
        let last = new.row(extent.depth.checked_sub(1)?, extent.height.checked_sub(1)?)?;
        let bytes = last.checked_add(extent.width)?.checked_sub(memory.address)?;
        let is_held = memory::find(memory.address)
            .is_none_or(|range| range.kind != Kind::Descriptor && range.holds(memory.address, bytes));
        (fits_row && fits_plane && is_held && memory.address != 0).then_some(new)
    }

    fn row(&self, z: usize, y: usize) -> Option<usize> {
        self.start.checked_add(z.checked_mul(self.plane)?)?.checked_add(y.checked_mul(self.pitch)?)
    }

    /// Returns the addresses of the rows.
    fn rows(&self, extent: &Extent) -> Vec<usize> {
        let all = (0..extent.depth).flat_map(|z| (0..extent.height).map(move |y| (z, y)));
        all.filter_map(|(z, y)| self.row(z, y)).collect()
    }
}

fn is_empty(extent: &Extent) -> bool {
    extent.width == 0 || extent.height == 0 || extent.depth == 0
}

/// Calls `copy` with the target, the source and the bytes of each row.
fn rows(copy: &Copy3d, mut row: impl FnMut(usize, usize, usize)) -> i32 {
    if is_empty(&copy.extent) {
        return SUCCESS;
    }
    let to = Box3::new(&copy.to, &copy.to_at, &copy.extent);
    let (Some(to), Some(from)) = (to, Box3::new(&copy.from, &copy.from_at, &copy.extent)) else {
        return keep(INVALID_VALUE);
    };
    for (to, from) in to.rows(&copy.extent).into_iter().zip(from.rows(&copy.extent)) {
        row(to, from, copy.extent.width);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_3d(copy: &Copy3d) -> i32 {
    if !(0..=4).contains(&copy.kind) {
        return keep(INVALID_VALUE);
    }
    rows(copy, |to, from, bytes| transfer::bytes(to, from, bytes, copies::mode(to, from)))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memcpy_3d_async(copy: &Copy3d, stream: Option<&i64>) -> i32 {
    let stream = copies::stream_or_default(stream);
    let Some(device) = streams::device(stream) else { return keep(INVALID_RESOURCE_HANDLE) };
    if !(0..=4).contains(&copy.kind) {
        return keep(INVALID_VALUE);
    }
    rows(copy, |to, from, bytes| copies::enqueue(device, stream, to, from, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_3d_async(
    memory: &PitchedPointer,
    value: i32,
    extent: &Extent,
    stream: Option<&i64>,
) -> i32 {
    if is_empty(extent) {
        return SUCCESS;
    }
    let whole = Box3::new(memory, &Position { x: 0, y: 0, z: 0 }, extent);
    let Some(whole) = whole.filter(|whole| copies::is_allocated(whole.start, 1)) else { return keep(INVALID_VALUE) };
    // Only the lowest byte counts.
    copies::fill(copies::stream_or_default(stream), &whole.rows(extent), extent.width, &value.to_ne_bytes()[..1])
}

#[unsafe(no_mangle)]
extern "C" fn accord_cuf_memset_3d(memory: &PitchedPointer, value: i32, extent: &Extent) -> i32 {
    accord_cuf_memset_3d_async(memory, value, extent, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: PitchedPointer = PitchedPointer { address: 0x1000, pitch: 8, width: 8, height: 3 };

    fn at(x: usize, y: usize, z: usize) -> Position {
        Position { x, y, z }
    }

    #[test]
    fn rows_follow_from_pitch_and_height() {
        let extent = Extent { width: 4, height: 2, depth: 2 };
        let found = Box3::new(&MEMORY, &at(4, 1, 1), &extent).unwrap();
        assert_eq!(found.rows(&extent), [0x1024, 0x102c, 0x103c, 0x1044]);
    }

    #[test]
    fn boxes_beyond_rows_and_planes_are_refused() {
        let extent = |width, height, depth| Extent { width, height, depth };
        assert!(Box3::new(&MEMORY, &at(5, 0, 0), &extent(4, 1, 1)).is_none());
        assert!(Box3::new(&MEMORY, &at(0, 2, 0), &extent(8, 2, 2)).is_none());
        assert!(Box3::new(&MEMORY, &at(0, 0, usize::MAX), &extent(1, 1, 1)).is_none());
        let null = PitchedPointer { address: 0, ..MEMORY };
        assert!(Box3::new(&null, &at(0, 0, 0), &extent(1, 1, 1)).is_none());
    }
}
