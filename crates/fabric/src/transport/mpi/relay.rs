//! Forwards bytes between two lanes in both directions, uninspected.

use crate::transfer::LENT_MIN;
use crate::transport::lane::{Lane, NextPiece, Piece, SharedLane};
use accord_types::threads;
use std::io;

/// Starts two threads that forward bytes until both lanes have ended. The end of one direction is forwarded as such.
///
/// # Errors
/// Returns the system's error if it can't start the threads; both lanes are shut down then.
pub fn relay(one: SharedLane, other: SharedLane) -> io::Result<()> {
    for (from, to) in [(&one, &other), (&other, &one)] {
        if let (Some(from), Some(_)) = (from.windows(), to.moves_windows()) {
            from.will_lend();
        }
        // A program waits for these bytes, as it does for its executor's threads.
        from.be_patient();
        from.pass_on_to(to);
    }
    let started = start(one.clone(), other.clone()).and_then(|()| start(other.clone(), one.clone()));
    if started.is_err() {
        one.shutdown();
        other.shutdown();
    }
    started
}

fn start(from: SharedLane, to: SharedLane) -> io::Result<()> {
    threads::spawn("accord-relay", move || pass_on(&*from, &*to)).map(drop)
}

fn pass_on(from: &dyn Lane, to: &dyn Lane) {
    let mut piece = Piece::default();
    loop {
        let mut taken = Ok(());
        match pass_next(from, to, &mut piece, &mut taken) {
            // The target fails: the sender has to learn it.
            _ if taken.is_err() => return from.shutdown(),
            Ok(true) => {}
            Ok(false) => break,
            Err(_) => return to.shutdown(),
        }
    }
    if to.finish().is_err() {
        from.shutdown();
    }
}

/// Forwards the next bytes; returns `false` at the end. An error of `to` is stored in `taken`, whatever is returned
/// then.
fn pass_next(from: &dyn Lane, to: &dyn Lane, piece: &mut Piece, taken: &mut io::Result<()>) -> io::Result<bool> {
    if let (Some(from), Some(to)) = (from.windows(), to.moves_windows()) {
        let lent = from.read_in_place(LENT_MIN, &mut |bytes| {
            *taken = to.lend_window(bytes);
            // Only the kind is needed here: `taken` has the error.
            taken.as_ref().map_or_else(|error| Err(error.kind().into()), |()| Ok(()))
        })?;
        if lent > 0 {
            return Ok(true);
        }
    }
    match from.read_piece(piece)? {
        NextPiece::End => return Ok(false),
        NextPiece::Here => {}
        NextPiece::Lent(len) => {
            if let (Some(from), Some(to)) = (from.moves_windows(), to.windows()) {
                let mut given = Ok(0);
                let written = to.write_in_place(len, &mut |room| {
                    given = from.fill_window(room);
                    given.as_ref().map_or_else(|error| Err(error.kind().into()), |n| Ok(*n))
                });
                given?;
                *taken = written;
                return Ok(true);
            }
            if piece.fill(|room| from.read(room))? == 0 {
                return Ok(false);
            }
        }
    }
    *taken = to.write_piece(piece);
    Ok(true)
}
