//! One end of a copy, whatever it is.

use crate::copy_ends::{Sink, Source};
use crate::host_memory::HostMemory;
use accord_types::HostRange;
use accord_types::short_lock::DroppedUnlocked;
use std::ops::{Deref, DerefMut};

/// An end that may own devices, or wait for its other end when it is dropped: with no lock held.
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

/// The source of a copy's bytes. The program's own memory, the usual case, takes nothing from the heap.
pub enum CopySource {
    /// Memory of this process.
    Program(HostMemory),
    /// Anything else.
    Other(Box<Unlocked<dyn Source>>),
}

impl CopySource {
    /// Memory of this process; `immediate` as for [`HostMemory::new`].
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

/// The sink of a copy's bytes. The program's own memory, the usual case, takes nothing from the heap.
pub enum CopySink {
    /// Memory of this process.
    Program(HostMemory),
    /// Anything else.
    Other(Box<Unlocked<dyn Sink>>),
}

impl CopySink {
    /// Memory of this process; `immediate` as for [`HostMemory::new`].
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
