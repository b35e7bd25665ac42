//! Warns once per place that an array of derived types may actually be a component of several of its elements, which GCC passes alike.

use crate::raw_lock::Locked;
use crate::source;
use accord_types::HostRange;
use std::collections::BTreeSet;

/// Most places of a warning.
const PLACES_MAX: usize = 64;

/// Places with a warning: the program's call, and an entry of its construct.
static REPORTED: Locked<BTreeSet<(usize, usize)>> = Locked::new(BTreeSet::new());

/// Returns the warning about entry `entry` of this thread's construct, `range` of elements of `element` bytes. Returns
/// `None` if it was given before.
#[cold]
pub(crate) fn reported(range: HostRange, entry: usize, element: usize) -> Option<String> {
    let call = source::call()?;
    let new = REPORTED.with(|reported| reported.len() < PLACES_MAX && reported.insert((call, entry)));
    new.then(|| {
        let place = source::on_helper_thread(move || source::place(call)).flatten();
        let place = place.map_or_else(|| format!("the call at {call:#x}"), |place| place.to_string());
        line(&place, range, entry, element)
    })
}

fn line(place: &str, range: HostRange, entry: usize, element: usize) -> String {
    let count = range.len / element.max(1);
    format!(
        "accord: {place}: argument {entry}, {} bytes at {:#x}, is taken for the first {count} elements of an array of derived types; if it \
         points to a component of all of them (p => cells%value), they are not all copied: write p => cells(:)%value, or compile with \
         -g, and it can be told",
        range.len, range.start
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_it_was_taken_for_and_what_to_write() {
        let line = line("update (a.f90:7, main)", HostRange { start: 0x1000, len: 400 }, 2, 16);
        assert!(line.starts_with(
            "accord: update (a.f90:7, main): argument 2, 400 bytes at 0x1000, is taken for the first 25 elements"
        ));
        assert!(line.contains("p => cells(:)%value") && line.contains("-g"), "{line}");
    }
}
