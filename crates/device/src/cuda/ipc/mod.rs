//! Memory of GPUs that processes of one machine reach in each other, see docs/design/ipc.md.
//!
//! The owner of memory says where a range is by a [`Place`]. A [`Giver`] in the owner hands the pieces of it to a [`Taker`] in
//! the process that wants to write there, over a socket that the two share.

mod giver;
mod imports;
mod neighbors;
mod place;
mod socket;
mod taker;

pub use giver::Giver;
pub(crate) use giver::Owed;
pub(crate) use imports::Imports;
pub use neighbors::Neighbors;
pub(crate) use place::PLACE_PIECES_MAX;
pub use place::Place;
pub use taker::{Reached, Taker};

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that this process has given to nothing else: of a range, a piece or a taker.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
