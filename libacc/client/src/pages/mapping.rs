//! The process's mappings, as the kernel reports them.

/// The access of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    Read,
    Write,
}

pub(super) const PAGE: usize = 4096;

/// A mapping of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// Whether pages may be missing because its file may have become shorter.
    pub(super) file: bool,
}
