//! Memory of devices that processes of one machine reach in each other, see docs/design/transports.md.
//!
//! The owner of memory says where a range is by a memory handle. An [`Exporter`] in the owner hands the pieces of it to an
//! [`Importer`] in the process that wants to write there, over a socket that the two share. What a piece is, and how it is mapped, is the
//! backend's: [`ExportMemory`] and [`ImportMemory`].

mod exporter;
mod importer;
mod socket;

pub use exporter::{ExportMemory, Exporter, PendingReleases};
pub use importer::{Held, ImportMemory, Importer, MappedRange, Piece};

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The key by which another process reaches a piece.
#[derive(Debug)]
pub enum PieceKey {
    /// A descriptor of the piece.
    Descriptor(OwnedFd),
    /// What the driver calls one of its own allocations among processes.
    Allocation([u8; Self::ALLOCATION]),
}

impl PieceKey {
    /// Bytes of the driver's name for an allocation.
    pub const ALLOCATION: usize = 64;
}

/// An owner that has to stay as long as another process has a piece; `None` if there is none.
pub type Keep = Option<Arc<dyn Any + Send + Sync>>;

/// A number that this process has given to nothing else: of a range, a piece or an importer.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
