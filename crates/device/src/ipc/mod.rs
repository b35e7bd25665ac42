//! Memory of devices that other processes of the machine can access, see docs/design/transports.md.
//!
//! The owner of memory describes a range by a memory handle. An [`Exporter`] in the owner sends the range's pieces, over a shared socket, to an
//! [`Importer`] in the process that wants to write there. The backend defines pieces and their mapping: [`ExportMemory`] and [`ImportMemory`].

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
    /// The driver's interprocess handle of one of its allocations.
    Allocation([u8; Self::ALLOCATION]),
}

impl PieceKey {
    /// Bytes of the driver's name for an allocation.
    pub const ALLOCATION: usize = 64;
}

/// An owner that must live as long as another process holds a piece; `None` if there is none.
pub type Keep = Option<Arc<dyn Any + Send + Sync>>;

/// Returns a number that is unique in this process, for a range, a piece or an importer.
pub fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
