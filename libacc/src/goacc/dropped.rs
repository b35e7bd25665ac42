//! Detects an operand that GCC drops before its call: a whole `declare` variable in `update` (OpenACC 3.3, 2.14.4).
//!
//! If an `update` names only such variables, its call has no operands. GCC refuses an `update` without operands, so that no other code leads to such a
//! call. GCC drops whole `declare` variables in `data`, `enter data` and `exit data` too, but these are always present, so that the clauses would
//! copy nothing.

use crate::{output, settings, source};
use accord_types::{Error, ErrorCode, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most places of a warning.
const PLACES_MAX: usize = 64;

/// Calls with a warning.
static REPORTED: [AtomicUsize; PLACES_MAX] = [const { AtomicUsize::new(0) }; PLACES_MAX];

/// Handles an `update` that copies nothing: returns an error, or warns once per place.
///
/// # Errors
/// Returns `acc_error_invalid_argument` unless `ACCORD_DROPPED_UPDATES` requests a warning.
#[cold]
pub(super) fn update() -> Result<()> {
    if !settings::warns_of_dropped_updates()? {
        let cause = "it names whole declare variables only, which GCC leaves out: nothing is copied";
        return Err(Error::new(ErrorCode::InvalidArgument, cause)
            .remedy("compile the program with accord cc, c++ or fc, which mend that"));
    }
    let Some(call) = source::caller() else { return Ok(()) };
    if is_first(&REPORTED, call) {
        let place = source::on_helper_thread(move || source::place(call)).flatten();
        let site = place.map_or(String::new(), |place| format!(" ({place})"));
        output::print(&format!(
            "accord: update{site} copies nothing: it names whole declare variables only, which GCC leaves out; compile the program \
             with accord cc, c++ or fc, which mend that\n"
        ));
    }
    Ok(())
}

/// Whether `call` is new and there is space to record it.
fn is_first(reported: &[AtomicUsize], call: usize) -> bool {
    for place in reported {
        match place.compare_exchange(0, call, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(known) if known == call => return false,
            Err(_) => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_told_of_once_while_there_is_room() {
        let reported = [const { AtomicUsize::new(0) }; 2];
        let first: Vec<bool> = [8, 8, 9, 8, 10, 9].into_iter().map(|call| is_first(&reported, call)).collect();
        assert_eq!(first, [true, false, true, false, false, false]);
    }
}
