//! One end of a copy, of any kind.

use crate::copy_ends::{Sink, Source};
use crate::host_memory::HostMemory;
use accord_types::HostRange;
use accord_types::short_lock::DroppedUnlocked;
use std::ops::{Deref, DerefMut};

/// An end that may own devices, or block on its other end when it is dropped, and so must be dropped without locks.
pub struct Unlocked<T: ?Sized> {
    #[allow(dead_code, reason = "it looks when it is dropped")]
    unlocked: DroppedUnlocked,
    end: T,
}

impl<T> Unlocked<T> {
    fn new(end: T) -> Self {
        Self { unlocked: DroppedUnlocked::default(), end }
    }
}

/// The source of a copy's bytes. The program's own memory, the usual case, needs no heap allocation.
pub enum CopySource {
    /// Memory of this process.
    Program(HostMemory),
    /// Any other source.
    Other(Box<Unlocked<dyn Source>>),
}

impl CopySource {
    /// Creates the source for memory of this process; `immediate` as for [`HostMemory::new`].
    pub fn program(range: HostRange, immediate: bool) -> Self {
        Self::Program(HostMemory::new(range, immediate))
    }

    /// Wraps any other source.
    pub fn new(source: impl Source + 'static) -> Self {
        Self::Other(Box::new(Unlocked::new(source)))
    }
}

impl Deref for CopySource {
    type Target = dyn Source;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(source) => &source.end,
        }
    }
}

impl DerefMut for CopySource {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(source) => &mut source.end,
        }
    }
}

/// The sink of a copy's bytes. The program's own memory, the usual case, needs no heap allocation.
pub enum CopySink {
    /// Memory of this process.
    Program(HostMemory),
    /// Any other sink.
    Other(Box<Unlocked<dyn Sink>>),
}

impl CopySink {
    /// Creates the sink for memory of this process; `immediate` as for [`HostMemory::new`].
    pub fn program(range: HostRange, immediate: bool) -> Self {
        Self::Program(HostMemory::new(range, immediate))
    }

    /// Wraps any other sink.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self::Other(Box::new(Unlocked::new(sink)))
    }
}

impl Deref for CopySink {
    type Target = dyn Sink;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(sink) => &sink.end,
        }
    }
}

impl DerefMut for CopySink {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(sink) => &mut sink.end,
        }
    }
}
