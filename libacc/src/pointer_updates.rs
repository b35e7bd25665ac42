//! Warns once per place that an `update` names a pointer, where its array was probably meant. Neither the pointer nor the array is copied.

use crate::raw_lock::Locked;
use crate::source;
use accord_types::HostRange;
use std::collections::BTreeSet;

/// Most places of a warning.
const PLACES_MAX: usize = 64;

/// Places with a warning: the program's call, and an entry of its construct.
static REPORTED: Locked<BTreeSet<(usize, usize)>> = Locked::new(BTreeSet::new());

/// Returns the warning about entry `entry` of this thread's `update`, a pointer at `range`. Returns `None` if it was given
/// before.
#[cold]
pub(crate) fn reported(range: HostRange, entry: usize) -> Option<String> {
    let call = source::call()?;
    let new = REPORTED.with(|reported| reported.len() < PLACES_MAX && reported.insert((call, entry)));
    new.then(|| {
        let place = source::on_helper_thread(move || source::place(call)).flatten();
        let place = place.map_or_else(|| format!("at {call:#x}"), |place| place.to_string());
        let variable = source::variable_at(range.start);
        let name = variable.map_or_else(|| format!("argument {entry}"), |variable| variable.to_string());
        line(&place, &name)
    })
}

fn line(place: &str, name: &str) -> String {
    format!(
        "accord: update ({place}): {name} is a pointer, and what it points to is not copied; write p[0:n] in place of p"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_pointer_and_what_to_write() {
        assert_eq!(
            line("a.c:7, main", "s.d (a.c:3, main)"),
            "accord: update (a.c:7, main): s.d (a.c:3, main) is a pointer, and what it points to is not copied; write p[0:n] in \
             place of p"
        );
    }
}
