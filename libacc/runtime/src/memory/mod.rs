//! Device memory, allocated on the program's side so that an allocation costs no round trip.

mod allocator;
mod free_blocks;
mod guards;
mod range;
mod slabs;

pub(crate) use allocator::{Allocator, BlockRequest, Blocked, Purpose, UsedBlock};
pub(crate) use guards::{Damage, GuardedBlock, pattern};
pub(crate) use range::Range;

#[cfg(test)]
mod tests;
