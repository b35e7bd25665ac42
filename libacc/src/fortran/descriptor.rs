//! gfortran's array descriptor, from GCC 9 on.

/// The part before the dimensions.
#[repr(C)]
pub(super) struct Descriptor {
    base: usize,
    offset: isize,
    element_bytes: usize,
    version: i32,
    rank: i8,
    kind: i8,
    attribute: i16,
    span: isize,
    // `rank` dimensions follow.
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Dimension {
    stride: isize,
    lower: isize,
    upper: isize,
}

/// Fortran's highest rank.
const RANK_MAX: usize = 15;

impl Descriptor {
    /// Address and length in bytes of a contiguous array: the dummies of these routines are, and
    /// the compiler packs others into a temporary.
    pub(super) fn section(&self) -> (usize, usize) {
        let rank = usize::try_from(self.rank).unwrap_or(0).min(RANK_MAX);
        let first = std::ptr::from_ref(self).wrapping_add(1).cast::<Dimension>();
        let elements = (0..rank)
            .map(|at| {
                // SAFETY: gfortran puts `rank` dimensions behind the fixed part.
                let dimension = unsafe { *first.add(at) };
                let extent = dimension.upper.wrapping_sub(dimension.lower).wrapping_add(1);
                usize::try_from(extent).unwrap_or(0)
            })
            .fold(1usize, usize::saturating_mul);
        (self.base, elements.saturating_mul(self.element_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Array<const RANK: usize> {
        fixed: Descriptor,
        dimensions: [Dimension; RANK],
    }

    fn array<const RANK: usize>(bounds: [(isize, isize); RANK]) -> Array<RANK> {
        Array {
            fixed: Descriptor {
                base: 0x1000,
                offset: -1,
                element_bytes: 8,
                version: 0,
                rank: RANK as i8,
                kind: 3,
                attribute: 0,
                span: 8,
            },
            dimensions: bounds.map(|(lower, upper)| Dimension { stride: 1, lower, upper }),
        }
    }

    /// As the compiler passes it: the address of the whole.
    fn section<const RANK: usize>(array: &Array<RANK>) -> (usize, usize) {
        // SAFETY: the fixed part is at the start of the array.
        unsafe { &*std::ptr::from_ref(array).cast::<Descriptor>() }.section()
    }

    #[test]
    fn the_layout_is_gfortrans() {
        assert_eq!(size_of::<Descriptor>(), 40);
        assert_eq!(std::mem::offset_of!(Descriptor, rank), 28);
        assert_eq!(std::mem::offset_of!(Array<2>, dimensions), 40);
    }

    #[test]
    fn bytes_are_the_product_of_extents() {
        assert_eq!(section(&array([(1, 10)])), (0x1000, 80));
        assert_eq!(section(&array([(0, 3), (-1, 1)])), (0x1000, 96));
        assert_eq!(section(&array([])), (0x1000, 8));
        assert_eq!(section(&array([(5, 4), (1, 9)])), (0x1000, 0));
        assert_eq!(section(&array([(5, -100)])), (0x1000, 0));
    }
}
