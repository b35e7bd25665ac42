//! Forwards bytes between a lane of shared memory and one of MPI, in both directions, uninspected.

use super::lane::MpiLane;
use super::piece::{NextPiece, Piece};
use crate::transfer::EXPOSED_MIN;
use crate::transport::lane::{Lane, SharedLane};
use crate::transport::shm::Shm;
use accord_types::threads;
use std::io;
use std::sync::Arc;

/// The lane whose error ended the forwarding in one direction.
enum Failed {
    Source,
    Target,
}

/// Starts two threads that forward bytes until both lanes have ended. The end of one direction is forwarded as such.
///
/// # Errors
/// Returns the system's error if it can't start the threads, and shuts both lanes down.
pub(in crate::transport) fn relay(local: Arc<Shm>, remote: Arc<MpiLane>) -> io::Result<()> {
    local.will_expose();
    // A program waits for these bytes, as for its executor's threads.
    local.spin_long();
    remote.spin_long();
    let shared: SharedLane = local.clone();
    remote.pass_on_to(&shared);
    let (out, back) = ((local.clone(), remote.clone()), (local.clone(), remote.clone()));
    let started = threads::spawn("accord-relay", move || {
        let (local, remote) = out;
        pass_on(&*local, &*remote, |piece| pass_out(&local, &remote, piece));
    })
    .and_then(|_| {
        threads::spawn("accord-relay", move || {
            let (local, remote) = back;
            pass_on(&*remote, &*local, |piece| pass_back(&remote, &local, piece));
        })
    });
    if started.is_err() {
        local.shutdown();
        remote.shutdown();
    }
    started.map(drop)
}

/// Forwards one direction by `next`, which returns `false` at the end of `from`.
fn pass_on(from: &dyn Lane, to: &dyn Lane, mut next: impl FnMut(&mut Piece) -> Result<bool, Failed>) {
    let mut piece = Piece::default();
    loop {
        match next(&mut piece) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Failed::Source) => return to.shutdown(),
            // The shutdown informs the sender that its bytes do not arrive.
            Err(Failed::Target) => return from.shutdown(),
        }
    }
    if to.finish().is_err() {
        from.shutdown();
    }
}

/// Forwards the next bytes of shared memory: long runs in place, short ones as a message.
fn pass_out(from: &Shm, to: &MpiLane, piece: &mut Piece) -> Result<bool, Failed> {
    let mut failed = Failed::Source;
    let exposed =
        from.read_in_place(EXPOSED_MIN, |bytes| to.expose_window(bytes).inspect_err(|_| failed = Failed::Target));
    if exposed.map_err(|_| failed)? > 0 {
        return Ok(true);
    }
    if piece.fill(|space| from.read_available(space)).map_err(|_| Failed::Source)? == 0 {
        return Ok(false);
    }
    to.write_piece(piece).map_err(|_| Failed::Target)?;
    Ok(true)
}

/// Forwards the next message, or receives offered bytes directly into shared memory.
fn pass_back(from: &MpiLane, to: &Shm, piece: &mut Piece) -> Result<bool, Failed> {
    match from.next_piece(piece).map_err(|_| Failed::Source)? {
        NextPiece::End => return Ok(false),
        NextPiece::Here => (to as &dyn Lane).send(piece.bytes()).map_err(|_| Failed::Target)?,
        NextPiece::Offered(len) => {
            let mut failed = Failed::Target;
            let filled =
                to.write_in_place(len, |space| from.fill_window(space).inspect_err(|_| failed = Failed::Source));
            filled.map_err(|_| failed)?;
        }
    }
    Ok(true)
}
