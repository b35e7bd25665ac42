//! Arguments of memory routines: arrays and scalars of any type, or addresses as `type(c_ptr)` or `type(c_devptr)`.

use crate::descriptor::Descriptor;
use crate::memory;

/// flang's codes for `type(c_ptr)` and for derived types.
const POINTER: i8 = 41;
const DERIVED: i8 = 42;

/// Memory that a routine accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) base: usize,
    /// Bytes of an element, in which the routine counts: 1 for addresses.
    pub(crate) element: usize,
    /// Most elements; `None` if unknown.
    most: Option<usize>,
}

impl Place {
    pub(crate) fn new(argument: &Descriptor) -> Self {
        if let Some(base) = address(argument) {
            return Self { base, element: 1, most: None };
        }
        let is_open = argument.dimensions().last().is_some_and(|last| last.extent < 0);
        let most = (!is_open).then(|| argument.elements());
        Self { base: argument.base, element: argument.element, most }
    }

    /// Whether this is an address, not an array or scalar.
    pub(crate) fn is_address(argument: &Descriptor) -> bool {
        address(argument).is_some()
    }

    /// Returns the bytes of `count` elements; `None` if there are fewer.
    pub(crate) fn bytes(&self, count: i64) -> Option<usize> {
        let count = usize::try_from(count).ok()?;
        if self.most.is_some_and(|most| count > most) {
            return None;
        }
        count.checked_mul(self.element)
    }
}

/// Returns the address that an argument holds. A scalar of a derived type is a `type(c_devptr)` if it holds the address of an allocation.
fn address(argument: &Descriptor) -> Option<usize> {
    if argument.rank() > 0 || argument.element != size_of::<usize>() || argument.base == 0 {
        return None;
    }
    if !matches!(argument.kind(), POINTER | DERIVED) || memory::device_of(argument.base).is_some() {
        return None;
    }
    // SAFETY: the argument is a scalar of this size in host memory.
    let value = unsafe { (argument.base as *const usize).read_unaligned() };
    (argument.kind() == POINTER || memory::find(value).is_some()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(element: usize, most: Option<usize>) -> Place {
        Place { base: 0, element, most }
    }

    #[test]
    fn counts_beyond_the_argument_are_refused() {
        assert_eq!(place(8, Some(10)).bytes(10), Some(80));
        assert_eq!(place(8, Some(10)).bytes(11), None);
        assert_eq!(place(1, None).bytes(1 << 40), Some(1 << 40));
        assert_eq!(place(8, None).bytes(-1), None);
        assert_eq!(place(8, None).bytes(i64::MAX), None);
    }
}
