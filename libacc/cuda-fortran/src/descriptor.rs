//! flang's descriptors of arrays and scalars (`CFI_cdesc_t`).

/// A dimension.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Dimension {
    pub(crate) lower: isize,
    pub(crate) extent: isize,
    /// Bytes from one element to the next.
    pub(crate) stride: isize,
}

/// The head of a descriptor; `rank` dimensions follow, and an addendum if `extra` says so.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) base: usize,
    pub(crate) element: usize,
    version: i32,
    rank: i8,
    kind: i8,
    attribute: i8,
    extra: u8,
}

/// Bytes of the addendum for a derived type without length parameters.
const ADDENDUM: usize = 32;
/// flang's code for derived types.
const DERIVED: i8 = 42;
/// Index of the word with the name's address in flang 22's description of a derived type; its length follows.
const NAME: usize = 8;

impl Descriptor {
    pub(crate) fn dimensions(&self) -> &[Dimension] {
        // SAFETY: `rank` dimensions follow the head.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).add(1).cast(), self.rank()) }
    }

    pub(crate) fn dimensions_mut(&mut self) -> &mut [Dimension] {
        let rank = self.rank();
        // SAFETY: `rank` dimensions follow the head.
        unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(self).add(1).cast(), rank) }
    }

    pub(crate) fn rank(&self) -> usize {
        usize::try_from(self.rank).unwrap_or(0)
    }

    /// Returns flang's code of the elements' type.
    pub(crate) fn kind(&self) -> i8 {
        self.kind
    }

    /// Returns the name of the elements' derived type; empty if they have none.
    pub(crate) fn type_name(&self) -> &'static [u8] {
        if self.kind != DERIVED || self.extra & 1 == 0 {
            return &[];
        }
        // SAFETY: the addendum follows the dimensions, and begins with the address of the type's description, which is a constant of
        // the program that begins with a descriptor of eight words and another with the name.
        unsafe {
            let dimensions = std::ptr::from_ref(self).add(1).cast::<Dimension>();
            let description = dimensions.add(self.rank()).cast::<*const usize>().read();
            if description.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(*description.add(NAME) as *const u8, *description.add(NAME + 1))
        }
    }

    /// Returns the bytes of the descriptor itself.
    pub(crate) fn size(&self) -> usize {
        let addendum = if self.extra & 1 == 0 { 0 } else { ADDENDUM };
        size_of::<Self>() + self.rank() * size_of::<Dimension>() + addendum
    }

    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> usize {
        self.dimensions().iter().map(|dimension| usize::try_from(dimension.extent).unwrap_or(0)).product()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        let mut wanted = self.element as isize;
        self.dimensions().iter().all(|dimension| {
            let fits = dimension.extent == 1 || dimension.stride == wanted;
            wanted *= dimension.extent;
            fits
        })
    }

    /// Returns the address of the element with this number, in array element order.
    pub(crate) fn address(&self, mut element: usize) -> usize {
        let mut offset = 0;
        for dimension in self.dimensions() {
            let extent = usize::try_from(dimension.extent).unwrap_or(1).max(1);
            offset += (element % extent) as isize * dimension.stride;
            element /= extent;
        }
        self.base.wrapping_add_signed(offset)
    }

    /// Returns the number of contiguous elements from the first on.
    pub(crate) fn run(&self) -> usize {
        match self.dimensions().first() {
            Some(first) if first.stride == self.element as isize || first.extent == 1 => {
                usize::try_from(first.extent).unwrap_or(1).max(1)
            }
            _ => 1,
        }
    }
}
