//! Passes the bytes of one lane on to another, both ways, without a look at them.

use crate::transport::lane::{Lane, Piece, SharedLane};
use accord_types::threads;
use std::io;

/// Has two threads pass on what comes, until both lanes have ended. An end in one direction is passed on as such.
///
/// # Errors
/// When the system has no threads; both lanes end.
pub fn relay(one: SharedLane, other: SharedLane) -> io::Result<()> {
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
        match from.read_piece(&mut piece) {
            Ok(0) => break,
            // Nobody takes it: whoever sends is to know.
            Ok(_) if to.write_piece(&mut piece).is_err() => return from.shutdown(),
            Ok(_) => {}
            Err(_) => return to.shutdown(),
        }
    }
    if to.finish().is_err() {
        from.shutdown();
    }
}
