//! Errors with the names that the program's source has for things.

use super::{Place, Variable, frames, place, variable};
use accord_debuginfo::Frame;
use accord_types::{Error, HostRange};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Longest time that names are looked for: the message is worth more than they are.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Room for the search: the calling thread may have little left.
const STACK_BYTES: usize = 4 << 20;

/// Adds where the program's call is, which is the second result too, and which variable the error is about.
pub(crate) fn explain(error: &Error) -> (Error, Option<Arc<Place>>) {
    let (plain, frames) = (error.clone(), frames());
    apart(move || named(plain, &frames)).unwrap_or_else(|| (error.clone(), None))
}

/// The variable that leads to an address, from the program's call that the thread is in.
pub(crate) fn variable_at(address: usize) -> Option<Variable> {
    let frames = frames();
    apart(move || variable(HostRange { start: address, len: 1 }, &frames))?
}

/// Looks on a thread of its own, so that neither a small stack nor debug information that is broken or endless keeps the message
/// from coming; None where that takes longer than anybody waits.
pub(crate) fn apart<R: Send + 'static>(look: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    apart_for(LOOK_MAX, look)
}

/// The same for as long as `max`.
pub(crate) fn apart_for<R: Send + 'static>(max: Duration, look: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (done, found) = mpsc::sync_channel(1);
    let search = move || {
        let _ = done.send(look());
    };
    let started = std::thread::Builder::new().name("accord-source".into()).stack_size(STACK_BYTES).spawn(search);
    started.ok().and_then(|_| found.recv_timeout(max).ok())
}

fn named(mut error: Error, frames: &[Frame]) -> (Error, Option<Arc<Place>>) {
    let call = frames.first().and_then(|frame| usize::try_from(frame.code).ok());
    let place = call.and_then(place);
    if let Some(place) = &place {
        error = error.site(place.to_string());
    }
    let range = error.subject().map(|subject| subject.range);
    if let Some(variable) = range.and_then(|range| variable(range, frames)) {
        error = error.variable(variable.to_string());
    }
    (error, place)
}
