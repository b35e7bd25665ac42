//! Device memory, handed out by the program's side so that allocating costs no round trip.

mod allocator;
mod slabs;

pub(crate) use allocator::{Allocator, Blocked, Purpose, Range};

#[cfg(test)]
mod tests;
