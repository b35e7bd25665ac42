//! Byte ranges in device memory, for libraries that copy them without staging in host memory: a GPU-aware MPI.

use std::fmt;

/// A range of bytes in a device's own memory.
#[derive(Clone, Copy, Debug)]
pub struct NativeRange {
    /// The driver's address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub len: usize,
    /// The context that has to be current on the thread.
    pub context: NativeContext,
}

impl NativeRange {
    /// Returns part of the range, or `None` if that would reach beyond its end.
    pub fn part(self, offset: usize, len: usize) -> Option<Self> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        fits.then(|| Self { address: self.address + offset as u64, len, ..self })
    }
}

/// The state that must be current on a thread that passes device addresses to a library: CUDA's context.
#[derive(Clone, Copy)]
pub struct NativeContext {
    raw: usize,
    enter: fn(usize) -> bool,
}

impl NativeContext {
    /// Creates a context that the driver calls `raw`. `enter` makes it current on the calling thread, until another one
    /// is made current, and returns whether that succeeded.
    pub fn new(raw: usize, enter: fn(usize) -> bool) -> Self {
        Self { raw, enter }
    }

    /// Makes the context current on this thread, which a library owns alone. Returns whether that succeeded.
    pub fn enter(self) -> bool {
        (self.enter)(self.raw)
    }
}

impl fmt::Debug for NativeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NativeContext({:#x})", self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_within() {
        let range = NativeRange { address: 0x1000, len: 100, context: NativeContext::new(7, |raw| raw == 7) };
        let part = range.part(40, 60).unwrap();
        assert!(part.address == 0x1000 + 40 && part.len == 60 && part.context.enter());
        assert!(range.part(40, 61).is_none() && range.part(usize::MAX, 2).is_none());
    }
}
