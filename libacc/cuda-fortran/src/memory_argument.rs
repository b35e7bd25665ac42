//! Arguments of memory routines: arrays and scalars of any type, or addresses as `type(c_ptr)` or `type(c_devptr)`.

use crate::descriptor::Descriptor;
use crate::memory;

/// flang's names of `type(c_ptr)` and `type(c_devptr)`.
const ADDRESSES: [&[u8]; 2] = [b"__builtin_c_ptr", b"__builtin_c_devptr"];

/// Memory that a routine accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryArgument {
    pub(crate) base: usize,
    /// Bytes of an element, in which the routine counts: 1 for addresses.
    pub(crate) element: usize,
    /// Whether the argument is an address.
    pub(crate) is_address: bool,
    /// Most elements; `None` if unknown.
    most: Option<usize>,
}

impl MemoryArgument {
    pub(crate) fn new(argument: &Descriptor) -> Self {
        if let Some(base) = address(argument) {
            return Self { base, element: 1, is_address: true, most: None };
        }
        let is_open = argument.dimensions().last().is_some_and(|last| last.extent < 0);
        let most = (!is_open).then(|| argument.elements());
        Self { base: argument.base, element: argument.element, is_address: false, most }
    }

    /// Returns the bytes of `count` elements; `None` if there are fewer.
    pub(crate) fn bytes(&self, count: i64) -> Option<usize> {
        let count = usize::try_from(count).ok()?;
        count.checked_mul(self.element).filter(|bytes| self.holds(*bytes))
    }

    /// Whether there may be so many bytes.
    pub(crate) fn holds(&self, bytes: usize) -> bool {
        self.most.is_none_or(|most| bytes <= most * self.element)
    }

    /// Whether there may be so many bytes, at an address that is not null.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        bytes == 0 || self.base != 0 && self.holds(bytes)
    }
}

/// Returns the address that an argument holds.
fn address(argument: &Descriptor) -> Option<usize> {
    if argument.rank() > 0 || argument.base == 0 || !ADDRESSES.contains(&argument.type_name()) {
        return None;
    }
    if memory::device_of(argument.base).is_some() {
        return None;
    }
    // SAFETY: the argument is an address in host memory.
    Some(unsafe { (argument.base as *const usize).read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(element: usize, most: Option<usize>) -> MemoryArgument {
        MemoryArgument { base: 0, element, is_address: false, most }
    }

    #[test]
    fn counts_beyond_the_argument_are_refused() {
        assert_eq!(place(8, Some(10)).bytes(10), Some(80));
        assert_eq!(place(8, Some(10)).bytes(11), None);
        assert_eq!(place(1, None).bytes(1 << 40), Some(1 << 40));
        assert_eq!(place(8, None).bytes(-1), None);
        assert_eq!(place(8, None).bytes(i64::MAX), None);
        assert!(place(8, Some(10)).holds(80) && !place(8, Some(10)).holds(81));
    }

    #[test]
    fn null_addresses_have_no_bytes() {
        let null = MemoryArgument { base: 0, element: 1, is_address: true, most: None };
        assert!(null.has(0) && !null.has(1));
        let known = MemoryArgument { base: 0x1000, ..null };
        assert!(known.has(1 << 40));
        let array = MemoryArgument { most: Some(40), is_address: false, ..known };
        assert!(array.has(40) && !array.has(41));
    }
}
