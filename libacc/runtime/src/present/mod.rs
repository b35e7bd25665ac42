//! The present table of one device: which host ranges have device memory, and who holds them, with reference
//! and attachment counters (OpenACC 3.3, 2.6.7 and 2.6.8). Pure data: it sends nothing to a device.

mod entry;
mod index;
mod members;
mod table;

pub(crate) use entry::{Attachment, Backing, Counter, DataLocation, Entry, EntryId, Lifetime, References};
pub(crate) use table::{Found, Table};

#[cfg(test)]
mod tests;
