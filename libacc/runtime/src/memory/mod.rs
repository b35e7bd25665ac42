//! Device memory, allocated on the program's side so that an allocation costs no round trip.

mod allocator;
mod slabs;

pub(crate) use allocator::{Allocator, Blocked, Purpose, Range};

#[cfg(test)]
mod tests;
