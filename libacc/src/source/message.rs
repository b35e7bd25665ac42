//! Adds names of the program's source to errors.

use super::{SourceLocation, Variable, frames, on_helper_thread, only_pointer, place, variable};
use accord_debuginfo::Frame;
use accord_types::{Error, HostRange};
use std::sync::Arc;

/// Adds where the program's call is, which is the second result too, and which variable the error is about.
pub(crate) fn explain(error: &Error) -> (Error, Option<Arc<SourceLocation>>) {
    let (plain, frames) = (error.clone(), frames());
    on_helper_thread(move || named(plain, &frames)).unwrap_or_else(|| (error.clone(), None))
}

/// The variable that leads to an address, from the program's call that the thread is in.
pub(crate) fn variable_at(address: usize) -> Option<Variable> {
    variable_of(HostRange { start: address, len: 1 })
}

/// The variable that holds a range of memory or leads there, from the program's call that the thread is in.
pub(crate) fn variable_of(range: HostRange) -> Option<Variable> {
    let frames = frames();
    on_helper_thread(move || variable(range, &frames))?
}

/// Returns the only pointer of the region at `function` whose location in the program's call is unknown, from that call.
pub(crate) fn pointer_of_region(function: usize) -> Option<Variable> {
    let frames = frames();
    on_helper_thread(move || only_pointer(function, &frames))?
}

fn named(mut error: Error, frames: &[Frame]) -> (Error, Option<Arc<SourceLocation>>) {
    let call = frames.first().and_then(|frame| usize::try_from(frame.code).ok());
    let place = call.and_then(place);
    if let Some(place) = &place {
        error = error.site(place.to_string());
    }
    let range = error.subject().map(|subject| subject.range);
    if let Some(variable) = range.and_then(|range| variable(range, frames)) {
        error = error.variable(variable.to_string());
    }
    if call.is_some() && place.as_ref().is_none_or(|place| place.file.is_none()) {
        let remedy = error.remedy_text().map_or_else(String::new, |remedy| format!("{remedy}; "));
        error = error.instead(format!("{remedy}compile with -g to see variables and lines"));
    }
    (error, place)
}
