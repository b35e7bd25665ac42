//! gfortran's array descriptor, from GCC 9 on.

use accord_types::{Error, ErrorCode, Result};

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
    /// Returns address and length in bytes of a contiguous array.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_data_section` for any other array. Compilers that know these dummies as contiguous pack
    /// such an array into a temporary, but the interfaces of some do not declare it.
    pub(super) fn section(&self) -> Result<(usize, usize)> {
        let rank = usize::try_from(self.rank).unwrap_or(0).min(RANK_MAX);
        let first = std::ptr::from_ref(self).wrapping_add(1).cast::<Dimension>();
        let (mut elements, mut together) = (1usize, true);
        for at in 0..rank {
            // SAFETY: gfortran stores `rank` dimensions after the fixed part.
            let dimension = unsafe { *first.add(at) };
            let extent = dimension.upper.wrapping_sub(dimension.lower).wrapping_add(1);
            let extent = usize::try_from(extent).unwrap_or(0);
            together &= extent <= 1 || usize::try_from(dimension.stride) == Ok(elements);
            elements = elements.saturating_mul(extent);
        }
        if elements > 1 && !together {
            let cause = format!("the array section of {elements} elements at {:#x} is not contiguous", self.base);
            return Err(Error::new(ErrorCode::InvalidDataSection, cause)
                .remedy("pass a contiguous section, or the whole array"));
        }
        Ok((self.base, elements.saturating_mul(self.element_bytes)))
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
        let mut stride = 1;
        let dimensions = bounds.map(|(lower, upper)| {
            let dimension = Dimension { stride, lower, upper };
            stride *= (upper - lower + 1).max(0);
            dimension
        });
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
            dimensions,
        }
    }

    /// Returns the section of an array as the compiler passes it: by the address of the whole.
    fn section<const RANK: usize>(array: &Array<RANK>) -> (usize, usize) {
        // SAFETY: the fixed part is at the start of the array.
        unsafe { &*std::ptr::from_ref(array).cast::<Descriptor>() }.section().unwrap()
    }

    #[test]
    fn a_section_with_gaps_is_refused() {
        let mut rows = array([(1, 4), (1, 5)]);
        rows.dimensions[1].stride = 10;
        // SAFETY: as in section().
        let refused = unsafe { &*(&raw const rows).cast::<Descriptor>() }.section();
        assert_eq!(refused.unwrap_err().code(), ErrorCode::InvalidDataSection);
        rows.dimensions[1].upper = 1;
        assert_eq!(section(&rows), (0x1000, 32), "one row has no gap");
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
